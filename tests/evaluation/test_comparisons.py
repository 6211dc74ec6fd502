"""Statistics against `rliable`'s numbers, SciPy's, and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sdil.evaluation import comparisons
from sdil.evaluation.comparisons import (
    Estimate,
    bootstrap,
    interquartile_mean,
    mean_and_deviation,
    mean_interval,
    paired_difference,
    performance_profile,
    probability_of_improvement,
    profile_band,
    verdict,
)

REFERENCE = np.load(Path(__file__).parent / "rliable_reference.npz")
NUMBERS = range(3)


def reference(number: int) -> dict[str, np.ndarray]:
    start = f"{number}-"
    return {k.removeprefix(start): REFERENCE[k] for k in REFERENCE.files if k.startswith(start)}


def draw_as(monkeypatch, *drawn):
    """Let the bootstrap draw the runs that rliable drew, set by set."""
    kept = iter([d.astype(np.int64) for d in drawn])
    monkeypatch.setattr(comparisons, "resampled", lambda *_: next(kept))


@pytest.mark.parametrize("number", NUMBERS)
def test_point_estimates_are_rliables(number):
    theirs = reference(number)
    assert interquartile_mean(theirs["x"]) == pytest.approx(float(theirs["iqm"][0]), abs=1e-12)
    ours = probability_of_improvement(theirs["x"], theirs["y"])
    assert ours == pytest.approx(float(theirs["chance"][0]), abs=1e-12)
    profile = performance_profile(theirs["x"], theirs["thresholds"])
    np.testing.assert_allclose(profile, theirs["profile"], atol=1e-12)


@pytest.mark.parametrize("number", NUMBERS)
def test_intervals_are_rliables_on_its_draws(number, monkeypatch):
    theirs = reference(number)
    draw_as(monkeypatch, theirs["iqm_drawn"])
    iqm = bootstrap(interquartile_mean, theirs["x"])
    np.testing.assert_allclose((iqm.low, iqm.high), theirs["iqm_interval"], atol=1e-12)
    draw_as(monkeypatch, theirs["chance_drawn_x"], theirs["chance_drawn_y"])
    chance = bootstrap(probability_of_improvement, theirs["x"], theirs["y"])
    np.testing.assert_allclose((chance.low, chance.high), theirs["chance_interval"], atol=1e-12)
    draw_as(monkeypatch, theirs["profile_drawn"])
    _, low, high = profile_band(theirs["x"], theirs["thresholds"])
    np.testing.assert_allclose(np.stack([low, high]), theirs["profile_band"], atol=1e-12)


@pytest.mark.parametrize("number", NUMBERS)
def test_our_own_draws_come_near(number):
    theirs = reference(number)
    ours = bootstrap(interquartile_mean, theirs["x"])
    low, high = theirs["iqm_interval"]  # of 100 draws
    assert ours.low == pytest.approx(low, abs=0.05)
    assert ours.high == pytest.approx(high, abs=0.05)


def test_the_middle_half_by_hand():
    scores = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    assert interquartile_mean(scores) == 2.0  # one of five is left out at each end


def test_improvement_by_hand():
    ours, theirs = np.array([[1.0], [2.0]]), np.array([[1.0], [0.0]])
    assert probability_of_improvement(ours, theirs) == (0.5 + 1 + 1 + 1) / 4


def test_a_difference_is_paired_by_seed():
    ours, theirs = {0: 10.0, 1: 20.0, 2: 30.0, 7: 0.0}, {2: 28.0, 1: 19.0, 0: 9.0, 5: 99.0}
    found = paired_difference(ours, theirs)
    expected = stats.ttest_rel([10, 20, 30], [9, 19, 28]).confidence_interval()
    assert found is not None
    assert found.value == pytest.approx(4 / 3)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_mean_has_students_interval():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    low, high = stats.t.interval(0.95, 3, 4.0, stats.sem(values))
    assert mean_interval(values) == Estimate(4.0, pytest.approx(low), pytest.approx(high))
    assert mean_interval(values[:1]) == Estimate(1.0, None, None)


def test_verdicts():
    unclear = "cannot tell with this many seeds"
    assert verdict(Estimate(1.0, 0.1, 1.9)) == "better"
    assert verdict(Estimate(-1.0, -1.9, -0.1)) == "worse"
    assert verdict(Estimate(1.0, -0.1, 2.1)) == unclear
    assert verdict(paired_difference({0: 1.0}, {0: 0.0})) == unclear
    assert verdict(paired_difference({0: 1.0}, {1: 0.0})) == unclear
    equal = paired_difference({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0})
    assert verdict(equal) == unclear


def test_one_run_has_no_spread():
    assert mean_and_deviation(np.array([3.0])) == (3.0, None)
    assert bootstrap(interquartile_mean, np.array([[3.0]])) == Estimate(3.0, None, None)
