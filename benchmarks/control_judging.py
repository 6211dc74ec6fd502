"""How right is the judge on actions that are real numbers, where the truth of every step is known?

    python benchmarks/control_judging.py                              # the table of docs/control.md
    python benchmarks/control_judging.py --clean 10 --seeds 100 101 --likelihood-only

Four settings: pointmaze with other goals, pointmaze with interruptions, pick-place, drawer-open; 5,
10 and 30 clean and 200 noisy episodes, no `valid`. Beside our judge stands what clones of the clean
set say alone: the log-likelihood of the action under BC, no lower than log 1e-6, the mean over a
step and its two neighbours. "At matched length" compares steps only within fifths of the episodes
by length, so that knowing long episodes is worth nothing. The truth is only compared with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import begin, finish, markdown, measure_all
from sdil.evaluation.comparisons import mean_interval
from sdil.spaces import Array

SETTINGS = {
    "pointmaze, other goals": ("pointmaze", "paper"),
    "pointmaze, interruptions": ("pointmaze", "segments"),
    "pick-place": ("pick-place", "segments"),
    "drawer-open": ("drawer-open", "segments"),
}
LEAST = np.log(1e-6)
FIFTHS = 5
COLUMNS = (
    "setting",
    "clean",
    "truly good",
    "likelihood alone",
    "at matched length",
    "judge",
    "at matched length",
    "above likelihood",
    "calibration error",
)


def smooth(values: Array) -> Array:
    """The mean of each step (T,) and its neighbours. (T,)"""
    padded = np.concatenate([[np.nan], np.asarray(values, float), [np.nan]])
    around = np.stack([padded[:-2], padded[1:-1], padded[2:]])
    mean: Array = np.nanmean(around, 0)
    return mean


def auroc(scores: list[Array], good: list[Array]) -> float | None:
    """Over all steps."""
    from sdil.evaluation.scores import compare_with_truth

    return compare_with_truth(np.concatenate(scores), np.concatenate(good))[0]


def matched(scores: list[Array], good: list[Array]) -> float | None:
    """Within fifths of the episodes by length, weighed by how many pairs of steps each has."""
    order = np.argsort([len(each) for each in good], kind="stable")
    found, weights = [], []
    for part in np.array_split(order, FIFTHS):
        if not len(part):
            continue
        told = np.concatenate([good[i] for i in part])
        said = auroc([scores[i] for i in part], [good[i] for i in part])
        if said is not None:
            found.append(said)
            weights.append(float(told.sum()) * float((~told).sum()))
    return float(np.average(found, weights=weights)) if found else None


def run_cell(
    setting: str, clean: int, noisy: int, seed: int, likelihood_only: bool
) -> dict[str, Any]:
    """One seed."""
    import torch

    from sdil.evaluation.calibration import calibration_of_scores

    torch.set_num_threads(1)
    task, noise = SETTINGS[setting]
    kind: Any = noise
    demos, truth = sdil.get_task(task).collect(clean=clean, noisy=noisy, seed=seed, noise=kind)
    good = truth.noisy_good
    clones = sdil.BC().fit(demos.clean_only(), seed=seed)
    likely = [smooth(np.maximum(each, LEAST)) for each in clones.log_likelihood(demos.noisy)]
    cell: dict[str, Any] = {
        "setting": setting,
        "clean": clean,
        "seed": seed,
        "good": float(np.concatenate(good).mean()),
        "likelihood": auroc(likely, good),
        "likelihood_matched": matched(likely, good),
    }
    if likelihood_only:
        return cell
    judge = sdil.Judge().fit(demos, seed=seed)
    scores = [each.optimality for each in judge.score(demos.noisy)]
    return cell | {
        "judge": auroc(scores, good),
        "judge_matched": matched(scores, good),
        "calibration": calibration_of_scores(np.concatenate(scores), np.concatenate(good)).ece,
        "heard": [f"{s.output}: {s.name}" for s in judge.signals if s.heard],
    }


def main(
    settings: tuple[str, ...] = tuple(SETTINGS),
    clean: tuple[int, ...] = (5, 10, 30),
    noisy: int = 200,
    seeds: tuple[int, ...] = tuple(range(10)),
    likelihood_only: bool = False,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        settings: Which of the four.
        clean: Numbers of clean demonstrations.
        noisy: Noisy episodes.
        seeds: The table gives means over them; 100 and up are for development.
        likelihood_only: No judge, only clones of the clean set: to fix how hard a task is.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(settings=list(settings), clean=list(clean), noisy=noisy, seeds=list(seeds))
    jobs = [
        (setting, size, noisy, seed, likelihood_only)
        for setting in settings
        for size in clean
        for seed in seeds
    ]
    cells = measure_all(run_cell, jobs, workers)
    lines = []
    for setting in settings:
        for size in clean:
            mine = [c for c in cells if c["setting"] == setting and c["clean"] == size]
            lines.append([setting, str(size), *_told(mine)])
    for size in clean if len(settings) > 1 else ():  # a seed counts once, by its mean over them
        seeded = [[c for c in cells if (c["clean"], c["seed"]) == (size, s)] for s in seeds]
        lines.append(["average", str(size), *_told([_average(these) for these in seeded])])
    print(markdown(COLUMNS, lines))
    finish(about, cells, [], json)


_BEFORE = ("good", "likelihood", "likelihood_matched", "judge", "judge_matched")
_MEASURES = (*_BEFORE, "calibration")


def _told(mine: list[dict[str, Any]]) -> list[str]:
    """The columns of figures."""
    return [*(mean(mine, name) for name in _BEFORE), above(mine), mean(mine, "calibration")]


def _average(cells: list[dict[str, Any]]) -> dict[str, float]:
    """Over settings, of what all of them have."""
    names = [n for n in _MEASURES if all(c.get(n) is not None for c in cells)]
    return {n: float(np.mean([c[n] for c in cells])) for n in names}


def above(mine: list[dict[str, Any]]) -> str:
    """How far the judge is above the likelihood alone, with Student's 95% interval over seeds."""
    found = np.array([c["judge"] - c["likelihood"] for c in mine if c.get("judge") is not None])
    if not len(found):
        return ""
    gain = mean_interval(found)
    if gain.low is None or gain.high is None:
        return f"{gain.value:+.2f}"
    return f"{gain.value:+.2f} ({gain.low:+.2f} to {gain.high:+.2f})"


def mean(mine: list[dict[str, Any]], name: str) -> str:
    """Over the seeds, with the standard deviation."""
    known = [c[name] for c in mine if c.get(name) is not None]
    return f"{np.mean(known):.2f} ± {np.std(known):.2f}" if known else ""


if __name__ == "__main__":
    tyro.cli(main)
