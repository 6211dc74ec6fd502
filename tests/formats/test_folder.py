from __future__ import annotations

import json
import os

import gymnasium as gym
import minari
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from minari import MinariDataset

import sdil
from sdil import (
    Demonstrations,
    InputError,
    Spaces,
    Trajectory,
    load_demonstrations,
    load_truth,
    save_demonstrations,
)

FLOATS = st.floats(-1e6, 1e6, width=32)


@st.composite
def trajectories(draw, name):
    length = draw(st.integers(1, 6))
    rows = length + draw(st.booleans())
    return Trajectory(
        observations=draw(hnp.arrays(np.float32, (rows, 2), elements=FLOATS)),
        actions=draw(hnp.arrays(np.int64, length, elements=st.integers(0, 4))),
        rewards=draw(st.none() | hnp.arrays(np.float64, length, elements=FLOATS)),
        terminated=draw(st.booleans()),
        id=f"{name}-{draw(st.text(max_size=4))}",
        group=draw(st.none() | st.text(max_size=3)),
    )


@st.composite
def demonstrations(draw):
    sets = [
        draw(st.lists(trajectories(name), min_size=low, max_size=3, unique_by=lambda t: t.id))
        for name, low in (("clean", 1), ("noisy", 0))
    ]
    return Demonstrations(clean=sets[0], noisy=sets[1])


@given(demonstrations())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_save_and_load_are_inverse(tmp_path_factory, demos):
    folder = tmp_path_factory.mktemp("round") / "demos"
    save_demonstrations(demos, folder)
    loaded = load_demonstrations(folder)
    assert loaded == demos
    assert loaded.fingerprint() == demos.fingerprint()


def test_continuous_actions_and_images_survive(tmp_path):
    rng = np.random.default_rng(0)
    t = Trajectory(
        observations=rng.integers(0, 255, (4, 8, 8, 3), np.uint8),
        actions=rng.normal(size=(3, 2)).astype(np.float32),
    )
    spaces = Spaces(
        gym.spaces.Box(0, 255, (8, 8, 3), np.uint8), gym.spaces.Box(-9, np.inf, (2,), np.float32)
    )
    demos = Demonstrations(clean=[t], spaces=spaces)
    save_demonstrations(demos, tmp_path / "d")
    assert load_demonstrations(tmp_path / "d") == demos


def test_minari_itself_reads_the_folder(tmp_path, fourrooms, monkeypatch):
    demos, _ = fourrooms
    save_demonstrations(demos, tmp_path / "d")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "d"))
    clean = minari.load_dataset("clean-v0")
    assert clean.total_episodes == 30
    assert clean.total_steps == demos.clean.n_steps
    first = MinariDataset(tmp_path / "d" / "noisy-v0" / "data")[0]
    np.testing.assert_array_equal(first.observations, demos.noisy[0].observations)
    np.testing.assert_array_equal(first.actions, demos.noisy[0].actions)
    assert first.truncations[-1]
    assert not first.terminations[-1]


def test_truth_lies_apart_and_comes_back(tmp_path, fourrooms):
    demos, truth = fourrooms
    save_demonstrations(demos, tmp_path / "d", truth=truth)
    loaded = load_truth(tmp_path / "d")
    assert all(
        np.array_equal(a, b) for a, b in zip(loaded.noisy_good, truth.noisy_good, strict=True)
    )
    assert [len(g) for g in loaded.clean_good] == demos.clean.lengths.tolist()
    assert loaded.noisy_segment is None
    (tmp_path / "d" / "truth.npz").unlink()
    assert load_truth(tmp_path / "d") is None
    assert load_demonstrations(tmp_path / "d") == demos


def test_the_truth_of_a_clean_set_alone_and_of_segments_comes_back(tmp_path):
    task = sdil.get_task("fourrooms")
    for name, noisy in (("alone", 0), ("segments", 3)):
        demos, truth = task.collect(clean=2, noisy=noisy, seed=0, noise="segments")
        save_demonstrations(demos, tmp_path / name, truth=truth)
        loaded = load_truth(tmp_path / name)
        assert [g.tolist() for g in loaded.noisy_good] == [g.tolist() for g in truth.noisy_good]
        assert [s.tolist() for s in loaded.noisy_segment] == [
            s.tolist() for s in truth.noisy_segment
        ]
        assert len(loaded.noisy_segment) == noisy
        assert loaded.segment_names == truth.segment_names == ("good", "detour", "random")


def test_truth_must_fit_step_by_step(tmp_path, fourrooms):
    demos, truth = fourrooms
    with pytest.raises(InputError, match="clean_good does not fit"):
        save_demonstrations(demos.take_clean(5, seed=0), tmp_path / "d", truth=truth)
    assert not (tmp_path / "d").exists()


@pytest.fixture
def folder(tmp_path, demos):
    save_demonstrations(demos, tmp_path / "d")
    return tmp_path / "d"


