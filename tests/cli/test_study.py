"""`sdil study` from the command line."""

from __future__ import annotations

import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.cli.study import _whole

MINE = """
tasks = "sepsis"
clean = 3
noisy = 3
seeds = [0, 1]
[[learners]]
learner = "bc"
fields = { max_updates = 5, min_updates = 1 }
[[learners]]
row = "broken"
learner = "bc"
fields = { learning_rate = 1e30 }
[[learners]]
learner = "dwbc"
fields = { max_updates = 5, min_updates = 1 }
"""


def test_run_show_and_publish(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    out = tmp_path / "studies"
    assert main(["study", "run", str(file), "--out", str(out), "--workers", "0"]) == 0
    said = capsys.readouterr()
    assert "6/6" in said.err
    assert "FAILED" in said.err
    assert "2 of 6 cells failed" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert main(["study", "show", str(out / "mine"), "--format", "markdown"]) == 0
    assert "| broken | failed | failed |" in capsys.readouterr().out
    assert main(["study", "show", str(out / "mine"), "--failures"]) == 0
    assert "training diverged" in capsys.readouterr().out
    assert main(["study", "publish", str(out / "mine"), "--out", str(tmp_path / "results")]) == 0
    assert (tmp_path / "results" / "mine.md").read_text().startswith("# mine\n\n- sepsis (reward)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "which study?"),
        (["chess"], "which study?"),
        (["show", "nowhere"], "is not a study"),
        (["run", "nowhere.toml"], "nowhere.toml does not exist"),
        (["table1", "--tasks", "chess"], "table1 has no 'chess'"),
        (["table1", "--workers", "-1"], "--workers must be at least 1"),
        (["all", "--name", "x"], "--name is for one study"),
        (["tune", "bc", "--trials", "0"], "at least one seed and one trial"),
    ],
)
def test_one_line_says_what_is_wrong(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["study", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_help_names_every_study(capsys):
    assert main(["study", "--help"]) == 0
    text = capsys.readouterr().out
    assert "bad-share" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_parts_of_a_mimic_build_become_one_folder_for_a_study(tmp_path):
    def part(name: str, first: int) -> sdil.Demonstrations:
        made = [
            sdil.Trajectory(
                np.full((3, 2), i, np.float32), np.array([0, 1]), id=f"stay-{i}", group=f"p{i // 2}"
            )
            for i in range(first, first + 4)
        ]
        demos = sdil.Demonstrations(clean=made[:2], noisy=made[2:])
        sdil.save_demonstrations(demos, tmp_path / "built" / name, task="mimic")
        return demos

    parts = [part(name, 4 * i) for i, name in enumerate(("train", "valid", "test"))]
    whole = _whole(tmp_path / "built", tmp_path / "studies")
    joined = sdil.load_demonstrations(whole)
    for name in ("clean", "noisy"):
        ids = [i for p in parts for i in getattr(p, name).ids]
        groups = [g for p in parts for g in getattr(p, name).groups]
        assert list(getattr(joined, name).ids) == ids
        assert list(getattr(joined, name).groups) == groups
    written = (whole / "sdil.json").stat().st_mtime_ns
    assert _whole(tmp_path / "built", tmp_path / "studies") == whole
    assert (whole / "sdil.json").stat().st_mtime_ns == written
    assert _whole(whole, tmp_path / "studies") == whole
