"""`sdil study` from the command line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.cli.study import _whole
from sdil.studies.paper import STUDIES
from sdil.studies.runners import Finished, Started

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


@pytest.mark.slow
def test_run_show_and_publish(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    out = tmp_path / "studies"
    assert main(["study", "run", str(file), "--out", str(out), "--workers", "0"]) == 1
    said = capsys.readouterr()
    assert "6/6" in said.err
    assert "2 of 6 cells asked for failed; sdil study show" in said.err
    assert "FAILED" in said.err
    assert "2 of 6 cells failed" in said.out
    assert max(map(len, said.out.splitlines())) <= 80
    assert main(["study", "show", str(out / "mine"), "--format", "markdown"]) == 0
    assert "| broken | failed | failed |" in capsys.readouterr().out
    assert main(["study", "show", str(out / "mine"), "--failures"]) == 0
    assert "training diverged" in capsys.readouterr().out
    assert main(["study", "publish", str(out / "mine"), "--out", str(tmp_path / "results")]) == 0
    assert (
        (tmp_path / "results" / "mine.md")
        .read_text()
        .startswith("# mine\n\n- sepsis (reward, greedy)")
    )


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
        (["tune", "bc", "--clean", "0"], "--clean must be a whole number, at least 1, not 0"),
        (["tune", "bc", "--noisy", "-3"], "--noisy must be a whole number, at least 0, not -3"),
        (["tune", "bc", "--seeds", "-1"], "--seeds must be a whole number"),
        (["tune", "bc", "--task", "../escaped"], "there is no task '../escaped'"),
        (["table1", "--clean", "0"], "--clean must be a whole number, at least 1, not 0"),
        (["scores", "--clean", "0"], "--clean must be a whole number, at least 1, not 0"),
        (["curve", "--clean", "-5"], "--clean must be a whole number, at least 1, not -5"),
        (["table1", "--noisy", "-5"], "--noisy must be a whole number, at least 0, not -5"),
        (["table1", "--seeds", "0", "-1"], "--seeds must be a whole number"),
        (["table1", "--seeds", "1", "1"], "--seeds: each may be named once, not 1 1"),
        (["table1", "--name", "../escaped"], "--name must be letters, digits"),
        (["table1", "--name", ""], "--name must be letters, digits"),
    ],
)
def test_one_line_says_what_is_wrong(arguments, said, tmp_path, monkeypatch, capsys):
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert main(["study", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(inside.rglob("*"))
    assert list(tmp_path.iterdir()) == [inside]


BROKEN = """
tasks = "sepsis"
clean = 3
noisy = 0
seeds = 0
[[learners]]
row = "[red]fine[/red] \\u001b[2J"
learner = "bc"
fields = { max_updates = 5, min_updates = 1 }
[[learners]]
learner = "bc"
row = "broken"
fields = { learning_rate = 1e30 }
"""


@pytest.mark.slow
def test_the_exit_code_tells_of_failed_cells_and_rows_are_text(tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_text(BROKEN)
    run = ["study", "run", str(file), "--out", str(tmp_path / "studies"), "--workers", "0"]
    assert main(run) == 1
    said = capsys.readouterr()
    assert "1 of 2 cells asked for failed; sdil study show" in said.err
    assert "[red]fine[/red]" in said.out
    assert "\x1b" not in said.out
    shown = ["study", "show", str(tmp_path / "studies" / "mine")]
    assert main(shown) == 0
    assert "1 of 2 cells failed" in capsys.readouterr().out
    assert main([*shown, "--format", "csv"]) == 0
    said = capsys.readouterr()
    assert "1 of 2 cells failed" in said.err
    assert "1 of 2" not in said.out
    assert "[red]fine[/red] \\x1b[2J" in said.out
    file.write_text(BROKEN.partition("[[learners]]\nlearner")[0])
    assert main(run) == 0


@pytest.mark.slow
def test_only_what_was_asked_for_counts(tmp_path, monkeypatch, capsys):
    def run_part(learners, fails):
        def run(jobs):
            for job in jobs:
                yield Started(job.address)
                yield Finished(job.address, None, {}, "Traceback") if fails else _done(job)

        monkeypatch.setattr("sdil.cli.study.in_this_process", run)
        part = ["--tasks", "sepsis", "--learners", learners, "--seeds", "0", "--workers", "0"]
        return main(["study", "table1", "--out", str(tmp_path), *part])

    assert run_part("dwbc", fails=True) == 1
    assert "1 of 1 cells asked for failed" in capsys.readouterr().err
    assert run_part("isw-bc", fails=False) == 0
    assert "asked for" not in capsys.readouterr().err
    assert run_part("dwbc", fails=False) == 0


def _done(job):
    names = ("valid_nll", "valid_acc", "acc", "macro_f", "macro_auroc", "micro_auroc", "reward")
    record = {"inputs": job.inputs, "measures": dict.fromkeys(names, 0.5), "warnings": []}
    timing = {"started": "2026-01-02", "wall_s": 1, "cpu_s": 1, "machine": "M", "versions": {}}
    return Finished(job.address, record, timing)


def test_a_file_whose_name_is_no_study_s_is_refused(tmp_path, capsys):
    file = tmp_path / "my study.toml"
    file.write_text(MINE)
    assert main(["study", "run", str(file), "--out", str(tmp_path / "studies")]) == 2
    assert "the file's name, which is the study's, must be letters" in capsys.readouterr().err
    assert not (tmp_path / "studies").exists()


def test_help_names_every_study(capsys):
    assert main(["study", "--help"]) == 0
    text = capsys.readouterr().out
    assert "bad-share" in text
    assert max(map(len, text.splitlines())) <= 80


def test_all_leaves_out_what_takes_long(tmp_path, monkeypatch):
    asked = []

    def measured(study, *_):
        asked.append(study.name)
        return 0

    monkeypatch.setattr("sdil.cli.study._measure", measured)
    assert main(["study", "all", "--out", str(tmp_path)]) == 0
    assert asked == [name for name in STUDIES if name not in ("curve", "scores")]


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


def test_the_copy_of_all_stays_is_its_owners_alone(demos, tmp_path):
    """What `mimic build` writes in parts is joined for studies: patient data once more."""
    for name in ("train", "valid", "test"):
        part = sdil.Demonstrations(
            [replace(t, id=f"{name}-{t.id}") for t in demos.clean[:2]], [], demos.spaces
        )
        sdil.save_demonstrations(part, tmp_path / "mimic" / name, task="mimic")
    whole = _whole(tmp_path / "mimic", tmp_path / "studies")
    assert len(sdil.load_demonstrations(whole).clean) == 6
    modes = {p.stat().st_mode & 0o077 for p in [whole, *whole.rglob("*")]}
    assert modes == {0}
