"""Step scores against the truth, where a task knows it."""

from __future__ import annotations

import numpy as np

from sdil.spaces import Array

_STRATA = 10


def compare_with_truth(optimality: Array, good: Array) -> tuple[float | None, float | None]:
    """AUROC and average precision of step scores; None where all steps are of one kind."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    if good.all() or not good.any():
        return None, None
    return float(roc_auc_score(good, optimality)), float(average_precision_score(good, optimality))


def auroc_at_matched_length(optimality: Array, good: Array, episode: Array) -> float | None:
    """AUROC among steps of episodes that are about as long as one another; None where no such steps
    are of both kinds.

    Bad episodes are often long ones, and a score that knew no more than that would look right. The
    episodes (`episode` is the number of each step's, (N,)) are cut into ten parts of like length;
    the mean over them, by how many pairs of a good and a bad step each has.
    """
    from sklearn.metrics import roc_auc_score

    _, place, lengths = np.unique(episode, return_inverse=True, return_counts=True)
    edges = np.unique(np.quantile(lengths, np.arange(1, _STRATA) / _STRATA))
    stratum = np.searchsorted(edges, lengths, side="right")[place]
    total, pairs = 0.0, 0.0
    for part in np.unique(stratum):
        mine = stratum == part
        count = float(good[mine].sum()) * float((~good[mine]).sum())
        if count:
            total += count * float(roc_auc_score(good[mine], optimality[mine]))
            pairs += count
    return total / pairs if pairs else None
