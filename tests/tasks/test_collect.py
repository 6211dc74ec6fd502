from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil import InputError
from sdil.tasks.fourrooms import DECOY, GOAL


def replay(name, trajectory):
    """Does the episode happen in MiniGrid as it was recorded, from the state it starts in?"""
    table = sdil.get_task(name).table()
    everything = table.observe(np.arange(len(table)))
    env = gym.make(f"sdil/{name}-v0").unwrapped
    env.reset(seed=0)
    same = np.flatnonzero((everything == trajectory.observations[0]).all(1))
    results = []
    for state in same:  # DoorKey: several states may look alike
        env.set_state(table.states[state])
        env.step_count = 0
        seen, earned = [env.gen_obs()], []
        for action in trajectory.actions:
            observation, reward, *_ = env.step(action)
            seen.append(observation)
            earned.append(reward)
        results.append(
            np.array_equal(np.stack(seen), trajectory.observations)
            and np.allclose(earned, trajectory.rewards, atol=1e-12)
        )
    return any(results)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fourrooms", "doorkey-5x5", "doorkey-6x6"])
def test_collected_episodes_happen_in_minigrid(name):
    demos, _ = sdil.get_task(name).collect(clean=8, noisy=4, seed=3)
    assert all(replay(name, t) for t in demos.clean)
    assert all(replay(name, t) for t in demos.noisy)


def test_fourrooms_clean_reach_the_goal_and_noisy_the_decoy(fourrooms):
    demos, truth = fourrooms
    for t in demos.clean:
        assert t.terminated
        assert t.rewards[-1] > 0
        assert tuple(t.observations[-1][149:151]) == GOAL
    for t in demos.noisy:
        assert not t.terminated
        assert t.rewards.sum() == 0
        assert tuple(t.observations[-1][149:151]) == DECOY
        assert (t.observations[:, 147:149] == GOAL).all()  # the goal shown is the real one
    assert set(np.unique(demos.all.actions)) == {0, 1, 2}
    assert np.concatenate(truth.clean_good).mean() > 0.9
    assert 0.4 < np.concatenate(truth.noisy_good).mean() < 0.6


def test_doorkey_keeps_the_papers_reward_ranges_and_every_action():
    demos, _ = sdil.get_task("doorkey-5x5").collect(clean=100, noisy=30, seed=0)
    assert all(t.rewards.sum() > 0.92 for t in demos.clean)
    assert all(0.30 < t.rewards.sum() <= 0.90 for t in demos.noisy)
    actions = demos.clean.actions[demos.clean.steps()]
    counts = np.bincount(actions, minlength=7)
    assert counts[3] >= 100  # pick up
    assert counts[5] >= 100  # toggle


@pytest.mark.parametrize("name", ["fourrooms", "doorkey-5x5", "doorkey-6x6"])
def test_truth_is_the_drop_in_distance(name):
    demos, truth = sdil.get_task(name).collect(clean=5, noisy=5, seed=1)
    table = sdil.get_task(name).table()
    everything = table.observe(np.arange(len(table)))
    checked = 0
    for t, good in zip(demos.noisy, truth.noisy_good, strict=True):
        for i in range(len(t) - 1):
            here, there = ((everything == t.observations[j]).all(1) for j in (i, i + 1))
            if here.sum() == there.sum() == 1:
                drop = table.distance_to_goal[here][0] - table.distance_to_goal[there][0]
                assert good[i] == (drop == 1)
                checked += 1
    assert checked > 20


@pytest.mark.parametrize("name", ["fourrooms", "doorkey-6x6"])
def test_at_its_worst_no_step_is_good(name):
    task = sdil.get_task(name)
    demos, truth = task.collect(clean=2, noisy=20, seed=0, noise="worst")
    usual, _ = task.collect(clean=2, noisy=20, seed=0)
    assert demos.clean == usual.clean
    assert not np.concatenate(truth.noisy_good).any()
    assert np.concatenate(truth.clean_good).any()
    again, _ = task.collect(clean=2, noisy=20, seed=0, noise="worst")
    assert demos == again


@pytest.mark.parametrize("name", ["fourrooms", "doorkey-5x5"])
def test_segments_are_known_and_good_ones_are_good(name):
    demos, truth = sdil.get_task(name).collect(clean=1, noisy=60, seed=0, noise="segments")
    assert truth.segment_names == ("good", "detour", "random")
    kinds, good = np.concatenate(truth.noisy_segment), np.concatenate(truth.noisy_good)
    assert set(kinds) == {0, 1, 2}
    assert good[kinds == 0].all()
    assert good[kinds != 0].mean() < 0.6
    assert all(t.rewards.sum() > 0 for t in demos.noisy)
    for segments in truth.noisy_segment:
        assert segments[0] == 0
        assert segments[-1] == 0
    assert [len(s) for s in truth.noisy_segment] == demos.noisy.lengths.tolist()


def test_collection_follows_from_its_seed():
    task = sdil.get_task("fourrooms")
    first, again, other = (task.collect(clean=5, noisy=5, seed=s)[0] for s in (0, 0, 1))
    assert first == again
    assert first != other
    assert task.collect(clean=3, noisy=2, seed=0)[0].clean == first.clean[:3]


def test_random_steps_are_as_many_as_asked():
    task = sdil.get_task("fourrooms")
    _, perfect = task.collect(clean=50, noisy=0, seed=0, clean_random_steps=0.0)
    assert np.concatenate(perfect.clean_good).all()
    _, careless = task.collect(clean=50, noisy=0, seed=0, clean_random_steps=0.3)
    assert 0.6 < np.concatenate(careless.clean_good).mean() < 0.9


@pytest.mark.slow
def test_doorkey_8x8_is_planned_without_a_whole_table():
    task = sdil.get_task("doorkey-8x8")
    assert task.table() is None
    demos, truth = task.collect(clean=2, noisy=1, seed=0, clean_random_steps=0.0)
    assert np.concatenate(truth.clean_good).all()
    env = gym.make("sdil/doorkey-8x8-v0").unwrapped
    for t in demos.clean:
        assert t.observations.shape[1] == 151
        assert t.rewards[-1] == pytest.approx(1 - 0.9 * len(t) / env.max_steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clean": 0, "noisy": 1}, "at least 1 clean"),
        ({"clean": 1, "noisy": -1}, "at least 1 clean"),
        ({"clean": 1, "noisy": 0, "clean_random_steps": 2.0}, "between 0 and 1"),
        ({"clean": 1, "noisy": 1, "noisy_random_steps": 0.0}, "did not fit"),
    ],
)
def test_impossible_wishes_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        sdil.get_task("doorkey-5x5").collect(seed=0, **options)


def test_unknown_task():
    with pytest.raises(InputError, match="no task 'maze'; there are fourrooms"):
        sdil.get_task("maze")


@pytest.mark.parametrize("size", [5, 6, 8])
def test_environments_pass_gymnasiums_own_check(size):
    from gymnasium.utils.env_checker import check_env

    check_env(gym.make(f"sdil/doorkey-{size}x{size}-v0").unwrapped, skip_render_check=True)
    if size == 5:
        check_env(gym.make("sdil/fourrooms-v0").unwrapped, skip_render_check=True)


def test_fourrooms_can_be_seen():
    env = gym.make("sdil/fourrooms-v0", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape[2] == 3
    env.close()
