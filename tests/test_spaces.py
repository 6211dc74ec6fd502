"""Spaces are written down and read again; values are held against them."""

from __future__ import annotations

import json
import re

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdil import InputError, Spaces
from sdil.spaces import (
    cast_fault,
    element_shape,
    element_type,
    find_fault,
    find_loss,
    infer_action,
    infer_box,
    infer_spaces,
    require_known_actions,
    require_vectors,
    require_vectors_and_discrete_actions,
    stored_space,
)

BOX = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
UNIT = gym.spaces.Box(0, 1, (1,), np.float32)
BOX_OF_ONE = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
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


@pytest.mark.slow
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
        (np.zeros((0, 2), np.int64), np.float32, None),
        (np.zeros((0, 2), np.uint8), np.float16, None),
        (np.zeros((0, 2), bool), np.float32, None),
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


NUMBERS = (np.uint8, np.int16, np.int64, np.float16, np.float32, np.float64)


def boxes():
    @st.composite
    def draw(pick):
        number = pick(st.sampled_from(NUMBERS))
        shape = tuple(pick(st.lists(st.integers(1, 3), max_size=2)))
        size = int(np.prod(shape))
        ends = st.integers(0, 9) if np.dtype(number).kind == "u" else st.integers(-9, 9)
        low = pick(st.lists(ends, min_size=size, max_size=size))
        high = [v + pick(st.integers(0, 3)) for v in low]
        if np.dtype(number).kind == "f":
            low = [-np.inf if pick(st.booleans()) else v for v in low]
            high = [np.inf if pick(st.booleans()) else v for v in high]
        return gym.spaces.Box(
            np.array(low, number).reshape(shape),
            np.array(high, number).reshape(shape),
            shape,
            number,
        )

    return draw()


@given(boxes())
def test_any_box_is_written_down_and_read_again(space):
    spaces = Spaces(space, gym.spaces.Tuple([space, gym.spaces.Dict({"z": space})]))
    again = Spaces.from_json(json.loads(json.dumps(spaces.to_json())))
    assert again == spaces
    assert again.observation.dtype == space.dtype


@given(box=boxes(), data=st.data())
def test_the_first_value_outside_is_found_as_looking_at_each_finds_it(box, data):
    n = data.draw(st.integers(0, 4))
    kind = np.dtype(box.dtype).kind
    values = st.integers(0, 12) if kind == "u" else st.integers(-12, 12)
    if kind == "f":
        values = st.one_of(values, st.sampled_from([np.nan, np.inf, -np.inf, 0.5]))
    size = n * int(np.prod(box.shape))
    flat = data.draw(st.lists(values, min_size=size, max_size=size))
    given_ = np.array(flat, box.dtype).reshape(n, *box.shape)
    expected = next(
        (
            at
            for at in np.ndindex(given_.shape)
            if not (np.isfinite(given_[at]) and box.low[at[1:]] <= given_[at] <= box.high[at[1:]])
        ),
        None,
    )
    found = find_fault(given_, box)
    assert (found if found is None else found[0]) == expected
    if found is not None:
        value = given_[expected]
        what = f"lies outside {box}" if np.isfinite(value) else "is not a finite number"
        at = f" element {expected[1:]}" if box.shape else ""
        assert found[1] == f"{at} = {value} {what}"


def test_faults_beyond_the_first_block_are_numbered_right():
    values = np.zeros((65_536 + 3, 1))
    box = gym.spaces.Box(-1, 1, (1,), np.float64)
    assert find_fault(values, box) is None
    for row in (65_535, 65_536, 65_538):
        values[:] = 0
        values[row:] = 2
        assert find_fault(values, box)[0] == (row, 0)


@pytest.mark.parametrize(
    ("values", "space", "place"),
    [
        ([[0, 0.5], [1, 0.5]], gym.spaces.Tuple([gym.spaces.Discrete(2), UNIT]), None),
        ([[0, 0.5], [0.5, 0.5]], gym.spaces.Tuple([gym.spaces.Discrete(2), UNIT]), (1, 0)),
        ([[0, 0.5], [2, 0.5]], gym.spaces.Tuple([gym.spaces.Discrete(2), UNIT]), (1, 0)),
        ([[0, 1.5], [2, 0.5]], gym.spaces.Tuple([gym.spaces.Discrete(2), UNIT]), (0, 1)),
        ([[np.nan, 1.5]], gym.spaces.Tuple([gym.spaces.Discrete(2), UNIT]), (0, 0)),
        (np.array([[0, 2], [1, 3]]), gym.spaces.MultiDiscrete([2, 3]), (1, 1)),
        (np.array([[0, 1], [2, 1]]), gym.spaces.MultiBinary(2), (1, 0)),
        (np.array([5, 6, 4]), gym.spaces.Discrete(2, start=5), (2,)),
        (np.array([5, 7]), gym.spaces.Discrete(2, start=5), (1,)),
        (np.array([[0], [255]], np.uint8), gym.spaces.Box(0, 255, (1,), np.uint8), None),
        (np.array([[0], [255]], np.uint8), gym.spaces.Box(0, 254, (1,), np.uint8), (1, 0)),
        (np.array([[0], [255]], np.uint8), gym.spaces.Box(1, 255, (1,), np.uint8), (0, 0)),
        (np.array([[0], [256]]), gym.spaces.Box(0, 255, (1,), np.uint8), (1, 0)),
    ],
)
def test_faults_of_every_kind_of_space(values, space, place):
    found = find_fault(np.asarray(values), space)
    assert (found if found is None else found[0]) == place


