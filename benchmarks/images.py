"""What is lost by looking: tasks seen as pictures against the same episodes as numbers.

For each seed and each of the two: SDIL on clean and noisy demonstrations (AUROC of its step scores
against the truth, reward as it acts by default), and BC on the clean ones alone (negative
log-likelihood of clean episodes that nobody saw), on pictures by both roads: features that are
computed once, and convolutions trained with it.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import sdil
from common.report import Target, begin, finish, measure_all, print_table
from sdil.evaluation.scores import compare_with_truth


def main(
    tasks: tuple[str, ...] = ("fourrooms",),
    seeds: tuple[int, ...] = (120, 121, 122),
    clean: int = 30,
    noisy: int = 600,
    unseen: int = 60,
    episodes: int = 1_000,
    sdil_too: bool = True,
    bc_too: bool = True,
    device: str = "cpu",
    workers: int = 1,
    json: Path | None = None,
) -> None:
    """Measure what is lost by looking.

    Args:
        tasks: Tasks that can be seen as pictures.
        seeds: Demonstrations, training and evaluation follow from each.
        clean: Clean episodes.
        noisy: Noisy episodes.
        unseen: Clean episodes that BC is measured on.
        episodes: Episodes of evaluation.
        sdil_too: Whether SDIL is measured.
        bc_too: Whether BC is measured.
        device: cpu, cuda or auto.
        workers: Cells at once, a process each.
        json: Also save what was measured here.
    """
    about = begin(seeds=seeds, sizes=f"{clean} clean, {noisy} noisy", device=device)
    cells = [
        (task, kind, seed, clean, noisy, unseen, episodes, sdil_too, bc_too, device)
        for task in tasks
        for seed in seeds
        for kind in ("", "-images")
    ]
    rows: list[dict[str, Any]] = measure_all(measure, cells, workers)
    names = list(dict.fromkeys(key for row in rows for key in row))
    print_table(names, [[_show(row.get(name)) for name in names] for row in rows])
    print()
    targets = []
    for task in tasks if sdil_too else ():
        seen, told = (
            [row for row in rows if row["task"] == f"{task}{kind}"] for kind in ("-images", "")
        )
        for figure, scale, most in (("AUROC", 1.0, 0.03), ("reward x100", 1.0, 3.0)):
            lost = float(np.mean([t[figure] - s[figure] for s, t in zip(seen, told, strict=True)]))
            targets.append(Target(f"{task}, {figure} lost by looking", lost * scale, at_most=most))
    finish(about, rows, targets, json)


def measure(
    task: str,
    kind: str,
    seed: int,
    clean: int,
    noisy: int,
    unseen: int,
    episodes: int,
    sdil_too: bool,
    bc_too: bool,
    device: str,
) -> dict[str, Any]:
    """One seed of one task, seen in one way."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "discovery failed")
    name = f"{task}{kind}"
    demos, truth = sdil.get_task(name).collect(clean=clean + unseen, noisy=noisy, seed=seed)
    known = sdil.Demonstrations(demos.clean[:clean], demos.noisy, demos.spaces)
    row: dict[str, Any] = {"task": name, "seed": seed}
    if sdil_too:
        begun = time.process_time()
        learner: Any = sdil.SDIL()
        policy = learner.fit(known, seed=seed, device=device)
        row["SDIL, CPU s"] = time.process_time() - begun
        scores = np.concatenate([s.optimality for s in policy.score(known.noisy)])
        row["AUROC"] = compare_with_truth(scores, np.concatenate(truth.noisy_good))[0]
        found = sdil.evaluate(policy, name, episodes=episodes, seed=seed)
        row["reward x100"] = 100 * found.reward_mean
    if bc_too:
        ways: dict[str, Any] = {"features": sdil.BC(images="features")}
        if kind:
            ways["trained"] = sdil.BC(images="trained", max_updates=1_000)
        for label, way in ways.items():
            begun = time.process_time()
            clone = way.fit(known.clean_only(), seed=seed, device=device)
            row[f"BC {label}, CPU s"] = time.process_time() - begun
            told = clone.log_likelihood(demos.clean[clean:])
            row[f"BC {label}, NLL"] = -float(np.concatenate(told).mean())
    return row


def _show(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    tyro.cli(main)
