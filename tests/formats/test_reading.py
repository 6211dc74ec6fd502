"""Every layout is read for what it is: the same numbers, names kept, nothing lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from layouts import (
    episodes,
    flat,
    table_of,
    write_aloha,
    write_d4rl,
    write_minari,
    write_numpy,
    write_numpy_folder,
    write_robomimic,
    write_table,
    write_zarr,
)

import sdil
from sdil.errors import InputError
from sdil.formats.reading import open_reading
from sdil.formats.recognise import open_source, parse_address

STATE = ["state"]


def both(demos):
    return [*demos.clean, *demos.noisy]


def check(demos, wanted, *, final, dtype):
    """Episode by episode, bit for bit."""
    read = {t.id: t for t in both(demos)}
    assert len(read) == len(wanted)
    for (observations, actions), t in zip(wanted, read.values(), strict=True):
        assert t.observations.dtype == dtype
        assert t.has_final_observation == final
        np.testing.assert_array_equal(t.observations, observations[: len(t.observations)])
        np.testing.assert_array_equal(t.actions, actions)
    return list(read.values())


DATA = episodes()
WHOLE = [(flat(e), e["action"]) for e in DATA]
STATES = [(e["state"], e["action"]) for e in DATA]


@pytest.mark.parametrize("next_obs", [True, False])
def test_robomimic(tmp_path, next_obs):
    path = write_robomimic(tmp_path / "lift.hdf5", next_obs=next_obs)
    demos = sdil.read(path, clean="0", features="obs/state,obs/object")
    read = check(demos, WHOLE, final=next_obs, dtype=np.float64)
    assert [t.id for t in read] == [f"demo_{i}" for i in range(6)]
    assert demos.origin.observation[:4] == (
        *(f"obs/state[{i}]" for i in range(3)),
        "obs/object[0,0]",
    )
    assert demos.origin.about["env_args"] == {"env_name": "Lift", "type": 1}
    assert read[0].group == "better_operator_1"
    assert read[5].group == "worse_operator_2"
    np.testing.assert_array_equal(read[1].rewards, DATA[1]["reward"])


def test_robomimic_counts_demos_as_numbers_do(tmp_path):
    path = write_robomimic(
        tmp_path / "a.hdf5", episodes(12), order=[11, 2, 10, *range(2), 3, *range(4, 10)]
    )
    source = open_source(path)
    assert [e.id for e in source.episodes] == [f"demo_{i}" for i in range(12)]
    assert [e.steps for e in source.episodes] == [9 + i for i in range(12)]


def test_pictures_are_named_and_left_out(tmp_path):
    path = write_robomimic(tmp_path / "lift.hdf5")
    roles = {f.name: f.role for f in open_source(path).features}
    assert roles["obs/image"] == "image"
    assert sdil.read(path, clean="0").spaces.observation.shape == (7,)
    chosen = sdil.read(path, clean="0", features="obs/image")
    assert chosen.spaces.observation.shape == (8, 8, 3)


def test_aloha(tmp_path):
    folder = write_aloha(tmp_path / "aloha")
    demos = sdil.read(folder, clean="episode_1")
    assert demos.clean.ids == ("episode_1",)
    reread = sdil.read(folder, clean="0", features=["observations/qpos", "observations/qvel"])
    check(reread, WHOLE, final=False, dtype=np.float64)
    assert not any(t.terminated for t in both(reread))


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("timeouts", [True, False])
def test_d4rl_is_cut_at_terminals_and_timeouts(tmp_path, after, timeouts):
    path = write_d4rl(tmp_path / "maze.hdf5", after=after, timeouts=timeouts)
    demos = sdil.read(path, clean="0")
    read = check(demos, STATES, final=after, dtype=np.float32)
    assert [t.terminated for t in read] == [not timeouts or i % 2 == 0 for i in range(6)]
    assert demos.origin.frames_of("1", 3).tolist() == [9, 10, 11]  # rows of the file


@pytest.mark.parametrize(("version", "zipped"), [(2, False), (3, False), (3, True)])
def test_zarr(tmp_path, version, zipped):
    pytest.importorskip("zarr", reason="zarr is not installed: sdil[formats]")
    path = tmp_path / ("buffer.zarr.zip" if zipped else "buffer.zarr")
    write_zarr(path, version=version, zipped=zipped)
    source = open_source(path)
    assert source.format == "zarr"
    assert {f.name: f.role for f in source.features}["image"] == "image"  # floats, 0 to 255
    check(sdil.read(path, clean="0", features="state,object"), WHOLE, final=False, dtype=np.float64)


@pytest.mark.parametrize("layout", ["dict", "tuple", "image"])
def test_minari(tmp_path, layout):
    folder = write_minari(tmp_path / "set-v0", layout=layout)
    named = {
        "dict": ["observations/state", "observations/object"],
        "tuple": ["observations/0", "observations/1"],
        "image": ["observations/state"],
    }[layout]
    demos = sdil.read(folder, clean="0-2", features=named)
    wanted, dtype = (STATES, np.float32) if layout == "image" else (WHOLE, np.float64)
    read = check(demos, wanted, final=True, dtype=dtype)
    assert all(t.terminated for t in read)
    assert demos.origin.observation[0] == f"{named[0]}[0]"
    if layout == "image":
        assert {f.name: f.role for f in open_source(folder).features}[
            "observations/pixels"
        ] == "image"


def test_minari_by_its_id(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari(tmp_path / "toy" / "set-v0")
    assert len(open_source("toy/set-v0").episodes) == 6
    with pytest.raises(InputError, match="does not exist"):
        open_source("toy/other-v0")


@pytest.mark.parametrize("marks", ["ends", "terminals", "episode", "starts"])
def test_numpy(tmp_path, marks):
    path = write_numpy(tmp_path / "steps.npz", marks=marks)
    read = check(sdil.read(path, clean="0"), WHOLE, final=False, dtype=np.float64)
    assert all(t.terminated == (marks == "terminals") for t in read)


def test_numpy_folder(tmp_path):
    folder = write_numpy_folder(tmp_path / "runs")
    check(sdil.read(folder, clean="run_0"), WHOLE, final=True, dtype=np.float64)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.duckdb"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_tables(tmp_path, name, shuffle):
    path = write_table(tmp_path / name, shuffle=shuffle)
    demos = sdil.read(path, clean="success")
    assert set(demos.clean.ids) == {"0", "3"}
    ordered = sorted(both(demos), key=lambda t: int(t.id))
    for t, e in zip(ordered, DATA, strict=True):
        np.testing.assert_array_equal(t.observations, flat(e, len(e["action"])))
        np.testing.assert_array_equal(t.actions.astype(np.float32), e["action"])
        np.testing.assert_array_equal(t.rewards, e["reward"])
        assert t.group == f"op{int(t.id) % 2}"
    assert demos.origin.observation == tuple(f"obs_{i}" for i in range(7))
    assert demos.origin.action == ("action_0", "action_1")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.duckdb"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("column", ["rowid", "file_row_number", "ROWID"])
def test_a_column_may_be_called_as_duckdb_calls_its_own(tmp_path, name, shuffle, column):
    columns = table_of()
    extra = np.arange(len(columns["episode"]))[::-1].copy()
    path = write_table(tmp_path / name, {**columns, column: extra}, shuffle=shuffle)
    demos = sdil.read(path, clean="success")
    for t, e in zip(sorted(both(demos), key=lambda t: int(t.id)), DATA, strict=True):
        np.testing.assert_array_equal(t.observations, flat(e, len(e["action"])))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.duckdb"])
@pytest.mark.parametrize("column", ["sdil_row", "SDIL_FILE", "sdil_place"])
def test_a_column_that_is_called_as_ours_is_refused(tmp_path, name, column):
    columns = table_of()
    path = write_table(tmp_path / name, {**columns, column: columns["step"]})
    with pytest.raises(InputError, match=f"a column is called {column.lower()}.*rename it"):
        open_source(path)


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_file_that_is_read_where_it_lies_says_what_its_copy_says(
    tmp_path, monkeypatch, lists, shuffle, files
):
    path = tmp_path / "tables"
    path.mkdir()
    for number in range(files):  # episodes go on from one file to the next
        part = {
            k: v[number * 20 : None if number == files - 1 else number * 20 + 20]
            for k, v in table_of(lists=lists).items()
        }
        write_table(path / f"t{number}.parquet", part, shuffle=shuffle)
    ways = []
    for limit in (10**9, 0):
        monkeypatch.setattr("sdil.formats.table_places.LARGE", limit)
        source = open_source(path)
        ways.append((source.episodes, source.features, [source.rows_of(i) for i in range(6)]))
        ways[-1] += (sdil.read(path, clean="success"),)
    assert ways[0][:2] == ways[1][:2]
    for rows, copied in zip(ways[0][2], ways[1][2], strict=True):
        np.testing.assert_array_equal(rows, copied)
    assert ways[0][3] == ways[1][3]


def test_an_earlier_episode_is_read_after_a_later_one(tmp_path):
    source = open_source(write_table(tmp_path / "t.parquet"))
    for index in (4, 0, 5, 2):
        seen = source.read(index, ["obs_0"]).values["obs_0"]
        np.testing.assert_array_equal(seen, flat(DATA[index], len(DATA[index]["action"]))[:, 0])


def test_a_table_of_lists(tmp_path):
    path = write_table(tmp_path / "t.parquet", table_of(lists=True))
    check(sdil.read(path, clean="0"), WHOLE, final=False, dtype=np.float64)


def test_a_folder_of_tables_has_an_episode_in_each(tmp_path):
    for i in range(3):
        columns = {k: v[:5] for k, v in table_of().items() if k not in ("episode", "success")}
        write_table(tmp_path / f"run{i}.csv", {"episode": np.arange(5), **columns})
    with pytest.raises(InputError, match="no episode"):
        sdil.read(tmp_path, clean="7")
    for i in range(3):
        text = (tmp_path / f"run{i}.csv").read_text().splitlines()
        (tmp_path / f"run{i}.csv").write_text("\n".join(",".join(r.split(",")[1:]) for r in text))
    demos = sdil.read(tmp_path, clean="run1")
    assert demos.clean.ids == ("run1",)
    assert demos.noisy.ids == ("run0", "run2")


def test_several_tables_in_a_database(tmp_path):
    import duckdb

    path = write_table(tmp_path / "t.duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE other AS SELECT 1 AS x")
    with pytest.raises(InputError, match=r"which table.*other, steps"):
        sdil.read(path, clean="0")
    assert len(sdil.read(path, clean="0", table="steps").noisy) == 5


def test_times_that_repeat_or_jump_are_named(tmp_path):
    columns = {k: v.copy() for k, v in table_of().items()}
    columns["step"][columns["episode"] == 2] += 3 * (np.arange(11) > 5)
    columns["step"][2] = 1
    path = write_table(tmp_path / "t.csv", columns)
    source = open_source(path)
    assert any("rows 2 and 3 have the same step (1)" in text for text in source.odd)
    assert any("episode '2'" in text and "jumps from 5 to 9" in text for text in source.odd)
    with pytest.raises(InputError, match="episode '0': rows 2 and 3"):
        sdil.read(path, clean="1")
    assert sdil.read(path, clean="1", noisy="2-5").origin.frames_of("2", 11)[6] == 9


def test_an_empty_field_is_named_with_row_and_column(tmp_path):
    path = write_table(tmp_path / "t.csv")
    lines = path.read_text().splitlines()
    cells = lines[12].split(",")
    cells[6] = ""
    lines[12] = ",".join(cells)
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=r"episode '1', row 12, column obs_1: it is empty"):
        sdil.read(path, clean="0")


def test_a_number_that_is_none_is_named(tmp_path):
    data = episodes()
    data[3]["state"][4, 1] = np.nan
    path = write_robomimic(tmp_path / "a.hdf5", data)
    with pytest.raises(InputError, match=r"episode 'demo_3', row 4, obs/state\[1\]: nan"):
        sdil.read(path, clean="0")


def test_every_third_frame(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5")
    demos = sdil.read(path, clean="0", every=3, features="obs/state")
    first = demos.clean[0]
    np.testing.assert_array_equal(first.observations, DATA[0]["state"][[0, 3, 6, 9]])
    np.testing.assert_array_equal(first.actions, DATA[0]["action"][::3])
    np.testing.assert_allclose(first.rewards.sum(), DATA[0]["reward"].sum())
    assert demos.origin.frames_of("demo_1", 4).tolist() == [0, 3, 6, 9]


def test_entries_of_a_feature(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5")
    demos = sdil.read(
        path, clean="0", features="obs/state[1:],obs/object[1,0]", actions="actions[1]"
    )
    assert demos.origin.observation == ("obs/state[1]", "obs/state[2]", "obs/object[1,0]")
    assert demos.origin.action == ("actions[1]",)
    np.testing.assert_array_equal(demos.clean[0].observations[:, 2], DATA[0]["object"][:, 1, 0])
    with pytest.raises(InputError, match="no entry '9'"):
        sdil.read(path, clean="0", features="obs/state[9]")
    with pytest.raises(InputError, match="no feature 'speed'; there are"):
        sdil.read(path, clean="0", features="speed")


def test_counted_actions_are_discrete(tmp_path):
    columns = {k: v for k, v in table_of().items() if not k.startswith("action")}
    columns["action"] = columns["step"] % 4
    demos = sdil.read(write_table(tmp_path / "t.csv", columns), clean="0")
    assert demos.spaces.action.n == 4
    columns["action"] = columns["step"] - 1
    assert sdil.read(write_table(tmp_path / "u.csv", columns), clean="0").spaces.action.shape == (
        1,
    )


def test_long_whole_numbers_are_not_rounded(tmp_path):
    columns = {**table_of(), "obs_9": np.arange(len(table_of()["step"])) + 2**53}
    with pytest.raises(InputError, match=r"obs_9, row 1.*cannot be kept"):
        sdil.read(write_table(tmp_path / "t.parquet", columns), clean="0")


def test_an_address_says_what_was_chosen(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5")
    text = f"robomimic:{path}?clean=better&every=2&features=obs/state"
    demos = sdil.read(text)
    assert demos.clean.ids == ("demo_0", "demo_2")
    again = parse_address(str(open_reading(parse_address(text)).address))
    assert again == parse_address(text)
    difficult = parse_address(str(path)).with_choices(clean="a & b = 20% ?")
    assert parse_address(str(difficult)).choices["clean"] == "a & b = 20% ?"
    with pytest.raises(InputError, match="not 'colour'"):
        sdil.read(f"{path}?colour=red")


def test_what_is_in_no_format_is_said(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing")
    for place, words in (
        (tmp_path / "notes.txt", "no format that is known"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        with pytest.raises(InputError, match=words):
            open_source(place)
    with pytest.raises(InputError, match="there is no format 'hdf'"):
        open_source(tmp_path / "notes.txt", format="hdf")


def test_a_missing_library_is_named_with_its_command(tmp_path, monkeypatch):
    import sys

    (tmp_path / ".zgroup").write_text("{}")
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(InputError, match=r'pip install "sdil\[formats\]"'):
        open_source(tmp_path)


def test_a_late_fraction_is_not_rounded(tmp_path):
    """DuckDB's first look at 20,480 rows would take 1.5 for 2: whole numbers so far."""
    rows = [f"{i // 100},{i % 100},{i},0.5" for i in range(25_000)] + ["250,0,1.5,0.5"]
    (tmp_path / "t.csv").write_text("\n".join(["episode,step,obs_0,action_0", *rows]))
    demos = sdil.read(tmp_path / "t.csv", clean="0")
    assert demos.noisy[-1].observations.tolist() == [[1.5]]


