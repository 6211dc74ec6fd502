"""The quality report of a MIMIC-IV build: counts only, and none below five."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdil.spaces import Array
from sdil.tasks.mimic.cohort import CohortFlow
from sdil.tasks.mimic.definitions import features
from sdil.tasks.mimic.episodes import StayEpisodes

LEAST_CELL = 5
_SOFA_BANDS = ((2, 4), (5, 7), (8, 10), (11, 24))

Count = int | str


def masked(count: int) -> Count:
    """The count, or "<5" where it could point at someone."""
    return f"<{LEAST_CELL}" if 0 < count < LEAST_CELL else int(count)


def quality_report(
    flow: CohortFlow, episodes: StayEpisodes, actions: Array, died: Array, parts: Array
) -> dict[str, Any]:
    """What a reader of the data should know; `parts` says where each stay went, or "dropped"."""
    in_use = parts != "dropped"
    stays = {f"left out: {k}": n for k, n in flow.reasons.items() if k != "Sepsis-3"}
    steps_of = {
        f"{part}, {'noisy (died)' if bad else 'clean (survived)'}": int(
            ((parts == part) & (died == bad)).sum()
        )
        for part in ("train", "valid", "test")
        for bad in (False, True)
    }
    counted = {
        "ICU stays": flow.stays,
        **stays,
        "Sepsis-3": flow.included,
        "left out: no whole 4-hour step around onset": flow.included - len(died),
        "left out: died, of a validation or test patient": int((~in_use).sum()),
        **{name: n for name, n in steps_of.items() if n or "train" in name},
    }
    histogram = np.bincount(actions, minlength=25).reshape(5, 5)
    return {
        "cells": f"counts from 1 to {LEAST_CELL - 1} are shown as <{LEAST_CELL}",
        "flow": {name: masked(n) for name, n in counted.items()},
        "states": len(episodes.states),
        "missingness": _missingness(episodes),
        "actions": {
            "rows": "fluid level 0 to 4",
            "columns": "vasopressor level 0 to 4",
            "steps": [[masked(n) for n in row] for row in histogram.tolist()],
        },
        "outcome_by_sofa": [
            {
                "sofa": f"{low}-{high}",
                "stays": masked(int(band.sum())),
                "died": masked(int((band & died).sum())),
            }
            for low, high in _SOFA_BANDS
            for band in [(episodes.highest_sofa >= low) & (episodes.highest_sofa <= high)]
        ],
    }


def _missingness(episodes: StayEpisodes) -> dict[str, dict[str, float | str]]:
    """Per variable, the share of states where it was measured, held, or had to be imputed."""
    total = len(episodes.states)
    known = np.isfinite(episodes.states)
    shares = {}
    for column, feature in enumerate(features()):
        counts = {
            "measured": int(episodes.measured[:, column].sum()),
            "held": int((known & ~episodes.measured)[:, column].sum()),
            "imputed": int((~known)[:, column].sum()),
        }
        shares[feature.name] = {
            kind: f"<{LEAST_CELL}" if 0 < n < LEAST_CELL else round(n / total, 4)
            for kind, n in counts.items()
        }
    return shares
