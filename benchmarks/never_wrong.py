"""Is SDIL ever the wrong choice? The verdict over the cells of four studies.

    for study in never-wrong never-wrong-detours never-wrong-all-good never-wrong-all-bad; do
        sdil study run benchmarks/$study.toml
    done
    python benchmarks/never_wrong.py                            # reads studies/
    python benchmarks/never_wrong.py --folder docs/results/records   # or what was published

A cell is a noisy set, a number of clean demonstrations and a way of acting; differences are paired
by seed, and all learners of a column act by the same rule. The best rival of a cell is told in
hindsight, on these very seeds, which flatters it: whoever chose on other seeds would have less.
Over cells, differences are averaged within a seed first, so that intervals count seeds.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tyro

from common.report import Target, begin, finish, markdown
from sdil.evaluation.comparisons import mean_interval, paired_difference
from sdil.studies.grid import Results
from sdil.studies.reading import read_published, read_study

STUDIES = ("never-wrong", "never-wrong-detours", "never-wrong-all-good", "never-wrong-all-bad")
RIVALS = ("BC, clean only", "BC, pooled", "DWBC", "scored BC")
WAYS = {"greedy": "reward", "without circles": "reward_without_circles"}
OURS, WORSE = "SDIL", -1.0


@dataclass(frozen=True)
class Cell:
    """A noisy set and a number of clean demonstrations, under one way of acting."""

    acting: str
    noise: str
    clean: int
    rewards: dict[str, dict[int, float]]
    """Of each row, by seed."""


def main(folder: Path = Path("studies"), json: Path | None = None) -> None:
    """Print a Markdown table for each way of acting, and what was asked for.

    Args:
        folder: Studies that were run, or what was published of them.
        json: Save everything to this file.
    """
    about = begin(folder=str(folder))
    results = {name: read(folder, name) for name in STUDIES}
    targets: list[Target] = []
    every: list[Cell] = []
    for way, measure in WAYS.items():
        cells = [
            Cell(way, noise_of(name, task), at, rewards(found, task, measure, at))
            for name, found in results.items()
            for task in found.study.tasks
            for at in found.points(task)
        ]
        every += cells
        print(f"**{way}**, reward x100, {len(cells)} cells\n")
        print(markdown(("noisy set", "clean", OURS, *RIVALS), [line(c) for c in cells]), "\n")
        print(f"**{way}**, mean over numbers of clean demonstrations\n")
        noises = list(dict.fromkeys(c.noise for c in cells))
        print(markdown(("learner", *noises, "mean"), summary(cells, noises)), "\n")
        targets += verdicts(way, cells)
    sepsis = results["never-wrong"]
    for at in sepsis.points("sepsis"):
        for measure, rival, least in (("macro_auroc", "DWBC", -0.5), ("acc", RIVALS[0], 0.0)):
            ours, theirs = (sepsis.values(r, "sepsis", measure, at) for r in (OURS, rival))
            gain = 100 * float(np.mean([ours[s] - theirs[s] for s in ours.keys() & theirs.keys()]))
            what = f"sepsis, {at} clean, {measure} minus that of {rival}"
            targets.append(Target(what, gain, least))
    finish(about, [asdict(c) for c in every], targets, json)


def read(folder: Path, name: str) -> Results:
    published = folder / f"{name}.json"
    found = read_published(published) if published.is_file() else read_study(folder / name)
    if found.count("done") < len(found.found):
        print(f"{name}: {found.count('done')} of {len(found.found)} cells", file=sys.stderr)
    return found


def noise_of(study: str, task: str) -> str:
    """What a noisy set is called."""
    return study.removeprefix("never-wrong").lstrip("-").replace("-", " ") or task


def rewards(found: Results, task: str, measure: str, at: int) -> dict[str, dict[int, float]]:
    return {row: found.values(row, task, measure, at) for row in (OURS, *RIVALS)}


def line(c: Cell) -> list[str]:
    rows = c.rewards
    shown = [c.noise, str(c.clean), f"{100 * np.mean(list(rows[OURS].values())):.1f}"]
    for rival in RIVALS:
        gain = paired_difference(rows[OURS], rows[rival])
        if gain is None or gain.low is None or gain.high is None:
            shown.append("")
            continue
        value, low, high = (100 * v for v in (gain.value, gain.low, gain.high))
        mark = " **worse**" if high < WORSE else ""
        shown.append(f"{value:+.1f} ({low:+.1f} to {high:+.1f}){mark}")
    return shown


def summary(cells: list[Cell], noises: list[str]) -> list[list[str]]:
    """What each learner earns on each noisy set, and on all."""
    lines = []
    for row in (*RIVALS, OURS):
        means = [
            np.mean([np.mean(list(c.rewards[row].values())) for c in cells if c.noise == noise])
            for noise in noises
        ]
        lines.append([row, *(f"{100 * mean:.1f}" for mean in (*means, np.mean(means)))])
    return lines


def verdicts(way: str, cells: list[Cell]) -> list[Target]:
    """What was asked for, within one way of acting."""
    gains: dict[str, dict[int, list[float]]] = {rival: {} for rival in RIVALS}
    worse, best_gains = 0, []
    for c in cells:
        rows = c.rewards
        for rival in RIVALS:
            gained = paired_difference(rows[OURS], rows[rival])
            worse += gained is not None and gained.high is not None and 100 * gained.high < WORSE
            for seed in rows[OURS].keys() & rows[rival].keys():
                gain = 100 * (rows[OURS][seed] - rows[rival][seed])
                gains[rival].setdefault(seed, []).append(gain)
        means = {rival: float(np.mean(list(rows[rival].values()))) for rival in RIVALS}
        best = rows[max(means, key=lambda rival: means[rival])]
        seeds = rows[OURS].keys() & best.keys()
        best_gains.append(np.mean([100 * (rows[OURS][s] - best[s]) for s in seeds]))
    found = [Target(f"{way}: cells in which {OURS} is surely worse by 1", worse, at_most=0)]
    found.append(
        Target(f"{way}: mean over cells minus the best rival", float(np.mean(best_gains)), -1)
    )
    for rival in RIVALS:
        by_seed = np.array([np.mean(values) for values in gains[rival].values()])
        mean = mean_interval(by_seed)
        low, high = mean.low, mean.high
        assert low is not None
        assert high is not None
        said = f"{way}: mean over cells minus {rival} ({low:+.1f} to {high:+.1f})"
        if rival == "scored BC":  # no worse
            found.append(Target(f"{said}, upper end", high, 0.0))
        else:
            found.append(Target(f"{said}, lower end", low, 0.0))
    return found


if __name__ == "__main__":
    tyro.cli(main)
