"""Change points of a score, and how they compare with known borders."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdil import segmentation
from sdil.evaluation.boundaries import boundary_f1
from sdil.scores import StepScores
from sdil.segmentation import PENALTY, change_points, segments_of


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


def exact_search(values, penalty):
    """Every start of every last piece: what `change_points` finds without looking at all."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    square = np.concatenate([[0.0], np.cumsum(np.square(values))])
    best, came_from = np.zeros(len(values) + 1), np.zeros(len(values) + 1, np.int64)
    best[0] = -penalty
    for stop in range(1, len(values) + 1):
        start = np.arange(stop)
        error = square[stop] - square[start] - (total[stop] - total[start]) ** 2 / (stop - start)
        cost = best[start] + error + penalty
        came_from[stop] = cost.argmin()
        best[stop] = cost[came_from[stop]]
    points, at = [], int(came_from[-1])
    while at > 0:
        points.append(at)
        at = int(came_from[at])
    return points[::-1]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 500),
    st.sampled_from(["even", "steps", "few values", "walk", "ramp", "constant"]),
    st.sampled_from([0.05, 0.5, 1.0, 3.0]),
    st.integers(0, 2**31),
)
def test_borders_are_those_of_the_search_through_everything(length, kind, penalty, seed):
    rng = np.random.default_rng(seed)
    values = {
        "even": lambda: rng.uniform(-1, 1, length),
        "steps": lambda: np.repeat(rng.uniform(-1, 1, length), 7)[:length],
        "few values": lambda: rng.choice([-0.9, 0.3, 0.9], length),
        "walk": lambda: np.tanh(np.cumsum(rng.normal(0, 0.2, length))),
        "ramp": lambda: np.linspace(-1, 1, length),
        "constant": lambda: np.full(length, 0.3),
    }[kind]()
    assert change_points(values, penalty).tolist() == exact_search(values, penalty)


@pytest.mark.parametrize("kind", ["constant", "noise"])
def test_the_work_grows_with_the_steps_and_not_with_their_square(kind, monkeypatch):
    looked = []
    judge = segmentation._may_be_best

    def count(starts, *others):
        looked.append(len(starts))
        return judge(starts, *others)

    monkeypatch.setattr(segmentation, "_may_be_best", count)
    rng = np.random.default_rng(0)
    values = np.full(5_000, 0.3) if kind == "constant" else rng.normal(0, 0.1, 5_000)
    assert change_points(values).tolist() == []
    assert max(looked) < 300  # of 5,000 starts


def test_the_penalty_is_what_a_cut_must_gain():
    """A piece of n steps at -h among zeros, next to m: cutting it off gains n m h^2 / (n + m)."""
    short = np.array([0.0] * 4 + [-0.49] * 4)  # 2 h^2 = 0.48
    assert change_points(short).tolist() == []
    assert change_points(np.array([0.0] * 4 + [-0.51] * 4)).tolist() == [4]  # 0.52
    assert change_points(short, 0.45).tolist() == [4]
    assert PENALTY == 0.5


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
