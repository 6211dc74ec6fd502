"""Is cleaner data worth it? BC on clean + curated noisy steps, against the sets as they are.

    python benchmarks/curation.py --by step             # as the table of docs/curate.md was made
    python benchmarks/curation.py --judge weighted-bc --threshold 0.2
    python benchmarks/curation.py --noise segments      # borders that are known: docs/score.md

Every row of a size and seed sees the same demonstrations, validation set and episodes. `--judge`
judges the noisy steps; segments, or what `--by` says, scored at least `--threshold` are kept. BC
knows nothing of the truth: precision and recall of what was kept are only reported. Policies act
greedily, and without circles. With `--noise segments` also how well borders of detours are found,
within one step: F1 of change points of the score, and of runs of steps all good or all bad.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

import sdil
from common.report import begin, finish, markdown, measure_all, paired_interval
from sdil.algorithms import make_judge
from sdil.choosing import By

CLEAN, ALL, CURATED = "BC, clean", "BC, clean + all noisy", "BC, clean + curated noisy"
WAYS = {"reward": "greedy", "reward_without_circles": "without-circles"}
KEPT = {
    "kept": "kept %",
    "precision": "precision %",
    "recall": "recall %",
    "borders": "border F1 %",
    "borders_of_runs": "border F1 of runs %",
}
COLUMNS = (
    "learner",
    "clean",
    "reward ×100",
    "minus BC, clean (95%)",
    "minus BC, clean + all noisy (95%)",
    "without circles",
    *KEPT.values(),
)


def run_cell(
    task: str,
    noise: Any,
    noisy: int,
    size: int,
    seed: int,
    judge: str,
    by: By,
    threshold: float,
    runs: int,
) -> dict[str, Any]:
    """Every row on one seed: what its policy earns x100, and what was kept."""
    import torch

    torch.set_num_threads(1)
    chosen = sdil.get_task(task)
    demos, truth = chosen.collect(clean=size, noisy=noisy, seed=seed, noise=noise)
    valid, _ = chosen.collect(clean=max(size // 2, 10), noisy=0, seed=10_000 + seed)
    scores = make_judge(judge).fit(demos, valid=valid, seed=seed).score(demos.noisy)
    curated = sdil.curate(demos, scores, by=by, keep_above=threshold)
    cell: dict[str, Any] = {"clean": size, "seed": seed, "judge": judge, "by": by}
    for name, data in ((CLEAN, demos.clean_only()), (ALL, demos), (CURATED, curated.demos)):
        policy = sdil.BC().fit(data, valid=valid, seed=seed)
        cell[name] = {
            measure: 100
            * sdil.evaluate(policy, task, episodes=runs, seed=20_000 + seed, acting=way).reward_mean
            for measure, way in WAYS.items()
        }
    kept, good = np.concatenate(curated.kept), np.concatenate(truth.noisy_good)
    cell |= {
        "kept": 100 * float(kept.mean()),
        "precision": 100 * float(good[kept].mean()),
        "recall": 100 * float(kept[good].mean()),
    }
    if truth.noisy_segment is not None:
        cell |= borders(scores, truth.noisy_segment)
    return cell


def borders(scores: Any, segments: Any) -> dict[str, float]:
    """F1 of the borders that scores show, in percent."""
    from sdil.evaluation.boundaries import boundary_f1
    from sdil.scores import StepScores
    from sdil.segmentation import change_points

    true = [np.flatnonzero(np.diff(of_steps)) + 1 for of_steps in segments]
    values = [each.optimality for each in scores]
    runs = [[run.start for run in StepScores(each).segments()][1:] for each in values]
    return {
        "borders": 100 * boundary_f1([change_points(each) for each in values], true),
        "borders_of_runs": 100 * boundary_f1([np.array(run, np.int64) for run in runs], true),
    }


def main(
    task: str = "fourrooms",
    noise: Literal["paper", "segments"] = "paper",
    noisy: int = 600,
    sizes: tuple[int, ...] = (10, 30, 100),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    judge: str = "evidence",
    by: By = "segment",
    threshold: float = 0.0,
    episodes: int = 1_000,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        task: The task.
        noise: What is wrong with the noisy set.
        noisy: Noisy trajectories.
        sizes: Numbers of clean ones.
        seeds: The table gives mean and standard deviation over them.
        judge: Who judges the noisy steps: evidence, pu, weighted-bc, dwbc, ...
        by: What is kept or dropped whole.
        threshold: What is scored at least this is kept.
        episodes: Episodes of each evaluation.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(
        task=task,
        noise=noise,
        noisy=noisy,
        clean=list(sizes),
        seeds=list(seeds),
        judge=judge,
        by=by,
        threshold=threshold,
    )
    cells = measure_all(
        run_cell,
        [
            (task, noise, noisy, size, seed, judge, by, threshold, episodes)
            for size in sizes
            for seed in seeds
        ],
        workers,
    )
    print(markdown(COLUMNS, [line for size in sizes for line in _lines(cells, size)]))
    finish(about, cells, [], json)


def _lines(cells: list[dict[str, Any]], size: int) -> list[list[str]]:
    mine = [cell for cell in cells if cell["clean"] == size]

    def earned(name: str, measure: str) -> Any:
        return np.array([cell[name][measure] for cell in mine])

    lines = []
    for name in (CLEAN, ALL, CURATED):
        greedy, free = (earned(name, measure) for measure in WAYS)
        against = [
            "" if name == other else paired_interval(greedy - earned(other, "reward"))
            for other in (CLEAN, ALL)
        ]
        held = [
            _mean(np.array([cell[key] for cell in mine]))
            if name == CURATED and key in mine[0]
            else ""
            for key in KEPT
        ]
        lines.append([name, str(size), _mean(greedy), *against, _mean(free), *held])
    return lines


def _mean(values: Any) -> str:
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    tyro.cli(main)
