"""Frames in a folder: mapped, not read; whole for Minari; and no damage goes unseen for good."""

from __future__ import annotations

import gymnasium as gym
import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from minari import MinariDataset

import sdil
from sdil.errors import InputError
from sdil.formats import mapped, mapping
from sdil.formats.checksums import ABOUT
from sdil.formats.folder import describe
from sdil.observations import nest_parts, unpack_observations

PICTURE = gym.spaces.Box(0, 255, (8, 9, 3), np.uint8)
PARTS = gym.spaces.Dict(
    {
        "camera": PICTURE,
        "robot": gym.spaces.Dict(
            {
                "joints": gym.spaces.Box(-9, 9, (3,), np.float32),
                "nothing": gym.spaces.Box(-1, 1, (0,), np.float32),
                "depth": gym.spaces.Box(0, 1, (2, 2), np.float64),
            }
        ),
    }
)
LENGTHS = {"a": 3, "b": 1, "c": 150, "d": 7}


def sample(space, n, random):
    if isinstance(space, gym.spaces.Dict):
        return {key: sample(part, n, random) for key, part in space.spaces.items()}
    if space.dtype == np.uint8:
        return random.integers(0, 256, (n, *space.shape), np.uint8)
    return random.uniform(0, 1, (n, *space.shape)).astype(space.dtype)


def make(space, noisy=2, seed=0):
    """Episodes with and without a final observation and rewards."""
    random = np.random.default_rng(seed)
    episodes = [
        sdil.Trajectory(
            sample(space, n + (i != 1), random),
            random.integers(0, 4, n),
            random.normal(size=n) if i != 2 else None,
            bool(i % 2),
            name,
            "someone" if i == 3 else None,
        )
        for i, (name, n) in enumerate(LENGTHS.items())
    ]
    cut = len(episodes) - noisy
    spaces = sdil.Spaces(space, gym.spaces.Discrete(4))
    return sdil.Demonstrations(episodes[:cut], episodes[cut:], spaces)


@pytest.fixture(params=[PICTURE, PARTS], ids=["picture", "parts"])
def space(request):
    return request.param


@pytest.mark.parametrize("noisy", [0, 2])
def test_what_is_loaded_is_what_was_saved(tmp_path, space, noisy):
    demos = make(space, noisy)
    sdil.save_demonstrations(demos, tmp_path / "x")
    again = sdil.load_demonstrations(tmp_path / "x", check=True)
    assert again == demos
    assert again.spaces == demos.spaces
    assert again.fingerprint() == demos.fingerprint() == describe(tmp_path / "x")["fingerprint"]
    assert again.fingerprint(rewards=False) == demos.fingerprint(rewards=False)
    sdil.save_demonstrations(again, tmp_path / "y")  # from the map
    assert sdil.load_demonstrations(tmp_path / "y") == demos
    assert not list(tmp_path.rglob("*.part"))


def test_one_map_holds_both_sets_and_nothing_is_copied(tmp_path, space):
    sdil.save_demonstrations(make(space), tmp_path / "x")
    demos = sdil.load_demonstrations(tmp_path / "x")
    whole = demos.all.observations
    assert isinstance(whole.base, np.memmap)
    split = sdil.load_demonstrations(tmp_path / "x").take_clean(1, seed=0)
    assert isinstance(split.clean.observations.base, np.memmap)
    for some in (demos.clean, demos.noisy, demos.clean_only().clean, demos.noisy[1:], demos.all):
        assert some.observations is whole
        assert np.shares_memory(some[0].observations, whole)
    (one, two, *_) = demos.all.blocks(4)
    assert np.shares_memory(one.observations, whole)
    assert two[0] == demos.all[len(one)]
    with pytest.raises(ValueError, match="read-only"):
        whole[0] = 0


def test_minari_opens_it(tmp_path, space):
    demos = make(space)
    sdil.save_demonstrations(demos, tmp_path / "x")
    for name, some in (("clean", demos.clean), ("noisy", demos.noisy)):
        dataset = MinariDataset(tmp_path / "x" / f"{name}-v0" / "data")
        assert dataset.observation_space == space
        for episode, t in zip(dataset.iterate_episodes(), some, strict=True):
            seen = nest_parts(space, unpack_observations(space, t.observations))
            last = episode.observations
            if not t.has_final_observation:  # Minari sees the last one twice
                last = _cut(last, len(t))
            np.testing.assert_equal(last, seen)
            np.testing.assert_array_equal(episode.actions, t.actions)
            assert episode.terminations[-1] == t.terminated
            assert episode.truncations[-1] != t.terminated
            rewards = np.full(len(t), np.nan) if t.rewards is None else t.rewards
            np.testing.assert_array_equal(episode.rewards, rewards)


def _cut(seen, n):
    return {k: _cut(v, n) for k, v in seen.items()} if isinstance(seen, dict) else seen[:n]


