from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil import BC, InputError
from sdil.evaluation.rollout import rollout
from sdil.tasks.sepsis import sepsis_model


class Doctor:
    """Takes a given action in each state; sees only the state, and says so if asked to."""

    def __init__(self, actions, look_back=None):
        self.actions = actions
        self.known = {o.tobytes(): i for i, o in enumerate(sepsis_model().observations[:713])}
        if look_back is not None:
            self.look_back = look_back

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        states = [self.known.get(o.tobytes(), 713) for o in observation]
        return self.actions[states], None


@pytest.fixture(scope="module")
def demos():
    return sdil.get_task("sepsis").collect(clean=100, noisy=0, seed=0)[0]


def environment():
    return gym.make("sdil/sepsis-v0", disable_env_checker=True)


def test_policies_that_see_only_the_state_are_evaluated_exactly():
    model = sepsis_model()
    result = sdil.evaluate(Doctor(model.optimal_actions, look_back=0), "sepsis")
    assert result.exact
    assert result.n_episodes == 0
    assert len(result.episodes.rewards) == 0
    assert result.reward_mean == pytest.approx(0.8751417, abs=1e-6)
    assert result.success_rate == result.reward_mean
    assert result.success_interval == (result.success_rate, result.success_rate)
    assert result.reward_sem == 0.0
    assert result.reward_std == pytest.approx((0.8751417 * 0.1248583) ** 0.5, abs=1e-6)
    assert result.length_mean == pytest.approx(10.9917, abs=1e-3)
    for other in ("sdil/sepsis-v0", model):
        assert sdil.evaluate(Doctor(model.optimal_actions, 0), other).reward_mean == (
            result.reward_mean
        )


@pytest.mark.parametrize("look_back", [None, 3])
def test_others_are_run_for_ten_thousand_episodes(look_back):
    model = sepsis_model()
    result = sdil.evaluate(Doctor(model.optimal_actions, look_back), "sepsis")
    assert not result.exact
    assert result.n_episodes == 10_000
    low, high = result.success_interval
    assert low - 0.005 < 0.8751 < high + 0.005
    assert result.reward_mean == result.success_rate
    error = result.episodes.lengths.std() / 100
    assert abs(result.length_mean - 10.9917) < 3.5 * error


def test_a_number_of_episodes_is_respected(demos):
    policy = BC(max_updates=20).fit(demos, seed=0)
    assert policy.look_back == 0
    exact = sdil.evaluate(policy, "sepsis")
    sampled = sdil.evaluate(policy, "sepsis", episodes=4000)
    assert exact.exact
    assert not sampled.exact
    assert sampled.n_episodes == 4000
    assert abs(sampled.reward_mean - exact.reward_mean) < 3.5 * sampled.reward_sem


@pytest.mark.parametrize("look_back", [0, 3])
def test_the_model_and_the_environment_give_the_same_episodes(demos, look_back):
    policy = BC(look_back=look_back, max_updates=20).fit(demos, seed=0)
    fast = rollout(policy, "sepsis", episodes=60, seed=2)
    slow = rollout(policy, environment, episodes=60, seed=2, n_envs=7)
    np.testing.assert_array_equal(fast.seeds, slow.seeds)
    np.testing.assert_array_equal(fast.rewards, slow.rewards)
    np.testing.assert_array_equal(fast.lengths, slow.lengths)
    np.testing.assert_array_equal(fast.successes, slow.successes)
    more = rollout(policy, "sepsis", episodes=90, seed=2)
    np.testing.assert_array_equal(fast.lengths, more.lengths[:60])


def test_elsewhere_a_thousand_episodes_are_run_and_nothing_is_exact(fourrooms):
    policy = BC(max_updates=10).fit(fourrooms[0], seed=0)
    result = sdil.evaluate(policy, "fourrooms")
    assert result.n_episodes == 1000
    assert not result.exact


def test_a_policy_of_another_task_is_refused(fourrooms):
    policy = BC(max_updates=10).fit(fourrooms[0], seed=0)
    for options in ({}, {"episodes": 5}):
        with pytest.raises(InputError, match="made for the observation space"):
            sdil.evaluate(policy, "sepsis", **options)
