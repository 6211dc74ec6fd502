"""What other people's files hold that nobody thought of: found by trying them by hand."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from layouts import episodes, write_minari, write_robomimic, write_table, write_zarr

import sdil
from sdil.cli import main
from sdil.errors import InputError
from sdil.formats.rows import RowAnswer
from sdil.formats.writing import write_back


def steps_of(rows=40, **more):
    random = np.random.default_rng(0)
    seen, done = random.normal(size=(rows, 3)), random.normal(size=(rows, 2))
    return {"obs": seen.astype("f4"), "acts": done.astype("f4"), **more}


@pytest.mark.parametrize("kind", [bool, np.float32, np.int64])
def test_stable_baselines_says_where_episodes_begin_by_flags(tmp_path, kind):
    starts = np.isin(np.arange(40), [0, 10, 25]).astype(kind)
    more = {"rewards": np.ones((40, 1), "f4"), "episode_returns": np.ones(3)}
    np.savez(tmp_path / "expert.npz", **steps_of(episode_starts=starts, **more))
    source = sdil.open_source(tmp_path / "expert.npz")
    assert [e.steps for e in source.episodes] == [10, 15, 15]
    np.savez(tmp_path / "short.npz", **steps_of(episode_starts=starts[:30].astype(bool)))
    with pytest.raises(InputError, match="episode_starts has not 40 rows"):
        sdil.open_source(tmp_path / "short.npz")


def test_where_the_second_of_two_steps_begins_is_a_position(tmp_path):
    np.savez(tmp_path / "two.npz", **steps_of(3, starts=np.array([0, 1])))
    assert [e.steps for e in sdil.open_source(tmp_path / "two.npz").episodes] == [1, 2]


def test_arrays_of_objects_and_texts_are_left_out(tmp_path, capsys):
    objects = np.array([{"a": 1}] * 40, dtype=object)
    path = tmp_path / "transitions.npz"
    ends = np.isin(np.arange(40), [19, 39])
    np.savez(path, **steps_of(infos=objects, dones=ends, names=np.array(["x", "y"])))
    demos = sdil.read(path, clean="0")
    np.testing.assert_array_equal(demos.clean[0].observations, steps_of()["obs"][:20])
    assert main(["inspect", str(path)]) == 0
    assert "odd: infos holds objects, which are never unpickled" in capsys.readouterr().out
    np.savez(path, **steps_of(acts=objects, dones=ends))
    with pytest.raises(InputError, match=r"no actions; it holds obs, dones, acts \(objects\)"):
        sdil.open_source(path)
    np.savez(path, **steps_of(acts=np.array(["left"] * 40), dones=ends))
    with pytest.raises(InputError, match="acts holds <U4, not numbers"):
        sdil.open_source(path)


def test_filter_keys_may_list_demos_that_were_deleted(tmp_path, capsys):
    path = write_robomimic(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        listed = [name.decode() for name in file["mask/better"][()]]
        del file[f"data/{listed[0]}"]
        file.create_group("mask/odd")
    source = sdil.open_source(path)
    assert [e.id for e in source.episodes if "better" in e.tags] == listed[1:]
    assert len(sdil.read(path, clean="better").clean) == len(listed) - 1
    assert main(["inspect", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"odd: mask/better lists '{listed[0]}', which the file does not hold" in said
    assert "odd: mask/odd is no list of demos" in said


def test_columns_may_have_spaces_after_what_they_are(tmp_path):
    columns = {"episode": np.repeat([0, 1], 5), "Obs x": np.arange(10.0) ** 2}
    columns |= {"action a": np.sin(np.arange(10.0)), "Actions-b": np.cos(np.arange(10.0))}
    source = sdil.open_source(write_table(tmp_path / "a.csv", columns))
    roles = {f.name: f.role for f in source.features}
    assert roles == {"Obs x": "observation", "action a": "action", "Actions-b": "action"}


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        ("x y goal_x", "x y goal_x"),
        ("x_pos y_pos", "x_pos y_pos"),
        ("q gripper", "q gripper"),
        ("x_0 x_1 error", "x_0 x_1"),
        ("x0 x1 error", "x0 x1"),
        ("obs_0 x y", "obs_0 x"),
    ],
)
def test_a_letter_alone_names_no_observations(tmp_path, names, seen):
    """Or whoever has x and y would learn from x."""
    columns = {
        name: np.random.default_rng(i).normal(size=10) for i, name in enumerate(names.split())
    }
    columns = {"episode": np.repeat([0, 1], 5), **columns, "action": np.sin(np.arange(10.0))}
    source = sdil.open_source(write_table(tmp_path / "a.csv", columns))
    assert [f.name for f in source.features if f.role == "observation"] == seen.split()


def test_names_are_shown_whole_since_they_must_be_typed(tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.hdf5"
    long = ["obs/" + "robot0_eye_in_hand_image_of_the_left_arm_" + k for k in ("front", "rear")]
    with h5py.File(write_robomimic(path), "a") as file:
        for demo in file["data"].values():
            for name in long:
                demo[name] = np.zeros((len(demo["actions"]), 8, 8, 3), np.uint8)
        file["data"].attrs["bddl"] = "(define\n" * 99
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "…" not in said
    told = "".join(line.split("│")[1].strip() for line in said.splitlines() if "│" in line)
    for name in long:
        assert name in told
    assert said.count("(define") < 15


@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__", ""])
def test_row_numbers_that_pandas_wrote_are_no_observation(tmp_path, name):
    lines = [f"{i},{i // 5},{i % 5},{i * i},{i % 7}.5" for i in range(10)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([f"{name},episode,unix_time,speed,action", *lines]))
    source = sdil.open_source(path)
    assert [f.name for f in source.features if f.role == "observation"] == ["speed"]
    assert source.about["time_column"] == "unix_time"


def test_texts_among_features_are_told_from_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("episode,speed,action\n0,1.5,left\n0,2.5,right\n1,3.5,left\n")
    with pytest.raises(InputError, match=r"--actions. There are speed, action \(no numbers\)"):
        sdil.read(path, clean="0")


def test_a_table_that_is_not_in_utf_8(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("episode,höhe,action\n0,1.5,1\n0,2.5,2\n".encode("latin-1"))
    with pytest.raises(InputError, match="it is not in UTF-8; write it anew"):
        sdil.open_source(path)


@pytest.mark.parametrize("zipped", [False, True])
def test_pictures_whose_codec_is_not_there_are_left_out(tmp_path, zipped):
    path = write_zarr(tmp_path / "umi.zarr")
    whole = sdil.read(path, clean="0")
    for name in ("image", "state"):
        about = path / "data" / name / ".zarray"
        said = about.read_text()
        about.write_text(json.dumps({**json.loads(said), "compressor": {"id": "jpegxl"}}))
        there = path
        if zipped:
            there = Path(shutil.make_archive(str(tmp_path / name), "zip", path))
        if name == "state":  # not without a word: it would be another observation
            with pytest.raises(InputError, match="jpegxl"):
                sdil.open_source(there, "zarr")
            return
        source = sdil.open_source(there, "zarr")
        (odd,) = source.about["odd"]
        assert odd.startswith("data/image, pictures, cannot be opened: codec not available")
        assert sdil.read(there, clean="0", format="zarr") == whole
        answers = [RowAnswer(e.id, *rows_of(e.steps)) for e in source.episodes]
        with pytest.raises(InputError, match="so that it cannot be cut: install its codec"):
            write_back(source, answers, tmp_path / "cut", curated=True)
        about.write_text(said)


def rows_of(steps):
    ones = np.ones(steps, "f4")
    return ones, np.arange(steps) > 1, ones, np.arange(steps)


def test_values_of_episodes_go_along_with_their_pieces(tmp_path):
    path = tmp_path / "expert.npz"
    ends = np.array([10, 40])
    np.savez(path, **steps_of(episode_ends=ends, episode_returns=np.array([3.0, 4.0])))
    source = sdil.open_source(path)
    answers = [RowAnswer(e.id, *rows_of(e.steps)) for e in source.episodes]
    keep = np.arange(30) % 10 > 2  # three pieces
    answers[1] = replace(answers[1], keep=keep)
    write_back(source, answers, tmp_path / "cut.npz", curated=True)
    with np.load(tmp_path / "cut.npz") as cut:
        assert cut["episode_returns"].tolist() == [3, 4, 4, 4]
        assert cut["episode_ends"].tolist() == [8, 15, 22, 29]


@pytest.mark.parametrize(
    ("change", "clean"),
    [
        ({}, "top 20% by return"),
        ({"reward": lambda r: r * 0}, "shortest 20%"),
        ({"reward": lambda r: r * np.nan}, "shortest 20%"),
    ],
)
def test_what_is_suggested_tells_episodes_apart(tmp_path, capsys, change, clean):
    data = [
        {**e, **{name: what(e[name]) for name, what in change.items()}} for e in episodes(seed=3)
    ]
    path = write_minari(tmp_path / "a-v0", data)
    assert main(["inspect", str(path)]) == 0
    assert f"--clean '{clean}' --out" in capsys.readouterr().out


def test_a_word_among_numbers_that_were_seen_is_a_fault(tmp_path, capsys):
    """Not a column to leave out without a word; a column of words is none of the kind."""
    path = tmp_path / "steps.csv"
    rows = [f"e{i // 4},{i % 4},{i / 8},{i % 3},{'n.a.' if i == 5 else i},left" for i in range(12)]
    path.write_text("episode,step,obs_x,action_a,obs_y,obs_word\n" + "\n".join(rows) + "\n")
    with pytest.raises(
        InputError, match=r"steps\.csv, row 6, column \"obs_y\": 'n\.a\.' is no num"
    ):
        sdil.read(path, clean="e0")
    assert main(["inspect", str(path)]) == 2
    assert "row 6" in capsys.readouterr().err
    path.write_text(path.read_text().replace("n.a.", "5"))
    assert sdil.read(path, clean="e0").noisy.n_steps == 8


@pytest.fixture
def pen(tmp_path, monkeypatch):
    """D4RL's Adroit pen as Minari keeps it: under an id with slashes, with infos of each step."""
    import gymnasium as gym
    import minari
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    buffers = []
    for number in range(6):
        steps = 5 + number
        infos = {
            "success": np.arange(steps + 1) > 3,
            "state": {"qpos": random.normal(size=(steps + 1, 3))},
        }
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=random.normal(size=(steps + 1, 4)),
                actions=random.normal(size=(steps, 2)).astype(np.float32),
                rewards=[1.0] * steps,
                terminations=[False] * steps,
                truncations=[False] * (steps - 1) + [True],
                infos=infos,
            )
        )
    with pytest.warns(UserWarning, match="is None|set to None"):
        minari.create_dataset_from_buffers(
            "D4RL/pen/human-v2",
            buffer=buffers,
            observation_space=gym.spaces.Box(-np.inf, np.inf, (4,)),
            action_space=gym.spaces.Box(-1, 1, (2,)),
            algorithm_name="people",
            author="us",
            author_email="us",
            code_permalink="here",
            description="a pen",
        )
    return "D4RL/pen/human-v2"


