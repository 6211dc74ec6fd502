"""Observations of several parts: rows of bytes, and back."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sdil
from sdil.errors import InputError
from sdil.observations import (
    PartError,
    as_records,
    find_unseen,
    has_frames,
    has_images,
    infer_observation,
    is_packed,
    is_vector,
    nest_parts,
    observation_shape,
    observation_type,
    pack_observations,
    packed_type,
    part_of,
    parts_of,
    unpack_observations,
)

SPACE = gym.spaces.Dict(
    {
        "camera": gym.spaces.Box(0, 255, (8, 9, 3), np.uint8),
        "robot": gym.spaces.Dict(
            {
                "joints": gym.spaces.Box(-1, 1, (3,), np.float32),
                "exact": gym.spaces.Box(-np.inf, np.inf, (2,), np.float64),
                "grip": gym.spaces.Box(0, 1, (1,), bool),
            }
        ),
    }
)


def seen(n: int, seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    return {
        "camera": rng.integers(0, 256, (n, 8, 9, 3), dtype=np.uint8),
        "robot": {
            "joints": rng.uniform(-1, 1, (n, 3)).astype(np.float32),
            "exact": rng.normal(size=(n, 2)),
            "grip": rng.integers(0, 2, (n, 1)).astype(bool),
        },
    }


def episode(n: int, name: str = "", **changes: object) -> sdil.Trajectory:
    observations = {**seen(n + 1), **changes}
    return sdil.Trajectory(observations, np.arange(n) % 3, id=name)  # type: ignore[arg-type]


def test_parts_lie_at_multiples_of_eight_without_overlap() -> None:
    parts = parts_of(SPACE)
    assert [p.name for p in parts] == ["camera", "robot/exact", "robot/grip", "robot/joints"]
    assert all(p.offset % 8 == 0 for p in parts)
    for before, after in itertools.pairwise(parts):
        assert before.offset + before.n_bytes <= after.offset
    (size,) = observation_shape(SPACE)
    assert size % 8 == 0
    assert size >= parts[-1].offset + parts[-1].n_bytes
    assert observation_type(SPACE) == np.uint8


def test_packing_and_unpacking_are_inverse() -> None:
    given = seen(5)
    rows = pack_observations(SPACE, given)
    assert rows.shape == (5, *observation_shape(SPACE))
    assert rows.dtype == np.uint8
    found = unpack_observations(SPACE, rows)
    np.testing.assert_equal(nest_parts(SPACE, found), given)
    np.testing.assert_array_equal(pack_observations(SPACE, found), rows)  # names with slashes
    np.testing.assert_array_equal(pack_observations(SPACE, rows), rows)  # packed already
    apart = rows[:, ::-1].copy()[:, ::-1]  # not whole in memory
    np.testing.assert_equal(unpack_observations(SPACE, apart), found)


def test_one_observation_and_a_list_of_them() -> None:
    rows = pack_observations(SPACE, seen(4))
    singles = [nest_parts(SPACE, unpack_observations(SPACE, row)) for row in rows]
    one = pack_observations(SPACE, singles[2])
    assert one.shape == observation_shape(SPACE)
    np.testing.assert_array_equal(one, rows[2])
    np.testing.assert_array_equal(pack_observations(SPACE, singles), rows)


@pytest.mark.parametrize("n", [1, 4])
def test_torch_finds_the_same_parts_in_batches_and_windows(n: int) -> None:
    rows = pack_observations(SPACE, seen(n))
    found = unpack_observations(SPACE, rows)
    tensor = torch.from_numpy(rows)
    for part in parts_of(SPACE):
        there = part_of(tensor, part)
        np.testing.assert_array_equal(there.numpy(), found[part.name])
        assert there.numpy().dtype == part.dtype
        window = part_of(tensor[:, None].expand(-1, 2, -1), part)
        assert window.shape == (n, 2, *part.shape)
        np.testing.assert_array_equal(window[:, 1].numpy(), found[part.name])
    camera = part_of(tensor, parts_of(SPACE)[0])
    assert camera.data_ptr() == tensor.data_ptr()  # a view
    (plain,) = parts_of(gym.spaces.Box(0, 1, (3,)))
    assert part_of(tensor, plain) is tensor


@pytest.mark.parametrize(
    ("shape", "number", "is_image", "image_shape"),
    [
        ((64, 48, 3), np.uint8, True, (64, 48, 3)),
        ((3, 64, 48), np.uint8, True, (64, 48, 3)),
        ((12, 64, 64), np.uint8, True, (64, 64, 12)),
        ((64, 48), np.uint8, True, (64, 48, 1)),
        ((7, 48), np.uint8, False, (7, 48, 1)),
        ((64, 48, 3), np.float32, False, (64, 48, 3)),
    ],
)
def test_what_a_picture_is(
    shape: tuple[int, ...], number: type, is_image: bool, image_shape: tuple[int, ...]
) -> None:
    box = gym.spaces.Box(0, 255, shape, number)
    (part,) = parts_of(box)
    assert (part.is_image, part.image_shape) == (is_image, image_shape)
    assert has_images(box) == is_image
    assert not is_vector(box)


def test_vectors_are_what_they_were() -> None:
    box = gym.spaces.Box(-1, 1, (3,))
    values = np.ones((2, 3), np.float32)
    assert is_vector(box)
    assert not has_images(box)
    assert not has_images(gym.spaces.Discrete(2))
    assert pack_observations(box, values) is values
    assert unpack_observations(box, values)[""] is values


def test_demonstrations_keep_packed_rows() -> None:
    demos = sdil.Demonstrations(
        [episode(5, "a")], [episode(3, "b")], sdil.Spaces(SPACE, gym.spaces.Discrete(3))
    )
    assert demos.all.observations.shape == (10, *observation_shape(SPACE))
    np.testing.assert_equal(
        nest_parts(SPACE, unpack_observations(SPACE, demos.noisy[0].observations)), seen(4)
    )
    assert sdil.Spaces.from_json(demos.spaces.to_json()) == demos.spaces
    again = sdil.Demonstrations(demos.clean, list(demos.noisy), demos.spaces)
    assert again == demos
    assert again.fingerprint() == demos.fingerprint()


def test_spaces_are_inferred_of_every_part() -> None:
    space = sdil.Demonstrations([episode(5)]).spaces.observation
    assert isinstance(space, gym.spaces.Dict)
    assert space["camera"] == SPACE["camera"]
    assert space["robot"]["joints"].dtype == np.float32
    assert space["robot"]["exact"].dtype == np.float64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"robot": {"joints": np.zeros((6, 3))}}, "episode 'a': an observation has no part 'robot"),
        ({"camera": np.zeros((6, 8, 8, 3))}, r"episode 'a': part 'camera' .*shape \(6, 8, 8, 3\)"),
        ({"camera": np.zeros((5, 8, 9, 3))}, "episode 'a': the parts .* camera 5"),
        ({"camera": np.full((6, 8, 9, 3), 0.5)}, "'a', step 0: observation part 'camera' 0.5 is"),
        ({"camera": np.full((6, 8, 9, 3), 256)}, "'a', step 0: .*'camera' element .* = 256 lies"),
        ({"depth": np.zeros((6, 8, 9))}, "'a': observations have a part 'depth'"),
        ({"camera": [[1], [1, 2]]}, "'a': part 'camera' .* rectangular"),
    ],
)
def test_complaints_name_episode_and_part(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sdil.Demonstrations(
            [episode(5, "a", **changes)], (), sdil.Spaces(SPACE, gym.spaces.Discrete(3))
        )


def test_values_outside_a_part_are_found_at_their_step() -> None:
    given = seen(6)
    given["robot"]["joints"][4, 1] = 2.0  # type: ignore[index]
    bad = sdil.Trajectory(given, np.arange(5) % 3, id="a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"clean set, episode 'a', step 4: .*'robot/joints'.*2\.0"):
        sdil.Demonstrations([bad], (), sdil.Spaces(SPACE, gym.spaces.Discrete(3)))


def test_dictionaries_where_the_space_is_a_vector() -> None:
    spaces = sdil.Spaces(gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(3))
    with pytest.raises(InputError, match="episode 'a': observations are dictionaries"):
        sdil.Demonstrations([episode(5, "a")], (), spaces)


def test_spaces_that_are_not_kept() -> None:
    with pytest.raises(InputError, match="'mission' is not supported"):
        parts_of(gym.spaces.Dict({"mission": gym.spaces.Text(10)}))
    with pytest.raises(InputError, match="no parts"):
        parts_of(gym.spaces.Dict({}))


FLATTEN = (
    "gymnasium.wrappers.FlattenObservation makes vectors of them, or gymnasium.spaces.flatten "
    "where they are recorded"
)
ONE_HOT = (
    "gymnasium.wrappers.FlattenObservation makes them one-hot, or np.eye(3)[{}] where they are "
    "recorded"
)


@pytest.mark.parametrize(
    ("space", "advice"),
    [
        (gym.spaces.Discrete(3), ONE_HOT.format("states")),
        (gym.spaces.Discrete(3, start=2), ONE_HOT.format("states - 2")),
        (gym.spaces.Discrete(3, start=-1), ONE_HOT.format("states + 1")),
        (gym.spaces.MultiDiscrete([2, 3]), FLATTEN),
        (gym.spaces.MultiBinary(4), FLATTEN),
        (gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(0, 1, (2,))]), FLATTEN),
        (gym.spaces.Text(10), None),
        (gym.spaces.Sequence(gym.spaces.Discrete(2)), None),
        (gym.spaces.Tuple([gym.spaces.Sequence(gym.spaces.Discrete(2))]), None),
    ],
    ids=str,
)
def test_it_is_said_what_to_do_about_spaces_that_are_not_supported(space, advice) -> None:
    known = " is not supported: observations are Box, or a Dict of Box"
    with pytest.raises(InputError) as error:
        parts_of(space)
    end = "" if advice is None else f"; {advice}"
    assert str(error.value) == f"the observation space {space}{known}{end}"
    with pytest.raises(InputError) as error:
        parts_of(gym.spaces.Dict({"x": space}))
    left_out = "gymnasium.wrappers.FilterObservation leaves parts out"
    both = left_out if advice is None else f"{advice}; {left_out}"
    assert str(error.value) == f"the observation space {space} of 'x'{known}; {both}"


@pytest.mark.parametrize("recorded", [3, 5])
def test_states_that_are_numbers_are_one_hot_as_gymnasium_has_it(recorded: int) -> None:
    space = gym.spaces.Discrete(3, start=3)
    flat = gym.spaces.flatten(space, np.int64(recorded))
    np.testing.assert_array_equal(flat, np.eye(3)[np.array([recorded]) - 3][0])


@pytest.mark.parametrize(
    ("shape", "is_image", "first", "image_shape"),
    [
        ((8, 8), True, False, (8, 8, 1)),
        ((8, 7), False, False, (8, 7, 1)),
        ((7, 8), False, False, (7, 8, 1)),
        ((8, 8, 8), True, False, (8, 8, 8)),  # as long as the last: channels come last
        ((7, 8, 8), True, True, (8, 8, 7)),
        ((8, 9, 1), True, False, (8, 9, 1)),
        ((1, 8, 9), True, True, (8, 9, 1)),
        ((3, 7, 9), False, True, (7, 9, 3)),
        ((3, 9, 7), False, True, (9, 7, 3)),
        ((9, 7, 3), False, False, (9, 7, 3)),
    ],
)
def test_pictures_of_all_forms(shape, is_image, first, image_shape):
    (part,) = parts_of(gym.spaces.Box(0, 255, shape, np.uint8))
    assert (part.is_image, part.channels_first, part.image_shape) == (is_image, first, image_shape)
    assert part.n_bytes == np.prod(shape)
    (wide,) = parts_of(gym.spaces.Box(0, 255, shape, np.uint16))
    assert (wide.is_image, wide.n_bytes) == (False, 2 * np.prod(shape))


@pytest.mark.parametrize("shape", [(64,), (), (2, 16, 16, 3)])
def test_bytes_of_other_forms_are_no_pictures(shape):
    box = gym.spaces.Box(0, 255, shape, np.uint8)
    assert not parts_of(box)[0].is_image
    assert not has_images(box)
    assert is_vector(box) is (len(shape) == 1)


@pytest.mark.parametrize(
    ("space", "images", "vector", "packed", "frames"),
    [
        (gym.spaces.Box(0, 1, (3,)), False, True, False, False),
        (gym.spaces.Box(0, 1, (8, 8)), False, False, False, False),
        (gym.spaces.Box(0, 255, (8, 8), np.uint8), True, False, False, True),
        (gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (3,))}), False, False, True, True),
        (gym.spaces.Dict({"a": gym.spaces.Box(0, 255, (8, 8), np.uint8)}), True, False, True, True),
        (gym.spaces.Discrete(3), False, False, False, False),
    ],
)
def test_what_kind_of_observation_it_is(space, images, vector, packed, frames):
    found = (has_images(space), is_vector(space), is_packed(space), has_frames(space))
    assert found == (images, vector, packed, frames)


NUMBERS = (np.uint8, bool, np.int16, np.float16, np.float32, np.int64, np.float64)


@given(st.data())
def test_any_dictionary_is_packed_and_taken_apart_again(data):
    """Parts of all types and shapes, in one observation, several, and none."""
    spaces, given_ = {}, {}
    n = data.draw(st.integers(0, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for name in data.draw(st.lists(st.sampled_from("abcde"), min_size=1, unique=True)):
        number = data.draw(st.sampled_from(NUMBERS))
        shape = tuple(data.draw(st.lists(st.integers(1, 3), max_size=3)))
        high = 1 if number is bool else 100
        spaces[name] = gym.spaces.Box(0, high, shape, number)
        given_[name] = rng.integers(0, high + 1, (n, *shape)).astype(number)
    space = gym.spaces.Dict({"deep": gym.spaces.Dict(spaces)})
    parts = parts_of(space)
    assert [p.name for p in parts] == [f"deep/{name}" for name in sorted(spaces)]
    end = 0
    for part in parts:
        assert part.offset == -(-end // 8) * 8  # the next multiple of eight
        end = part.offset + part.n_bytes
    assert observation_shape(space) == (-(-end // 8) * 8,) == (packed_type(space).itemsize,)
    rows = pack_observations(space, {"deep": given_})
    assert rows.shape == (n, *observation_shape(space))
    np.testing.assert_equal(
        unpack_observations(space, rows), {f"deep/{k}": v for k, v in given_.items()}
    )
    records = as_records({"deep": given_}, "it")
    assert len(records) == n
    np.testing.assert_array_equal(pack_observations(space, records), rows)
    as_fields = {name: records[name] for name in records.dtype.names}
    wider = np.empty(n, [(name, "f8", as_fields[name].shape[1:]) for name in as_fields])
    for name, values in as_fields.items():
        wider[name] = values
    np.testing.assert_array_equal(pack_observations(space, wider), rows)  # records of other types
    covered = np.zeros(rows.shape[1:], bool)
    for part in parts:
        covered[part.offset : part.offset + part.n_bytes] = True
    assert not rows[:, ~covered].any()  # what lies between is zero
    for part in parts:
        found = part_of(torch.from_numpy(rows), part)
        np.testing.assert_array_equal(found.numpy(), given_[part.name[5:]])
    for i in range(n):
        one = {"deep": {k: v[i] for k, v in given_.items()}}
        np.testing.assert_array_equal(pack_observations(space, one), rows[i])
    assert find_unseen(rows, space) is None


SMALL = gym.spaces.Dict(
    {
        "a": gym.spaces.Box(-1, 1, (2,), np.float32),
        "b": gym.spaces.Dict({"c": gym.spaces.Box(0, 9, (), np.int64)}),
    }
)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (
            {"a": np.zeros((2, 2))},
            "an observation has no part 'b/c', which its space has; it has a",
        ),
        ({}, "an observation has no part 'a', which its space has; it has none"),
        ({"a": np.zeros((2, 2)), "b/c": np.zeros(3)}, r"leading axis: a \(2, 2\), b/c \(3,\)"),
        ({"a": np.zeros(2), "b/c": np.zeros(2)}, r"leading axis: a \(2,\), b/c \(2,\)"),
        ({"a": np.zeros((1, 2, 2)), "b/c": np.zeros(1)}, r"part 'a' of observations has shape"),
        ({"a": np.zeros((2, 3)), "b/c": np.zeros(2)}, r"part 'a' .* has shape \(2, 3\)"),
        ({"a": 0.0, "b/c": 0}, r"part 'a' of observations has shape \(\)"),
        ({"a": [["x", "y"]], "b/c": [0]}, "part 'a' of observations has shape"),
        ({"a": [[0, 0], [0]], "b/c": [0, 0]}, "part 'a' of observations has shape"),
        (
            {"a": [[0, 0]], "b/c": [0], "z": [0], "d": [0]},
            "have a part 'd', which .* it has a, b/c",
        ),
        ("a text", "are dictionaries, not str"),
        (7, "are dictionaries, not int"),
        (np.zeros((2, 5), np.uint8), "are dictionaries, not ndarray"),
        (np.zeros((2, 16), np.int8), "are dictionaries, not ndarray"),
        ([{"a": [0, 0], "b/c": 0}, {"a": [0, 0]}], "no part 'b/c'"),
    ],
)
def test_what_does_not_fit_a_dictionary_is_said(observations, message):
    with pytest.raises(InputError, match=message):
        pack_observations(SMALL, observations)


def test_values_that_a_part_cannot_keep_are_named_by_row():
    with pytest.raises(PartError, match=r"^row 1: observation part 'b/c' 0\.5 is not a whole") as e:
        pack_observations(SMALL, {"a": np.zeros((2, 2)), "b/c": [0.0, 0.5]})
    assert e.value.row == 1
    assert e.value.what.startswith(" part 'b/c' 0.5")
    with pytest.raises(PartError, match=r"^row 0: observation part 'b/c' 0\.5") as e:
        pack_observations(SMALL, {"a": np.zeros(2), "b/c": 0.5})
    assert e.value.row == 0
    with pytest.raises(
        PartError, match=r"row 1: .*part 'a' element \(1,\) = 1e\+300 cannot be kept"
    ):
        pack_observations(SMALL, {"a": [[0.5, 0], [0, 1e300]], "b/c": [0, 0]})
    rows = pack_observations(SMALL, {"a": np.zeros(2), "b/c": 3})
    assert unpack_observations(SMALL, rows)["b/c"] == 3
    assert pack_observations(SMALL, []).shape == (0, 16)
    assert pack_observations(SMALL, []).dtype == np.uint8
    assert pack_observations(SMALL, rows) is rows
    assert pack_observations(gym.spaces.Box(0, 1, (2,)), [[0, 1]]).tolist() == [[0, 1]]


def test_packed_rows_of_another_form_are_not_taken_apart():
    for rows in (np.zeros((2, 15), np.uint8), np.zeros((2, 16), np.int8), np.zeros(2, np.uint8)):
        with pytest.raises(InputError, match=r"are bytes \(n, 16\), not "):
            unpack_observations(SMALL, rows)
    every = unpack_observations(SMALL, np.zeros((3, 2, 16), np.uint8))
    assert {name: found.shape for name, found in every.items()} == {"a": (3, 2, 2), "b/c": (3, 2)}


def test_the_first_row_that_leaves_its_space_is_named_whatever_its_part():
    given_ = {"a": np.zeros((4, 2), np.float32), "b/c": np.array([0, 0, 10, 0])}
    assert find_unseen(pack_observations(SMALL, given_), SMALL) == (
        (2,),
        " part 'b/c' = 10 lies outside Box(0, 9, (), int64)",
    )
    given_["a"][3, 1] = 2
    assert find_unseen(pack_observations(SMALL, given_), SMALL)[0] == (2,)
    given_["a"][1, 0] = np.nan
    (row,), what = find_unseen(pack_observations(SMALL, given_), SMALL)
    assert (row, what) == (1, " part 'a' element (0,) = nan is not a finite number")
    plain = gym.spaces.Box(-1, 1, (2,), np.float32)
    assert find_unseen(given_["a"], plain)[0] == (1, 0)
    assert find_unseen(np.zeros((1, 2), np.float32), plain) is None


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        ({}, "^it: observations have no parts"),
        ({"a": {}}, "^it: observations have no parts"),
        ({"a": 1.0}, r"^it: part 'a' .* leading time axis, not float64 \(\)"),
        ({"a": {"b": ["x"]}}, r"^it: part 'a/b' .* rectangular array of numbers"),
        ({"a": [1], "b": [1, 2]}, "^it: the parts .* differ in their steps: a 1, b 2"),
    ],
)
def test_records_that_cannot_be_made_are_said(observations, message):
    with pytest.raises(InputError, match=message):
        as_records(observations, "it")


def test_records_are_sorted_as_spaces_are():
    records = as_records({"b": [1, 2], "a": {"z": [[1.0], [2.0]], "y": [True, False]}}, "it")
    assert records.dtype.names == ("a/y", "a/z", "b")
    assert records.dtype["a/z"].shape == (1,)
    assert records["b"].tolist() == [1, 2]
    space = infer_observation([records, records])
    assert [p.name for p in parts_of(space)] == ["a/y", "a/z", "b"]
    assert space["a"]["z"] == gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    assert infer_observation([np.zeros((2, 3))]) == gym.spaces.Box(-np.inf, np.inf, (3,), float)
    fewer = as_records({"b": [0.5]}, "it")
    assert infer_observation([records, fewer])["b"].dtype == np.float64
    assert nest_parts(space, {"a/y": 1, "a/z": 2, "b": 3}) == {"a": {"y": 1, "z": 2}, "b": 3}


def test_parts_need_names_of_their_own_and_numbers_that_are_known():
    twice = gym.spaces.Dict({"a/b": SMALL["a"], "a": gym.spaces.Dict({"b": SMALL["a"]})})
    with pytest.raises(InputError, match=r"two parts of the observation space .* the same name"):
        parts_of(twice)
    with pytest.raises(InputError, match=r"^the observation space Discrete\(3\) is not supported"):
        parts_of(gym.spaces.Discrete(3))
    long = gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (1,), np.longdouble)})
    (part,) = parts_of(long)
    if part.dtype.itemsize > 8:
        with pytest.raises(InputError, match="PyTorch has no numbers of type"):
            part_of(torch.zeros(1, part.n_bytes, dtype=torch.uint8), part)
