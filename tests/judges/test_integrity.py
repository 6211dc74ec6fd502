"""Does the next state follow from the action?"""

from __future__ import annotations

import numpy as np
import pytest
from corridor import LEFT, RIGHT, UP, corridor, fit
from sklearn.metrics import roc_auc_score

import sdil


@pytest.fixture(scope="module")
def judge():
    return fit(corridor(), signals="likelihood", outcome_updates=300)


def test_replaced_actions_fit_badly_and_the_others_well(judge):
    walks = corridor().noisy
    draw = np.random.default_rng(0)
    spoilt, replaced = [], []
    for one in walks:
        at = draw.random(len(one)) < 0.2
        other = (one.actions + draw.integers(1, 4, len(one))) % 4
        spoilt.append(sdil.Trajectory(one.observations, np.where(at, other, one.actions)))
        replaced.append(at)
    sound = np.concatenate([s.integrity for s in judge.score(spoilt)])
    found = np.concatenate(replaced)
    assert ((sound >= 0) & (sound <= 1)).all()
    assert roc_auc_score(~found, sound) > 0.98
    assert sound[~found].mean() > 0.9
    assert np.median(sound[found]) < 0.1


def test_it_says_nothing_of_how_good_a_step_is(judge):
    """Going back is bad, and sound."""
    seen = np.array([[5, 0], [4, 0], [3, 0]], np.float32)
    (back,) = judge.score([sdil.Trajectory(seen, np.array([LEFT, LEFT]))])
    assert (back.optimality < 0).all()
    assert (back.integrity > 0.8).all()


def test_it_is_unknown_where_the_next_state_is(judge):
    seen = np.array([[5, 0], [6, 0]], np.float32)
    (cut,) = judge.score([sdil.Trajectory(seen, np.array([RIGHT, UP]))])
    assert np.isfinite(cut.integrity[0])
    assert np.isnan(cut.integrity[1])
