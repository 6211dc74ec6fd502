"""What other people's files hold that nobody thought of: found by trying them by hand."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from layouts import episodes, write_minari, write_robomimic, write_table

import sdil
from sdil.cli import main
from sdil.errors import InputError


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