def test_minari_as_a_source_reads_it_too(tmp_path):
    demos = make(PARTS)
    sdil.save_demonstrations(demos, tmp_path / "x")
    source = sdil.open_source(f"minari:{tmp_path}/x/noisy-v0")
    names = [f.name for f in source.features if f.role == "image"]
    assert names == ["observations/camera"]
    seen = source.read(0, names).values["observations/camera"]
    kept = unpack_observations(PARTS, demos.noisy[0].observations)["camera"]
    np.testing.assert_array_equal(seen, kept)


def _flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("of", ["clean", "noisy"])
def test_a_changed_frame_is_seen_where_frames_are_few(tmp_path, space, of):
    folder = tmp_path / "x"
    sdil.save_demonstrations(make(space), folder)
    rows = describe(folder)["mapped"][of]
    at = 7 if of == "clean" else rows["bytes"] // 2  # the noisy file begins with clean rows
    _flip(folder / f"{of}-v0/data/main_data.hdf5", rows["begin"] + at)
    with pytest.raises(InputError, match="not what was written"):
        sdil.load_demonstrations(folder)


def test_large_sets_are_checked_but_for_their_frames(tmp_path, space, monkeypatch):
    monkeypatch.setattr(mapping, "_CHECKED_ALWAYS", 0)
    folder = tmp_path / "x"
    demos = make(space)
    sdil.save_demonstrations(demos, folder)
    file = folder / "noisy-v0/data/main_data.hdf5"
    rows = describe(folder)["mapped"]["noisy"]
    monkeypatch.setattr(mapped.Rows, "sum_up", None)  # no frame is read
    assert sdil.load_demonstrations(folder).clean == demos.clean
    monkeypatch.undo()
    monkeypatch.setattr(mapping, "_CHECKED_ALWAYS", 0)
    _flip(file, rows["begin"] + 5)
    changed = sdil.load_demonstrations(folder)
    assert changed != demos
    with pytest.raises(InputError, match="not what was written"):
        sdil.load_demonstrations(folder, check=True)
    _flip(file, rows["begin"] + 5)
    assert sdil.load_demonstrations(folder, check=True) == demos
    _flip(file, rows["begin"] + rows["bytes"] + 3)  # an action
    with pytest.raises(InputError, match="not what was written"):
        sdil.load_demonstrations(folder)


@pytest.mark.parametrize("size", [0, 100, 4096, 20_000])
def test_a_file_that_was_cut_off(tmp_path, space, size, monkeypatch):
    monkeypatch.setattr(mapping, "_CHECKED_ALWAYS", 0)
    folder = tmp_path / "x"
    sdil.save_demonstrations(make(space), folder)
    file = folder / "noisy-v0/data/main_data.hdf5"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(InputError, match="not what was written"):
        sdil.load_demonstrations(folder)


@pytest.mark.parametrize("rows", [3, {"begin": 1}, {"begin": -1, "rows": 1, "bytes": 1}])
def test_damaged_notes_of_where_rows_lie(tmp_path, rows):
    from sdil.files import read_json, write_json

    folder = tmp_path / "x"
    sdil.save_demonstrations(make(PICTURE), folder)
    about = read_json(folder / ABOUT, what="")
    about["mapped"]["noisy"] = rows
    write_json(folder / ABOUT, about)
    with pytest.raises(InputError, match=r"damaged|not what was written"):
        sdil.load_demonstrations(folder)


def test_changed_by_others_it_is_read_episode_by_episode(tmp_path, space):
    folder = tmp_path / "x"
    demos = make(space)
    sdil.save_demonstrations(demos, folder)
    with h5py.File(folder / "noisy-v0/data/main_data.hdf5", "a") as file:
        file["episode_0"].attrs["remark"] = "fine" * 30
    again = sdil.load_demonstrations(folder)
    assert again == demos
    assert not isinstance(again.all.observations.base, np.memmap)


def test_large_vectors_are_mapped_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "_LARGE", 0)
    random = np.random.default_rng(0)
    episodes = [
        sdil.Trajectory(random.normal(size=(n + 1, 3)), random.normal(size=(n, 2)))
        for n in (4, 2, 6)
    ]
    demos = sdil.Demonstrations(episodes[:2], episodes[2:])
    sdil.save_demonstrations(demos, tmp_path / "x")
    again = sdil.load_demonstrations(tmp_path / "x")
    assert isinstance(again.clean.observations.base, np.memmap)
    assert again == demos
    assert again.fingerprint() == demos.fingerprint()
    dataset = MinariDataset(tmp_path / "x/noisy-v0/data")
    np.testing.assert_array_equal(dataset[0].observations, demos.noisy[0].observations)


