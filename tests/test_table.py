from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil.table import Table, TableWalk

TASKS = ["fourrooms", "doorkey-5x5", "doorkey-6x6"]


def corridor() -> Table:
    """States 0 to 3 in a row; action 0 goes left, 1 goes right; right from 2 reaches the goal."""
    return Table(
        states=(0, 1, 2, 3),
        observe=lambda states: states[:, None].astype(np.float32),
        next_state=np.array([[0, 1], [0, 2], [1, 3], [3, 3]]),
        reward=np.array([[0, 0], [0, 0], [0, 1.0], [0, 0]]),
        end=np.array([[0, 0], [0, 0], [0, 1], [1, 1]], bool),
        start_state=lambda seed: seed % 3,
        horizon=10,
        time_cost=0.9,
        spaces=sdil.Spaces(gym.spaces.Box(0, 3, (1,), np.float32), gym.spaces.Discrete(2)),
    )


def test_distances_and_good_steps_by_hand():
    table = corridor()
    assert table.distance_to_goal.tolist() == [3, 2, 1, np.inf]
    assert table.good.tolist() == [[False, True], [False, True], [False, True], [False, False]]
    first = np.array([True, False, False, False])
    assert table.closer_to(first).tolist() == [
        [False, False],
        [True, False],
        [True, False],
        [False] * 2,
    ]
    assert table.reward_at(np.array([1.0]), 5).tolist() == [1 - 0.9 * 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_table_walks_beside_minigrid_without_a_difference(name):
    """Thousands of random steps, all seven actions; random ones seldom reach the goal, so that
    every other episode follows the planner half of the time."""
    env = gym.make(f"sdil/{name}-v0").unwrapped
    table = sdil.get_task(name).table()
    rng = np.random.default_rng(0)
    steps = goals = cut = 0
    for seed in range(120):
        observation, _ = env.reset(seed=seed)
        state, done, step = table.start_state(seed), False, 0
        while not done and steps < 12_000:
            np.testing.assert_array_equal(table.observe(np.array([state]))[0], observation)
            planned = seed % 2 and rng.random() < 0.5
            action = int(np.argmax(table.good[state])) if planned else int(rng.integers(7))
            observation, reward, terminated, truncated, info = env.step(action)
            step += 1
            assert reward == pytest.approx(
                table.reward_at(table.reward[state, action], step), abs=1e-12
            )
            assert terminated == table.end[state, action]
            assert truncated == (step >= table.horizon)
            state = int(table.next_state[state, action])
            assert table.states[state] == env.state()
            done = terminated or truncated
            goals, cut, steps = goals + terminated, cut + (truncated and not terminated), steps + 1
            assert not done or info == {"is_success": terminated}
    assert steps > 3_000
    assert goals > 5
    assert cut > 5


@pytest.mark.parametrize(
    ("name", "states", "starts"),
    [("fourrooms", 1040, 1036), ("doorkey-5x5", 540, 48), ("doorkey-6x6", 7254, 816)],
)
def test_sizes(name, states, starts):
    table = sdil.get_task(name).table()
    assert len(table) == states
    drawn = {table.start_state(seed) for seed in range(4000)}
    assert len(drawn) <= starts
    assert len(drawn) > 0.9 * starts


@pytest.mark.parametrize("name", TASKS)
def test_every_start_can_reach_the_goal_and_the_planner_needs_that_many_steps(name):
    table = sdil.get_task(name).table()
    best = np.argmax(table.good, 1)
    for seed in range(200):
        state = table.start_state(seed)
        distance = table.distance_to_goal[state]
        for _ in range(int(distance)):
            action = best[state]
            ended = table.end[state, action]
            state = table.next_state[state, action]
        assert ended


def test_a_walk_by_hand():
    walk = TableWalk(corridor(), np.array([0, 2, 1]))
    assert walk.observation.tolist() == [[0], [2], [1]]
    earned, ended, won = walk.step(np.array([1, 1, 0]))
    assert earned.tolist() == [0, 1 - 0.9 * 0.1, 0]
    assert ended.tolist() == won.tolist() == [False, True, False]
    assert walk.at.tolist() == [1, 3, 0]
    walk.keep(~ended)
    assert (len(walk), walk.at.tolist(), walk.clock.tolist()) == (2, [1, 0], [1, 1])
    walk.begin(np.array([1]), np.array([2]))
    assert (walk.at.tolist(), walk.clock.tolist()) == ([1, 2], [1, 0])
    for _ in range(9):
        walk.step(np.array([0, 0]))
    assert walk.out_of_time.tolist() == [True, False]


def test_a_walk_of_one_episode_alone():
    walk = TableWalk(corridor(), 1)
    assert not any(bool(walk.step(action)[1]) for action in (0, 1, 1))
    earned, ended, won = walk.step(1)
    assert (float(earned), bool(ended), bool(won)) == (1 - 0.9 * 0.4, True, True)
    assert (int(walk.at), int(walk.clock)) == (3, 4)


def test_an_end_without_a_reward_is_not_won():
    _, ended, won = TableWalk(corridor(), np.array([3])).step(np.array([0]))
    assert (ended.tolist(), won.tolist()) == ([True], [False])


def alike() -> Table:
    """The corridor, in which states 0 and 1 look the same."""
    return replace(corridor(), observe=lambda s: np.maximum(s, 1)[:, None].astype(np.float32))


def test_looks_are_numbered_and_minus_zero_is_zero():
    seen, look = alike().looks
    assert (seen.tolist(), look.tolist()) == ([[1], [2], [3]], [0, 0, 1, 2])
    assert corridor().look_of(np.array([[-0.0], [3.0], [0.5]])).tolist() == [0, 3, -1]


def test_every_path_that_looks_like_an_episode_is_found():
    """Left and right again: from either of two states; right and right: from the second alone."""
    shown = np.array([[1], [1], [1], [1], [2], [2]], np.float32)
    actions, lengths = np.array([0, 0, 0, 1, 1, 1]), np.array([3, 3])
    found = alike().follow(shown, actions, lengths)
    assert found.episode.tolist() == [0, 0]
    assert [found.states[found.path == p].tolist() for p in (0, 1)] == [[0, 0, 0], [1, 0, 0]]
    assert found.times.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.fits_until.tolist() == [3, 2]  # right of 2 ends it: there is no more to follow
    shorter = alike().follow(shown[3:5], actions[3:5], np.array([2]))
    assert shorter.states.tolist() == [1, 2]


def test_what_no_state_shows_is_followed_no_further():
    shown, actions = np.array([[9], [0], [9]], np.float32), np.array([0, 0, 0])
    found = corridor().follow(shown, actions, np.array([1, 2]))
    assert len(found.episode) == len(found.path) == len(found.states) == 0
    assert found.fits_until.tolist() == [0, 1]
