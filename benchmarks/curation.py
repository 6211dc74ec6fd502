"""Is cleaner data worth it? BC on clean + curated noisy steps, against the sets as they are.

    python benchmarks/curation.py                       # the table of docs/curate.md
    python benchmarks/curation.py --learner weighted-bc --threshold 0.2

Every row of a size and seed sees the same demonstrations, validation set and episodes. `--learner`
judges the noisy steps; those scored at least `--threshold` are kept. BC knows nothing of the truth:
precision and recall of what was kept are only reported. Finished cells are kept in `--cells` until
the package changes.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

import sdil
from report import begin, finish, markdown, paired_interval, source
from sdil.algorithms import LEARNERS

CLEAN, ALL, CURATED = "BC, clean", "BC, clean + all noisy", "BC, clean + curated noisy"
COLUMNS = (
    "learner",
    "clean",
    "reward ×100",
    "minus BC, clean (95%)",
    "minus BC, clean + all noisy (95%)",
    "kept %",
    "precision %",
    "recall %",
)

Cell = tuple[str, int, int, int, str, float, int]
"""Task, noisy and clean episodes, seed, who judges, threshold, episodes to evaluate on."""


def run_cell(cell: Cell) -> dict[str, Any]:
    """Every row on one seed: reward x100, and what was kept."""
    import torch

    task, noisy, size, seed, judge, threshold, episodes = cell
    torch.set_num_threads(1)
    chosen = sdil.get_task(task)
    demos, truth = chosen.collect(clean=size, noisy=noisy, seed=seed)
    valid, _ = chosen.collect(clean=max(size // 2, 10), noisy=0, seed=10_000 + seed)
    policy: Any = LEARNERS[judge]().fit(demos, valid=valid, seed=seed)
    curated = sdil.curate(demos, policy.score(demos.noisy), keep_above=threshold)
    policies = {judge: policy}
    for name, data in ((CLEAN, demos.clean_only()), (ALL, demos), (CURATED, curated.demos)):
        policies[name] = sdil.BC().fit(data, valid=valid, seed=seed)
    rewards = {
        name: 100 * sdil.evaluate(p, task, episodes=episodes, seed=20_000 + seed).reward_mean
        for name, p in policies.items()
    }
    kept, good = np.concatenate(curated.kept), np.concatenate(truth.noisy_good)
    return {
        "cell": list(cell),
        "rewards": rewards,
        "kept": 100 * float(kept.mean()),
        "precision": 100 * float(good[kept].mean()),
        "recall": 100 * float(kept[good].mean()),
        "good": 100 * float(good.mean()),
    }


def main(
    task: str = "fourrooms",
    noisy: int = 600,
    sizes: tuple[int, ...] = (10, 30, 100),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    learner: Literal["sdil", "weighted-bc"] = "sdil",
    threshold: float = 0.0,
    episodes: int = 1_000,
    workers: int = 2,
    cells: Path = Path("scratch/curation_cells.jsonl"),
    file: Annotated[Path | None, tyro.conf.arg(name="json")] = None,
) -> None:
    """Measure, and print a Markdown table."""
    about = begin(task=task, noisy=noisy, clean=list(sizes), seeds=list(seeds), threshold=threshold)
    cells.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in cells.read_text().splitlines()] if cells.exists() else []
    present = source()
    known = {tuple(told["cell"]): told for told in done if told.get("source") == present}
    wanted: list[Cell] = [
        (task, noisy, size, seed, learner, threshold, episodes) for size in sizes for seed in seeds
    ]
    missing = [cell for cell in wanted if cell not in known]
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(workers) as pool, cells.open("a") as log:
        for i, future in enumerate(as_completed([pool.submit(run_cell, c) for c in missing]), 1):
            told = {**future.result(), "source": present}
            known[tuple(told["cell"])] = told
            print(json.dumps(told), file=log, flush=True)
            print(f"{i}/{len(missing)} {told['cell']} {told['rewards']}", flush=True)
    rows = [known[cell] for cell in wanted]
    print(markdown(COLUMNS, [line for size in sizes for line in _lines(rows, size, learner)]))
    finish(about, rows, [], file)


def _lines(rows: list[dict[str, Any]], size: int, judge: str) -> list[list[str]]:
    mine = [row for row in rows if row["cell"][2] == size]
    rewards = {
        n: np.array([row["rewards"][n] for row in mine]) for n in (CLEAN, ALL, CURATED, judge)
    }
    lines = []
    for name, values in rewards.items():
        against = [
            "" if name == other else paired_interval(values - rewards[other])
            for other in (CLEAN, ALL)
        ]
        held = [
            _mean(np.array([row[key] for row in mine])) if name == CURATED else ""
            for key in ("kept", "precision", "recall")
        ]
        lines.append([name, str(size), _mean(values), *against, *held])
    return lines


def _mean(values: Any) -> str:
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    tyro.cli(main)
