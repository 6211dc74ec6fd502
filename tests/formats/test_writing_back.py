"""What is written back into other people's formats: the same data, but for what was asked.

Read again with the real readers: robomimic's `SequenceDataset`, Minari, zarr, h5py.
"""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from sdil.errors import InputError
from sdil.formats import (
    aloha_writing,
    d4rl_writing,
    minari_writing,
    replay_buffer_writing,
    robomimic_writing,
)
from sdil.formats.recognise import open_source
from sdil.formats.rows import RowAnswer
from sdil.formats.writing import write_back

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
        mask.create_dataset("long", data=["demo_10", "demo_2"], dtype=h5py.string_dtype())
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
        assert new["mask/long"][()].tolist() == [b"demo_11", b"demo_12"]
        assert new["mask/long"].dtype == old["mask/long"].dtype
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


@pytest.mark.parametrize(
    ("version", "packed"),
    [
        (2, False),
        pytest.param(3, False, marks=pytest.mark.slow),
        pytest.param(2, True, marks=pytest.mark.slow),
    ],
)
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


def rows_of_table() -> list[tuple]:
    """Episodes 4, 7 and 9, of which 7 is bad in its middle and 9 all of it; two are interleaved."""
    rows = []
    for t in range(9):
        rows += [(7, 10 + t, f'said "{t}", so', 0.1 * t)]
        if t < 6:
            rows += [(4, t, "x", 1.50)]
    return rows + [(9, t, "", -t) for t in range(7)]


CSV_ROWS = ['"episode";step;note;obs_x;action']
CSV_ROWS += [
    f"{e};{t};" + (f'"said ""{t}""; so"' if note.startswith("said") else note) + f";{x:.2f};{t % 3}"
    for e, t, note, x in rows_of_table()
]


def answers_for(source) -> list[RowAnswer]:
    made = {a.id: a for a in told(("4", "7", "9"))}
    return [
        RowAnswer(
            e.id,
            made[e.id].score,
            made[e.id].keep,
            made[e.id].weight,
            source.read(i, []).frames,
            0.0,
        )
        for i, e in enumerate(source.episodes)
    ]


def test_csv_stays_text_for_text(tmp_path):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "arm.csv"
    path.write_bytes(("\r\n".join(CSV_ROWS) + "\r\n").encode())
    source = open_source(path)
    write_back(source, answers_for(source), tmp_path / "new.csv", curated=False)
    lines = (tmp_path / "new.csv").read_bytes().decode().split("\r\n")
    assert [line.rsplit(";", 2)[0] for line in lines[:-1]] == CSV_ROWS
    old, new = (pandas.read_csv(p, sep=";") for p in (path, tmp_path / "new.csv"))
    assert list(new) == [*old, "sdil_score", "sdil_weight"]
    pandas.testing.assert_frame_equal(new[list(old)], old)
    seven = new[new.episode == 7].sort_values("step").sdil_score.tolist()
    assert seven == [0.5] * 3 + [-0.25] * 3 + [0.5] * 3
    write_back(source, answers_for(source), tmp_path / "cut.csv", curated=True)
    cut = pandas.read_csv(tmp_path / "cut.csv", sep=";")
    assert {k: g.step.tolist() for k, g in cut.groupby("episode")} == {
        4: [0, 1, 2, 3, 4, 5],
        10: [10, 11, 12],
        11: [16, 17, 18],
    }
    assert cut.groupby("episode").sdil_source.first().to_dict() == {4: 4, 10: 7, 11: 7}
    assert cut.groupby("episode").sdil_first.first().to_dict() == {4: 0, 10: 0, 11: 6}
    kept = {line.partition(";")[2].rsplit(";", 2)[0] for line in lines[1:-1]}
    for line in (tmp_path / "cut.csv").read_bytes().decode().split("\r\n")[1:-1]:
        assert line.partition(";")[2].rsplit(";", 2)[0] in kept


