"""Statistics against `rliable`'s numbers, SciPy's, and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sdil.errors import InputError
from sdil.evaluation import comparisons
from sdil.evaluation.comparisons import (
    Estimate,
    bootstrap,
    interquartile_mean,
    mean_and_deviation,
    mean_interval,
    paired,
    paired_difference,
    performance_profile,
    probability_of_improvement,
    profile_band,
    resampled,
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


def test_pairs_are_counted_and_won():
    found = paired({0: 1.0, 1: 2.0, 2: 3.0, 9: 0.0}, {2: 2.0, 1: 2.0, 0: 0.0, 8: 0.0})
    assert (found.pairs, found.wins) == (3, 2)  # a draw is not won
    assert found.difference == paired_difference({0: 1.0, 1: 2.0, 2: 3.0}, {0: 0.0, 1: 2.0, 2: 2.0})
    assert found.verdict == verdict(found.difference) == "cannot tell with this many seeds"
    clear = paired([1.0, 2.0, 3.0], (0.0, 1.01, 2.0))
    assert (clear.pairs, clear.wins, clear.verdict) == (3, 3, "better")
    assert paired((0.0, 1.01, 2.0), [1.0, 2.0, 3.0]).verdict == "worse"
    assert paired([1.0], [0.0]).difference == Estimate(1.0, None, None)


def test_what_cannot_be_paired_is_said():
    with pytest.raises(InputError, match=r"^2 figures cannot be paired with 3"):
        paired([1.0, 2.0], [1.0, 2.0, 3.0])
    for mine, theirs in (([1.0], {0: 1.0}), ({0: 1.0}, [1.0])):
        with pytest.raises(InputError, match="give two mappings from seeds to figures, or two seq"):
            paired(mine, theirs)
    with pytest.raises(InputError, match="no seed in common"):
        paired({0: 1.0}, {1: 1.0})
    with pytest.raises(InputError, match="no seed in common"):
        paired([], [])
    assert paired_difference({0: 1.0}, {1: 1.0}) is None


def test_an_interval_that_touches_nothing_tells_nothing():
    unclear = "cannot tell with this many seeds"
    for low, high, said in (
        (0.0, 1.0, unclear),
        (-1.0, 0.0, unclear),
        (1e-9, 1.0, "better"),
        (-1.0, -1e-9, "worse"),
        (None, 1.0, unclear),
        (1.0, None, unclear),
    ):
        assert verdict(Estimate(0.5, low, high)) == said
    assert verdict(None) == unclear


@pytest.mark.parametrize("shape", [(2, 1), (5, 3), (1, 4)])
def test_statistics_by_counting(shape):
    rng = np.random.default_rng(3)
    ours, theirs = rng.integers(0, 5, shape) / 4, rng.integers(0, 5, (3, shape[1])) / 4
    values = sorted(ours.ravel().tolist())
    cut = len(values) // 4
    assert interquartile_mean(ours) == pytest.approx(np.mean(values[cut : len(values) - cut]))
    won = [
        (a > b) + (a == b) / 2
        for task in range(shape[1])
        for a in ours[:, task]
        for b in theirs[:, task]
    ]
    assert probability_of_improvement(ours, theirs) == pytest.approx(np.mean(won))
    thresholds = np.array([0.0, 0.25, 1.0])
    share = [np.mean([v > t for v in values]) for t in thresholds]
    np.testing.assert_allclose(performance_profile(ours, thresholds), share)
    stacked = np.stack([ours, ours + 1])  # leading axes stay
    assert interquartile_mean(stacked).shape == (2,)
    assert performance_profile(stacked, thresholds).shape == (2, 3)
    mean, deviation = mean_and_deviation(ours[:, 0])
    assert mean == pytest.approx(sum(ours[:, 0]) / shape[0])
    if shape[0] > 1:
        squares = sum((v - mean) ** 2 for v in ours[:, 0])
        assert deviation == pytest.approx((squares / (shape[0] - 1)) ** 0.5)


def test_intervals_are_percentiles_of_runs_drawn_anew():
    """Each set by a seed of its own, each task by draws of its own."""
    rng = np.random.default_rng(4)
    ours, theirs = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    drawn = [
        np.random.default_rng(seed).integers(len(s), size=(50, *s.shape))
        for seed, s in ((7, ours), (8, theirs))
    ]
    assert (resampled(ours, 50, 7) == drawn[0]).all()
    again = [np.take_along_axis(s[None], d, 1) for s, d in zip((ours, theirs), drawn, strict=True)]
    chances = [probability_of_improvement(a, b) for a, b in zip(*again, strict=True)]
    found = bootstrap(probability_of_improvement, ours, theirs, resamples=50, seed=7)
    assert found.value == probability_of_improvement(ours, theirs)
    expected = np.percentile(chances, [2.5, 97.5])
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    thresholds = np.array([-0.5, 0.5])
    value, low, high = profile_band(ours, thresholds, resamples=50, seed=7)
    profiles = [performance_profile(a, thresholds) for a in again[0]]
    np.testing.assert_allclose([low, high], np.percentile(profiles, [2.5, 97.5], axis=0))
    np.testing.assert_allclose(value, performance_profile(ours, thresholds))
    assert resampled(ours).shape == (2_000, 4, 3)
    assert (resampled(ours) == resampled(ours, seed=0)).all()
    usual = bootstrap(interquartile_mean, ours)
    assert usual == bootstrap(interquartile_mean, ours, resamples=2_000, seed=0)
    for mine, other in zip(
        profile_band(ours, thresholds),
        profile_band(ours, thresholds, resamples=2_000, seed=0),
        strict=True,
    ):
        assert (mine == other).all()


def test_two_runs_have_a_spread_and_one_among_many_has_none():
    two, one = np.array([[0.0], [1.0]]), np.array([[0.0]])
    assert bootstrap(interquartile_mean, two).low is not None
    assert bootstrap(probability_of_improvement, two, one) == Estimate(0.75, None, None)
    assert mean_and_deviation(np.array([1.0, 3.0])) == (2.0, pytest.approx(2**0.5))
    assert mean_interval(np.array([1.0, 3.0])).high == pytest.approx(2 + stats.t.ppf(0.975, 1))
