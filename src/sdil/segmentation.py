"""Segments of a demonstration: stretches in which its steps are about equally good.

Runs of equal skill, the paper's segments, change whenever the skill does. Where a score has
evidence of its own, its change points say better where a detour begins and ends.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sdil.scores import Segment, StepScores
from sdil.spaces import Array

PENALTY = 0.5
"""By how much a cut must lower the squared error of the score to be made; its range is [-1, 1]."""
_BLOCK = 64  # steps that are gone through before starts are forgotten
_NEAR = 1e-7  # costs that may be equal but for rounding
_MEANS = 128  # of a last piece, for each of which the best start is found


def segments_of(scores: StepScores) -> list[Segment]:
    """Stretches between change points of the score; runs of equal skill where it has no parts."""
    if not scores.parts:
        return scores.segments()
    cuts = [0, *change_points(scores.optimality).tolist(), len(scores.optimality)]
    return [
        Segment(
            start,
            stop,
            None if scores.skill is None else int(np.bincount(scores.skill[start:stop]).argmax()),
            float(scores.optimality[start:stop].mean()),
        )
        for start, stop in pairwise(cuts)
    ]


def change_points(values: Array, penalty: float = PENALTY) -> Array:
    """Where a piecewise constant fit of `values` (T,) jumps: the first step after each jump.

    The exact minimum of squared error + penalty per jump (Jackson et al. 2005). Starts of a last
    piece that no further values can make the best are forgotten (functional pruning, Maidstone et
    al. 2017), so that the time grows with T and not with its square.
    """
    total = np.concatenate([[0.0], np.cumsum(values)])
    square = np.concatenate([[0.0], np.cumsum(np.square(values))])
    best = np.zeros(len(values) + 1)  # of the steps before
    best[0] = -penalty
    came_from = np.zeros(len(values) + 1, np.int64)
    enough = _BLOCK
    starts = np.zeros(1, np.int64)  # of a last piece that may be the best
    for begin in range(0, len(values), _BLOCK):
        stops = np.arange(begin + 1, min(begin + _BLOCK, len(values)) + 1)
        known = len(starts)
        starts = np.append(starts, stops)
        length = np.maximum(stops[:, None] - starts, 1)
        error = square[stops, None] - square[starts]
        error -= (total[stops, None] - total[starts]) ** 2 / length
        reached = best[starts]
        for i, stop in enumerate(stops):
            cost = reached[: known + i] + error[i, : known + i] + penalty
            at = cost.argmin()
            came_from[stop] = starts[at]
            reached[known + i] = best[stop] = cost[at]
        if len(starts) > enough and stops[-1] < len(values):
            starts = starts[_may_be_best(starts, reached - square[starts], total[starts], values)]
            enough = 2 * len(starts) + _BLOCK  # looking through them has its price
    points = []
    at = int(came_from[-1])
    while at > 0:
        points.append(at)
        at = int(came_from[at])
    return np.array(points[::-1], np.int64)


def _may_be_best(starts: Array, constant: Array, total: Array, values: Array) -> Array:
    """Which starts (K,) of a last piece cost least for some mean that it may have. (K,) booleans

    With a piece from s on, of mean m, all steps so far cost `constant[s] + 2 m total[s] - s m^2`
    and something that is the same for all s; more values add the same to all. A start is kept
    where it comes within `_NEAR` of the least, so that rounding and equals decide as they would.
    It is held against those that cost least for some of `_MEANS` means, and not against all, which
    would be the square of K where all of them are worth keeping: too many may stay, never too few.
    """
    lowest, highest = values.min(), values.max()
    means = np.linspace(lowest, highest, _MEANS)[:, None]
    rivals = np.unique((constant + 2 * means * total - means**2 * starts).argmin(1))
    curvature = starts[rivals] - starts[:, None]  # of a row's cost less a rival's, over m
    older = curvature > 0  # than the rival
    safe = np.where(curvature == 0, 1, curvature)
    middle = -(total[:, None] - total[rivals]) / safe
    inside = middle**2 - (constant[:, None] - constant[rivals] - _NEAR) / safe
    reach = np.sqrt(np.maximum(inside, 0.0))
    left, right = middle - reach, middle + reach
    # against newer ones it is the better between two means, against older ones it is the worse
    nowhere = inside < 0
    low = np.where(older, np.where(nowhere, np.inf, left), lowest).max(1)
    high = np.where(older, np.where(nowhere, -np.inf, right), highest).min(1)
    worse = (curvature < 0) & ~nowhere
    left, right = np.where(worse, left, np.inf), np.where(worse, right, -np.inf)
    order = left.argsort(1)
    left, right = (np.take_along_axis(side, order, 1) for side in (left, right))
    covered = np.maximum(np.maximum.accumulate(right, 1), low[:, None])
    before = np.concatenate([low[:, None], covered[:, :-1]], 1)
    gap = ((left >= before) & (before <= high[:, None])).any(1) | (covered[:, -1] <= high)
    return np.asarray(gap & (low <= high))
