"""The benchmarks run, on sizes too small to measure anything, and those in TOML are studies."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sdil.cli import main
from sdil.studies.written import read_written

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
STUDIES = sorted(BENCHMARKS.glob("*.toml"))
SMALLEST = {
    "training_speed": ("--no-peers --transitions 6000 --epochs 1 --rounds 1", 6),
    "mixture_floor": (
        "--seeds 200 --clean 5 --noisy 4 --tremors 0.1 --floors 0.1 --episodes 2 --workers 1",
        1,
    ),
    "rollout_speed": ("--clean 5 --episodes 5 --n-envs 2 --look-backs 1 --rounds 1", 1),
    "larger_than_memory": ("--frames 300 --side 16 --steps 10 --batches 2 --batch 8", 5),
    "load_check": ("--episodes 6 --rounds 1", 3),
    "training_memory": ("--episodes 50 --features 5 --look-backs 1", 1),
    "discovery_speed": ("--clean 5 --noisy 5 --updates 1 --rounds 1", 2),
    "demonstrators": ("--seeds 0 --episodes 5 --test 5 --collected 20", 6),
    "curation": (
        "--judge weighted-bc --sizes 5 --noisy 5 --seeds 0 --threshold -1 --episodes 5",
        1,
    ),
    "judging": ("--settings fourrooms:5 --seeds 0 --noisy 20 --workers 1", 1),
    "judging_speed": ("--before HEAD --settings fourrooms:5 --noisy 10 --rounds 1", 1),
    "recommending": ("--settings fourrooms:5 --seeds 0 --noisy 20 --by segment --workers 1", 1),
    "telling": ("--settings fourrooms:5 --seeds 0 --noisy 20 --labels 4 --workers 1", 1),
    "study_overhead": ("--seeds 1 --clean 5 --noisy 5 --learners bc --rounds 1", 5),
    "walks": ("--learner bc --sizes 5 --noisy 5 --recorded 20 --seeds 0 --workers 1", 10),
    "trusting": (
        "--settings fourrooms:5 --shares 0.1 --noisy 20 --recorded 20 --seeds 0 --workers 1",
        2,
    ),
    "importing": ("--steps 400 --features 3 --repeats 1 --only CSV;Zarr", 2),
    "control_judging": (
        "--settings pick-place --clean 3 --noisy 4 --seeds 100 --likelihood-only --workers 1",
        1,
    ),
    "scale": ("--sizes 1000 2000 --kinds discrete --stages load score page", 2),
    "many_workers": ("--steps 1000 --workers 1 2 --parts 2", 2),
    "gpu": (
        "--device cpu --parts bc discovery judging --frames 600 --side 12 --pictures 600 "
        "--updates 4 --rounds 1 --steps 600 --threads 1",
        3,
    ),
    "images": (
        "--tasks doorkey-5x5 --seeds 120 --clean 4 --noisy 4 --unseen 2 --episodes 5 --no-sdil-too",
        2,
    ),
    "seeds_at_once": ("--seeds 2 --steps 500 --updates 2 --rounds 1", 3),
    "pictures": ("--tasks doorkey-5x5 pusht --pictures 50 --filmed 3 --steps 9", 3),
    "page_speed": ("--steps 1000 --repeats 1", 8),
    "skills": (
        "--clean 4 --noisy 20 --steps 2 --stretches 7 --seeds 120 --unseen 10 --episodes 5 "
        "--earning BC",
        8,
    ),
    "tuned": (
        "--tasks fourrooms --clean 5 --noisy 5 --trials 1 --seeds 0 --tuning-seeds 600 --workers 1",
        5,
    ),
    "imitation_peers": ("--no-peers --only bc --clean 5 --seeds 0 --episodes 5", 1),
}
"""Options, and how many rows they measure."""
NEEDS_DATA = {
    *("mimic_scaling", "human_play", "predicting", "pusht", "pusht_policies", "never_wrong"),
}


def test_every_script_is_run_here() -> None:
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {*SMALLEST, *NEEDS_DATA}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_it_runs_and_saves_what_it_measured(name: str, tmp_path: Path) -> None:
    options, rows = SMALLEST[name]
    measured, said = run(name, options, tmp_path)
    assert len(measured["rows"]) == rows
    assert f"{name}.py" in measured["command"]
    assert "machine" in said


@pytest.mark.slow
def test_curation_finds_borders_where_they_are_known(tmp_path: Path) -> None:
    options = "--noise segments --sizes 5 --noisy 20 --seeds 0 --episodes 5 --workers 1"
    measured, _ = run("curation", options, tmp_path)
    (cell,) = measured["rows"]
    assert 0 < cell["borders"] <= 100
    assert set(cell["BC, clean"]) == {"reward", "reward_without_circles"}


def run(name: str, options: str, folder: Path) -> tuple[dict[str, list[dict[str, object]]], str]:
    file = folder / "measured.json"
    command = [sys.executable, BENCHMARKS / f"{name}.py", *options.split(), "--json", file]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text()), done.stdout


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_it_is_a_study(file: Path) -> None:
    asked, study = tomllib.loads(file.read_text("utf-8")), read_written(file)
    assert study.champion == asked["champion"]
    assert f"sdil study run benchmarks/{file.name}" in file.read_text("utf-8")
    assert {entry.cell.seed for entry in study.entries} == set(asked["seeds"])


@pytest.mark.slow
def test_a_study_records_both_ways_of_acting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The smallest part of `acting.toml`: two learners, one seed."""
    head, *learners = (BENCHMARKS / "acting.toml").read_text("utf-8").split("[[learners]]")
    small = head.replace("[10, 30, 100]", "5").replace("noisy = 600", "noisy = 5")
    small = small.replace("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", "[0]")
    small = small.replace('champion = "SDIL"', 'champion = "BC, clean only"')
    file = tmp_path / "acting.toml"
    file.write_text("[[learners]]".join([small, learners[0], learners[-1]]), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["study", "run", str(file), "--workers", "0"]) == 0
    assert "BC, clean only" in capsys.readouterr().out
    records = [
        json.loads(path.read_text())["measures"]
        for path in tmp_path.glob("studies/cells/*/*.json")
        if not path.stem.endswith("timing")
    ]
    assert len(records) == 2
    assert all({"reward", "reward_without_circles"} <= set(record) for record in records)
