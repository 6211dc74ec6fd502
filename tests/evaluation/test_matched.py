"""AUROC at matched length: a score that only knows long episodes is worth nothing there."""

from __future__ import annotations

import numpy as np
import pytest

from sdil.evaluation.scores import auroc_at_matched_length, compare_with_truth


@pytest.fixture
def episodes():
    """Long episodes are mostly bad, short ones mostly good."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(10, 100, 200)
    episode = np.repeat(np.arange(200), lengths)
    good = rng.random(len(episode)) > (lengths / 110)[episode]
    return lengths, episode, good, rng


def test_knowing_the_length_alone_is_nearly_chance(episodes):
    lengths, episode, good, _ = episodes
    score = -lengths[episode].astype(float)
    assert compare_with_truth(score, good)[0] > 0.7
    assert auroc_at_matched_length(score, good, episode) == pytest.approx(0.5, abs=0.04)


def test_knowing_the_steps_is_worth_as_much(episodes):
    _, episode, good, rng = episodes
    score = good + rng.normal(size=len(good))
    free = compare_with_truth(score, good)[0]
    assert auroc_at_matched_length(score, good, episode) == pytest.approx(free, abs=0.03)


def test_steps_of_one_kind_cannot_be_ranked():
    assert auroc_at_matched_length(np.zeros(4), np.ones(4, bool), np.zeros(4)) is None
