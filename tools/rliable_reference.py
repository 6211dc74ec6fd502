"""Reference numbers for `sdil.evaluation.comparisons`, made by `rliable` on random scores.

    python -m venv .venv-rliable && .venv-rliable/bin/pip install rliable "pandas<3"
    .venv-rliable/bin/python tools/rliable_reference.py tests/evaluation/rliable_reference.npz

Made with rliable 1.2.0. This file imports nothing of ours. The runs that rliable's bootstrap draws
are kept, so that `tests/evaluation/test_comparisons.py` can compare intervals exactly.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

SHAPES = (((5, 1), (5, 1)), ((5, 3), (5, 3)), ((10, 4), (7, 4)))
"""Runs and tasks of two methods."""
RESAMPLES = 100


def main(file: str) -> None:
    """Draw scores, let rliable judge them, save both."""
    from rliable import library, metrics

    choice = np.random.choice  # what rliable draws with
    drawn: list[Any] = []

    def recorded(*arguments: Any, **named: Any) -> Any:
        drawn.append(choice(*arguments, **named))
        return drawn[-1]

    np.random.choice = recorded
    arrays: dict[str, Any] = {}
    for number, (shape, other) in enumerate(SHAPES):
        rng = np.random.default_rng(number)
        np.random.seed(number)  # noqa: NPY002
        x, y = rng.normal(0.6, 0.2, shape).round(2), rng.normal(0.5, 0.2, other).round(2)
        thresholds = np.linspace(0, 1, 11)
        drawn.clear()
        iqm, iqm_interval = library.get_interval_estimates(
            {"x": x}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=RESAMPLES
        )
        of_iqm = np.array(drawn[-RESAMPLES:])
        drawn.clear()
        chance, chance_interval = library.get_interval_estimates(
            {"x,y": (x, y)},
            lambda a, b: np.array([metrics.probability_of_improvement(a, b)]),
            reps=RESAMPLES,
        )
        of_x, of_y = np.array(drawn[-2 * RESAMPLES :: 2]), np.array(drawn[1 - 2 * RESAMPLES :: 2])
        drawn.clear()
        profile, band = library.create_performance_profile({"x": x}, thresholds, reps=RESAMPLES)
        found = {
            "x": x,
            "y": y,
            "thresholds": thresholds,
            "iqm": iqm["x"],
            "iqm_interval": iqm_interval["x"][:, 0],
            "iqm_drawn": of_iqm,
            "chance": chance["x,y"],
            "chance_interval": chance_interval["x,y"][:, 0],
            "chance_drawn_x": of_x,
            "chance_drawn_y": of_y,
            "profile": profile["x"],
            "profile_band": band["x"],
            "profile_drawn": np.array(drawn[-RESAMPLES:]),
        }
        for name, value in found.items():
            small = value.astype(np.int8) if "drawn" in name else value
            arrays[f"{number}-{name}"] = small
    np.savez_compressed(file, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
