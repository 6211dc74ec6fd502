"""What it costs to compare demonstrations with their fingerprint when they are loaded.

    python benchmarks/load_check.py
    python benchmarks/load_check.py --episodes 100 --json load.json

The same folder is loaded with and without its fingerprint and checksums (as earlier versions wrote
it). The two take turns, each first in every other round; processor time counts, of the fastest
round each, since what else the machine does can only add to it. The check alone is measured too:
what it takes of a load is the same figure by another way, and the two should agree.
"""

from __future__ import annotations

import json as plain
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import tyro

import sdil
from common.report import Target, begin, finish, print_table


def main(
    episodes: int = 600,
    steps: int = 50,
    features: int = 32,
    rounds: int = 15,
    json: Path | None = None,
) -> None:
    """Measure, print, and compare with the target."""
    about = begin(episodes=episodes, steps=steps, features=features, rounds=rounds)
    rng = np.random.default_rng(0)
    made = [
        sdil.Trajectory(
            rng.normal(size=(steps + 1, features)).astype(np.float32),
            rng.integers(0, 7, steps),
            rng.normal(size=steps),
        )
        for _ in range(episodes)
    ]
    demos = sdil.Demonstrations(made[: episodes // 2], made[episodes // 2 :])
    seconds: dict[str, list[float]] = {"with the check": [], "without": [], "the check": []}
    with tempfile.TemporaryDirectory() as place:
        folders = {name: Path(place, name) for name in ("with the check", "without")}
        for folder in folders.values():
            sdil.save_demonstrations(demos, folder)
        _forget_checks(folders["without"] / "sdil.json")
        for number in range(rounds):
            for name in sorted(folders, reverse=number % 2 == 0):
                began = time.process_time()
                sdil.load_demonstrations(folders[name])
                seconds[name].append(time.process_time() - began)
            began = time.process_time()
            demos.fingerprint()
            seconds["the check"].append(time.process_time() - began)
    best = {name: min(taken) for name, taken in seconds.items()}
    rows = [
        {"way": name, "seconds": best[name], "median": median(taken), "slowest": max(taken)}
        for name, taken in seconds.items()
    ]
    print_table(
        ("way", "fastest", "median", "slowest"),
        [
            (name, *(f"{f(taken):.4f}" for f in (min, median, max)))
            for name, taken in seconds.items()
        ],
    )
    targets = [
        Target(
            "with the check over without", best["with the check"] / best["without"], at_most=1.1
        ),
        Target("1 + the check over without", 1 + best["the check"] / best["without"], at_most=1.1),
    ]
    finish(about, rows, targets, json)


def _forget_checks(file: Path) -> None:
    about = plain.loads(file.read_text("utf-8"))
    del about["fingerprint"], about["checksums"]
    file.write_text(plain.dumps(about), "utf-8")


if __name__ == "__main__":
    tyro.cli(main)