def test_a_folder_of_packed_csv_with_an_episode_in_each(tmp_path):
    pandas = pytest.importorskip("pandas")
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, n in zip("abc", LENGTHS, strict=True):
        frame = pandas.DataFrame({"t": range(n), "obs": np.arange(n) / 7, "action": 0.5})
        frame.to_csv(folder / f"{name}.csv.gz", index=False)
    source = open_source(folder)
    write_back(source, told([e.id for e in source.episodes]), tmp_path / "new", curated=False)
    for name in "abc":
        old, new = (pandas.read_csv(f / f"{name}.csv.gz") for f in (folder, tmp_path / "new"))
        pandas.testing.assert_frame_equal(new[list(old)], old)
    write_back(source, told([e.id for e in source.episodes]), tmp_path / "cut", curated=True)
    assert sorted(p.name for p in (tmp_path / "cut").iterdir()) == [
        "a.csv.gz",
        "b_0_3.csv.gz",
        "b_6_9.csv.gz",
    ]
    assert pandas.read_csv(tmp_path / "cut" / "b_6_9.csv.gz").t.tolist() == [6, 7, 8]


def test_parquet_keeps_its_schema(tmp_path):
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = arrow.table(
        {
            "episode": arrow.array([r[0] for r in rows_of_table()], arrow.int16()),
            "step": arrow.array([r[1] for r in rows_of_table()], arrow.int32()),
            "note": arrow.array([r[2] for r in rows_of_table()]).dictionary_encode(),
            "obs": arrow.array(
                [[r[3], 1.0] for r in rows_of_table()], arrow.list_(arrow.float32(), 2)
            ),
            "action": arrow.array([r[3] for r in rows_of_table()], arrow.float32()),
        }
    ).replace_schema_metadata({"who": "people"})
    path = tmp_path / "arm.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=5, compression="ZSTD")
    source = open_source(path)
    write_back(source, answers_for(source), tmp_path / "new.parquet", curated=False)
    new = pyarrow.parquet.read_table(tmp_path / "new.parquet")
    assert new.select(table.column_names).equals(table, check_metadata=False)
    for name in table.column_names:
        assert new.schema.field(name).type == table.schema.field(name).type
    assert new.schema.metadata[b"who"] == b"people"
    seven = pandas.read_parquet(tmp_path / "new.parquet").query("episode == 7")
    assert seven.sdil_score.tolist() == [0.5] * 3 + [-0.25] * 3 + [0.5] * 3
    write_back(source, answers_for(source), tmp_path / "cut.parquet", curated=True)
    cut = pyarrow.parquet.read_table(tmp_path / "cut.parquet")
    assert cut.schema.field("episode").type == arrow.int16()
    frame = cut.to_pandas()
    assert frame.groupby("episode").step.apply(list).to_dict()[11] == [16, 17, 18]
    whole = frame[frame.episode == 4][["step", "note", "action"]].reset_index(drop=True)
    was = table.to_pandas().query("episode == 4")[["step", "note", "action"]]
    pandas.testing.assert_frame_equal(whole, was.reset_index(drop=True))


def test_of_a_database_one_table_changes(tmp_path):
    import duckdb

    path = tmp_path / "lab.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE arm (episode VARCHAR, step INTEGER, obs DOUBLE, action DECIMAL(9, 3))"
        )
        connection.execute("CREATE TABLE other AS SELECT 1 AS x")
        told_rows = [(f"e{e}", t, x, x) for e, t, _, x in rows_of_table()]
        connection.executemany("INSERT INTO arm VALUES (?, ?, ?, ?)", told_rows)
        before = connection.execute("SELECT * FROM arm").fetchall()
    source = open_source(path, table="arm")
    answers = {a.id: a for a in told(("e4", "e7", "e9"))}
    answers = [answers[e.id] for e in source.episodes]
    write_back(source, answers, tmp_path / "new.duckdb", curated=False)
    write_back(source, answers, tmp_path / "cut.duckdb", curated=True)
    with duckdb.connect(str(tmp_path / "new.duckdb")) as connection:
        assert (
            connection.execute("SELECT * EXCLUDE (sdil_score, sdil_weight) FROM arm").fetchall()
            == before
        )
        assert connection.execute("SELECT x FROM other").fetchall() == [(1,)]
        low = "SELECT step FROM arm WHERE episode = 'e7' AND sdil_score < 0 ORDER BY 1"
        assert connection.execute(low).fetchall() == [(13,), (14,), (15,)]
    with duckdb.connect(str(tmp_path / "cut.duckdb")) as connection:
        found = connection.execute(
            "SELECT DISTINCT episode, sdil_source FROM arm ORDER BY 1"
        ).fetchall()
        assert found == [("e4", "e4"), ("e7[0:3]", "e7"), ("e7[6:9]", "e7")]


