"""Whether probabilities mean what they say. Arrays in, numbers out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdil.spaces import Array


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probabilities against what happened, in B bins of equal width."""

    count: Array
    """How many fall into each bin. (B,)"""
    said: Array
    """Their mean; NaN where there are none. (B,)"""
    happened: Array
    """How often it happened; NaN where there are none. (B,)"""
    ece: float
    """Expected calibration error: the mean distance of the two, weighted by the counts."""
    brier: float
    """The mean squared error."""
    brier_skill: float | None
    """How much better it is than always saying the overall share: 1 perfect, 0 no better, below 0
    worse. None where it always happens, or never."""


def calibration_of_scores(optimality: Array, good: Array) -> Calibration:
    """Scores in [-1, 1] read as probabilities of being good, (1 + optimality) / 2. (n,) each"""
    return calibration((1 + optimality.astype(np.float64)) / 2, good)


def calibration(probs: Array, happened: Array, bins: int = 10) -> Calibration:
    """Compare `probs` (n,) in [0, 1] with what `happened` (n,) booleans."""
    number = np.minimum((probs * bins).astype(np.int64), bins - 1)
    count = np.bincount(number, minlength=bins)
    filled = np.where(count > 0, count, np.nan)
    said = np.bincount(number, probs, bins) / filled
    was = np.bincount(number, happened.astype(float), bins) / filled
    share = float(happened.mean())
    brier = float(np.mean((probs - happened) ** 2))
    variance = share * (1 - share)
    return Calibration(
        count=count,
        said=said,
        happened=was,
        ece=float(np.nansum(count * np.abs(said - was)) / len(probs)),
        brier=brier,
        brier_skill=1 - brier / variance if variance > 0 else None,
    )
