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

    The exact minimum of squared error + penalty per jump (Jackson et al. 2005).
    """
    total = np.concatenate([[0.0], np.cumsum(values)])
    square = np.concatenate([[0.0], np.cumsum(np.square(values))])
    best = np.zeros(len(values) + 1)  # of the steps before
    best[0] = -penalty
    came_from = np.zeros(len(values) + 1, np.int64)
    for stop in range(1, len(values) + 1):
        start = np.arange(stop)
        error = square[stop] - square[start] - (total[stop] - total[start]) ** 2 / (stop - start)
        cost = best[start] + error + penalty
        came_from[stop] = cost.argmin()
        best[stop] = cost[came_from[stop]]
    points = []
    at = int(came_from[-1])
    while at > 0:
        points.append(at)
        at = int(came_from[at])
    return np.array(points[::-1], np.int64)
