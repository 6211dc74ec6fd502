"""Tables that say where an episode ended: columns of the next observation, a row without action."""

from __future__ import annotations

import json

import numpy as np
import pytest
from layouts import write_table

import sdil
from sdil.cli import main
from sdil.errors import InputError
from sdil.formats.rows import RowAnswer
from sdil.formats.source import Feature
from sdil.formats.table_ends import find_next
from sdil.formats.writing import write_back

LENGTHS = {4: 6, 7: 9, 9: 1}
NAMES = ("obs_x", "obs_y")


def walks():
    """What each episode saw (T+1, 2) and did (T, 2)."""
    rng = np.random.default_rng(0)
    return {e: (rng.normal(size=(n + 1, 2)), rng.normal(size=(n, 2))) for e, n in LENGTHS.items()}


def table(how, *, lists=False, whole=False):
    """Columns of a table of these walks; NaN where a cell is empty."""
    columns = {"episode": [], "step": [], "obs": [], "next_obs": [], "action": [], "reward": []}
    columns |= {"terminated": [], "success": []}
    for e, (seen, done) in walks().items():
        n = len(done)
        rows = n + (how == "row")
        empty = np.full((rows - n, 2), np.nan)
        columns["episode"] += [e] * rows
        columns["step"] += range(rows)
        columns["obs"].append(seen[:rows])
        columns["next_obs"].append(np.concatenate([seen[1 : n + 1], empty]))
        columns["action"].append(np.concatenate([done, empty]))
        end = [np.nan] * (rows - n)
        columns["reward"] += [0.5] * n + end
        columns["terminated"] += [0.0] * (n - 1) + [float(e != 7)] + end
        columns["success"] += [float(e)] * n + end
    found = {k: np.array(v) for k, v in columns.items() if k not in ("obs", "next_obs", "action")}
    for name in ("obs", "next_obs", "action"):
        stacked = np.concatenate(columns[name])
        if name == "next_obs" and how != "columns":
            continue
        if name == "action" and whole:
            found[name] = np.abs(stacked[:, 0]).round()
        elif lists:
            found[name] = stacked
        else:
            found |= {f"{name}_{axis}": stacked[:, i] for i, axis in enumerate("xy")}
    return found


def check(demos, *, final=True):
    for t in (*demos.clean, *demos.noisy):
        seen, done = walks()[int(t.id)]
        np.testing.assert_array_equal(t.observations, seen if final else seen[:-1])
        np.testing.assert_array_equal(t.actions, done)
        np.testing.assert_array_equal(t.rewards, np.full(len(done), 0.5))
        assert t.terminated == (t.id != "7")


@pytest.mark.parametrize("how", ["columns", "row"])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.duckdb"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("lists", [False, True])
def test_the_last_observation_is_read(tmp_path, how, name, shuffle, lists):
    if lists and name == "t.csv":
        pytest.skip("CSV has no lists")
    path = write_table(tmp_path / name, table(how, lists=lists), shuffle=shuffle)
    source = sdil.open_source(path)
    assert {e.id: e.steps for e in source.episodes} == {str(e): n for e, n in LENGTHS.items()}
    assert all(e.columns["success"] == float(e.id) for e in source.episodes)
    demos = sdil.read(path, clean="success = 4")
    assert demos.clean.ids == ("4",)
    check(demos)
    again = sdil.read(path, clean="4", every=2)
    np.testing.assert_array_equal(again.clean[0].observations, walks()[4][0][[0, 2, 4, 6]])


def test_without_either_it_is_unknown(tmp_path):
    check(sdil.read(write_table(tmp_path / "t.csv", table("")), clean="4"), final=False)


def test_both_at_once_must_agree(tmp_path):
    columns, more = table("row"), table("columns")
    at = ~np.isnan(columns["action_x"])
    for name in ("next_obs_x", "next_obs_y"):
        columns[name] = np.full(len(at), np.nan)
        columns[name][at] = more[name]
    check(sdil.read(write_table(tmp_path / "t.csv", columns), clean="4"))
    columns["next_obs_y"][np.flatnonzero(at & (columns["episode"] == 7))[-1]] += 1
    with pytest.raises(InputError, match="episode '7', step 8, column next_obs_y"):
        sdil.read(write_table(tmp_path / "u.csv", columns), clean="4")


