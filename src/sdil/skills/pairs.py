"""Positive and negative partners for the contrastive loss (paper, section 4.2.2).

Candidates come from one of two sources: distances between skill embeddings (DEC), or a clustering
of the input states. Positives are then filtered by estimated optimality. Nothing here draws random
numbers: they are given, so that the loss is a function of its arguments. Nor is anything here
differentiated, so it is NumPy, whose small operations and sorting cost less than torch's.
Of the shapes, C and F count candidates that are near and far, P and Q partners that are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from sdil.spaces import Array

FilterForm = Literal["opposed", "difference"]


class PairFields(Protocol):
    """The hyper-parameters that say who is a partner."""

    @property
    def epsilon(self) -> float: ...
    @property
    def positive_filter(self) -> FilterForm: ...
    @property
    def nearest(self) -> float: ...
    @property
    def farthest(self) -> float: ...


@dataclass(frozen=True)
class Candidates:
    """Per step of the batch, who may be a positive and who a negative partner; never itself."""

    near: Array
    """Positions in the batch; one row where it is the same for all. (B, C) or (1, C)"""
    near_exists: Array | None
    """Which of them count; None: all. (B, C)"""
    far: Array
    """Positions in the batch. (B, F) or (1, F)"""
    far_exists: Array | None
    """Which of them count; None: all. (B, F)"""


class Pairs(NamedTuple):
    """The partners that were drawn."""

    partners: Tensor
    """The step itself, its positives, or itself again where no candidate survives; then its
    negatives. (B, 1 + P + Q)"""
    signs: Tensor
    """-1 for a positive and 1 for a negative. (1 + P + Q,)"""
    weights: Tensor
    """Of each in the loss. A step's positives, itself with them, weigh 1 together; so do its
    negatives, but 0 where it has none. (B, 1 + P + Q)"""
    counts: Tensor
    """How many candidate positives there were, and how many passed the filter; then the same of
    those that were a clean and a noisy step. (4,)"""


def find_pairs(
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
    """Partners for each step of a batch: candidates, the filter, and a draw.

    `scores` are None before the first estimate of optimality.
    """
    size = len(clusters)

    def find(
        embeddings: Array, clusters: Array, scores: Array | None, is_clean: Array, *random: Array
    ) -> Pairs:
        candidates = (
            by_distance(
                embeddings,
                nearest=max(1, min(size - 1, round(size * settings.nearest))),
                farthest=max(1, min(size - 1, round(size * settings.farthest))),
            )
            if by_embedding and size > 1
            else by_cluster(clusters)
        )
        passes = (
            None
            if scores is None
            else passes_filter(scores, candidates.near, settings.epsilon, settings.positive_filter)
        )
        return draw_pairs(candidates, passes, is_clean, *random)

    given = embeddings, clusters, scores, is_clean, random_positive, random_negative
    return Pairs(*_InNumPy.apply(find, *given))  # type: ignore[no-untyped-call]


def by_distance(embeddings: Array, nearest: int, farthest: int) -> Candidates:
    """DEC: the nearest and the farthest steps of the batch by their embeddings.

    NumPy sorts plain integers ten times faster than torch sorts with indices, so each key is a
    distance with a position in its lowest bits: a float that is not negative sorts as its bits do.
    In a batch of 256 this rounds squared distances to 15 binary digits.
    """
    z = torch.from_numpy(embeddings)  # z'; torch multiplies with as many threads as it is given
    norm = z.square().sum(1)
    # 1e-4: so equal steps are equally near, whatever rounding makes of their distance
    square = torch.addmm(norm + 1e-4, z, z.T, alpha=-2.0).add_(norm[:, None]).float()  # (B, B)
    position = np.arange(len(z), dtype=np.int32)
    lowest = (1 << (len(z) - 1).bit_length()) - 1
    keys = square.numpy().view(np.int32)
    keys &= ~lowest
    keys |= position
    keys[position, position] = position | np.int32(-(2**31))  # itself first
    keys.sort(axis=1)
    keys &= lowest
    return Candidates(keys[:, 1 : 1 + nearest], None, keys[:, len(keys) - farthest :], None)


def by_cluster(clusters: Array) -> Candidates:
    """The steps of the same cluster of input states, and those of the others."""
    everyone = np.arange(len(clusters))[None]
    same = clusters[:, None] == clusters
    others = ~same
    np.fill_diagonal(same, False)
    return Candidates(everyone, same, everyone, others)


def passes_filter(scores: Array, candidates: Array, epsilon: float, form: FilterForm) -> Array:
    """Which candidate positives, (B, C) or (1, C), are of like optimality. (B, C)

    "opposed": unless one is good (above epsilon) and the other bad (below -epsilon).
    "difference": where the scores differ by at most epsilon, as the paper's method section says.
    """
    if form == "difference":
        alike: Array = np.abs(scores.take(candidates) - scores[:, None]) <= epsilon
        return alike
    side = (scores > epsilon).view(np.int8) - (scores < -epsilon).view(np.int8)  # good 1, bad -1
    like: Array = side.take(candidates) * side[:, None] >= 0
    return like


def draw_pairs(
    candidates: Candidates,
    passes: Array | None,
    is_clean: Array,
    random_positive: Array,
    random_negative: Array,
) -> Pairs:
    """Draw partners, uniformly and with replacement.

    `passes` (B, C) is the filter's answer, None before the first estimate of optimality; the random
    numbers are uniform on [0, 1): (B, P) and (B, Q).
    """
    itself = np.arange(len(is_clean))[:, None]
    mixed = is_clean.take(candidates.near) != is_clean[:, None]  # (B, C)
    exists = np.ones_like(mixed) if candidates.near_exists is None else candidates.near_exists
    kept = exists if passes is None else exists & passes
    positive, has_positive = _draw(candidates.near, kept, random_positive)
    negative, has_negative = _draw(candidates.far, candidates.far_exists, random_negative)
    positive = np.where(has_positive[:, None], positive, itself)
    partners = np.concatenate([itself, positive, negative], 1)
    n_positives = 1 + positive.shape[1]
    signs = np.ones(partners.shape[1], np.float32)
    signs[:n_positives] = -1
    weights = np.full(partners.shape, 1 / n_positives, np.float32)
    weights[:, n_positives:] = has_negative[:, None] / max(1, negative.shape[1])
    counted = [np.count_nonzero(some) for some in (exists, kept, mixed & exists, mixed & kept)]
    return Pairs(*map(torch.from_numpy, (partners, signs, weights, np.array(counted))))


def _draw(candidates: Array, exists: Array | None, random: Array) -> tuple[Array, Array]:
    """One of the existing candidates per random number (B, n), and whether there is any (B,)."""
    size, width = len(random), candidates.shape[1]
    rows = np.arange(size + 1)
    if exists is None:
        place, has_any = (random * width).astype(np.int64), np.ones(size, bool)
    else:
        existing = np.flatnonzero(exists)  # row by row
        if not len(existing):
            return np.zeros(random.shape, np.int64), np.zeros(size, bool)
        begins = existing.searchsorted(rows * width)  # where each row begins
        count = begins[1:] - begins[:-1]
        has_any = count > 0
        wanted = begins[:-1, None] + (random * count[:, None]).astype(np.int64)
        place = existing.take(wanted, mode="clip") % width  # a row without any may point past all
    drawn = candidates[rows[:-1, None] if len(candidates) > 1 else 0, place]
    return drawn.astype(np.int64), has_any


class _InNumPy(torch.autograd.Function):
    """`find`, given tensors.

    A Function only because NumPy is unknown to `torch.func.vmap`, under which it is done in turn.
    """

    @staticmethod
    def forward(find: Callable[..., Pairs], *given: Tensor | None) -> tuple[Tensor, ...]:
        return tuple(find(*(None if one is None else one.numpy() for one in given)))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, find: Callable[..., Pairs], *given: Tensor | None
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        each = [
            _InNumPy.apply(  # type: ignore[no-untyped-call]
                find,
                *(
                    one if one is None or dim is None else one.select(dim, i)
                    for one, dim in zip(given, in_dims[1:], strict=True)
                ),
            )
            for i in range(info.batch_size)
        ]
        together = tuple(torch.stack(one) for one in zip(*each, strict=True))
        return together, (0,) * len(together)
