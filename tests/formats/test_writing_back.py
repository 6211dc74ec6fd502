"""What is written back into other people's formats: the same data, but for what was asked.

Read again with the real readers: robomimic's `SequenceDataset`, Minari, zarr, h5py.
"""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from sdil.formats import (
    aloha_writing,
    d4rl_writing,
    minari_writing,
    replay_buffer_writing,
    robomimic_writing,
)
from sdil.formats.rows import RowAnswer

LENGTHS = (6, 9, 7)


def told(names, kept=None) -> list[RowAnswer]:
    """The second episode is bad in its middle, the third all of it."""
    keeps = kept or [
        np.ones(6, bool),
        np.array([1, 1, 1, 0, 0, 0, 1, 1, 1], bool),
        np.zeros(7, bool),
    ]
    answers = []
    for name, keep in zip(names, keeps, strict=True):
        score = np.where(keep, 0.5, -0.25).astype(np.float32)
        frames = np.arange(len(keep))
        answers.append(RowAnswer(name, score, keep, (1 + score) / 2, frames, float(score.mean())))
    return answers


def everything(file) -> dict:
    """Every data set and attribute of an HDF5 file."""
    found = {("/", k): v for k, v in file.attrs.items()}

    def visit(name, item):
        found.update({(name, k): v for k, v in item.attrs.items()})
        if isinstance(item, h5py.Dataset):
            found[name] = (item[()], item.dtype, item.chunks, item.compression)

    file.visititems(visit)
    return found


def assert_same(old: dict, new: dict, names) -> None:
    for name in names:
        if isinstance(old[name], tuple):
            np.testing.assert_array_equal(old[name][0], new[name][0])
            assert old[name][1:] == new[name][1:]
        else:
            assert np.array_equal(old[name], new[name])
            assert type(old[name]) is type(new[name])


@pytest.fixture
def robomimic_file(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "lift.hdf5"
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = sum(LENGTHS)
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {}})
        for name, n in zip(("demo_0", "demo_2", "demo_10"), LENGTHS, strict=True):
            demo = data.create_group(name)
            demo.attrs["num_samples"] = n
            demo.attrs["model_file"] = f"<mujoco>{name}</mujoco>"
            demo.create_dataset("actions", data=rng.normal(size=(n, 7)))
            demo.create_dataset("rewards", data=np.zeros(n))
            demo.create_dataset("dones", data=(np.arange(n) == n - 1).astype(np.int64))
            demo.create_dataset("states", data=rng.normal(size=(n, 32)))
            for group in ("obs", "next_obs"):
                demo.create_dataset(f"{group}/eef", data=rng.normal(size=(n, 3)).astype("f4"))
                demo.create_dataset(
                    f"{group}/agentview_image",
                    data=rng.integers(0, 255, (n, 8, 8, 3), np.uint8),
                    chunks=(1, 8, 8, 3),
                    compression="gzip",
                )
        mask = file.create_group("mask")
        mask.create_dataset("better", data=np.array(["demo_0"], "S"))
        mask.create_dataset("worse", data=np.array(["demo_2", "demo_10"], "S"))
    return path


NAMES = ("demo_0", "demo_2", "demo_10")


def sequences(path, **options):
    """robomimic's own reader."""
    dataset = pytest.importorskip(
        "robomimic.utils.dataset", reason="pip install --no-deps robomimic==0.3.0"
    )
    from robomimic.utils import obs_utils

    obs_utils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": ["eef"], "rgb": []}})
    keys = {"obs_keys": ("eef",), "dataset_keys": ("actions", *options.pop("more", ()))}
    return dataset.SequenceDataset(str(path), **keys, hdf5_cache_mode=None, **options)


def test_robomimic_gets_filter_keys_and_weights_in_a_copy(robomimic_file, tmp_path):
    before = robomimic_file.read_bytes()
    out = tmp_path / "new.hdf5"
    robomimic_writing.write_scored(robomimic_file, told(NAMES), out)
    assert robomimic_file.read_bytes() == before
    with h5py.File(robomimic_file) as old, h5py.File(out) as new:
        was, found = everything(old), everything(new)
    assert_same(was, found, was)
    added = {name for name in found if name not in was}
    more = {f"data/{n}/{what}" for n in NAMES for what in ("sdil_score", "sdil_weight")}
    assert added == more | {"mask/sdil_keep"}
    assert found["mask/sdil_keep"][0].tolist() == [b"demo_0"]


