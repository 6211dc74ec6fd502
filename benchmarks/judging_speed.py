"""What judging costs now, against a version before, in the same minutes.

    python benchmarks/judging_speed.py                 # against the judge before cross-fitting
    python benchmarks/judging_speed.py --before HEAD~5 --settings sepsis:100

The version before is checked out into a temporary folder. Both fit `sdil.Judge()` to the same
demonstrations, in processes of one thread that take turns; the fastest round of each counts, in
CPU seconds, imports and collecting apart.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import tyro

from common.report import Target, begin, finish, markdown

SETTINGS = ("fourrooms:30", "doorkey-6x6:30", "sepsis:100")
BEFORE = "3aafbc0"  # the last one without folds
FIT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
import sdil
task, clean = sys.argv[2].rsplit(":", 1)
demos, _ = sdil.get_task(task).collect(clean=int(clean), noisy=int(sys.argv[3]), seed=0)
few, _ = sdil.get_task(task).collect(clean=3, noisy=3, seed=1)
sdil.Judge().fit(few, seed=0)
begun = time.process_time()
sdil.Judge().fit(demos, seed=0)
print(time.process_time() - begun)
"""
ROOT = Path(__file__).resolve().parent.parent


def seconds(source: Path, setting: str, noisy: int) -> float:
    command = [sys.executable, "-c", FIT, str(source), setting, str(noisy)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{source}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout)


def main(
    before: str = BEFORE,
    settings: tuple[str, ...] = SETTINGS,
    noisy: int = 600,
    rounds: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        before: The commit to compare with.
        settings: Task and number of clean demonstrations.
        noisy: Noisy episodes.
        rounds: The fastest counts.
        json: Save everything to this file.
    """
    about = begin(before=before, settings=list(settings))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "before"
        git = ["git", "-C", str(ROOT)]
        made = subprocess.run(
            [*git, "worktree", "add", "--detach", "-q", str(old), before],
            check=False,
            capture_output=True,
            text=True,
        )
        if made.returncode:
            sys.exit(f"{before} cannot be checked out: {made.stderr.strip()}")
        try:
            for setting in settings:
                times = [
                    (seconds(old / "src", setting, noisy), seconds(ROOT / "src", setting, noisy))
                    for _ in range(rounds)
                ]
                was, now = (min(of_version) for of_version in zip(*times, strict=True))
                rows.append({"setting": setting, "before": was, "now": now, "ratio": now / was})
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(old)], check=False)
    lines = [[r["setting"], *(f"{r[k]:.2f}" for k in ("before", "now", "ratio"))] for r in rows]
    print(markdown(("setting", "before, CPU s", "now, CPU s", "ratio"), lines))
    targets = [Target(f"{r['setting']}, ratio", r["ratio"], at_most=4.0) for r in rows]
    finish(about, rows, targets, json)


if __name__ == "__main__":
    tyro.cli(main)
