"""What is measured of a policy that judges steps, where the truth about them is known.

A module of its own, because no other cell depends on it: the way scores are measured may change
without a single one of theirs becoming stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sdil.evaluation.calibration import calibration_of_scores
from sdil.evaluation.scores import compare_with_truth
from sdil.spaces import Array
from sdil.trajectories import Trajectories


def judged(policy: Any, noisy: Trajectories, good: Sequence[Array]) -> dict[str, float | None]:
    """The scores of all noisy steps against the truth; a score of 0 means an even chance."""
    truth = np.concatenate(good)
    scores = np.concatenate([s.optimality for s in policy.score(noisy)])
    auroc, precision = compare_with_truth(scores, truth)
    found = calibration_of_scores(scores, truth)
    return {
        "score_auroc": auroc,
        "score_average_precision": precision,
        "score_calibration_error": found.ece,
        "score_brier": found.brier,
        "score_brier_skill": found.brier_skill,
    }