@pytest.mark.parametrize(
    ("values", "space", "place", "what"),
    [
        (np.array([0.0, 2.0]), gym.spaces.Discrete(3), None, ""),
        (np.array([0.0, 1.5]), gym.spaces.Discrete(3), (1,), r" 1\.5 is not a whole number, but"),
        (np.array([0.0, 3.0]), gym.spaces.Discrete(3), (1,), r" = 3\.0 lies outside Discrete"),
        (np.array([0, 3]), gym.spaces.Discrete(3), (1,), " = 3 lies outside"),
        (np.array([[0.5], [1e39]]), BOX_OF_ONE, (1, 0), r" element \(0,\) = 1e\+39 cannot be kept"),
        (np.array([[2**24 + 1]]), BOX_OF_ONE, (0, 0), "cannot be kept in float32"),
        (np.array([[0.5], [7e30]]), BOX_OF_ONE, None, ""),
        (np.array([[300]]), gym.spaces.Box(0, 255, (1,), np.uint8), (0, 0), "= 300 lies outside"),
        (np.array([[0.5]]), gym.spaces.Box(0, 255, (1,), np.uint8), (0, 0), "not a whole number"),
    ],
)
def test_what_a_type_cannot_keep(values, space, place, what):
    found = cast_fault(values, space)
    assert (found if found is None else found[0]) == place
    if found is not None:
        assert re.search(what, found[1])