PUSHT = Path(__file__).parents[3] / "shared/data/pusht-human/pusht_cchi_v7_replay.zarr"


@pytest.mark.skipif(not PUSHT.exists(), reason=f"{PUSHT} is not there")
def test_pusht_by_people_is_read_as_zarr_reads_it():
    zarr = pytest.importorskip("zarr")
    demos = sdil.read(PUSHT, clean="shortest 40", features="state")
    assert (len(demos.clean), len(demos.noisy)) == (40, 166)
    stored = zarr.open(PUSHT, mode="r")
    ends = stored["meta/episode_ends"][:]
    assert demos.all.n_steps == ends[-1]
    states, actions = stored["data/state"][:], stored["data/action"][:]
    every = {t.id: t for t in both(demos)}
    for i, end in enumerate(ends):
        begin = ends[i - 1] if i else 0
        np.testing.assert_array_equal(every[str(i)].observations, states[begin:end])
        np.testing.assert_array_equal(every[str(i)].actions, actions[begin:end])
    assert demos.clean.lengths.max() <= demos.noisy.lengths.min()


def test_files_of_one_name_in_two_folders_are_two_episodes(tmp_path):
    for folder in ("monday", "tuesday"):
        (tmp_path / "days" / folder).mkdir(parents=True)
        for i in range(2):
            rows = "\n".join(f"{t},{t * i},{folder == 'monday'}" for t in range(3))
            (tmp_path / "days" / folder / f"{i}.csv").write_text(f"obs_a,action_b,x\n{rows}\n")
    source = open_source(tmp_path / "days", format="table")
    assert [e.id for e in source.episodes] == ["monday/0", "monday/1", "tuesday/0", "tuesday/1"]
    assert all(e.steps == 3 for e in source.episodes)


def test_an_empty_episode_is_named(tmp_path):
    data = episodes(3)
    for e in data:
        e["action"] = np.zeros(len(e["action"]), np.int64)
    for key in ("action", "reward"):
        data[1][key] = data[1][key][:0]
    for key in ("state", "object", "image"):
        data[1][key] = data[1][key][:1]
    path = write_robomimic(tmp_path / "a.hdf5", data)
    with pytest.raises(InputError, match="demo_1"):
        sdil.read(path, clean="0")


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("word", ["inf", "-inf", "nan"])
def test_a_word_among_numbers_is_a_number_that_is_not_finite(tmp_path, word, files):
    """Not text, which would be left out without a word."""
    for i in range(files):
        first = word if i == 0 else "0.5"
        rows = [f"{i},0,{first},0.25,1", f"{i},1,0.75,0.5,0"]
        text = "\n".join(["episode,step,obs_a,obs_b,action", *rows])
        (tmp_path / f"part{i}.csv").write_text(text + "\n")
    with pytest.raises(InputError, match=r"obs_a.*not a finite number"):
        sdil.read(tmp_path if files > 1 else tmp_path / "part0.csv", clean="0")
