"""Rows of a file are asked for while they must be waited for, and only then."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch

import sdil
from sdil import fetching
from sdil.fetching import Fetching
from sdil.windows import Windows

pytestmark = pytest.mark.skipif(
    fetching._waits() < 0 or not hasattr(mmap, "MADV_WILLNEED"),
    reason="only Linux says what had to be waited for",
)


class Map:
    """Stands for a map, and notes what it is asked for."""

    def __init__(self):
        self.asked = []

    def madvise(self, advice, first, size):
        assert advice == mmap.MADV_WILLNEED
        assert first % mmap.PAGESIZE == 0
        self.asked.append((first, size))


@pytest.fixture
def mapped(tmp_path):
    """An array in a file, which begins within a page."""
    values = np.random.default_rng(0).integers(0, 256, (500, 1000), np.uint8)
    path = tmp_path / "rows"
    path.write_bytes(bytes(5000) + values.tobytes())
    array = np.asarray(np.memmap(path, np.uint8, "r", 5000, values.shape))
    np.testing.assert_array_equal(array, values)
    return array


def watched(array, monkeypatch):
    fetch, faults = Fetching(array), [0]
    fetch._map = Map()
    fetch._faults = 0
    monkeypatch.setattr(fetching, "_waits", lambda: faults[0])
    return fetch, faults


def covers(asked, begin, row, size=1000):
    first, last = begin + row * size, begin + (row + 1) * size
    return any(a <= first and last <= a + n for a, n in asked)


@pytest.mark.parametrize("part", [slice(None), slice(7, 300)])
@pytest.mark.parametrize("before", [0, 3])
def test_rows_are_asked_for(mapped, monkeypatch, part, before):
    array = mapped[part]
    fetch, _ = watched(array, monkeypatch)
    rows = np.array([250, 5, 30, 31, 32, 90, 5])
    fetch(rows, before)
    begin = 5000 % mmap.ALLOCATIONGRANULARITY + 1000 * (part.start or 0)
    for row in (5, 30, 31, 32, 90, 250):
        for back in range(before + 1):
            assert covers(fetch._map.asked, begin, row - back)
    assert len(fetch._map.asked) == 4  # rows side by side are one stretch
    for _ in range(7):
        fetch._map.asked.clear()
        fetch(rows, before)
    assert not covers(fetch._map.asked, begin, 5)  # one now and then is left out, to see
    assert covers(fetch._map.asked, begin, 30)


def test_it_stops_where_nothing_is_waited_for_and_begins_again(mapped, monkeypatch):
    fetch, faults = watched(mapped, monkeypatch)
    rows = np.arange(0, 500, 5)

    def asked():
        fetch._map.asked.clear()
        fetch(rows)
        return bool(fetch._map.asked)

    assert [asked() for _ in range(20)] == [True] * 16 + [False] * 4
    faults[0] += 2  # two of a hundred rows: not worth it
    assert not asked()
    faults[0] += 50
    assert [asked() for _ in range(18)] == [True] * 16 + [False] * 2
    faults[0] += 50
    for i in range(40):
        assert asked()
        faults[0] += i % 8 == 0  # the one that is left out


def test_arrays_in_memory_are_left_alone(monkeypatch):
    fetch = Fetching(np.zeros((10, 3)))
    assert not fetch.lies_in_file
    fetch(np.arange(10))


def test_windows_of_a_folder_are_what_they_were_in_memory(tmp_path):
    random = np.random.default_rng(0)
    episodes = [
        sdil.Trajectory(
            random.integers(0, 256, (n + 1, 16, 16, 3), np.uint8), random.integers(0, 3, n)
        )
        for n in (30, 12, 25)
    ]
    demos = sdil.Demonstrations(episodes[:1], episodes[1:])
    sdil.save_demonstrations(demos, tmp_path / "x")
    sets = [demos.all, sdil.load_demonstrations(tmp_path / "x").all]
    kept, mapped = (Windows(some, look_back=2) for some in sets)
    for index in torch.arange(len(kept)).split(16):
        for name in ("state", "past_states", "past_actions", "mask"):
            assert torch.equal(getattr(kept.at(index), name), getattr(mapped.at(index), name))
        for one, other in zip(
            kept.next_states_at(index), mapped.next_states_at(index), strict=True
        ):
            assert torch.equal(one, other)
