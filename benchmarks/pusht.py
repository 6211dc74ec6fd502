"""How right is the judge about people who push a T? Nobody labelled their steps.

    python benchmarks/pusht.py --source pusht_cchi_v7_replay.zarr --seeds 100 101
    python benchmarks/pusht.py --source pusht_cchi_v7_replay.zarr --images --device cuda

Clean are the 40 quickest episodes, noisy the other 166. Among noisy steps in which the covered
share of the target changes, those in which it rises are told from those in which it falls, by
scores smoothed over 9 steps; low gain is not low quality, for the hand must go round the block, so
other steps are left out. Episodes are ranked by their mean score against the time they took, with
no target: the clean set was chosen by that. Baselines: clones of the clean set alone (BC's
log-likelihood, no lower than log 1e-6), and "the hand moves slowly". With `--images` judge and
clones see pictures drawn of the states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.stats import spearmanr

import sdil
from common.report import begin, finish, markdown, measure_all
from sdil.cores import computing_on
from sdil.spaces import Array
from sdil.tasks import pusht

SMOOTHED = 9
CHANGES = 1e-6  # a smaller change of the covered share is none
COLUMNS = ("score", "rising against falling, AUROC", "episodes by time, rank correlation")


def smooth(values: Array, width: int = SMOOTHED) -> Array:
    """The mean over `width` steps around each (T,), fewer at the ends. (T,)"""
    kernel = np.ones(width)
    whole = np.convolve(values, kernel, "full") / np.convolve(np.ones(len(values)), kernel, "full")
    first = width // 2
    part: Array = whole[first : first + len(values)]
    return part


def measure(scores: list[Array], people: pusht.People) -> dict[str, float]:
    """How well scores tell rising from falling, and rank episodes by the time they took."""
    from sdil.evaluation.scores import compare_with_truth

    said, rises = [], []
    for each, covered in zip(scores, people.noisy_coverage, strict=True):
        change = np.diff(covered)
        counts = np.abs(change) > CHANGES
        said.append(smooth(np.asarray(each, float))[:-1][counts])
        rises.append(change[counts] > 0)
    area = compare_with_truth(np.concatenate(said), np.concatenate(rises))[0]
    means = [float(np.mean(each)) for each in scores]
    quick = [-len(each) for each in scores]
    return {"auroc": float(area or np.nan), "rank": float(spearmanr(means, quick).statistic)}


def run_cell(source: str, seed: int, images: bool, device: str) -> dict[str, Any]:
    """One seed."""
    import torch

    torch.set_num_threads(1)
    people = pusht.read(source)
    slow = [_slowness(each.observations[:, :2], len(each)) for each in people.demos.noisy]
    demos = pusht.read(source, images=True).demos if images else people.demos
    with computing_on(device):
        judge = sdil.Judge().fit(demos, seed=seed)
        clones = sdil.BC().fit(demos.clean_only(), seed=seed)
    likely = [np.maximum(each, np.log(1e-6)) for each in clones.log_likelihood(demos.noisy)]
    return {
        "seed": seed,
        "our judge": measure([each.optimality for each in judge.score(demos.noisy)], people),
        "clean likelihood alone": measure(likely, people),
        "the hand moves slowly": measure(slow, people),
        "heard": [f"{s.output}: {s.name}" for s in judge.signals if s.heard],
    }


def _slowness(hand: Array, steps: int) -> Array:
    moved = np.linalg.norm(np.diff(hand, axis=0), axis=1)
    return -np.append(moved, moved[-1:])[:steps]


def main(
    source: Path,
    seeds: tuple[int, ...] = tuple(range(10)),
    images: bool = False,
    device: str = "cpu",
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        source: The Zarr store.
        seeds: The table gives means over them; 100 and up are for development.
        images: From pictures instead of states.
        device: cpu, cuda or auto.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(source=source.name, seeds=list(seeds), images=images, device=device)
    cells = measure_all(run_cell, [(str(source), seed, images, device) for seed in seeds], workers)
    lines = []
    for name in ("our judge", "clean likelihood alone", "the hand moves slowly"):
        found = {k: [c[name][k] for c in cells] for k in ("auroc", "rank")}
        lines.append([name, *(f"{np.mean(v):.2f} ± {np.std(v):.2f}" for v in found.values())])
    print(markdown(COLUMNS, lines))
    finish(about, cells, [], json)


if __name__ == "__main__":
    tyro.cli(main)
