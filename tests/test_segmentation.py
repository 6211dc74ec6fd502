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
    st.sampled_from(["even", "steps", "few values", "walk", "ramp", "constant", "zero"]),
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
        "zero": lambda: np.zeros(length),
    }[kind]()
    assert change_points(values, penalty).tolist() == exact_search(values, penalty)


def test_of_cuts_that_cost_the_same_the_search_through_everything_decides():
    """Scores of two values and a penalty of their square: there are many equals."""
    for seed in range(95, 125):
        rng = np.random.default_rng(seed)
        values = np.repeat(rng.choice([-0.5, 0.5], 240), 1 + seed % 5)[:240]
        assert change_points(values, 1.0).tolist() == exact_search(values, 1.0)


@pytest.mark.parametrize("kind", ["zero", "constant", "noise", "saw", "ramp"])
def test_the_work_grows_with_the_steps_and_not_with_their_square(kind, monkeypatch):
    looked = []
    judge = segmentation._may_be_best

    def count(starts, *others):
        looked.append(len(starts))
        return judge(starts, *others)

    monkeypatch.setattr(segmentation, "_may_be_best", count)
    rng = np.random.default_rng(0)
    values = {
        "zero": np.zeros(5_000),
        "constant": np.full(5_000, 0.3),
        "noise": rng.normal(0, 0.1, 5_000),
        "saw": np.arange(5_000) / 1_000 % 2 - 1,
        "ramp": np.linspace(-1, 1, 5_000),
    }[kind]
    found = change_points(values).tolist()
    assert found == exact_search(values, PENALTY)
    # of 5,000 starts: as many as a piece of an even ramp is long may be the best at a time
    assert max(looked) < {"saw": 600, "ramp": 1_500}.get(kind, 300)
    assert 5 < len(looked) < 50  # times, of 79 blocks: it costs more than a block does


def test_what_is_held_against_a_few_is_what_is_held_against_all(monkeypatch):
    """Fewer rivals may keep more starts, and never lose one that all would keep."""
    rng = np.random.default_rng(3)
    kept = {}
    judge = segmentation._may_be_best

    def both(starts, constant, total, values):
        found = {}
        for means in (2, 128, 12_701):  # each has the means of those before among its own
            monkeypatch.setattr(segmentation, "_MEANS", means)
            found[means] = judge(starts, constant, total, values)
        assert not (found[12_701] & ~found[128]).any()
        assert not (found[128] & ~found[2]).any()
        kept[len(starts)] = {means: int(one.sum()) for means, one in found.items()}
        return found[128]

    monkeypatch.setattr(segmentation, "_may_be_best", both)
    values = np.tanh(np.cumsum(rng.normal(0, 0.05, 1_500)))
    assert change_points(values).tolist() == exact_search(values, PENALTY)
    assert any(few[12_701] < size / 2 for size, few in kept.items())


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
