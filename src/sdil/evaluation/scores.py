"""Step scores against the truth, where a task knows it."""

from __future__ import annotations

import numpy as np

from sdil.spaces import Array


def compare_with_truth(optimality: Array, good: Array) -> tuple[float | None, float | None]:
    """AUROC and average precision of step scores; None where all steps are of one kind."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if good.all() or not good.any():
        return None, None
    return float(roc_auc_score(good, optimality)), float(average_precision_score(good, optimality))


def calibration(probability: Array, good: Array, *, bins: int = 10) -> tuple[float, float]:
    """Expected calibration error and Brier score of probabilities that steps are good. (N,)

    The first is the mean distance between what was said and what was so, over bins of equal width
    weighted by their steps.
    """
    truth = good.astype(np.float64)
    place = np.minimum((probability * bins).astype(np.int64), bins - 1)
    said = np.bincount(place, probability, bins)
    was = np.bincount(place, truth, bins)
    brier = float(np.square(probability - truth).mean())
    return float(np.abs(said - was).sum() / len(truth)), brier
