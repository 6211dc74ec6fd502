"""HDF5 itself reads the headers that are made here, and goes on writing where they are."""

from __future__ import annotations

import os
import zlib

import gymnasium as gym
import h5py
import numpy as np
import pytest

from sdil.formats.episodes import EpisodeFile, write_episodes
from sdil.formats.hdf5_headers import SUPERBLOCK, Repeated, make_headers
from sdil.spaces import Spaces
from sdil.trajectories import Trajectory


def write(path, groups):
    """Groups with a column of numbers each, one of pairs that take no room, and one of flags."""
    rows = np.arange(groups) % 5 + 1
    values = np.arange(rows.sum(), dtype=float)
    first = SUPERBLOCK + 8 * (np.cumsum(rows) - rows)
    data = [
        Repeated("numbers", values.dtype, (), rows, first),
        Repeated("nothing", np.dtype(np.int16), (2, 0), rows, first),
        Repeated("flags", np.dtype(bool), (8,), rows, first + values.nbytes),
    ]
    names, about = [f"episode_{i}" for i in range(groups)], {"id": np.arange(groups), "n": rows}
    begin, rest = make_headers(names, data, about, SUPERBLOCK + 2 * values.nbytes)
    assert len(begin) == SUPERBLOCK
    flags = np.zeros(values.nbytes, bool)
    flags[-1:] = True
    path.write_bytes(begin + values.tobytes() + flags.tobytes() + b"".join(rest))
    return np.split(values, np.cumsum(rows)[:-1]) if groups else []


# a leaf of the tree has room for 128 names, a node for 128 leaves: 16,500 are three levels
@pytest.mark.parametrize("groups", [0, 1, 2, 128, 129, 1000, 16_500])
def test_the_library_reads_it(tmp_path, groups):
    held = write(tmp_path / "a.h5", groups)
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert sorted(file) == sorted(f"episode_{i}" for i in range(groups))
        for i in range(0, groups, max(1, groups // 500)):
            group = file[f"episode_{i}"]
            assert sorted(group) == ["flags", "nothing", "numbers"]
            assert dict(group.attrs) == {"id": i, "n": len(held[i])}
            assert group["numbers"][()].tolist() == held[i].tolist()
            assert (group["nothing"].shape, group["nothing"].dtype) == ((len(held[i]), 2, 0), "i2")
            assert group["flags"].dtype == bool
            assert group["flags"][()].sum() == (i == groups - 1)
        assert "episode_" not in file
        assert f"episode_{groups}" not in file


def test_the_library_changes_it(tmp_path):
    held = write(tmp_path / "a.h5", 300)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        for i in range(0, 300, 2):
            file[f"episode_{i}"].attrs["said"] = "x" * 60
            file[f"episode_{i}"].create_group("infos")["score"] = np.arange(i)
        for i in range(200):  # leaves overflow and split
            file[f"more_{i}"] = i
        del file["episode_7"]
        file["episode_8/numbers"][0] = -1.0
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert len(file) == 300 + 200 - 1
        assert "episode_7" not in file
        assert file["episode_8/numbers"][0] == -1.0
        assert file["episode_298"].attrs["said"] == "x" * 60
        assert file["episode_298/infos/score"].shape == (298,)
        assert file["more_199"][()] == 199
        for i in (*range(7), *range(9, 300)):
            assert file[f"episode_{i}/numbers"][()].tolist() == held[i].tolist()


def make(length, final, random):
    return Trajectory(
        random.integers(0, 256, (length + final, 3, 5), np.uint8),
        random.normal(size=(length, 3)).astype(np.float32),
        random.normal(size=length) if final else None,
        bool(length % 2),
    )


@pytest.mark.parametrize("stopped", [0, 3])
def test_arrays_lie_where_it_is_said(tmp_path, stopped):
    """Whether it was written in one go or gone on with, and however many bytes a row has."""
    random = np.random.default_rng(0)
    episodes = [make(length, bool(length % 3), random) for length in (1, 2, 3, 8, 13)]
    spaces = Spaces(
        gym.spaces.Box(0, 255, (3, 5), np.uint8), gym.spaces.Box(-9, 9, (3,), np.float32)
    )
    path = tmp_path / "a.h5"
    with EpisodeFile(path, spaces) as file:
        for t in episodes[: stopped + 1]:
            file.append(t)
    with EpisodeFile(path, spaces, [len(t) for t in episodes[:stopped]]) as file:
        again = list(file.read_again())
        for t in episodes[stopped:]:
            file.append(t)
        places = file.finish()
    assert [a[1].tolist() for a in again] == [t.actions.tolist() for t in episodes[:stopped]]
    names = ("observations", "actions", "rewards", "terminations")
    with h5py.File(path, "r") as file:
        for i, t in enumerate(episodes):
            group = file[f"episode_{i}"]
            found = [group[name].id.get_offset() for name in names]
            assert places[i].tolist() == [len(t), *found]
            seen = group["observations"][()]
            assert seen[: len(t.observations)].tolist() == t.observations.tolist()
            assert seen[-1].tolist() == t.observations[-1].tolist()
            assert len(seen) == len(t) + 1
            assert group["actions"][()].tolist() == t.actions.tolist()
            np.testing.assert_array_equal(
                group["rewards"][()], np.full(len(t), np.nan) if t.rewards is None else t.rewards
            )
            assert group["terminations"][()].sum() == t.terminated == group["terminations"][-1]
            assert group["truncations"][()].sum() == (not t.terminated)
            assert group["truncations"][-1] != group["terminations"][-1]


@pytest.mark.parametrize("most", [1, 7, 100, 5000])
def test_what_the_system_takes_in_part_is_written_whole(tmp_path, monkeypatch, most):
    random, usual = np.random.default_rng(0), os.pwritev
    episodes = [make(length, bool(length % 3), random) for length in (1, 2, 3, 8, 13)]
    spaces = Spaces(
        gym.spaces.Box(0, 255, (3, 5), np.uint8), gym.spaces.Box(-9, 9, (3,), np.float32)
    )
    places = write_episodes(episodes, spaces, tmp_path / "a.h5")[0]
    taken = lambda file, pieces, at: usual(file, [b"".join(pieces)[:most]], at)  # noqa: E731
    monkeypatch.setattr(os, "pwritev", taken)
    again, checksum = write_episodes(episodes, spaces, tmp_path / "b.h5")
    assert again.tolist() == places.tolist()
    content = (tmp_path / "b.h5").read_bytes()
    assert content == (tmp_path / "a.h5").read_bytes()
    assert checksum == zlib.crc32(content)


def test_what_is_shorter_than_it_was_is_not_gone_on_with(tmp_path):
    spaces = Spaces(gym.spaces.Discrete(3), gym.spaces.Discrete(3))
    with EpisodeFile(tmp_path / "a.h5", spaces) as file:
        file.append(Trajectory(np.array([0, 1, 2]), np.array([0, 1])))
    with pytest.raises(EOFError, match="shorter than what was noted"):
        EpisodeFile(tmp_path / "a.h5", spaces, [2, 2])
