"""The benchmarks run, on sizes too small to measure anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "rows"),
    [
        ("training_speed", "--no-peers --transitions 6000 --epochs 1 --rounds 1", 3),
        ("rollout_speed", "--clean 5 --episodes 5 --n-envs 2 --look-backs 1 --rounds 1", 1),
        ("training_memory", "--episodes 50 --features 5 --look-backs 1", 1),
        ("discovery_speed", "--clean 5 --noisy 5 --updates 1 --rounds 1", 2),
        ("bc_curve", "--seeds 0 --sizes 5 --noisy 0 --look-backs 0 --episodes 5 --test 5", 3),
        ("sepsis_figures", "--sizes 10 --episodes 20 --valid 10", 5),
        (
            "curation",
            "--learner weighted-bc --sizes 5 --noisy 5 --seeds 0 --threshold -1 --episodes 5",
            1,
        ),
        ("step_scores", "--only fourrooms:5:detours --noisy 20 --seeds 0 --workers 1", 1),
        ("study_overhead", "--seeds 1 --clean 5 --noisy 5", 5),
        (
            "acting",
            "--sizes 5 --noisy 5 --seeds 0 --rows bc-clean oracle --champion bc-clean --workers 1",
            2,
        ),
        ("walks", "--sizes 5 --noisy 5 --recorded 20 --seeds 0 --workers 1", 12),
        ("imitation_peers", "--no-peers --only bc --clean 5 --seeds 0 --episodes 5", 1),
    ],
)
def test_it_runs_and_saves_what_it_measured(
    name: str, options: str, rows: int, tmp_path: Path
) -> None:
    file = tmp_path / "measured.json"
    command = [sys.executable, BENCHMARKS / f"{name}.py", *options.split(), "--json", file]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = json.loads(file.read_text())
    assert len(measured["rows"]) == rows
    assert f"{name}.py" in measured["command"]
    assert "machine" in done.stdout
