"""Observations of several parts: rows of bytes, and back."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
import torch

import sdil
from sdil.errors import InputError
from sdil.observations import (
    has_images,
    is_vector,
    nest_parts,
    observation_shape,
    observation_type,
    pack_observations,
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