def test_robomimic_itself_reads_the_filter_key_and_the_weights(robomimic_file, tmp_path):
    out = tmp_path / "new.hdf5"
    robomimic_writing.write_scored(robomimic_file, told(NAMES), out)
    kept = sequences(out, filter_by_attribute="sdil_keep")
    assert len(kept) == LENGTHS[0]
    assert kept.demos == ["demo_0"]
    weighed = sequences(out, more=("sdil_weight",), seq_length=3)
    assert len(weighed) == sum(LENGTHS)
    item = weighed[LENGTHS[0] + 2]  # steps 2 to 4 of demo_2
    np.testing.assert_allclose(item["sdil_weight"], [0.75, 0.375, 0.375])
    assert item["obs"]["eef"].shape == (3, 3)


def test_robomimic_segments_are_demos_of_their_own(robomimic_file, tmp_path):
    out = tmp_path / "new.hdf5"
    robomimic_writing.write_curated(robomimic_file, told(NAMES), out)
    with h5py.File(robomimic_file) as old, h5py.File(out) as new:
        assert sorted(new["data"]) == ["demo_0", "demo_11", "demo_12"]
        whole = everything(old["data/demo_0"])
        assert_same(whole, everything(new["data/demo_0"]), whole)
        assert new["data"].attrs["env_args"] == old["data"].attrs["env_args"]
        assert new["data"].attrs["total"] == 12
        for name, first in (("demo_11", 0), ("demo_12", 6)):
            cut, source = new["data"][name], old["data/demo_2"]
            assert cut.attrs["sdil_source"] == "demo_2"
            assert cut.attrs["sdil_first"] == first
            assert cut.attrs["num_samples"] == 3
            assert cut.attrs["model_file"] == source.attrs["model_file"]
            for key in ("actions", "states", "obs/eef", "next_obs/agentview_image", "dones"):
                np.testing.assert_array_equal(cut[key][()], source[key][first : first + 3])
                assert cut[key].dtype == source[key].dtype
            assert cut["obs/agentview_image"].compression == "gzip"
        assert new["mask/better"][()].tolist() == [b"demo_0"]
        assert new["mask/worse"][()].tolist() == [b"demo_11", b"demo_12"]
    read = sequences(out)
    assert len(read) == 12
    assert sequences(out, filter_by_attribute="worse").demos == ["demo_11", "demo_12"]


def test_keeping_everything_gives_the_same_robomimic_file(robomimic_file, tmp_path):
    out = tmp_path / "new.hdf5"
    answers = told(NAMES, [np.ones(n, bool) for n in LENGTHS])
    robomimic_writing.write_curated(robomimic_file, answers, out)
    with h5py.File(robomimic_file) as old, h5py.File(out) as new:
        was, found = everything(old), everything(new)
    assert_same(was, found, was)
    assert set(found) - set(was) == {"mask/sdil_keep"}


@pytest.fixture
def d4rl_file(tmp_path) -> Path:
    rng, n = np.random.default_rng(0), sum(LENGTHS)
    path = tmp_path / "door.hdf5"
    ends = np.cumsum(LENGTHS) - 1
    with h5py.File(path, "w") as file:
        file.create_dataset(
            "observations", data=rng.normal(size=(n, 5)).astype("f4"), chunks=(4, 5)
        )
        file.create_dataset("actions", data=rng.normal(size=(n, 2)), compression="gzip")
        file.create_dataset("rewards", data=rng.normal(size=n))
        file.create_dataset("terminals", data=np.isin(np.arange(n), ends[:1]))
        file.create_dataset("timeouts", data=np.isin(np.arange(n), ends[1:]))
        file.create_dataset("infos/qpos", data=rng.normal(size=(n, 3)))
        file.create_dataset("metadata/algorithm", data=b"people")
        file.attrs["version"] = 2
    return path


def test_d4rl_gets_a_score_of_each_row(d4rl_file, tmp_path):
    out = tmp_path / "new.hdf5"
    d4rl_writing.write_scored(d4rl_file, told("abc"), out)
    with h5py.File(d4rl_file) as old, h5py.File(out) as new:
        was, found = everything(old), everything(new)
    assert_same(was, found, was)
    assert set(found) - set(was) == {"sdil_score", "sdil_weight"}
    np.testing.assert_array_equal(found["sdil_score"][0][5:11], [0.5, 0.5, 0.5, 0.5, -0.25, -0.25])


