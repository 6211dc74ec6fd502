"""Change points of a score, and how they compare with known borders."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdil.evaluation.boundaries import boundary_f1
from sdil.scores import StepScores
from sdil.segmentation import change_points, segments_of


def test_a_jump_is_found_and_a_flicker_is_not():
    assert change_points(np.array([0.9] * 6 + [-0.8] * 5)).tolist() == [6]
    assert change_points(np.array([0.9, 0.8, 0.3, 0.9, 0.8, 0.9])).tolist() == []
    assert change_points(np.array([0.4])).tolist() == []


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=7), st.floats(0.05, 1))
def test_no_other_cuts_cost_less(values, penalty):
    array = np.array(values)

    def cost(cuts):
        parts = np.split(array, list(cuts))
        return sum(((p - p.mean()) ** 2).sum() for p in parts) + penalty * len(cuts)

    everywhere = range(1, len(array))
    least = min(cost(c) for k in range(len(array)) for c in combinations(everywhere, k))
    assert cost(change_points(array, penalty)) == pytest.approx(least, abs=1e-9)


def test_segments_carry_mean_score_and_commonest_skill():
    optimality = np.array([0.9, 0.9, 0.9, -0.9, -0.9])
    skill = np.array([2, 2, 1, 0, 0])
    parts = {"value": optimality}
    first, second = segments_of(StepScores(optimality, skill, parts=parts))
    assert (first.start, first.stop, first.skill) == (0, 3, 2)
    assert (second.start, second.stop, second.skill) == (3, 5, 0)
    assert second.optimality == pytest.approx(-0.9)
    without = segments_of(StepScores(optimality, skill))
    assert [s.skill for s in without] == [2, 1, 0]  # runs of equal skill


def test_borders_are_compared_by_hand():
    found = [np.array([3, 9]), np.array([], int)]
    true = [np.array([4, 20]), np.array([5])]
    assert boundary_f1(found, true) == pytest.approx(2 * 1 / (2 + 3))
    assert boundary_f1(found, true, tolerance=0) == 0
    assert boundary_f1([np.array([4, 5])], [np.array([4])]) == pytest.approx(2 / 3)
    assert boundary_f1([np.array([], int)], [np.array([], int)]) == 1
