from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil import InputError, Spaces
from sdil.simulators import (
    GymSimulator,
    TableSimulator,
    environment_maker,
    simulator,
    trusted_environment,
)
from sdil.table import Table

HORIZON = 5


def corridor() -> Table:
    """States 0 to 3 in a row; action 0 goes left, 1 goes right; right from 2 ends the episode."""
    return Table(
        states=(0, 1, 2, 3),
        observe=lambda states: states[:, None].astype(np.float32),
        next_state=np.array([[0, 1], [0, 2], [1, 3], [3, 3]]),
        reward=np.array([[0, 0], [0, 0], [0, 1.0], [0, 0]]),
        end=np.array([[0, 0], [0, 0], [0, 1], [1, 1]], bool),
        start_state=lambda seed: 0,
        horizon=HORIZON,
        time_cost=0.9,
        spaces=Spaces(gym.spaces.Box(0, 3, (1,), np.float32), gym.spaces.Discrete(2)),
    )


def test_a_corridor_by_hand():
    episodes = TableSimulator(corridor(), 2, seed=0)
    right_and_left = np.array([1, 0])
    assert episodes.observation.tolist() == [[0], [0]]
    seen = [episodes.step(right_and_left) for _ in range(5)]
    assert [m.after[:, 0].tolist() for m in seen] == [[1, 0], [2, 0], [3, 0], [1, 0], [2, 0]]
    assert [m.terminated.tolist() for m in seen] == [[False, False]] * 2 + [[True, False]] + [
        [False, False]
    ] * 2
    # the second episode is cut off after five steps; the first is by then in its second one
    assert [m.cut_off.tolist() for m in seen] == [[False, False]] * 4 + [[False, True]]
    assert seen[2].observation.tolist() == [[0], [0]]  # a new episode, though it ended in state 3
    assert seen[1].observation.tolist() == [[2], [0]]


def test_an_episode_that_ends_with_the_clock_is_not_cut_off():
    episodes = TableSimulator(corridor(), 1, seed=0)
    for action in (0, 0, 1, 1, 1):
        moved = episodes.step(np.array([action]))
    assert moved.terminated.tolist() == [True]
    assert moved.cut_off.tolist() == [False]


@pytest.mark.parametrize("name", ["fourrooms", "doorkey-5x5"])
def test_a_table_moves_as_minigrid_does(name):
    """Beside real environments set to the same states, for the same actions."""
    table = sdil.get_task(name).table()
    n, rng = 6, np.random.default_rng(0)
    episodes = TableSimulator(table, n, seed=1)
    envs = [gym.make(f"sdil/{name}-v0").unwrapped for _ in range(n)]
    starts = {table.states[s] for s in episodes.starts}
    for env, at in zip(envs, episodes.walk.at, strict=True):
        env.reset(seed=0)
        env.set_state(table.states[at])
    ended = cut = 0
    for _ in range(250):
        good = table.good[episodes.walk.at].argmax(1)
        actions = np.where(rng.random(n) < 0.5, good, rng.integers(0, 7, n))
        actions[0] = 0  # turns for ever
        moved = episodes.step(actions)
        for i, env in enumerate(envs):
            observation, _, terminated, truncated, _ = env.step(int(actions[i]))
            np.testing.assert_array_equal(moved.after[i], observation)
            assert moved.terminated[i] == terminated
            assert moved.cut_off[i] == (truncated and not terminated)
            if terminated or truncated:
                ended, cut = ended + terminated, cut + truncated
                assert table.states[episodes.walk.at[i]] in starts
                env.reset(seed=0)
                env.set_state(table.states[episodes.walk.at[i]])
                observation = env.gen_obs()
            np.testing.assert_array_equal(moved.observation[i], observation)
    assert ended > 5
    assert cut >= 1


def test_a_table_goes_on_bit_for_bit_from_a_saved_state():
    table = sdil.get_task("fourrooms").table()
    actions = np.random.default_rng(0).integers(0, 3, (300, 8))
    whole, other = TableSimulator(table, 8, seed=3), TableSimulator(table, 8, seed=3)
    for row in actions[:120]:
        whole.step(row)
    saved = whole.state()
    assert not other.restore(saved).any()
    for row in actions[120:]:
        a, b = whole.step(row), other.step(row)
        np.testing.assert_array_equal(a.observation, b.observation)
        np.testing.assert_array_equal(a.cut_off, b.cut_off)


