"""Positive and negative partners for the contrastive loss (paper, section 4.2.2).

Candidates come from one of two sources: distances between skill embeddings (DEC), or a clustering
of the input states. Positives are then filtered by estimated optimality. Nothing here draws random
numbers: they are given, so that the loss is a function of its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

FilterForm = Literal["opposed", "difference"]


@dataclass(frozen=True)
class Candidates:
    """Per step of the batch, who may be a positive and who a negative partner; never itself."""

    near: Tensor
    """Positions in the batch. (B, P)"""
    near_exists: Tensor | None
    """Which of them count; None: all. (B, P)"""
    far: Tensor
    """Positions in the batch. (B, Q)"""
    far_exists: Tensor | None
    """Which of them count; None: all. (B, Q)"""


@dataclass(frozen=True)
class Pairs:
    """The partners that were drawn."""

    positives: Tensor
    """The step itself, then the partners; where no candidate survives, itself again. (B, 1 + P)"""
    negatives: Tensor
    """(B, Q)"""
    has_negatives: Tensor
    """Steps without any have no negative term. (B,)"""
    n_candidates: Tensor
    """How many candidate positives there were."""
    n_survived: Tensor
    """How many of them passed the filter."""
    n_mixed: Tensor
    """How many candidate positives were a clean and a noisy step."""
    n_mixed_survived: Tensor
    """How many of those passed the filter."""


def by_embedding(embeddings: Tensor, nearest: int, farthest: int) -> Candidates:
    """DEC: the nearest and the farthest steps of the batch by their embeddings."""
    size = embeddings.square().sum(1)
    # 1e-4: so equal steps are equally near, whatever rounding makes of their distance
    square = (
        torch.addmm(size + 1e-4, embeddings, embeddings.T, alpha=-2.0) + size[:, None]
    )  # (B, B)
    order: Tensor = _Order.apply(square)  # type: ignore[no-untyped-call]
    near, far = order[:, 1 : 1 + nearest].long(), order[:, len(order) - farthest :]
    return Candidates(near, None, far, None)


class _Order(torch.autograd.Function):
    """Positions by growing distance, itself first, for (..., B, B) squared distances.

    NumPy sorts plain integers ten times faster than torch sorts with indices, so each key is a
    distance with a position in its lowest bits: a float that is not negative sorts as its bits do.
    In a batch of 256 this rounds squared distances to 15 binary digits. A Function only because
    NumPy is unknown to `torch.func.vmap`.
    """

    @staticmethod
    def forward(square: Tensor) -> Tensor:
        size = square.shape[-1]
        position = np.arange(size, dtype=np.int32)
        lowest = (1 << (size - 1).bit_length()) - 1
        keys = square.float().contiguous().view(torch.int32).numpy() & ~lowest
        keys |= position
        keys[..., position, position] = position | np.int32(-(2**31))  # itself first
        keys.sort(axis=-1)
        keys &= lowest
        return torch.from_numpy(keys)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: Any, square: Tensor) -> tuple[Tensor, int]:
        return _Order.forward(square.movedim(in_dims[0], 0)), 0


def by_cluster(clusters: Tensor) -> Candidates:
    """The steps of the same cluster of input states, and those of the others."""
    everyone = torch.arange(len(clusters)).expand(len(clusters), -1)  # (B, B)
    same = clusters[:, None] == clusters
    return Candidates(everyone, same & ~torch.eye(len(clusters)).bool(), everyone, ~same)


def passes_filter(scores: Tensor, candidates: Tensor, epsilon: float, form: FilterForm) -> Tensor:
    """Which candidate positives (B, P) are of like optimality.

    "opposed": unless one is good (above epsilon) and the other bad (below -epsilon).
    "difference": where the scores differ by at most epsilon, as the paper's method section says.
    """
    if form == "difference":
        return (_pick(scores, candidates) - scores[:, None]).abs() <= epsilon
    side = (scores > epsilon).float() - (scores < -epsilon).float()  # good 1, bad -1, unknown 0
    return _pick(side, candidates) * side[:, None] >= 0


def draw_pairs(
    candidates: Candidates,
    passes: Tensor | None,
    is_clean: Tensor,
    random_positive: Tensor,
    random_negative: Tensor,
) -> Pairs:
    """Draw partners, uniformly and with replacement.

    `passes` (B, P) is the filter's answer, None before the first estimate of optimality; the random
    numbers are uniform on [0, 1): (B, positives) and (B, negatives).
    """
    itself = torch.arange(len(is_clean))[:, None]
    mixed = _pick(is_clean, candidates.near) != is_clean[:, None]  # (B, P)
    exists = torch.ones_like(mixed)
    if candidates.near_exists is not None:
        exists = candidates.near_exists
        mixed = mixed & exists
    kept = exists if passes is None else passes & exists
    positive, has_positive = _draw(candidates.near, kept, random_positive)
    if candidates.far_exists is None:
        place = (random_negative * candidates.far.shape[1]).long()
        negative, has_negative = candidates.far.gather(1, place).long(), torch.ones_like(is_clean)
    else:
        negative, has_negative = _draw(candidates.far, candidates.far_exists, random_negative)
    return Pairs(
        positives=torch.cat([itself, torch.where(has_positive[:, None], positive, itself)], 1),
        negatives=negative,
        has_negatives=has_negative,
        n_candidates=exists.sum(),
        n_survived=kept.sum(),
        n_mixed=mixed.sum(),
        n_mixed_survived=(kept & mixed).sum(),
    )


def _pick(values: Tensor, positions: Tensor) -> Tensor:
    """`values[positions]`, by the faster `index_select`. (B,) and (B, P) to (B, P)"""
    return values.index_select(0, positions.flatten()).view(positions.shape)


def _draw(candidates: Tensor, exists: Tensor, random: Tensor) -> tuple[Tensor, Tensor]:
    """One of the existing candidates per random number, by inverting their count."""
    count = exists.cumsum(1)  # (B, P)
    total = count[:, -1:]
    wanted = (random * total).long().clamp(max=total - 1)  # the wanted-th existing one, from 0
    place = torch.searchsorted(count, wanted, right=True).clamp(max=candidates.shape[1] - 1)
    return candidates.gather(1, place), total[:, 0] > 0
