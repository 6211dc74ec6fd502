"""What the steps beside a step say of it."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from sdil.judges.neighbours import REACH, find_persistence, told_by_neighbours


def by_counting(log_odds, good_share, persistence):
    """Log-odds of "good" of each step of one episode, over all ways it may have gone."""
    n = len(log_odds)
    good = np.zeros(n)
    total = 0.0
    for way in product((True, False), repeat=n):
        p = good_share if way[0] else 1 - good_share
        for before, after in pairwise(way):
            fresh = good_share if after else 1 - good_share
            p *= persistence * (before == after) + (1 - persistence) * fresh
        p *= np.exp(sum(x for x, is_good in zip(log_odds, way, strict=True) if is_good))
        good += p * np.array(way)
        total += p
    return np.log(good / (total - good))


@pytest.mark.parametrize(("good_share", "persistence"), [(0.5, 0.3), (0.8, 0.45), (0.1, 0.2)])
def test_it_is_the_posterior_of_a_chain(good_share, persistence):
    log_odds = np.array([1.5, -0.3, -2.0, 0.4, 3.0, -1.0])
    episode = np.zeros(6, int)
    found = told_by_neighbours(log_odds, episode, good_share, persistence)
    prior = np.log(good_share / (1 - good_share))
    wanted = by_counting(log_odds, good_share, persistence)
    np.testing.assert_allclose(prior + log_odds + found, wanted, atol=1e-9)


def test_episodes_say_nothing_of_one_another():
    log_odds = np.array([4.0, 4.0, 4.0, -1.0, -1.0])
    episode = np.array([0, 0, 0, 1, 1])
    both = told_by_neighbours(log_odds, episode, 0.5, 0.4)
    alone = told_by_neighbours(log_odds[3:], episode[3:], 0.5, 0.4)
    np.testing.assert_allclose(both[3:], alone)
    assert (both[:3] > 0).all()
    assert (both[3:] < 0).all()
    np.testing.assert_array_equal(told_by_neighbours(log_odds[:1], episode[:1], 0.5, 0.4), 0.0)


def test_what_is_far_says_next_to_nothing():
    log_odds = np.zeros(3 * REACH)
    log_odds[0] = 30.0
    found = told_by_neighbours(log_odds, np.zeros(len(log_odds), int), 0.5, 0.5)
    assert found[1] == pytest.approx(np.log(0.75 / 0.25))  # persistent, or drawn anew
    assert 0 < found[REACH] < 1e-3
    assert found[-1] == 0


def test_without_persistence_every_step_stands_alone():
    np.testing.assert_array_equal(told_by_neighbours(np.ones(4), np.zeros(4), 0.5, 0.0), 0.0)


def made(rng, persistence, n=400, length=25, good_share=0.6):
    good = np.empty((n, length), bool)
    good[:, 0] = rng.random(n) < good_share
    for t in range(1, length):
        same, fresh = rng.random(n) < persistence, rng.random(n) < good_share
        good[:, t] = np.where(same, good[:, t - 1], fresh)
    right = rng.random(good.shape) < 0.8
    log_odds = np.where(good == right, 1.0, -1.0) * np.log(0.8 / 0.2)
    return log_odds.ravel(), np.repeat(np.arange(n), length), good.ravel()


@pytest.mark.parametrize("persistence", [0.0, 0.3, 0.6, 0.9])
def test_persistence_is_found(persistence):
    """A third of it is believed: signals err in stretches too."""
    log_odds, episode, _ = made(np.random.default_rng(0), persistence)
    assert find_persistence(log_odds, episode, 0.6) == pytest.approx(persistence / 3, abs=0.06)


def test_neighbours_help_where_mistakes_come_in_stretches():
    from sklearn.metrics import roc_auc_score

    log_odds, episode, good = made(np.random.default_rng(1), 0.8)
    found = find_persistence(log_odds, episode, 0.6)
    more = told_by_neighbours(log_odds, episode, 0.6, found)
    assert roc_auc_score(good, log_odds + more) > roc_auc_score(good, log_odds) + 0.02


def test_single_steps_have_no_persistence():
    assert find_persistence(np.ones(3), np.arange(3), 0.5) == 0.0
