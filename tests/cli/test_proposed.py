"""Whoever brings a table: each command that is proposed runs as it stands."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
from test_cli import run

import sdil
from sdil.cli import main

SHORT = ("--max-updates", 20, "--min-updates", 20)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Twelve walks to a goal, of two people; every third one fails."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    rng = np.random.default_rng(0)
    lines = ["episode,step,obs_x,obs_v,action_a,action_b,who,success,terminated"]
    for e in range(12):
        for t in range(9):
            x, v, a, b = rng.normal(size=4).round(3)
            ended = t == 8 and e % 3 > 0
            lines.append(f"{e},{t},{x},{v},{a},{b},p{e % 2},{e % 3 > 0},{ended}")
    path = tmp_path / "my steps.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def proposed(said: str) -> list[str]:
    """The words of the command that measures what was trained."""
    _, command = said.splitlines()[-1].split("measure it with: sdil ")
    return shlex.split(command)


@pytest.mark.filterwarnings("ignore:one clean trajectory")
@pytest.mark.parametrize("clean", ["success and steps < 300", "0-3"])
def test_a_policy_of_a_table_is_measured_by_the_command_that_is_proposed(table, capsys, clean):
    options = ["--clean", clean, "--features", "obs_v,obs_x", "--out", "run", *SHORT]
    assert run("train", "bc", "--data", table.name, *options) == 0
    said = capsys.readouterr().out
    command = proposed(said)
    assert command[:3] == ["evaluate", "run", "--data"]
    assert command[3].startswith("my steps.csv?clean=")  # near by
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "recorded steps, those it learned from" in said
    assert "error of entry action_a (of the mean action)" in said
    assert f"({clean})" in said
    assert max(map(len, said.splitlines())) <= 80
    for more in (["--data", table.name], []):  # read as it was for the run, other episodes
        assert run("evaluate", "run", *more, "--clean", "8-11") == 0
        said = capsys.readouterr().out
        assert "clean: 4 of 12 episodes (8-11): 8, 9, 10, 11" in said
        assert "learned from" not in said
    assert run("evaluate", "run", "--data", table.name) == 0
    assert f"({clean})" in capsys.readouterr().out


def test_a_folder_is_proposed_as_it_was_named(demos, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sdil.save_demonstrations(demos, "my demos")
    assert run("train", "bc", "--data", "my demos", "--out", "run", *SHORT) == 0
    command = proposed(capsys.readouterr().out)
    assert command == ["evaluate", "run", "--data", "my demos"]
    assert main(command) == 0
    assert "clean: " not in capsys.readouterr().out
    assert run("evaluate", "run", "--data", "my demos", "--clean", "0-1") == 2
    assert "which has no use for --clean" in capsys.readouterr().err


def test_inspect_says_what_columns_are_for(table, capsys):
    assert run("inspect", table.name) == 0
    said = capsys.readouterr().out
    told = {
        p[1].strip(): p[2].strip() for line in said.splitlines() if len(p := line.split("│")) > 2
    }
    assert (told["terminated"], told["success"]) == ("end of episode", "column of episodes")
    assert told["who"] == "column of episodes"
    said = " ".join(said.split())
    assert "note: a successful episode may hold bad steps, too, and all of it would be" in said
    assert "last observation: unknown; a last row without an action would give it" in said
    assert "ended by the task: 8 of 12 episodes, as terminated says" in said
    assert run("inspect", table.name, "--clean", "success", "--group", "who") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "may hold bad steps" not in said  # it was not proposed
    assert "│ who │ group │" in said


def test_a_path_that_is_not_there_is_to_be_checked(tmp_path, capsys):
    assert run("inspect", tmp_path / "nowhere.csv") == 2
    assert "nowhere.csv does not exist; check the path" in capsys.readouterr().err