def test_d4rl_curated_cuts_rows_and_says_where(d4rl_file, tmp_path):
    out = tmp_path / "new.hdf5"
    d4rl_writing.write_curated(d4rl_file, told("abc"), out)
    rows = [*range(9), *range(12, 15)]
    with h5py.File(d4rl_file) as old, h5py.File(out) as new:
        for key in ("observations", "actions", "rewards", "terminals", "infos/qpos"):
            np.testing.assert_array_equal(new[key][()], old[key][()][rows])
            assert (new[key].dtype, new[key].compression) == (old[key].dtype, old[key].compression)
        assert np.flatnonzero(new["timeouts"][()]).tolist() == [8, 11]
        assert new["infos/sdil_row"][()].tolist() == rows
        assert new["metadata/algorithm"][()] == b"people"
        assert new.attrs["version"] == 2


@pytest.fixture
def aloha_folder(tmp_path) -> dict[str, Path]:
    rng, folder = np.random.default_rng(0), tmp_path / "aloha"
    folder.mkdir()
    paths = {}
    for at, n in enumerate(LENGTHS):
        path = paths[f"episode_{at}"] = folder / f"episode_{at}.hdf5"
        with h5py.File(path, "w") as file:
            file.attrs["sim"], file.attrs["compress"] = False, True
            file.create_dataset("action", data=rng.normal(size=(n, 14)).astype("f4"))
            file.create_dataset("observations/qpos", data=rng.normal(size=(n, 14)))
            pictures = rng.integers(0, 255, (n, 50), np.uint8)
            file.create_dataset("observations/images/top", data=pictures, chunks=(1, 50))
            file.create_dataset("compress_len", data=rng.integers(1, 50, (1, n)))
    return paths


def test_aloha_files_get_scores(aloha_folder, tmp_path):
    aloha_writing.write_scored(tmp_path / "aloha", told(aloha_folder), tmp_path / "new")
    for name, path in aloha_folder.items():
        with h5py.File(path) as old, h5py.File(tmp_path / "new" / f"{name}.hdf5") as new:
            was, found = everything(old), everything(new)
        assert_same(was, found, was)
        assert set(found) - set(was) == {"sdil_score", "sdil_weight"}


def test_aloha_segments_are_files_counted_from_0(aloha_folder, tmp_path):
    aloha_writing.write_curated(tmp_path / "aloha", told(aloha_folder), tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        f"episode_{i}.hdf5" for i in range(3)
    ]
    with (
        h5py.File(aloha_folder["episode_1"]) as old,
        h5py.File(tmp_path / "new" / "episode_2.hdf5") as new,
    ):
        assert (new.attrs["sdil_source"], new.attrs["sdil_first"]) == ("episode_1", 6)
        assert new.attrs["compress"]
        for key in ("action", "observations/qpos", "observations/images/top"):
            np.testing.assert_array_equal(new[key][()], old[key][6:9])
            assert new[key].dtype == old[key].dtype
        np.testing.assert_array_equal(new["compress_len"][()], old["compress_len"][:, 6:9])


def make_store(path: Path, version: int) -> Path:
    import zarr

    rng, n = np.random.default_rng(0), sum(LENGTHS)
    root = zarr.open_group(path, mode="w", zarr_format=version)
    data, meta = root.create_group("data"), root.create_group("meta")
    for name, values, chunks in (
        ("state", rng.normal(size=(n, 5)).astype("f4"), (4, 5)),
        ("action", rng.normal(size=(n, 2)), (n, 2)),
        ("img", rng.uniform(0, 255, (n, 8, 8, 3)).astype("f4"), (1, 8, 8, 3)),
    ):
        array = data.create_array(name, shape=values.shape, dtype=values.dtype, chunks=chunks)
        array[...] = values
        array.attrs["unit"] = "pixel"
    ends = np.cumsum(LENGTHS)
    meta.create_array("episode_ends", shape=(3,), dtype=ends.dtype)[...] = ends
    meta.create_array("operator", shape=(3,), dtype="i4")[...] = [3, 1, 2]
    return path