@pytest.mark.parametrize("ends", ["ends", "episode", "terminals", "episode_starts", "folder"])
def test_numpy_files(tmp_path, ends):
    rng, n = np.random.default_rng(0), sum(LENGTHS)
    arrays = {
        "observations": rng.normal(size=(n, 3)).astype("f4"),
        "actions": rng.normal(size=(n, 2)),
    }
    arrays["extra"] = np.arange(4)
    last = np.cumsum(LENGTHS)
    path = tmp_path / "data.npz"
    if ends == "folder":
        path = tmp_path / "runs"
        path.mkdir()
        for name, first, stop in zip("abc", [0, *last], last, strict=False):
            seen = {"observations": rng.normal(size=(stop - first + 1, 3))}
            np.savez(path / f"{name}.npz", **seen, actions=arrays["actions"][first:stop])
        answers = told("abc")
    else:
        arrays[ends] = {
            "ends": last,
            "episode": np.repeat([3, 1, 2], LENGTHS).astype(np.int16),
            "terminals": np.isin(np.arange(n), last - 1),
            "episode_starts": np.isin(np.arange(n), [0, *last[:-1]]),
        }[ends]
        np.savez_compressed(path, **arrays)
        answers = told("012")
    source = open_source(path)
    write_back(source, answers, tmp_path / "new.npz", curated=False)
    write_back(source, answers, tmp_path / "cut.npz", curated=True)
    again = open_source(tmp_path / "cut.npz", "numpy")
    assert [e.steps for e in again.episodes] == [6, 3, 3]
    for i, (of, first) in enumerate([(0, 0), (1, 0), (1, 6)]):
        for name in ("observations", "actions"):
            was, got = source.read(of, [name]).values[name], again.read(i, [name]).values[name]
            np.testing.assert_array_equal(got, was[first : first + len(got)])
            assert got.dtype == was.dtype
    if ends != "folder":
        with np.load(tmp_path / "new.npz") as new, np.load(tmp_path / "cut.npz") as cut:
            for name, array in arrays.items():
                np.testing.assert_array_equal(new[name], array)
                assert new[name].dtype == array.dtype
                assert cut[name].dtype == array.dtype
            assert new["sdil_score"].shape == (n,)


@pytest.mark.parametrize(
    ("kind", "fits"), [("double", True), ("int64", True), ("uint8", False), ("date32", False)]
)
def test_names_of_segments_fit_the_column_or_one_sentence_says_why(tmp_path, kind, fits):
    """pandas makes whole numbers floats; what takes no new name ends in no traceback."""
    import pyarrow
    import pyarrow.parquet

    arrow = {"double": pyarrow.float64(), "int64": pyarrow.int64(), "uint8": pyarrow.uint8()}
    numbers = np.repeat([254, 255] if kind == "uint8" else [3, 4], 6).astype(np.int32)
    episode = pyarrow.array(numbers).cast(arrow.get(kind, pyarrow.date32()))
    columns = {"obs_a": np.arange(12.0), "action_b": np.arange(12.0)}
    path = tmp_path / "arm.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"episode": episode, **columns}), path)
    source = open_source(path)
    keep = np.array([1, 1, 0, 0, 1, 1], bool)
    one = np.ones(6, np.float32)
    answers = [RowAnswer(e.id, one, keep, one, np.arange(6)) for e in source.episodes]
    if fits:
        write_back(source, answers, tmp_path / "cut.parquet", curated=True)
        cut = pyarrow.parquet.read_table(tmp_path / "cut.parquet")
        assert cut.schema.field("episode").type == episode.type
        assert cut.num_rows == sum(int(a.keep.sum()) for a in answers)
    else:
        with pytest.raises(InputError, match="--by episode"):
            write_back(source, answers, tmp_path / "cut.parquet", curated=True)
        assert not (tmp_path / "cut.parquet").exists()
