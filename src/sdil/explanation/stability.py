"""Whether skills are the same from seed to seed: an interpretation that changes is none.

Skills have no order, so those of two runs are matched first: by the assignment under which most
steps have the same skill in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sdil.spaces import Array


def match_skills(one: Array, other: Array) -> tuple[Array, float]:
    """For each skill of `other` the one of `one` it is matched with, and how many steps agree.

    Both are the most probable skill of the same steps, (N,). A skill that has no partner is
    matched with -1. The share of steps that agree is 1 where both are the same but for names.
    """
    from scipy.optimize import linear_sum_assignment

    together = np.zeros((one.max() + 1, other.max() + 1), np.int64)
    np.add.at(together, (one, other), 1)
    rows, columns = linear_sum_assignment(together, maximize=True)
    matched = np.full(together.shape[1], -1)
    matched[columns] = rows
    return matched, float(together[rows, columns].sum() / len(one))


def compare_runs(skills: Mapping[str, Array], optimality: Mapping[str, Array]) -> dict[str, Any]:
    """How far R runs agree on the same steps. `skills` and `optimality` are (N,) by run.

    "agreement" is the adjusted Rand index of skills (1 the same, 0 as chance has it), "accuracy"
    the share of steps whose matched skills are the same, "scores" the rank correlation of step
    scores, None where all of a run's are equal: each (R, R). "matched" says for each run which
    skill of the first one each of its skills stands for, or -1.
    """
    from scipy.stats import rankdata
    from sklearn.metrics import adjusted_rand_score

    runs = list(skills)
    labels = [skills[run] for run in runs]
    ranks = [rankdata(optimality[run]) for run in runs]
    return {
        "runs": runs,
        "agreement": [[float(adjusted_rand_score(a, b)) for b in labels] for a in labels],
        "accuracy": [[match_skills(a, b)[1] for b in labels] for a in labels],
        "scores": [[_correlation(a, b) for b in ranks] for a in ranks],
        "matched": [match_skills(labels[0], b)[0].tolist() for b in labels],
    }


def _correlation(a: Array, b: Array) -> float | None:
    if a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])
