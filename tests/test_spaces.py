"""Spaces are written down and read again; values are held against them."""

from __future__ import annotations

import json
import re

import gymnasium as gym
import numpy as np
import pytest

from sdil import InputError, Spaces
from sdil.spaces import (
    element_shape,
    element_type,
    find_fault,
    find_loss,
    infer_spaces,
    require_vectors,
    require_vectors_and_discrete_actions,
)

BOX = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
BOUNDED = gym.spaces.Box(np.array([0.0, 1.0]), np.array([2.0, 2.0]), dtype=np.float64)


@pytest.mark.parametrize(
    "space",
    [
        BOX,
        gym.spaces.Box(-1, 1, (3,), np.float64),
        gym.spaces.Box(np.array([0.1, -np.inf]), np.array([1 / 3, np.inf]), dtype=np.float64),
        gym.spaces.Box(0, 255, (2, 3), np.uint8),
        gym.spaces.Box(np.array([0.0, 2.0]), np.array([1.0, 2.0]), dtype=np.float64),
        gym.spaces.Box(0, 1, (2,), np.bool_),
        gym.spaces.Discrete(5),
        gym.spaces.Discrete(3, start=2),
        gym.spaces.Discrete(3, dtype=np.int32),
        gym.spaces.MultiDiscrete([2, 3], dtype=np.int64),
        gym.spaces.MultiDiscrete([[2, 3], [4, 5]], dtype=np.int32, start=[[0, 1], [2, 3]]),
        gym.spaces.MultiBinary(4),
        gym.spaces.MultiBinary([2, 3]),
        gym.spaces.MultiBinary(1),
        gym.spaces.MultiDiscrete([1, 2]),
        gym.spaces.Tuple([gym.spaces.Discrete(2), BOX]),
        gym.spaces.Dict({"b": gym.spaces.Discrete(2), "a": BOX}),
    ],
    ids=str,
)
def test_a_space_is_written_down_and_read_again(space):
    spaces = Spaces(BOX, space)
    again = Spaces.from_json(json.loads(json.dumps(spaces.to_json())))
    assert again == spaces
    assert again.action.dtype == space.dtype
    if isinstance(space, gym.spaces.Dict):
        assert list(again.action.spaces) == list(space.spaces)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "MultiBinary", "shape": [0]}, "`shape` [0] is negative or too large"),
        ({"type": "MultiBinary", "shape": [2**27]}, "negative or too large"),
        ({"type": "MultiBinary", "shape": [True]}, "`shape` is not a whole number"),
        ({"type": "MultiBinary", "shape": [2.0]}, "`shape` is not a whole number"),
        ({"type": "MultiDiscrete", "nvec": [0], "start": [0], "dtype": "int64"}, "numbers from 1"),
        ({"type": "Tuple", "parts": {}}, "`parts` are no list"),
        ({"type": "Box", "shape": [-1], "dtype": "float32"}, "negative or too large"),
        ({"type": "Box", "shape": [2**13, 2**14], "dtype": "float32"}, "negative or too large"),
        ({"type": "Box", "shape": 3, "dtype": "float32"}, "`shape` is no list"),
        ({"type": "Text"}, "its `type` is unknown"),
        (7, "it is not an object"),
        ({"type": "Discrete", "n": 3}, "'start' is missing"),
    ],
)
def test_what_is_no_space_is_refused(change, message):
    about = Spaces(BOX, gym.spaces.Discrete(2)).to_json()
    with pytest.raises(InputError, match=f"^the action space: .*{re.escape(message)}"):
        Spaces.from_json(about | {"action": change})


def test_limits_that_are_all_the_same_are_written_once():
    about = Spaces(BOX, BOUNDED).to_json()
    assert (about["observation"]["low"], about["observation"]["high"]) == (["-inf"], ["inf"])
    assert (about["action"]["low"], about["action"]["high"]) == (["0.0", "1.0"], ["2.0"])


def test_an_empty_shape_and_the_largest_are_read():
    for shape in ([], [0], [2**26]):
        box = {"type": "Box", "shape": shape, "dtype": "int8", "low": ["0"], "high": ["1"]}
        found = Spaces.from_json({"observation": box, "action": box})
        assert list(found.action.shape) == shape
    binary = {"type": "MultiBinary", "shape": [2**26]}
    assert Spaces.from_json({"observation": binary, "action": binary}).action.shape == (2**26,)


def test_elements_are_kept_in_shape_and_type():
    assert element_shape(gym.spaces.Discrete(3)) == ()
    assert element_shape(gym.spaces.MultiBinary([2, 3])) == (2, 3)
    assert element_shape(BOX) == (2,)
    assert element_type(BOX) == np.float32
    assert element_type(gym.spaces.Discrete(3)) == np.int64
    mixed = gym.spaces.Tuple([gym.spaces.Discrete(2), BOX])
    assert element_shape(mixed) == (3,)


