"""What labelled steps teach of others like them, in numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sdil.judges.asking import _purity
from sdil.judges.lessons import WRONG, Lessons, Posterior, how_much_counts
from sdil.judges.likeness import (
    Looks,
    Seen,
    likeness,
    own_likeness,
    quantile_grid,
    some_of,
)


def seen(n: int, *, seed: int = 0, apart: float = 1.0) -> Seen:
    draw = np.random.default_rng(seed)
    return Seen(
        apart * draw.normal(size=(n, 3)),
        *2 * (draw.uniform(-1, 1, (n, 2)),),
        10.0 * np.eye(2)[draw.integers(2, size=n)],
        draw.normal(size=n),
    )


def one(state=(0.0,), ranks=(0.5, -0.5), action=(10.0, 0.0), odds=1.0) -> Seen:
    return Seen(np.array([state]), *2 * (np.array([ranks]),), np.array([action]), np.array([odds]))


def test_likeness_by_hand():
    common = 0.7**2 + 0.4**2 + 2.0**2 * 0.5
    assert likeness(one(), one())[0, 0] == pytest.approx(common + 2 * 2.6**2)
    other_action = likeness(one(), one(action=(0.0, 10.0)))[0, 0]
    assert other_action == pytest.approx(common)
    moved = likeness(one(), one(state=(0.3,)))[0, 0]  # as far as states are near
    assert moved == pytest.approx(common + 2.6**2 * (1 + np.exp(-0.5)))
    rated = likeness(one(), one(ranks=(-0.5, 0.5)))[0, 0]  # squared distance 2, width 2 * .25 * 2
    plain = 0.7**2 + 0.4**2 - 2.0**2 * 0.5
    assert rated == pytest.approx(plain + 2.6**2 * (1 + np.exp(-2.0)))
    sure = likeness(one(odds=9.0), one(odds=5.0))[0, 0] - likeness(one(), one())[0, 0]
    assert sure == pytest.approx(0.4**2 * (4 * 4 - 1))  # beyond 4 log-odds are not told apart


def test_likeness_is_a_covariance():
    steps = seen(40)
    assert np.linalg.eigvalsh(likeness(steps, steps)).min() > -1e-9


@pytest.mark.parametrize("said", [0.0, 1.0, 0.3])
def test_one_label_moves_a_step_to_the_mode(said):
    step = one(odds=-0.5)
    wide = likeness(step, step)[0, 0]

    def loss(change: float) -> float:
        q = WRONG + (1 - 2 * WRONG) / (1 + np.exp(0.5 - change))
        return -(said * np.log(q) + (1 - said) * np.log(1 - q)) + change**2 / (2 * wide)

    found = Posterior.of(step, np.array([said]), np.array([1.0]))
    best = minimize_scalar(loss, bounds=(-10, 10), method="bounded", options={"xatol": 1e-9}).x
    assert found.change(step)[0] == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("n", [10, 40, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(4))
def test_it_comes_to_rest_at_the_mode(n, seed):
    """Where the slope of what people said holds what is likely beforehand in balance."""
    steps = seen(n, seed=seed, apart=0.3)
    said = (np.random.default_rng(seed).random(n) < 0.5).astype(float)
    found = Posterior.of(steps, said, np.ones(n))
    change = found.change(steps)
    p = 1 / (1 + np.exp(-(steps.odds + change)))
    q = WRONG + (1 - 2 * WRONG) * p
    slope = (said / q - (1 - said) / (1 - q)) * (1 - 2 * WRONG) * p * (1 - p)
    np.testing.assert_allclose(likeness(steps, steps) @ slope, change, atol=1e-2)


def test_many_states_that_stand_still_are_no_obstacle():
    """Distances among them are not 0 but for rounding."""
    draw = np.random.default_rng(0)
    for at in draw.normal(size=(6, 5)) * 1e3:
        states = np.concatenate([np.tile(at, (900, 1)), at + draw.normal(size=(100, 5))])
        looks = Looks.learn([0], draw.normal(size=(1, 1000)), draw.permutation(states))
        near = np.abs((states - states.mean(0)) @ looks.directions.numpy())
        assert near.max() < 100
    alike = Looks.learn([0], draw.normal(size=(1, 9)), np.full((9, 2), 0.1))
    np.testing.assert_allclose(alike.directions.numpy(), np.eye(2))


def test_what_is_left_open_by_hand():
    step = one(odds=0.0)
    wide = likeness(step, step)[0, 0]
    found = Posterior.of(step, np.array([0.5]), np.array([1.0]))  # nothing moves: p is 0.5
    tells = (0.8 * 0.25) ** 2 / 0.25
    left = found.covariance(step, step)[0, 0]
    assert left == pytest.approx(wide - wide**2 * tells / (1 + wide * tells), rel=1e-4)
    assert found.variance(step)[0] == pytest.approx(left)
    nothing = Posterior.of_nothing()
    assert nothing.covariance(step, step)[0, 0] == wide
    assert nothing.variance(step)[0] == pytest.approx(wide)
    assert nothing.change(step)[0] == 0.0


def test_labels_only_ever_close_what_was_open():
    steps = seen(30, apart=0.3)
    found = Posterior.of(steps.at(np.arange(10)), np.arange(10) % 2.0, np.ones(10))
    before = Posterior.of_nothing().variance(steps)
    after = found.variance(steps)
    np.testing.assert_allclose(after, found.covariance(steps, steps).diagonal(), atol=1e-9)
    assert (after <= before + 1e-9).all()
    assert after[:10].sum() < 0.8 * before[:10].sum()
    np.testing.assert_allclose(found.change(steps)[:10] > 0, np.arange(10) % 2 == 1)


def test_what_is_open_counts_for_less_by_hand():
    """1 / sqrt(1 + pi v / 32), a quarter of the variance being believed."""
    found = how_much_counts(np.array([0.0, 32 / np.pi, 96 / np.pi]))
    np.testing.assert_allclose(found, [1, 1 / np.sqrt(2), 0.5])
    np.testing.assert_allclose(how_much_counts(np.array([16 / np.pi]), 0.5), 1 / np.sqrt(2))


@pytest.mark.parametrize("variance", [0.5, 4.0, 16.0])
@pytest.mark.parametrize("log_odds", [-3.0, 0.0, 1.0, 4.0])
def test_it_is_about_the_mean_over_what_is_open(variance, log_odds):
    draws = np.random.default_rng(0).normal(log_odds, np.sqrt(variance / 4), 200_000)
    mean = (1 / (1 + np.exp(-draws))).mean()
    about = 1 / (1 + np.exp(-how_much_counts(np.array(variance)) * log_odds))
    assert about == pytest.approx(mean, abs=0.02)


def test_own_likeness_is_that_of_a_step_to_itself():
    steps = seen(20, apart=3.0)
    np.testing.assert_allclose(own_likeness(steps), likeness(steps, steps).diagonal())


def test_lessons_of_before_go_by_the_mode_alone():
    steps = seen(12, apart=0.3)
    found = Posterior.of(steps.at(np.arange(5)), np.arange(5) % 2.0, np.ones(5))
    looks = Looks.learn([0, 2], np.random.default_rng(0).normal(size=(2, 30)), steps.state, 0.6)
    now = Lessons.of(looks, found, 0.3)
    kept = {k: v for k, v in now.state_dict().items() if k != "closes"}
    old = Lessons.of_tensors({**kept, "shift": now.before})
    (change, counts), (of_before, all_count) = now(steps), old(steps)
    np.testing.assert_allclose(change, found.change(steps))
    np.testing.assert_allclose(counts, how_much_counts(found.variance(steps)))
    np.testing.assert_array_equal(of_before, change)
    np.testing.assert_array_equal(all_count, np.ones(12))
    assert Lessons.of_tensors(now.state_dict()).shift is None


def test_lessons_that_do_not_say_how_much_counts_count_half_of_what_is_open():
    steps = seen(12, apart=0.3)
    found = Posterior.of(steps.at(np.arange(5)), np.arange(5) % 2.0, np.ones(5))
    looks = Looks.learn([0, 2], np.random.default_rng(0).normal(size=(2, 30)), steps.state, 0.6)
    now = Lessons.of(looks, found, 0.3)
    again = Lessons.of_tensors(now.state_dict())
    old = Lessons.of_tensors({k: v for k, v in now.state_dict().items() if k != "open"})
    half = how_much_counts(found.variance(steps), 0.6 * 0.5)  # and as signals repeat one another
    np.testing.assert_allclose(old(steps)[1], half)
    np.testing.assert_array_equal(again(steps)[1], now(steps)[1])
    assert (now(steps)[1] > half).all()


def test_ranks_are_parted_where_signals_mostly_agree():
    """Two that say nearly the same: what they differ by is as wide as what they share."""
    draw = np.random.default_rng(0)
    both, differ = draw.normal(size=2_000), draw.normal(size=2_000)
    signals = np.stack([both + 0.3 * differ, both - 0.3 * differ])
    looks = Looks.learn([0, 2], signals, draw.normal(size=(50, 3)))
    ranks = looks.ranks(signals)
    apart = looks.part(ranks)
    assert np.corrcoef(ranks.T)[0, 1] > 0.8
    assert abs(np.corrcoef(apart.T)[0, 1]) < 0.1
    assert np.abs(apart).max() <= 1
    share, rest = (np.std(apart @ way) for way in ([1, 1], [1, -1]))
    assert rest == pytest.approx(share, rel=0.2)
    same = Looks.learn([0, 2], np.stack([both, both]), draw.normal(size=(50, 3)))
    assert np.isfinite(same.part(same.ranks(np.stack([both, both])))).all()


def test_ranks_by_hand():
    signals = np.array([np.arange(41.0), np.r_[np.zeros(21), np.ones(20)]])
    looks = Looks.learn([0, 2], signals, np.random.default_rng(0).normal(size=(50, 3)))
    np.testing.assert_allclose(quantile_grid(signals)[0], np.arange(41))
    found = looks.ranks(np.array([[0.0, 20.0, 99.0, np.nan], [0.0, 1.0, -1.0, np.nan]]))
    np.testing.assert_allclose(found[:, 0], [-1, 0, 1, 0])
    np.testing.assert_allclose(found[:, 1], [-0.5, 0.525, -1, 0])  # equals stand at their middle
    assert looks.directions.shape == (3, 3)


def test_many_inputs_are_seen_by_their_main_directions():
    draw = np.random.default_rng(0)
    states = draw.normal(size=(200, 2)) @ draw.normal(size=(2, 40))
    looks = Looks.learn([0], draw.normal(size=(1, 200)), states)
    assert looks.directions.shape == (40, 24)
    assert looks.directions.is_contiguous()  # no other tensor can be saved
    where = (states - states.mean(0)) @ looks.directions.numpy()
    np.testing.assert_allclose(where[:, 2:], 0, atol=1e-9)  # there are but two of them
    far = ((where[:100, None] - where[None, 100:]) ** 2).sum(2)
    assert np.median(far) == pytest.approx(1, abs=0.15)


def test_some_of_them():
    assert some_of(np.arange(5), 8).tolist() == [0, 1, 2, 3, 4]
    assert some_of(np.arange(9), 3).tolist() == [0, 4, 8]


def test_purity_by_hand():
    assert _purity(np.array([0.5, 0.5]), 0.0) == pytest.approx(0.5)
    assert _purity(np.array([0.5, 0.5]), 1.0) == pytest.approx(1.0)
    assert _purity(np.array([0.9]), 0.3) == pytest.approx(1.0)  # of one step nobody is unsure
    assert _purity(np.array([0.5, 0.5]), 0.5) == pytest.approx(0.75)
