"""What it brings not to go round in circles: learners that act greedily, and with SDIL's memory.

    python benchmarks/acting.py
    python benchmarks/acting.py --task doorkey-6x6 --sizes 30 --seeds 0 1 2

Back in a state, SDIL's policy does what it has tried least there (`SDIL.memory`). Here every
policy acts both ways, so that the rule and the learner can be told apart; in recorded states SDIL
also listens to the value of actions (`value_weight`) with a memory, "sdil, no value" does not, and
greedily neither does. Paired by seed.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from torch import Tensor

import sdil
from report import begin, finish, markdown, paired_interval
from sdil.algorithms import LEARNERS
from sdil.networks.hierarchical import HierarchicalPolicy, latest, prefer_untried
from sdil.policy import Policy
from sdil.windows import Window

MEMORY = sdil.SDIL().memory
WAYS = ("greedily", "with a memory")
NO_VALUE = "sdil, no value"
ROWS = ("bc-clean", "dwbc", "weighted-bc", "scored-bc", NO_VALUE, "sdil", "oracle")


class Remembering(Policy):
    """Another policy, which sees the current state alone, with SDIL's memory."""

    kind = "remembering"

    def __init__(self, policy: Policy) -> None:
        assert policy.look_back == 0
        self.spaces, self.look_back, self.learner = policy.spaces, MEMORY, policy.learner
        self.hyperparameters = policy.hyperparameters
        self._policy = policy

    def action_probs(self, window: Window) -> Tensor:
        return prefer_untried(self._policy.action_probs(latest(window, 0)), window)

    def tensors(self) -> dict[str, Tensor]:
        return self._policy.tensors()

    def configuration(self) -> dict[str, Any]:
        return self._policy.configuration()

    @classmethod
    def build(cls, *_: Any) -> Remembering:
        raise NotImplementedError("a benchmark's own: it is never saved")


def run_cell(task: str, noisy: int, size: int, seed: int, row: str) -> dict[str, Any]:
    """One learner on one seed: what its policy earns, either way."""
    import torch

    torch.set_num_threads(1)
    chosen = sdil.get_task(task)
    demos, truth = chosen.collect(clean=size, noisy=noisy, seed=seed)
    valid, _ = chosen.collect(clean=max(size // 2, 10), noisy=0, seed=10_000 + seed)
    more: dict[str, Any] = {"truth": truth.noisy_good} if row == "oracle" else {}
    data = demos.clean_only() if row.endswith("-clean") else demos
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a collapse: the rewards tell
        learner = (
            sdil.SDIL(value_weight=0.0)
            if row == NO_VALUE
            else LEARNERS[row.removesuffix("-clean")]()
        )
        policy = learner.fit(data, valid=valid, seed=seed, **more)
    greedy, remembering = policy, Remembering(policy) if policy.look_back == 0 else policy
    if isinstance(policy, HierarchicalPolicy):
        forgetful = policy.configuration() | {"memory": 0, "value_weight": 0.0}
        greedy = HierarchicalPolicy.build(policy.spaces, forgetful, policy.tensors())
    earned = [
        100 * sdil.evaluate(p, task, seed=20_000 + seed).reward_mean for p in (greedy, remembering)
    ]
    return {"clean": size, "seed": seed, "row": row, **dict(zip(WAYS, earned, strict=True))}


def main(
    task: str = "fourrooms",
    noisy: int = 600,
    sizes: tuple[int, ...] = (10, 30, 100),
    seeds: tuple[int, ...] = tuple(range(10)),
    rows: tuple[str, ...] = ROWS,
    champion: str = "sdil",
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table."""
    about = begin(task=task, noisy=noisy, clean=list(sizes), seeds=list(seeds))
    os.environ["OMP_NUM_THREADS"] = "1"
    wanted = [(task, noisy, size, seed, row) for seed in seeds for size in sizes for row in rows]
    with ProcessPoolExecutor(workers) as pool:
        cells = list(pool.map(run_cell, *zip(*wanted, strict=True)))

    def of(size: int, row: str, way: str) -> Any:
        return np.array([c[way] for c in cells if (c["clean"], c["row"]) == (size, row)])

    table = []
    for size in sizes:
        for row in rows:
            texts = []
            for way in WAYS:
                values = of(size, row, way)
                spread = values.std(ddof=1) if len(values) > 1 else 0.0
                texts.append(f"{values.mean():.1f} ± {spread:.1f}")
                ours = of(size, champion, way) if champion in rows else values
                texts.append("" if row == champion else paired_interval(ours - values))
            table.append((str(size), row, *texts))
    less = f"{champion} minus it (95%)"
    print(markdown(("clean", "learner", WAYS[0], less, WAYS[1], less), table))
    finish(about, cells, [], json)


if __name__ == "__main__":
    tyro.cli(main)
