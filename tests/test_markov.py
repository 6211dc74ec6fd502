from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from scipy.sparse import csr_array

import sdil
from sdil import InputError
from sdil.markov import Draws, MarkovModel

WAIT, TREAT = 0, 1


def ward() -> MarkovModel:
    """States ill 0, worse 1, dead 2, well 3. Waiting: ill goes on as it is with 1/2, gets worse
    with 1/4, well with 1/4; worse dies. Treating: ill is well with 3/4, else dead; worse is well
    with 1/2, else dead."""
    rows = np.zeros((4, 2, 4))
    rows[0, WAIT] = [0.5, 0.25, 0, 0.25]
    rows[1, WAIT] = [0, 0, 1, 0]
    rows[0, TREAT] = [0, 0, 0.25, 0.75]
    rows[1, TREAT] = [0, 0, 0.5, 0.5]
    rows[2:, :, 2] = 1
    return MarkovModel(
        transition=csr_array(rows.reshape(8, 4)),
        reward=np.array([0, 0, 0, 1.0]),
        end=np.array([False, False, True, True]),
        start=np.array([0.75, 0.25, 0, 0]),
        admissible=np.ones((4, 2), bool),
        observations=np.arange(4, dtype=np.float32)[:, None],
        horizon=50,
        spaces=sdil.Spaces(gym.spaces.Box(0, 3, (1,), np.float32), gym.spaces.Discrete(2)),
    )


def test_planning_and_evaluation_by_hand():
    model = ward()
    # waiting once when ill: 1/2 V + 1/4 * 1/2 + 1/4; its fixed point V = 3/4 equals treating's
    np.testing.assert_allclose(model.optimal_values, [0.75, 0.5, 0, 0], atol=1e-10)
    np.testing.assert_allclose(model.advantage[:2], [[0, 0], [-0.5, 0]], atol=1e-10)
    assert model.optimal_actions[:2].tolist() == [WAIT, TREAT]  # the first of two equal ones
    waits = model.always(np.full(4, WAIT))
    visits = model.visits(waits)
    np.testing.assert_allclose(visits, [1.5, 0.25 + 0.375, 0, 0])
    np.testing.assert_allclose(model.arrivals(waits, visits), [0, 0, 0.625, 0.375])


def test_a_planner_keeps_to_admissible_actions():
    admissible = np.array([[True, True], [True, False], [True, True], [True, True]])
    model = replace(ward(), admissible=admissible)
    np.testing.assert_allclose(model.optimal_values[:2], [0.75, 0], atol=1e-10)
    assert model.optimal_actions[:2].tolist() == [TREAT, WAIT]
    assert model.at_random[1].tolist() == [1, 0]


def test_draws_are_those_of_an_environment():
    draws = Draws([3, 4])
    both = np.arange(2)
    taken = np.array([draws.take(both) for _ in range(70)])
    for column, seed in enumerate((3, 4)):
        expected = gym.utils.seeding.np_random(seed)[0].random(70)
        np.testing.assert_array_equal(taken[:, column], expected)


def test_what_follows_is_as_likely_as_the_model_says():
    model, rng = ward(), np.random.default_rng(0)
    n = 40_000
    for state in range(2):
        for action in range(2):
            after = model.next_states(np.full(n, state), np.full(n, action), rng.random(n))
            share = np.bincount(after, minlength=4) / n
            expected = model.transition.toarray()[state * 2 + action]
            np.testing.assert_allclose(share, expected, atol=0.01)
            assert (share[expected == 0] == 0).all()
    starts = np.bincount(model.start_states(rng.random(n)), minlength=4) / n
    np.testing.assert_allclose(starts, model.start, atol=0.01)


def test_the_highest_and_the_lowest_draw_stay_within_the_row():
    model = ward()
    for draw in (0.0, 1 - 2.0**-53):
        draws = np.full(2, draw)
        assert set(model.next_states(np.array([0, 1]), np.array([0, 1]), draws)) <= {0, 2, 3}
        assert set(model.start_states(draws)) <= {0, 1}


def test_walks_are_cut_off_at_the_horizon():
    walks = replace(ward(), horizon=1).walk(ward().always(np.full(4, WAIT)), range(500))
    assert {len(w.actions) for w in walks} == {1}
    ended = np.array([w.ended for w in walks])
    assert ended.tolist() == [bool(w.states[-1] >= 2) for w in walks]
    assert 0 < ended.mean() < 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": np.array([0.5, 0.25, 0, 0])}, "do not add up"),
        ({"transition": ward().transition * 0.9}, "do not add up"),
        ({"transition": ward().transition[:6]}, r"shape \(8, 4\), not \(6, 4\)"),
        ({"reward": np.array([0.1, 0, 0, 1])}, "only states that end an episode pay"),
        ({"admissible": np.zeros((4, 2), bool)}, "needs an admissible action"),
    ],
)
def test_models_that_cannot_be_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        replace(ward(), **change)


def test_a_policy_that_never_ends_is_refused():
    rows = ward().transition.toarray()
    rows[0] = [1, 0, 0, 0]  # waiting changes nothing
    model = replace(ward(), transition=csr_array(rows))
    with pytest.raises(InputError, match="may never end"):
        model.visits(model.always(np.full(4, WAIT)))
