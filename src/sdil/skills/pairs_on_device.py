"""The same partners as `pairs.py` finds, for a GPU: not one number leaves it, and nothing waits.

What is drawn is the same function of the same random numbers; only where two distances are equal
to 15 binary digits may another of the two be the nearer one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sdil.skills.pairs import PairFields, Pairs


def find_pairs_on_device(
    embeddings: Tensor,
    clusters: Tensor,
    scores: Tensor | None,
    is_clean: Tensor,
    random_positive: Tensor,
    random_negative: Tensor,
    settings: PairFields,
    *,
    by_embedding: bool,
) -> Pairs:
    """See `pairs.find_pairs`."""
    size, device = len(clusters), clusters.device
    near_exists: Tensor | None
    far_exists: Tensor | None
    if by_embedding and size > 1:
        nearest = max(1, min(size - 1, round(size * settings.nearest)))
        farthest = max(1, min(size - 1, round(size * settings.farthest)))
        near, far = _by_distance(embeddings, nearest, farthest)
        near_exists, far_exists = torch.ones_like(near, dtype=torch.bool), None
    else:
        near = far = torch.arange(size, device=device).expand(size, -1)
        same = clusters[:, None] == clusters
        far_exists = ~same
        near_exists = same & ~torch.eye(size, dtype=torch.bool, device=device)
    kept = near_exists
    if scores is not None:
        kept = near_exists & _passes(scores, near, settings)
    mixed = is_clean[near] != is_clean[:, None]
    positive, has_positive = _draw(near, kept, random_positive)
    negative, has_negative = _draw(far, far_exists, random_negative)
    itself = torch.arange(size, device=device)[:, None]
    positive = torch.where(has_positive[:, None], positive, itself)
    partners = torch.cat([itself, positive, negative], 1)
    n_positives = 1 + positive.shape[1]
    signs = torch.ones(partners.shape[1], device=device)
    signs[:n_positives] = -1
    weights = torch.full(partners.shape, 1 / n_positives, device=device)
    weights[:, n_positives:] = has_negative[:, None].float() / max(1, negative.shape[1])
    counted = [some.sum() for some in (near_exists, kept, mixed & near_exists, mixed & kept)]
    return Pairs(partners, signs, weights, torch.stack(counted))


def _by_distance(embeddings: Tensor, nearest: int, farthest: int) -> tuple[Tensor, Tensor]:
    """The nearest and the farthest steps of the batch. (B, C) and (B, F)"""
    z = embeddings
    norm = z.square().sum(1)
    square = torch.addmm(norm + 1e-4, z, z.T, alpha=-2.0).add_(norm[:, None]).float()
    square.fill_diagonal_(-torch.inf)  # itself first
    order = square.argsort(dim=1, stable=True)
    return order[:, 1 : 1 + nearest], order[:, len(z) - farthest :]


def _passes(scores: Tensor, near: Tensor, settings: PairFields) -> Tensor:
    """Which candidate positives are of like optimality. (B, C)"""
    if settings.positive_filter == "difference":
        return (scores[near] - scores[:, None]).abs() <= settings.epsilon
    side = (scores > settings.epsilon).to(torch.int8) - (scores < -settings.epsilon).to(torch.int8)
    return side[near] * side[:, None] >= 0


def _draw(candidates: Tensor, exists: Tensor | None, random: Tensor) -> tuple[Tensor, Tensor]:
    """One of the existing candidates per random number (B, n), and whether there is any (B,)."""
    size, width = candidates.shape
    if exists is None:
        place = (random * width).long()
        has_any = torch.ones(size, dtype=torch.bool, device=random.device)
    else:
        reached = exists.cumsum(1)  # whole numbers: the same on every device
        count = reached[:, -1:]
        has_any = count[:, 0] > 0
        wanted = (random * count).long() + 1
        place = torch.searchsorted(reached, wanted).clamp(max=width - 1)
    return candidates.gather(1, place), has_any