@given(
    st.lists(
        st.one_of(
            st.integers(1 - 2**63, 2**63 - 1),
            st.sampled_from([2**24, 2**24 + 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**62)]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_a_whole_number_is_lost_exactly_where_its_float_is_another(values, number):
    def stays(value):
        with np.errstate(over="ignore"):
            kept = float(number(value))
        return np.isfinite(kept) and int(kept) == value

    expected = next((i for i, v in enumerate(values) if not stays(v)), None)
    found = find_loss(np.array(values), np.dtype(number))
    assert (found if found is None else found[0][0]) == expected
    if found is not None:
        wider = "np.int64" if number is np.float64 else "np.float64"
        assert found[1] == (
            f" = {values[expected]} cannot be kept in {np.dtype(number)}; give spaces with a Box "
            f"of dtype {wider}"
        )


WRITTEN = {
    "Discrete": gym.spaces.Discrete(3, start=1, dtype=np.int32),
    "Box": gym.spaces.Box(np.array([0.0, 1.0]), np.array([2.0, 2.0]), dtype=np.float64),
    "MultiDiscrete": gym.spaces.MultiDiscrete([2, 3]),
    "MultiBinary": gym.spaces.MultiBinary([2, 3]),
    "Tuple": gym.spaces.Tuple([gym.spaces.Discrete(2), BOX]),
    "Dict": gym.spaces.Dict({"a": BOX}),
}


def refusal(value) -> str | None:
    """What is said against these spaces; None where they are read."""
    try:
        Spaces.from_json(value)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize("which", ["observation", "action"])
def test_any_field_that_is_wrong_or_missing_is_one_error(kind, which):
    """Whatever stands there instead, it is a space or an error that names observation or action."""
    sound = Spaces(WRITTEN[kind], WRITTEN[kind]).to_json()
    for key in sound[which]:
        without = {k: v for k, v in sound[which].items() if k != key}
        if (kind, key) != ("Discrete", "dtype"):
            with pytest.raises(InputError, match=f"^the {which} space: '{key}' is missing$"):
                Spaces.from_json(sound | {which: without})
        for wrong in (None, True, -1, 1.5, "x", [], [-1], [None], [[]], {}, ["nan"], {"a": 1}):
            said = refusal(sound | {which: sound[which] | {key: wrong}})
            assert said is None or said.startswith(f"the {which} space: ")
    for name in ("observation", "action"):
        fewer = {k: v for k, v in sound.items() if k != name}
        with pytest.raises(InputError, match=f"^the {name} space: '{name}' is missing"):
            Spaces.from_json(fewer)
    with pytest.raises(InputError, match="the spaces are not an object"):
        Spaces.from_json([sound])


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("Discrete", {"n": True}, "`n` is not a whole number"),
        ("Discrete", {"n": 2.0}, "`n` is not a whole number"),
        ("Discrete", {"start": "1"}, "`start` is not a whole number"),
        ("Box", {"shape": [2.0]}, "`shape` is not a whole number"),
        ("Box", {"shape": [True, 2]}, "`shape` is not a whole number"),
        ("Box", {"shape": [-2, -1]}, "is negative or too large"),
        ("Box", {"low": ["3.0"]}, "a `low` lies above its `high`"),
        ("Box", {"low": ["0.0", "2.5"]}, "a `low` lies above its `high`"),
        ("Box", {"low": ["nan"]}, "a `low` or `high` is not a number"),
        ("Box", {"high": [1.0]}, "not lists of numbers written as text"),
        ("Box", {"high": "inf"}, "not lists of numbers written as text"),
        ("Box", {"type": "box"}, "its `type` is unknown"),
        ("MultiDiscrete", {"nvec": [2, 0]}, "its `nvec` is not a list of numbers from 1"),
        ("MultiBinary", {"shape": [2, -3]}, "is negative or too large"),
        ("MultiBinary", {"shape": [2**14, 2**13]}, "is negative or too large"),
        ("Tuple", {"parts": None}, "its `parts` are no list"),
        ("Dict", {"parts": {"a": 1}}, "its `parts` are no list"),
        ("Tuple", {"parts": [7]}, "it is not an object"),
    ],
)
def test_every_fault_of_a_space_is_said(kind, change, message):
    sound = Spaces(WRITTEN[kind], BOX).to_json()
    with pytest.raises(InputError, match=f"^the observation space: .*{re.escape(message)}"):
        Spaces.from_json(sound | {"observation": sound["observation"] | change})


def test_limits_on_one_another_and_of_truth_values_are_read():
    sound = Spaces(BOX, gym.spaces.Box(0, 1, (2,), bool)).to_json()
    assert sound["action"]["low"] == ["False"]
    again = Spaces.from_json(sound).action
    assert (again.low.tolist(), again.high.tolist()) == ([False, False], [True, True])
    level = {"type": "Box", "shape": [2], "dtype": "float32", "low": ["1.0"], "high": ["1.0"]}
    assert Spaces.from_json(sound | {"action": level}).action.low.tolist() == [1.0, 1.0]


def test_types_are_as_narrow_as_they_may_be():
    box = infer_box
    assert box([np.zeros((1, 2), np.int64)]).dtype == np.float32
    assert box([np.zeros((1, 2), bool)]).dtype == np.float32
    assert box([np.zeros((1, 2), np.float16)]).dtype == np.float16
    half = [np.zeros((1, 2), np.float16), np.full((1, 2), 3, np.int64)]
    assert box(half).dtype == np.float16
    assert box([half[0], np.full((1, 2), 2049)]).dtype == np.float64  # lost in half precision
    assert box([np.zeros((1, 2), np.longdouble)]).dtype == np.float64
    assert box([np.zeros((1, 2), np.int64), np.zeros((1, 2), np.uint8)]).dtype == np.float32
    assert box([np.zeros((1, 2), np.uint8), np.zeros((1, 2), np.int64)]).dtype == np.uint8
    assert infer_action([np.array([], np.int64), np.array([2])][1:]) == gym.spaces.Discrete(3)
    assert infer_action([np.array([True, False])]) == gym.spaces.Discrete(2)
    top = np.iinfo(np.int64).max
    assert infer_action([np.array([top - 1])]).n == top
    with pytest.raises(InputError, match=f"an action is {top}: number the actions from 0"):
        infer_action([np.array([0]), np.array([top])])


def test_who_needs_what_is_said_by_name():
    mixed = gym.spaces.Tuple([gym.spaces.Discrete(2), BOX])
    require_known_actions(Spaces(BOX, mixed), "bc")
    whole = gym.spaces.Tuple([BOX, gym.spaces.Box(0, 9, (2,), np.int64)])
    with pytest.raises(InputError, match=r"^bc needs actions that are counted or real"):
        require_known_actions(Spaces(BOX, whole), "bc")
    require_known_actions(Spaces(gym.spaces.Discrete(2), gym.spaces.Discrete(1)), "bc")
    with pytest.raises(InputError, match=r"give real ones as \(T, 1\), such as actions\[:, None\]"):
        require_known_actions(Spaces(BOX, gym.spaces.Box(0, 1, ())), "bc")  # of an old file
    with pytest.raises(InputError, match=r"^ppo needs discrete actions"):
        require_vectors_and_discrete_actions(Spaces(BOX, gym.spaces.MultiDiscrete([2])), "ppo")
    with pytest.raises(InputError, match=r"^ppo needs vector observations"):
        require_vectors_and_discrete_actions(
            Spaces(gym.spaces.Box(0, 1, (1, 1)), gym.spaces.Discrete(2)), "ppo"
        )
    require_vectors(Spaces(gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)), "ppo")
    assert Spaces(BOX, gym.spaces.Discrete(3)).listed == 3
    assert stored_space(BOX) is BOX
    assert stored_space(mixed).shape == (3,)
    assert str(Spaces(BOX, gym.spaces.Discrete(3))).startswith("observations Box(")
