"""What is found does not change, and what holds arrays is not compared by them."""

from __future__ import annotations

from dataclasses import is_dataclass
from importlib import import_module

import pytest

FROZEN = {
    "windows": {"Window": True},
    "trajectories": {"Trajectory": False},
    "spaces": {"Spaces": True},
    "scores": {"StepScores": False, "Segment": True, "JudgedSteps": False},
    "judges.hearing": {"Ground": True, "Standing": True},
    "observations": {"Part": True},
    "limits": {"Between": True},
    "curation": {"ByFold": False, "Piece": True, "Curated": False},
    "labels": {"Label": True},
    "judges.material": {"Material": False},
    "evaluation.comparisons": {"Estimate": True, "Paired": True},
}
"""Dataclasses of the core by their modules, and whether Python compares them field by field."""


@pytest.mark.parametrize("module", FROZEN)
def test_dataclasses_of_the_core_are_frozen(module):
    held = import_module(f"sdil.{module}")
    found = {
        name: kind.__dataclass_params__
        for name, kind in vars(held).items()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == held.__name__
    }
    assert {name: about.eq for name, about in found.items()} == FROZEN[module]
    assert all(about.frozen for about in found.values())