def test_going_on_with_a_file(tmp_path, space):
    demos = make(space)
    path, spaces = tmp_path / "a.hdf5", demos.spaces
    with mapped.MappedFile(path, spaces) as file:
        for t in demos.clean:
            file.append(t)
        finished, rows = file.finish(), file.about_rows()
    whole = path.read_bytes()
    lengths = [len(t) for t in demos.clean]
    with mapped.MappedFile(path, spaces, lengths[:1]) as file:  # headers and more are cut
        (seen, done, *_) = next(iter(file.read_again()))
        np.testing.assert_array_equal(seen, demos.clean[0].observations)
        np.testing.assert_array_equal(done, demos.clean[0].actions)
        for t in demos.clean[1:]:
            file.append(t)
        np.testing.assert_array_equal(file.finish(), finished)
        assert file.about_rows() == rows
    assert path.read_bytes() == whole
    with pytest.raises(EOFError):
        mapped.MappedFile(path, spaces, [*lengths, 10_000])


def test_many_rows_are_found_by_a_tree_of_three_levels(tmp_path):
    space = gym.spaces.Dict({"a": gym.spaces.Box(-9, 9, ()), "b": gym.spaces.Box(0, 9, (2,))})
    numbers = np.arange(5_000) % 9
    seen = {"a": numbers.astype(np.float32), "b": np.ones((5_000, 2), np.float32)}
    demos = sdil.Demonstrations(
        [sdil.Trajectory(seen, numbers[:-1])], (), sdil.Spaces(space, gym.spaces.Discrete(9))
    )
    sdil.save_demonstrations(demos, tmp_path / "x")
    (episode,) = MinariDataset(tmp_path / "x/clean-v0/data").iterate_episodes()
    np.testing.assert_array_equal(episode.observations["a"], numbers)


def test_episodes_that_lie_in_a_file_stay_there(tmp_path, space):
    sdil.save_demonstrations(make(space), tmp_path / "x")
    demos = sdil.load_demonstrations(tmp_path / "x")
    whole = demos.all.observations
    a, b, c, d = demos.all
    part = sdil.Trajectory(c.observations[40:61], c.actions[40:60], id="a part of c")
    chosen = sdil.Demonstrations([d, part], [a], demos.spaces)
    assert chosen.clean.observations is whole
    assert chosen.clean[0] == d
    assert chosen.clean[1] == part
    assert chosen.noisy[0] == a
    beside = sdil.Trajectory(b.observations.copy(), b.actions, id="b")
    mixed = sdil.Demonstrations([d, beside], [a], demos.spaces)
    assert not np.shares_memory(mixed.clean.observations, whole)
    assert mixed.clean[0] == d
    sdil.save_demonstrations(chosen, tmp_path / "y")
    assert sdil.load_demonstrations(tmp_path / "y") == chosen


def test_one_flipped_bit_anywhere_is_refused_or_changes_nothing(tmp_path, space):
    folder = tmp_path / "x"
    demos = make(space)
    sdil.save_demonstrations(demos, folder)
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size]
    random = np.random.default_rng(0)
    refused = 0
    for i in range(60):
        path = files[i % len(files)]
        content = path.read_bytes()
        at = int(random.integers(len(content)))
        if i % 2 and path.suffix == ".hdf5":  # headers, of which there are few
            at = len(content) - 1 - at % 4_000
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << i % 8]) + content[at + 1 :])
        try:
            assert sdil.load_demonstrations(folder) == demos
        except InputError:
            refused += 1
        path.write_bytes(content)
    assert refused
    assert sdil.load_demonstrations(folder) == demos


NUMBERS = [np.uint8, np.int16, np.int64, np.float32, np.float64]
SHAPES = [(), (3,), (1,), (2, 3), (9, 8), (8, 9, 3), (3, 8, 8)]


@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from(["a", "b/c", "b/d/e", "z"]), *map(st.sampled_from, (NUMBERS, SHAPES))
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda part: part[0],
    ),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    final=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_parts_there_are_survive(tmp_path_factory, parts, lengths, final, seed):
    random = np.random.default_rng(seed)
    episodes = []
    for n in lengths:
        seen = {}
        for name, number, shape in parts:
            at = seen
            *path, last = name.split("/")
            for key in path:
                at = at.setdefault(key, {})
            at[last] = random.integers(0, 200, (n + final, *shape)).astype(number)
        episodes.append(sdil.Trajectory(seen, random.integers(0, 3, n)))
    demos = sdil.Demonstrations(episodes[:1], episodes[1:])
    folder = tmp_path_factory.mktemp("parts") / "x"
    sdil.save_demonstrations(demos, folder)
    assert sdil.load_demonstrations(folder) == demos
    space = demos.spaces.observation
    (episode, *_) = MinariDataset(folder / "clean-v0/data").iterate_episodes()
    kept = nest_parts(space, unpack_observations(space, demos.clean[0].observations))
    np.testing.assert_equal(_cut(episode.observations, lengths[0] + final), kept)
