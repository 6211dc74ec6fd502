"""How right is the judge where the truth is known? Steps, the share of good ones, what is heard.

    python benchmarks/judging.py                      # the table of docs/score.md
    python benchmarks/judging.py --settings fourrooms:30 all-bad:30 --seeds 100 101
    python benchmarks/judging.py --valid 100          # what a large valid lets hear
    python benchmarks/judging.py --settings mass-interrupted:10 mass-aims:10 --noisy 200

A setting is a task and a number of clean demonstrations, all told: nothing is held out, no `valid`.
600 noisy episodes. "detours" are good episodes of FourRooms with detours in them; "all-good" are
more episodes of the expert, "all-bad" take the planner's worst action at each step.
"mass-interrupted" and "mass-aims" are a made-up world in which states never come again
(common/pushed_mass.py). The truth is only compared with. "At matched length" is the AUROC among
episodes that are about as long as one another, "likelihood" that of the likelihood of the action
under clones of the clean set, on its own.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common import pushed_mass
from common.report import begin, finish, markdown, measure_all

SETTINGS = (
    "fourrooms:5",
    "fourrooms:10",
    "fourrooms:30",
    "fourrooms:100",
    "detours:10",
    "detours:30",
    "doorkey-6x6:30",
    "sepsis:100",
    "all-good:30",
    "all-bad:30",
)
COLUMNS = (
    "setting",
    "AUROC",
    "at matched length",
    "likelihood",
    "truly good",
    "estimated",
    "interval",
    "covers",
    "widest",
    "calibration error",
    "below 0",
    "CPU s",
)


def collect(setting: str, noisy: int, seed: int) -> tuple[sdil.Demonstrations, Any]:
    """Demonstrations, and which steps of each noisy episode are good."""
    name, size = setting.rsplit(":", 1)
    clean = int(size)
    if name.startswith("mass-"):
        kind: Any = name.removeprefix("mass-")
        return pushed_mass.collect(clean, noisy, kind, seed)
    if name == "all-good":
        demos, truth = sdil.get_task("fourrooms").collect(clean=clean + noisy, noisy=1, seed=seed)
        every = list(demos.clean)
        return (
            sdil.Demonstrations(clean=every[:clean], noisy=every[clean:], spaces=demos.spaces),
            list(truth.clean_good[clean:]),
        )
    noises = {"detours": "segments", "all-bad": "worst"}
    task, noise = ("fourrooms", noises[name]) if name in noises else (name, "paper")
    options: dict[str, Any] = {"clean": clean, "noisy": noisy, "seed": seed, "noise": noise}
    demos, truth = sdil.get_task(task).collect(**options)
    return demos, list(truth.noisy_good)


def run_cell(setting: str, noisy: int, seed: int, valid: int) -> dict[str, Any]:
    """One seed."""
    import torch

    from sdil.evaluation.calibration import calibration_of_scores
    from sdil.evaluation.scores import auroc_at_matched_length, compare_with_truth

    torch.set_num_threads(1)
    demos, truth = collect(setting, noisy, seed)
    good = np.concatenate(truth)
    episode = np.repeat(np.arange(len(truth)), [len(each) for each in truth])
    begun = time.process_time()
    judge = sdil.Judge().fit(demos, seed=seed)
    seconds = time.process_time() - begun
    scores = np.concatenate([s.optimality for s in judge.score(demos.noisy)])
    share = judge.evidence.share()
    cell: dict[str, Any] = {
        "setting": setting,
        "seed": seed,
        "auroc": compare_with_truth(scores, good)[0],
        "matched": auroc_at_matched_length(scores, good, episode),
        "likelihood": compare_with_truth(likelihood(judge, demos), good)[0],
        "good": float(good.mean()),
        "point": share.point,
        "low": share.low,
        "high": share.high,
        "calibration": calibration_of_scores(scores, good).ece,
        "below": float((scores < 0).mean()),
        "seconds": seconds,
        "heard": [f"{s.output}: {s.name}" for s in judge.signals if s.heard],
    }
    if valid:
        more, _ = collect(f"{setting.rsplit(':', 1)[0]}:{valid}", 1, 50_000 + seed)
        told = sdil.Judge().fit(demos, valid=more.clean_only(), seed=seed)
        cell["heard_with_valid"] = [f"{s.output}: {s.name}" for s in told.signals if s.heard]
    return cell


def likelihood(judge: Any, demos: sdil.Demonstrations) -> Any:
    """How likely clones of the clean set find each noisy action, in logarithms. (N,)"""
    import torch

    from sdil.windows import Windows

    windows = Windows(demos.noisy, 0, judge.tensors()["inputs"])
    found = judge.evidence.tell("likelihood", windows, torch.arange(len(windows)))
    return found.nan_to_num(0.0).numpy()


def main(
    settings: tuple[str, ...] = SETTINGS,
    seeds: tuple[int, ...] = tuple(range(10)),
    noisy: int = 600,
    valid: int = 0,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        settings: Task and number of clean demonstrations.
        seeds: The table gives means over them.
        noisy: Noisy episodes.
        valid: Also fit with so many validation demonstrations, to see what they would let hear.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(settings=list(settings), seeds=list(seeds), noisy=noisy)
    jobs = [(setting, noisy, seed, valid) for setting in settings for seed in seeds]
    cells = measure_all(run_cell, jobs, workers)
    of = {setting: [c for c in cells if c["setting"] == setting] for setting in settings}
    print(markdown(COLUMNS, [line(setting, mine) for setting, mine in of.items()]))
    for setting, mine in of.items():
        print(f"- {setting} hears: {counted(mine, 'heard')}")
        if valid:
            print(f"  with {valid} validation demonstrations: {counted(mine, 'heard_with_valid')}")
    finish(about, cells, [], json)


def line(setting: str, mine: list[dict[str, Any]]) -> list[str]:
    """A row of the table."""

    def mean(key: str) -> float:
        return float(np.mean([c[key] for c in mine]))

    def spread(key: str) -> str:
        known = [c[key] for c in mine if c[key] is not None]
        return f"{np.mean(known):.2f} ± {np.std(known):.2f}" if known else ""

    covers = sum(c["low"] <= c["good"] <= c["high"] for c in mine)
    return [
        setting,
        spread("auroc"),
        spread("matched"),
        spread("likelihood"),
        f"{mean('good'):.2f}",
        f"{mean('point'):.2f}",
        f"{mean('low'):.2f} to {mean('high'):.2f}",
        f"{covers} of {len(mine)}",
        f"{max(c['high'] - c['low'] for c in mine):.2f}",
        f"{mean('calibration'):.2f}",
        f"{100 * mean('below'):.1f}%",
        f"{mean('seconds'):.1f}",
    ]


def counted(mine: list[dict[str, Any]], key: str) -> str:
    """In how many seeds each signal is heard."""
    found = Counter(name for cell in mine for name in cell[key])
    return ", ".join(f"{name} {count} of {len(mine)}" for name, count in sorted(found.items()))


if __name__ == "__main__":
    tyro.cli(main)
