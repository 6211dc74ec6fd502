"""What was seen, by name, as the timeline shows it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil.explanation.seen import MOST, Names, names_of, what_was_seen
from sdil.tasks.mimic.preparation import action_names, observation_names


def demos_of(width=3, rewards=True):
    rng = np.random.default_rng(0)

    def one(n):
        seen = rng.random((n + 1, width), np.float32)
        seen[:, 0] = 1.0  # it never varies
        paid = np.arange(n, dtype=float) if rewards else None
        return sdil.Trajectory(seen, rng.integers(0, 2, n), paid)

    return sdil.Demonstrations([one(3)], [one(4)])


def test_features_that_vary_are_shown_and_others_can_be_chosen():
    demos = demos_of()
    seen = what_was_seen(demos, Names())
    assert seen.names == ["feature 1", "feature 2"]
    first = demos.clean[0].observations[:3, 1:]
    np.testing.assert_array_equal(seen.features[:3], first)
    np.testing.assert_array_equal(seen.rewards, [0, 1, 2, 0, 1, 2, 3])
    named = Names(("age", "heart rate", "lactate"))
    seen = what_was_seen(demos, named, show=("lactate", "0"), place=("heart rate", "lactate"))
    assert seen.names == ["lactate", "age"]
    assert seen.place_names == ["heart rate", "lactate"]
    np.testing.assert_array_equal(seen.place[:3], first)
    with pytest.raises(sdil.InputError, match="no feature is called 'pulse'; there are age"):
        what_was_seen(demos, named, show=("pulse",))
    with pytest.raises(sdil.InputError, match="a place is two features, not 1"):
        what_was_seen(demos, named, place=("age",))


def test_many_features_without_names_are_left_to_the_picture():
    demos = demos_of(MOST + 5, rewards=False)
    assert what_was_seen(demos, Names(), drawn=True).features is None
    assert len(what_was_seen(demos, Names()).names) == MOST
    assert what_was_seen(demos, Names()).rewards is None


def test_names_come_with_the_data_or_from_the_task():
    demos = demos_of()
    about = {"names": {"observation": ["a", "b", "c"], "action": ["left", "right"]}}
    found = names_of(about, demos.spaces)
    assert (found.observation, found.action) == (("a", "b", "c"), ("left", "right"))
    found = names_of({"names": {"observation": ["a"], "action": []}}, demos.spaces)
    assert (found.observation, found.action) == ((), ())
    box = gym.spaces.Box(-1, 1, (len(observation_names()),), np.float32)
    spaces = sdil.Spaces(box, gym.spaces.Discrete(25))
    found = names_of({"task": "mimic"}, spaces)
    assert found.action[16] == "fluids 3, vasopressors 1"
    assert len(found.observation) == len(observation_names())
    assert len(set(action_names())) == 25