def test_the_seed_decides_where_episodes_begin():
    table = sdil.get_task("fourrooms").table()
    first, again, other = (TableSimulator(table, 16, seed).walk.at.tolist() for seed in (0, 0, 1))
    assert first == again != other
    drawn = np.concatenate([TableSimulator(table, 16, seed=s).starts for s in range(2)])
    assert len(np.unique(drawn)) > 0.95 * 1036


def test_gymnasium_environments_begin_anew_when_restored():
    spaces = _spaces("CartPole-v1")
    episodes = simulator("CartPole-v1", 3, 0, spaces)
    assert isinstance(episodes, GymSimulator)
    saved = episodes.state()
    ends = 0
    for _ in range(60):
        moved = episodes.step(np.zeros(3, int))
        ends += moved.terminated.sum()
        over = moved.terminated | moved.cut_off
        assert (moved.after[over] != moved.observation[over]).any(1).all()
        assert (moved.after[~over] == moved.observation[~over]).all()
    assert ends > 3
    assert episodes.restore(saved).all()
    first = episodes.observation
    episodes.restore(saved)
    np.testing.assert_array_equal(episodes.observation, first)
    episodes.close()


def test_gymnasium_time_outs_are_told_from_ends():
    make = lambda: gym.make("CartPole-v1", max_episode_steps=3)  # noqa: E731
    episodes = simulator(make, 1, 0, _spaces("CartPole-v1"))
    moved = [episodes.step(np.array([t % 2])) for t in range(3)]
    assert [bool(m.cut_off[0]) for m in moved] == [False, False, True]
    assert not any(m.terminated[0] for m in moved)
    episodes.close()


def test_what_can_be_simulated():
    task = sdil.get_task("fourrooms")
    spaces = task.table().spaces
    for environment in (task.table(), "fourrooms", "sdil/fourrooms-v0"):
        assert isinstance(simulator(environment, 2, 0, spaces), TableSimulator)
    with pytest.raises(InputError, match="the demonstrations have observation space"):
        simulator("doorkey-5x5", 2, 0, spaces)
    with pytest.raises(InputError, match="no task or Gymnasium environment"):
        simulator("nowhere", 2, 0, spaces)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Taxi-v3", r"^cannot make the environment 'Taxi-v3': .*deprecated.* `Taxi-v4` instead\.$"),
        ("CartPole-v7", r"^cannot make the environment 'CartPole-v7': .*versioned environments"),
        ("cartpole-v1", r"environment 'cartpole-v1' \(.* Did you mean: `CartPole`\?\); ours are "),
        ("nowhere-v0", r"^there is no task or Gymnasium environment 'nowhere-v0'; ours are sdil/"),
        ("nowhere/x-v0", r"^there is no task or Gymnasium environment 'nowhere/x-v0'; ours are "),
        ("", r"^there is no task or Gymnasium environment ''; ours are sdil/"),
    ],
)
def test_why_there_is_no_such_environment_is_gymnasiums_to_say(name, message):
    with pytest.raises(InputError, match=message):
        environment_maker(name)


@pytest.mark.parametrize("name", [None, "fourrooms", "sdil/sepsis-v0", "doorkey-5x5"])
def test_a_file_may_name_our_environments(name):
    assert trusted_environment(name, Path("sdil.json")) == name


@pytest.mark.parametrize(
    "name",
    ["evilmod:x-v0", "evilmod:sdil/fourrooms-v0", "CartPole-v1", "sdil/none-v0", "", 5, ["sepsis"]],
)
def test_a_file_may_name_no_others(name):
    with pytest.raises(InputError, match=r"^sdil\.json names the environment .* not one of ours"):
        trusted_environment(name, Path("sdil.json"))


def test_what_to_type_is_harmless():
    with pytest.raises(InputError) as error:
        trusted_environment("x; rm -rf\x1b[2J ~", Path("sdil.json"))
    assert str(error.value).endswith("pass --env 'x; rm -rf\\x1b[2J ~'")


def _spaces(name):
    env = gym.make(name)
    return Spaces(env.observation_space, env.action_space)