def test_a_local_minari_set_is_known_by_its_id_alone(pen, tmp_path, capsys):
    assert main(["inspect", pen]) == 0
    said = capsys.readouterr().out
    assert f"import it with:\n  sdil import {pen} " in said
    assert main(["import", pen, "--clean", "0-2", "--out", "mine"]) == 0
    assert sdil.load_demonstrations("mine") == sdil.read(pen, clean="0-2")
    assert main(["inspect", "D4RL/pen/human-v3"]) == 2
    assert "D4RL/pen/human-v3 does not exist" in capsys.readouterr().err


def test_infos_of_minari_are_named_and_left_out(pen):
    source = sdil.open_source(pen)
    roles = {f.name: (f.role, f.shape) for f in source.features}
    assert roles["infos/success"] == ("other", ())
    assert roles["infos/state/qpos"] == ("other", (3,))
    assert sdil.read(source, clean="0").spaces.observation.shape == (4,)
    chosen = sdil.read(source, clean="0", features="observations,infos/state/qpos")
    assert chosen.spaces.observation.shape == (7,)
    with h5py.File("minari/D4RL/pen/human-v2/data/main_data.hdf5") as file:
        qpos = file["episode_0/infos/state/qpos"][()]
    np.testing.assert_array_equal(chosen.clean[0].observations[:, 4:], qpos[:5])


def test_what_is_named_is_shown_as_taken(pen, capsys):
    assert main(["inspect", pen, "--features", "infos/state/qpos"]) == 0
    said = capsys.readouterr().out
    told = {
        p[1].strip(): p[2].strip() for line in said.splitlines() if len(p := line.split("│")) > 2
    }
    assert told == {
        "observations": "left out",
        "actions": "action",
        "infos/state/qpos": "observation",
        "infos/success": "left out",
    }