def test_next_observations_of_other_rows_are_refused(tmp_path, capsys):
    columns = table("columns")
    columns["next_obs_y"] = columns["next_obs_y"].astype(np.float32).astype(float)  # rounded
    path = write_table(tmp_path / "t.csv", columns)
    np.testing.assert_allclose(sdil.read(path, clean="4").noisy[0].observations, walks()[7][0])
    columns["next_obs_y"][9] += 1e-3  # the fourth step of episode 7
    path = write_table(tmp_path / "u.csv", columns)
    with pytest.raises(
        InputError,
        match=r"u\.csv: episode '7', step 3, column next_obs_y: \S+, but obs_y of the row after",
    ):
        sdil.read(path, clean="4")
    assert sdil.read(path, clean="4", features="obs_x").noisy[0].observations.shape == (10, 1)
    assert main(["inspect", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "odd: " in said
    assert "episode '7', step 3, column next_obs_y" in said


def test_only_the_last_next_observation_is_needed(tmp_path):
    columns = table("columns")
    last = np.append(np.diff(columns["episode"]) != 0, True)
    for name in ("next_obs_x", "next_obs_y"):
        columns[name] = np.where(last, columns[name], np.nan)
    check(sdil.read(write_table(tmp_path / "t.csv", columns), clean="4"))
    columns["next_obs_y"][5] = np.nan
    with pytest.raises(InputError, match="row 6, column next_obs_y: it is empty, and next_obs_x"):
        sdil.read(write_table(tmp_path / "u.csv", columns), clean="4")
    columns["next_obs_x"][5] = np.nan
    demos = sdil.read(write_table(tmp_path / "v.csv", columns), clean="4")
    assert (len(demos.clean[0].observations), len(demos.noisy[0].observations)) == (6, 10)


def test_a_row_without_an_action_is_the_last_of_its_episode(tmp_path, capsys):
    columns = table("row")
    for name in ("action_x", "action_y"):
        columns[name][2] = np.nan  # episode 4
        columns[name][-2:] = np.nan  # episode 9
    path = write_table(tmp_path / "t.csv", columns)
    with pytest.raises(InputError, match=r"t\.csv: episode '4', step 2 \(row 3\): .*rows follow"):
        sdil.read(path, clean="4")
    with pytest.raises(InputError, match="episode '9': none of its rows has an action"):
        sdil.read(path, clean="9")
    assert main(["inspect", str(path), "--json"]) == 0
    odd = json.loads(capsys.readouterr().out)["odd"]
    assert sum("rows follow" in said or "none of its rows" in said for said in odd) == 2
    columns = table("row")
    columns["action_x"][6] = 1.0  # some of the last action is there
    with pytest.raises(InputError, match="episode '4', row 7, column action_y: it is empty"):
        sdil.read(write_table(tmp_path / "u.csv", columns), clean="4")


def test_how_an_episode_ended_may_stand_in_either_row(tmp_path, capsys):
    columns = table("row")
    last = np.isnan(columns["terminated"])
    columns["terminated"] = np.where(last, columns["episode"] != 7, 0.0)
    columns["reward"][last] = 1.0
    path = write_table(tmp_path / "t.parquet", columns)
    check(sdil.read(path, clean="4"))
    assert main(["inspect", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ends"] == [
        "last observation: known of 3 of 3 episodes, by a last row without an action",
        "ended by the task: 2 of 3 episodes, as terminated says",
    ]
    assert "3 last rows without an action have a reward, which no step gets" in told["odd"][0]


def test_a_text_ends_no_episode(tmp_path):
    columns = table("columns")
    columns["terminated"] = np.where(columns["terminated"] == 1, "no", "never")
    demos = sdil.read(write_table(tmp_path / "t.csv", columns), clean="4")
    assert not any(t.terminated for t in (*demos.clean, *demos.noisy))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_counted_actions_stay_counted_beside_an_empty_cell(tmp_path, name):
    """pandas makes floats of whole numbers where one is missing."""
    columns = table("row", whole=True)
    demos = sdil.read(write_table(tmp_path / name, columns), clean="4")
    assert demos.spaces.listed
    np.testing.assert_array_equal(demos.clean[0].actions, np.abs(walks()[4][1][:, 0]).round())
    columns["action"] /= 2
    assert not sdil.read(write_table(tmp_path / f"u{name}", columns), clean="4").spaces.listed


def test_which_columns_are_actions_may_be_said(tmp_path):
    columns = table("row")
    columns["steer"], columns["gas"] = columns.pop("action_x"), columns.pop("action_y")
    path = write_table(tmp_path / "t.csv", columns)
    check(sdil.read(path, clean="4", actions="steer,gas"))
    check(sdil.read(sdil.open_source(path), clean="4", actions="steer,gas"))
    columns["action_noise"] = columns["step"] * 0.5  # never empty, so that no row is without one
    path = write_table(tmp_path / "u.csv", columns)
    assert [e.steps for e in sdil.open_source(path).episodes] == [7, 10, 2]
    check(sdil.read(path, clean="4", actions="steer,gas"))


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ("obs_0 obs_1 next_obs_0 next_obs_1", "obs_0:next_obs_0 obs_1:next_obs_1"),
        ("obs_0 obs_1 next_obs_1", "obs_1:next_obs_1"),
        ("Obs Next.Obs", "Obs:Next.Obs"),
        ("obs[0] next_obs[0]", "obs[0]:next_obs[0]"),
        ("obs_0 obs_next_0", "obs_0:obs_next_0"),
        ("s_0 s_0_next", "s_0:s_0_next"),
        ("speed next_speed", "speed:next_speed"),
        ("speed waypoint next_waypoint", ""),
        ("obs_speed obs_waypoint obs_next_waypoint", ""),
        ("obs_0 next_reward", ""),
    ],
)
def test_what_columns_of_the_next_observation_are_called(names, found):
    named = any(n.lower().startswith(("obs", "s_")) for n in names.split())

    def role(name):
        seen = name.lower().startswith(("obs", "s_")) if named else True
        return "observation" if seen else "other"

    features = [Feature(name, role(name), (), "float64") for name in names.split()]
    told = dict(pair.split(":") for pair in found.split())
    assert find_next(features) == told


def test_next_observations_are_no_features(tmp_path, capsys):
    columns = {k.replace("obs_", "pos_"): v for k, v in table("columns").items()}
    path = write_table(tmp_path / "t.csv", columns)
    assert sdil.read(path, clean="4").origin.observation == ("pos_x", "pos_y")
    assert main(["inspect", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "│ next_pos_x │ next observation │" in said
    assert "│ terminated │ end of episode │" in said
    assert "last observation: known of 3 of 3 episodes, by next_pos_x, next_pos_y" in said
    assert "columns of episodes: reward, success last" in said  # and no next_pos_x


def test_an_observation_may_lack_its_next_one(tmp_path, capsys):
    columns = table("columns")
    del columns["next_obs_y"]
    path = write_table(tmp_path / "t.csv", columns)
    check(sdil.read(path, clean="4"), final=False)
    assert len(sdil.read(path, clean="4", features="obs_x").clean[0].observations) == 7
    assert main(["inspect", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "last observation: unknown: next_obs_x gives it, but obs_y has no such column" in said


def test_actions_may_be_seen_too(tmp_path):
    path = write_table(tmp_path / "t.csv", table("row"))
    demos = sdil.read(path, clean="4", features="obs_x,action_x")
    assert demos.clean[0].observations.shape == (6, 2)  # nobody knows what was done last


def answers(source):
    """Episode 4 is kept, of 7 what comes first and last, of 9 all."""
    made = []
    for i, e in enumerate(source.episodes):
        keep = np.ones(e.steps, bool)
        if e.id.endswith("7"):
            keep[3:6] = False
        score = np.where(keep, 0.5, -0.25).astype(np.float32)
        frames = source.read(i, []).frames
        made.append(RowAnswer(e.id, score, keep, (1 + score) / 2, frames, 0.0))
    return made


@pytest.mark.parametrize("how", ["columns", "row"])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.duckdb"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_what_was_read_is_written_back(tmp_path, how, name, shuffle):
    if name == "t.parquet":
        pytest.importorskip("pyarrow")
    source = sdil.open_source(write_table(tmp_path / name, table(how), shuffle=shuffle))
    assert [len(a) for a in answers(source)] == [e.steps for e in source.episodes]
    write_back(source, answers(source), tmp_path / f"new-{name}", curated=False)
    check(sdil.read(tmp_path / f"new-{name}", clean="4"))
    scored = sdil.open_source(tmp_path / f"new-{name}")
    for i, answer in enumerate(answers(scored)):
        told = scored._rows(i, ["sdil_score", "sdil_weight"])
        np.testing.assert_allclose(told["sdil_score"][: len(answer)], answer.score)
        beyond = np.ma.filled(told["sdil_weight"][len(answer) :].astype(float), np.nan)
        assert np.isnan(beyond).all()
        assert len(beyond) == (how == "row")
    write_back(source, answers(source), tmp_path / f"cut-{name}", curated=True)
    cut = sdil.read(tmp_path / f"cut-{name}", clean="4")
    seen, done = walks()[7]
    found = {t.id: t for t in (*cut.clean, *cut.noisy)}
    assert {k: len(t) for k, t in found.items()} == {"4": 6, "9": 1, "10": 3, "11": 3}
    np.testing.assert_array_equal(found["4"].observations, walks()[4][0])
    np.testing.assert_array_equal(found["11"].observations, seen[6:])
    np.testing.assert_array_equal(found["11"].actions, done[6:])
    # of a segment that is cut short the row after it is gone
    np.testing.assert_array_equal(found["10"].observations, seen[: 4 if how == "columns" else 3])


def test_a_last_row_stays_in_the_file_of_its_segment(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    columns = table("row")
    for e in LENGTHS:
        part = {k: v[columns["episode"] == e] for k, v in columns.items()}
        write_table(folder / "t.csv", part)
        lines = (folder / "t.csv").read_text().splitlines()
        text = "\n".join(line.partition(",")[2] for line in lines)
        (folder / f"run{e}.csv").write_text(text + "\n")
    (folder / "t.csv").unlink()
    source = sdil.open_source(folder)
    write_back(source, answers(source), tmp_path / "cut", curated=True)
    cut = sdil.read(tmp_path / "cut", clean="run4")
    steps = {t.id: (len(t), len(t.observations)) for t in (*cut.clean, *cut.noisy)}
    assert steps == {"run4": (6, 7), "run7_0_3": (3, 3), "run7_6_9": (3, 4), "run9": (1, 2)}
