"""What the steps beside a step say of it: mistakes may come in stretches, or one by one.

Whether a step is good is taken for a chain: with a probability of `persistence` it is as the step
before it, otherwise it is drawn anew, good as often as noisy steps are. How persistent noisy steps
are is found by expectation-maximisation from what the signals say of them, so that steps which are
good or bad by chance stay alone, and those of a detour, or of an episode with another aim, speak
for one another. Signals err in stretches too (where no clean demonstrator has been, say), so only
a third of what is found is believed.
"""

from __future__ import annotations

import numpy as np

from sdil.spaces import Array

REACH = 16
"""Steps to either side that are listened to: by so little persistence the others say nothing."""
_BELIEVED = 1 / 3
_ROUNDS, _MOST = 20, 0.98
_ENOUGH = 100_000  # noisy steps to find the persistence from


def find_persistence(log_odds: Array, episode: Array, good_share: float) -> float:
    """How far a step is as the one before it, between 0 and 1/3, by how much the signals speak for
    each (N,); `episode` (N,) says which steps stand beside one another."""
    log_odds, episode = log_odds[:_ENOUGH], episode[:_ENOUGH]
    pairs = np.flatnonzero(episode[1:] == episode[:-1])
    if not len(pairs):
        return 0.0
    by_chance = good_share**2 + (1 - good_share) ** 2  # that two steps are alike
    persistence = 0.5
    for _ in range(_ROUNDS):
        before, after = _foretold(log_odds, episode, good_share, persistence)
        first = _probability(before[pairs] + log_odds[pairs])  # by it and those before it
        second = _probability(after[pairs + 1] + log_odds[pairs + 1])
        goes_on = persistence + (1 - persistence) * np.array([good_share, 1 - good_share])
        changes = (1 - persistence) * np.array([1 - good_share, good_share])
        alike = first * goes_on[0] * second / good_share
        alike += (1 - first) * goes_on[1] * (1 - second) / (1 - good_share)
        unlike = first * changes[0] * (1 - second) / (1 - good_share)
        unlike += (1 - first) * changes[1] * second / good_share
        share = float((alike / (alike + unlike)).mean())
        persistence = float(np.clip((share - by_chance) / (1 - by_chance), 0.0, _MOST))
    return _BELIEVED * persistence


def told_by_neighbours(
    log_odds: Array, episode: Array, good_share: float, persistence: float
) -> Array:
    """The log-odds of "good" that the steps before and after add to what is said of a step. (N,)"""
    if not persistence:
        return np.zeros(len(log_odds))
    before, after = _foretold(log_odds, episode, good_share, persistence)
    return before + after - 2 * _odds(good_share)


def _foretold(
    log_odds: Array, episode: Array, good_share: float, persistence: float
) -> tuple[Array, Array]:
    """The log-odds of "good" by the steps before each alone, and by those after it. (N,)"""
    before = _onwards(log_odds, episode, good_share, persistence)
    after = _onwards(log_odds[::-1], episode[::-1], good_share, persistence)[::-1]
    return before, after


def _onwards(log_odds: Array, episode: Array, good_share: float, persistence: float) -> Array:
    found = np.full(len(log_odds), _odds(good_share))
    for back in range(min(REACH, len(log_odds) - 1), 0, -1):  # from the farthest to the nearest
        p = _probability(found[back:] + log_odds[:-back])
        good = (1 - persistence) * good_share + persistence * p
        beside = episode[back:] == episode[:-back]
        found[back:] = np.where(beside, _odds(good), found[back:])
    return found


def _odds(p: Array | float) -> Array:
    return np.asarray(np.log(p) - np.log1p(-np.asarray(p)))


def _probability(log_odds: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(log_odds, -30.0, 30.0))))