@pytest.mark.parametrize(("version", "packed"), [(2, False), (3, False), (2, True)])
def test_zarr_with_scores_and_curated(tmp_path, version, packed):
    zarr = pytest.importorskip("zarr")
    path = folder = make_store(tmp_path / "push.zarr", version)
    if packed:
        import shutil

        path = Path(shutil.make_archive(str(tmp_path / "push.zarr"), "zip", folder))

    def reopened(name):
        place = tmp_path / name
        if packed:
            return zarr.open_group(zarr.storage.ZipStore(place, mode="r"), mode="r")
        return zarr.open_group(place, mode="r")

    old = zarr.open_group(folder, mode="r")
    replay_buffer_writing.write_scored(path, told("012"), tmp_path / "scored")
    new = reopened("scored")
    assert set(new["data"]) - set(old["data"]) == {"sdil_score", "sdil_weight"}
    for key in ("data/state", "data/action", "data/img", "meta/episode_ends", "meta/operator"):
        np.testing.assert_array_equal(new[key][...], old[key][...])
        assert new[key].metadata == old[key].metadata
    assert new["data/sdil_score"].shape == (22,)
    replay_buffer_writing.write_curated(path, told("012"), tmp_path / "curated")
    new = reopened("curated")
    rows = [*range(9), *range(12, 15)]
    for key in ("state", "action", "img"):
        np.testing.assert_array_equal(new[f"data/{key}"][...], old[f"data/{key}"][...][rows])
        a, b = new[f"data/{key}"].metadata.to_dict(), old[f"data/{key}"].metadata.to_dict()
        assert {**a, "shape": 0} == {**b, "shape": 0}
    assert new["meta/episode_ends"][...].tolist() == [6, 9, 12]
    assert new["meta/operator"][...].tolist() == [3, 1, 1]
    assert new["meta/sdil_source"][...].tolist() == [0, 1, 1]
    assert new["meta/sdil_first"][...].tolist() == [0, 0, 6]


@pytest.fixture
def minari_folder(tmp_path) -> Path:
    import gymnasium as gym
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    rng, folder = np.random.default_rng(0), tmp_path / "door-v0"
    (folder / "data").mkdir(parents=True)
    space = gym.spaces.Dict(
        {
            "arm": gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
            "eye": gym.spaces.Box(0, 255, (8, 8, 3), np.uint8),
        }
    )
    action = gym.spaces.Box(-9, 9, (2,), np.float64)
    storage = MinariStorage.new(folder / "data", observation_space=space, action_space=action)
    storage.update_metadata({"dataset_id": "door-v0", "minari_version": "0.5.4"})
    storage.update_episodes(
        EpisodeBuffer(
            observations={
                "arm": rng.normal(size=(n + 1, 3)).astype("f4"),
                "eye": rng.integers(0, 255, (n + 1, 8, 8, 3), np.uint8),
            },
            actions=rng.normal(size=(n, 2)),
            rewards=rng.normal(size=n),
            terminations=np.arange(n) == n - 1,
            truncations=np.zeros(n, bool),
            seed=n,
        )
        for n in LENGTHS
    )
    return folder


def test_minari_gets_scores_in_infos(minari_folder, tmp_path):
    from minari import MinariDataset

    minari_writing.write_scored(minari_folder, told("012"), tmp_path / "new-v0")
    old, new = MinariDataset(minari_folder / "data"), MinariDataset(tmp_path / "new-v0" / "data")
    for a, b in zip(old, new, strict=True):
        np.testing.assert_array_equal(a.actions, b.actions)
        np.testing.assert_array_equal(a.observations["eye"], b.observations["eye"])
    np.testing.assert_array_equal(new[1].infos["sdil_score"][2:4], [0.5, -0.25])
    with (
        h5py.File(minari_folder / "data" / "main_data.hdf5") as a,
        h5py.File(tmp_path / "new-v0" / "data" / "main_data.hdf5") as b,
    ):
        was = everything(a)
        assert_same(was, everything(b), was)


def test_minari_segments_are_episodes(minari_folder, tmp_path):
    from minari import MinariDataset

    minari_writing.write_curated(minari_folder, told("012"), tmp_path / "new-v0")
    old, new = MinariDataset(minari_folder / "data"), MinariDataset(tmp_path / "new-v0" / "data")
    assert (new.total_episodes, new.total_steps) == (3, 12)
    assert [len(e.actions) for e in new] == [6, 3, 3]
    np.testing.assert_array_equal(new[1].actions, old[1].actions[:3])
    np.testing.assert_array_equal(new[2].observations["arm"], old[1].observations["arm"][6:10])
    np.testing.assert_array_equal(new[1].observations["eye"], old[1].observations["eye"][:4])
    assert (new[1].terminations[-1], new[1].truncations[-1]) == (False, True)
    assert (new[2].terminations[-1], new[2].truncations[-1]) == (True, False)
    about = list(new.storage.get_episode_metadata(range(3)))
    assert [(m["sdil_source"], m["sdil_first"]) for m in about] == [(0, 0), (1, 0), (1, 6)]