@pytest.mark.parametrize(
    ("actions", "space"),
    [
        ([np.array([0, 4])], gym.spaces.Discrete(5)),
        ([np.array([0.0, 2.0])], gym.spaces.Discrete(3)),
        ([np.array([-3, -1])], gym.spaces.Discrete(1)),
        ([np.array([0.0, 2.5])], gym.spaces.Box(-np.inf, np.inf, (), np.float64)),
        ([np.array([0.0, -1.0])], gym.spaces.Box(-np.inf, np.inf, (), np.float64)),
        ([np.array([2.0**31])], gym.spaces.Box(-np.inf, np.inf, (), np.float64)),
        ([np.array([2.0**31 - 1])], gym.spaces.Discrete(2**31)),
        ([np.array([[0, 1]])], gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)),
        ([np.array([[2**24 + 1]])], gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)),
    ],
)
def test_actions_are_counted_or_measured(actions, space):
    assert infer_spaces([np.zeros((2, 1))], actions).action == space


def test_pictures_stay_bytes_unless_some_are_not():
    bytes_, floats = np.zeros((2, 4), np.uint8), np.zeros((2, 4), np.float32)
    action = [np.array([0])]
    assert infer_spaces([bytes_], action).observation == gym.spaces.Box(0, 255, (4,), np.uint8)
    assert infer_spaces([bytes_, floats], action).observation.dtype == np.float32
    assert infer_spaces([floats, floats.astype(np.float64)], action).observation.dtype == float


@pytest.mark.parametrize(
    ("values", "number", "row"),
    [
        (np.array([2**24]), np.float32, None),
        (np.array([0, 2**24 + 1]), np.float32, 1),
        (np.array([-(2**24) - 1]), np.float32, 0),
        (np.array([2**63], np.uint64), np.float64, None),
        (np.array([2**64 - 1], np.uint64), np.float64, 0),
        (np.array([2**63 - 1]), np.float64, 0),
        (np.array([0.1]), np.float32, None),
        (np.array([1.0, 1e39]), np.float32, 1),
        (np.array([16_777_217.0]), np.float32, 0),
        (np.array([0.5, 16_777_217.0]), np.float32, None),  # measured, not counted
        (np.array([2.0**53 + 2]), np.float32, None),
        (np.array([True]), np.float32, None),
        (np.zeros((0, 2)), np.float32, None),
        (np.array([np.inf]), np.float32, None),
    ],
)
def test_whole_numbers_must_stay_what_they_are(values, number, row):
    found = find_loss(values, np.dtype(number))
    if row is None:
        assert found is None
    else:
        assert found[0][0] == row
        assert "cannot be kept" in found[1]


def test_faults_are_found_at_limits_and_not_within():
    box = gym.spaces.Box(np.array([0.0, -np.inf]), np.array([1.0, 2.0]), dtype=np.float64)
    assert find_fault(np.array([[0.0, -9e9], [1.0, 2.0]]), box) is None
    assert find_fault(np.array([[0.5, 0.0], [1.5, 0.0]]), box)[0] == (1, 0)
    assert find_fault(np.array([[0.5, 2.5]]), box)[0] == (0, 1)
    assert find_fault(np.array([[-0.5, 0.0]]), box)[0] == (0, 0)
    assert "not a finite number" in find_fault(np.array([[0.5, np.nan]]), box)[1]
    below = gym.spaces.Box(np.array([0.0]), np.array([np.inf]), dtype=np.float64)
    assert find_fault(np.array([[-1.0]]), below)[0] == (0, 0)
    above = gym.spaces.Box(np.array([-np.inf]), np.array([0.0]), dtype=np.float64)
    assert find_fault(np.array([[1.0]]), above)[0] == (0, 0)
    assert find_fault(np.array([3]), gym.spaces.Discrete(3))[0] == (0,)
    assert find_fault(np.array([2]), gym.spaces.Discrete(3)) is None
    assert find_fault(np.array([1]), gym.spaces.Discrete(2, start=2))[0] == (0,)


def test_networks_take_vectors_and_actions_that_are_counted_or_real():
    require_vectors(Spaces(BOX, gym.spaces.Discrete(3)), "bc")
    require_vectors(Spaces(BOX, BOX), "bc")
    require_vectors(Spaces(BOX, gym.spaces.MultiDiscrete([2, 3])), "bc")
    require_vectors_and_discrete_actions(Spaces(BOX, gym.spaces.Discrete(3)), "bc")
    with pytest.raises(InputError, match="bc needs discrete actions"):
        require_vectors_and_discrete_actions(Spaces(BOX, BOX), "bc")
    with pytest.raises(InputError, match="count from 0"):
        require_vectors(Spaces(BOX, gym.spaces.Discrete(3, start=1)), "bc")
    with pytest.raises(InputError, match="counted or real"):
        require_vectors(Spaces(BOX, gym.spaces.Box(0, 9, (2,), np.int64)), "bc")
    with pytest.raises(InputError, match="vector observations"):
        require_vectors(Spaces(gym.spaces.Box(0, 1, (2, 2)), gym.spaces.Discrete(2)), "bc")
    with pytest.raises(InputError, match="vector observations"):
        require_vectors(Spaces(gym.spaces.Discrete(2), gym.spaces.Discrete(2)), "bc")
    assert Spaces(BOX, gym.spaces.Discrete(3)).listed == 3
    assert Spaces(BOX, BOX).listed == 0
