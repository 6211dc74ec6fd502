from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil import BC
from sdil.evaluation.rollout import episode_seeds, rollout


def minigrid():
    return gym.make("sdil/fourrooms-v0", disable_env_checker=True)


@pytest.fixture(scope="module", params=[0, 3])
def policy(request, demos):
    return BC(look_back=request.param).fit(demos, seed=0)


def same(a, b):
    np.testing.assert_array_equal(a.seeds, b.seeds)
    np.testing.assert_allclose(a.rewards, b.rewards, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(a.lengths, b.lengths)
    np.testing.assert_array_equal(a.successes, b.successes)


def test_the_number_side_by_side_changes_nothing(policy):
    runs = [rollout(policy, minigrid, episodes=30, seed=5, n_envs=n) for n in (1, 7, 64)]
    same(runs[0], runs[1])
    same(runs[0], runs[2])
    assert len(np.unique(runs[0].lengths)) > 3


def test_table_and_minigrid_give_the_same_episodes(policy):
    through_table = rollout(policy, "fourrooms", episodes=40, seed=2)
    same(through_table, rollout(policy, minigrid, episodes=40, seed=2))
    same(through_table, rollout(policy, "sdil/fourrooms-v0", episodes=40, seed=2))


def test_more_episodes_begin_with_the_same_ones(policy):
    few, many = (rollout(policy, "fourrooms", episodes=n, seed=0) for n in (10, 20))
    np.testing.assert_array_equal(few.rewards, many.rewards[:10])
    assert len(set(episode_seeds(0, 1000).tolist())) == 1000


class Planner:
    """Not one of our policies, and it keeps a state of Stable-Baselines3's kind."""

    def __init__(self, table):
        self.table = table
        self.everything = table.observe(np.arange(len(table)))

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        count = np.zeros((1, len(observation), 1)) if state is None else state[0]
        count = np.where(episode_start[None, :, None], 0, count) + 1
        where = [int(np.flatnonzero((self.everything == o).all(1))[0]) for o in observation]
        return np.argmax(self.table.good[where], 1), (count,)


def test_the_planner_always_arrives_by_the_shortest_way():
    table = sdil.get_task("fourrooms").table()
    seeds = episode_seeds(0, 25)
    shortest = np.array([table.distance_to_goal[table.start_state(int(s))] for s in seeds])
    result = sdil.evaluate(Planner(table), "fourrooms", episodes=25)
    assert result.success_rate == 1.0
    assert result.success_interval[0] > 0.85
    np.testing.assert_array_equal(result.episodes.lengths, shortest)
    np.testing.assert_allclose(result.episodes.rewards, 1 - 0.9 * shortest / 100)
    same(result.episodes, rollout(Planner(table), minigrid, episodes=25, seed=0, n_envs=4))


def test_an_environment_of_somebody_elses():
    class Random:
        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            return np.zeros(len(observation), int), None

    result = sdil.evaluate(Random(), lambda: gym.make("CartPole-v1"), episodes=12, n_envs=5)
    assert result.success_rate is None
    assert result.reward_mean == result.length_mean
    by_id = sdil.evaluate(Random(), "CartPole-v1", episodes=12, n_envs=2)
    assert by_id.reward_mean == result.reward_mean
