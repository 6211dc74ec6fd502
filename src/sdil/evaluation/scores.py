"""Step scores against the truth, where a task knows it."""

from __future__ import annotations

from sdil.spaces import Array


def compare_with_truth(optimality: Array, good: Array) -> tuple[float | None, float | None]:
    """AUROC and average precision of step scores; None where all steps are of one kind."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if good.all() or not good.any():
        return None, None
    return float(roc_auc_score(good, optimality)), float(average_precision_score(good, optimality))