def _cut(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def _edit(folder, change):
    about = json.loads((folder / "sdil.json").read_text())
    change(about)
    (folder / "sdil.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda d: _cut(d / "clean-v0/data/main_data.hdf5"),
            r"main_data.hdf5: damaged or truncated",
        ),
        (lambda d: _cut(d / "noisy-v0/data/metadata.json"), r"noisy-v0: Minari cannot open"),
        (lambda d: (d / "noisy-v0/data/main_data.hdf5").unlink(), r"noisy-v0: Minari cannot open"),
        (
            lambda d: (d / "clean-v0/data/main_data.hdf5").write_text("hello"),
            "damaged or truncated",
        ),
        (lambda d: _cut(d / "sdil.json"), r"sdil.json: cannot be read as JSON"),
        (
            lambda d: (d / "sdil.json").unlink(),
            r"not a folder of demonstrations: sdil.json is missing",
        ),
        (lambda d: _edit(d, lambda a: a.update(format=99)), r"format 99 is not the one"),
        (lambda d: _edit(d, lambda a: a.pop("spaces")), r"sdil.json: damaged"),
        (
            lambda d: _edit(d, lambda a: a["noisy"].update(ids=[])),
            r"sdil.json: damaged .*ids or groups do not fit",
        ),
        (
            lambda d: _edit(d, lambda a: a["clean"].update(steps=10**15)),  # never allocated
            r"it was changed afterwards",
        ),
        (
            lambda d: _edit(d, lambda a: a["clean"].update(steps=29)),
            r"it was changed afterwards",
        ),
        (
            lambda d: _edit(d, lambda a: a["spaces"]["action"].update(n=2)),
            r"clean set, episode 'clean-0', step \d+: action = 2 lies outside Discrete\(2\)",
        ),
    ],
)
def test_a_damaged_folder_is_named(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=message):
        load_demonstrations(folder)


@pytest.mark.parametrize("key", ["ids", "without_rewards", "groups"])
def test_a_missing_entry_is_named(folder, key):
    _edit(folder, lambda about: about["noisy"].pop(key))
    with pytest.raises(InputError, match=rf"sdil.json: damaged .*{key}"):
        load_demonstrations(folder)


def test_a_truncated_truth_is_named(tmp_path, fourrooms):
    demos, truth = fourrooms
    save_demonstrations(demos, tmp_path / "d", truth=truth)
    _cut(tmp_path / "d" / "truth.npz")
    with pytest.raises(InputError, match=r"truth\.npz: cannot be read"):
        load_truth(tmp_path / "d")
    assert load_demonstrations(tmp_path / "d") == demos


def test_a_truth_of_other_demonstrations_is_refused(tmp_path, fourrooms):
    demos, truth = fourrooms
    save_demonstrations(demos, tmp_path / "d", truth=truth)
    np.savez(tmp_path / "d" / "truth.npz", clean_good=np.ones(3, bool), noisy_good=np.ones(3, bool))
    with pytest.raises(
        InputError, match=rf"truth\.npz: .*3 labels for {demos.clean.n_steps} steps"
    ):
        load_truth(tmp_path / "d")


def test_whole_number_spaces_survive_to_the_last_digit():
    limits = np.iinfo(np.int64)
    spaces = Spaces(
        gym.spaces.Box(limits.min, limits.max, (2,), np.int64), gym.spaces.Discrete(3, start=1)
    )
    assert Spaces.from_json(json.loads(json.dumps(spaces.to_json()))) == spaces


def test_nan_in_the_file_is_found(folder):
    import h5py

    with h5py.File(folder / "noisy-v0/data/main_data.hdf5", "a") as file:
        file["episode_3/observations"][1, 5] = np.nan
    with pytest.raises(
        InputError, match=r"noisy set, episode 'noisy-3', step 1: observation element \(5,\)"
    ):
        load_demonstrations(folder)


def test_missing_folder(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_demonstrations(tmp_path / "nowhere")


def test_existing_data_is_kept_unless_told_otherwise(folder, demos):
    before = load_demonstrations(folder)
    small = demos.take_clean(2, seed=0)
    with pytest.raises(InputError, match="exists already"):
        save_demonstrations(small, folder)
    assert load_demonstrations(folder) == before
    save_demonstrations(small, folder, overwrite=True)
    assert load_demonstrations(folder) == small
    assert [p.name for p in folder.parent.iterdir()] == ["d"]


def test_a_strangers_folder_is_never_replaced(tmp_path, demos):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match="kept"):
        save_demonstrations(demos, tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"


def test_an_interrupted_or_failing_write_leaves_nothing(tmp_path, demos, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sdil.formats.folder.write_dataset", fail)
    with pytest.raises(InputError, match="No space left on device"):
        save_demonstrations(demos, tmp_path / "d")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdil.formats.folder.write_dataset", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_demonstrations(demos, tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_named(tmp_path, demos):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*/file/d"):
        save_demonstrations(demos, tmp_path / "file" / "d")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_named(tmp_path, demos):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write"):
        save_demonstrations(demos, tmp_path / "d")
