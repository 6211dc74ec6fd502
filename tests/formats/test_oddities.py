"""What is odd is found and named; what is not odd is not called so."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from layouts import episodes, table_of, write_numpy, write_robomimic, write_table

from sdil.cli import main
from sdil.formats.oddities import find_oddities
from sdil.formats.reading import open_reading
from sdil.formats.recognise import parse_address


def odd_in(path, **choices):
    return find_oddities(open_reading(parse_address(path).with_choices(clean="0", **choices))).odd


def walk(count=4, steps=80, lag=0, seed=0):
    """Positions that move by the actions, which were written down `lag` frames too late."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        action = random.normal(size=(steps, 2)).astype(np.float32)
        state = np.zeros((steps + 1, 3), np.float32)
        state[1:, :2] = np.cumsum(action, 0)
        state[:, 2] = random.normal(size=steps + 1)
        late = np.concatenate([random.normal(size=(lag, 2)), action[: steps - lag]])
        pictures = random.integers(0, 255, (steps + 1, 8, 8, 3)).astype(np.uint8)
        made.append(
            {
                "state": state,
                "object": random.normal(size=(steps + 1, 2, 2)),
                "action": late.astype(np.float32),
                "reward": np.zeros(steps),
                "image": pictures,
            }
        )
    return made


def test_nothing_odd(tmp_path):
    assert odd_in(write_robomimic(tmp_path / "a.hdf5", walk())) == []


def test_dimensions_that_never_vary_or_stick(tmp_path):
    data = walk()
    for e in data:
        e["state"][:, 2] = 7
        e["action"][:, 1] = np.clip(e["action"][:, 1], -0.5, 9)
    said = odd_in(write_robomimic(tmp_path / "a.hdf5", data))
    assert "observation: obs/state[2] never varies" in said
    assert any("saturated: actions[1] is -0.5 in" in text for text in said)
    assert len(said) == 2


@pytest.mark.parametrize("lag", [1, 3])
def test_actions_that_lag(tmp_path, lag):
    (said,) = odd_in(write_robomimic(tmp_path / "a.hdf5", walk(lag=lag)))
    assert f"by {lag} frame" in said
    assert "actions lag: actions[" in said


def test_episodes_that_are_there_twice(tmp_path):
    data = walk()
    data[3] = data[1]
    assert odd_in(write_robomimic(tmp_path / "a.hdf5", data)) == [
        "episode 'demo_3' is episode 'demo_1' again"
    ]


def test_frozen_cameras(tmp_path):
    data = walk()
    data[1]["image"][20:] = data[1]["image"][20]
    (said,) = odd_in(write_robomimic(tmp_path / "a.hdf5", data))
    assert said.startswith("episode 'demo_1': obs/image is frozen: 75%")


def test_times_that_jump(tmp_path):
    columns = table_of(walk())
    columns["step"][100:160] += 5
    said = odd_in(write_table(tmp_path / "t.csv", columns))
    assert any("row 101: step jumps from 19 to 25" in text for text in said)
    data = walk()
    steps = np.concatenate([np.arange(80.0) for _ in data])
    steps[200:] += 4.0
    path = write_numpy(tmp_path / "a.npz", data)
    with np.load(path) as arrays:
        np.savez(path, timestamp=steps, **arrays)
    assert any("timestamp jumps from 39 to 44 at row 40" in text for text in odd_in(path))


def test_an_episode_that_cannot_be_read_is_odd(tmp_path):
    data = walk()
    data[2]["state"][5, 0] = np.nan
    (said,) = odd_in(write_robomimic(tmp_path / "a.hdf5", data))
    assert "episode 'demo_2', row 5, obs/state[0]: nan" in said


def test_inspect_says_all_of_it(tmp_path, capsys):
    path = write_robomimic(tmp_path / "lift.hdf5")
    assert main(["inspect", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.replace("\\\n", " ").split())
    for words in (
        "6 episodes, 69 steps; lengths 9 to 14",
        "filter keys: better (2), better_operator_1 (3), worse (1), worse_operator_2 (3)",
        "groups: better_operator_1 (3), worse_operator_2 (3)",
        "picture, left out",
        "clean: those with the filter key better (2); noisy: all others (4)",
        f"sdil import {path} --clean better --out demos/lift",
    ):
        assert words in said
    assert main(["inspect", str(path), "--clean", "0-1", "--every", "2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["clean"], answer["noisy"]) == (2, 4)
    assert "--every 2" in answer["command"]
    assert not answer["guessed"]


def test_the_command_that_inspect_prints_works(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_table(tmp_path / "my steps.csv")
    assert main(["inspect", str(path), "--json"]) == 0
    command = json.loads(capsys.readouterr().out)["command"]
    assert main(shlex.split(command)[1:]) == 0
    assert (tmp_path / "demos" / "my steps" / "sdil.json").exists()


def test_a_guess_is_called_a_guess(tmp_path, capsys):
    columns = {k: v for k, v in episodes_table().items() if k not in ("success", "operator")}
    assert main(["inspect", str(write_table(tmp_path / "t.csv", columns))]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "would be clean: the 1 of 6 with the highest return" in said
    assert "this is a guess" in said


def episodes_table():
    return table_of(episodes())


def test_options_for_other_data_are_refused_for_a_folder(tmp_path, capsys):
    import sdil

    demos = sdil.read(write_robomimic(tmp_path / "a.hdf5"), clean="better")
    sdil.save_demonstrations(demos, tmp_path / "mine")
    assert main(["inspect", str(tmp_path / "mine")]) == 0
    assert main(["inspect", str(tmp_path / "mine"), "--clean", "0"]) == 2
    assert "has no use for --clean" in capsys.readouterr().err


def test_what_the_printed_command_lacks_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    columns = {"episode": np.repeat([0, 1, 2], 6), "step": np.tile(np.arange(6), 3)}
    columns |= {"speed": np.arange(18.0), "steer": np.arange(18.0) ** 2}
    write_table(tmp_path / "t.csv", columns)
    assert main(["inspect", "t.csv"]) == 0
    said = capsys.readouterr().out
    assert "import it with this, NAMES being the features that say what is done:\n" in said
    command = said.splitlines()[-1]
    assert "--actions NAMES" in command
    assert main(shlex.split(command.replace("NAMES", "steer"))[1:]) == 0
    capsys.readouterr()
    broken = {**columns, "step": np.tile(np.arange(6), 3) // np.repeat([1, 2, 1], 6)}
    write_table(tmp_path / "b.csv", {**broken, "action": broken["speed"]})
    assert main(["inspect", "b.csv"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("have the same step") == 1
    assert "import it with this, once episode 1 can be read, or --noisy names episodes" in said
    assert main(["inspect", "b.csv", "--clean", "0", "--noisy", "2"]) == 0
    command = capsys.readouterr().out.partition("import it with:\n")[2]
    assert main(shlex.split(command)[1:]) == 0
    assert main(["inspect", "b.csv", "--clean", "nobody"]) == 0
    assert "once that is mended: it fails as it stands:" in capsys.readouterr().out
