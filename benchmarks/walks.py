"""By what SDIL's way of acting was chosen: walks through validation demonstrations.

    python benchmarks/walks.py                               # development seeds, for docs/sdil.md
    python benchmarks/walks.py --sizes 30 --seeds 200 201

Prediction does not see circles: a policy can name most actions of a demonstration and still turn
left and right for ever. So policies are followed from where clean validation demonstrations begin,
by the transitions that a large validation set has recorded: `--recorded` noisy demonstrations, half
of their steps at random, so that most of what a policy may do was done, and a fifth as many clean
ones. A walk arrives where a clean demonstration ends; it is lost where it does what nobody
recorded; otherwise it goes on until the limit. No reward takes part, and no environment after the
recording. Only for tasks in which the same states come again, and an action in a state always leads
to the same one.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro

import sdil
from report import begin, finish, markdown, paired_interval
from sdil.networks.evidence import Numbering
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.policy import Policy
from sdil.spaces import Array
from sdil.windows import Windows

LIMIT = 100  # steps
TRAINED: dict[str, dict[str, Any]] = {
    "default": {},
    "weights of any update kept": {"min_updates": 1},
    "noisy steps imitated": {"noisy_share": 0.75},
}
ACTING: dict[str, dict[str, Any]] = {  # other ways to act with the default's networks
    "no memory": {"memory": 0},
    **{f"memory {steps}": {"memory": steps} for steps in (5, 10, 60)},
    **{f"value weight {w:g}": {"value_weight": w} for w in (0.0, 0.5, 1.0, 4.0)},
    "no memory, value weight 0": {"memory": 0, "value_weight": 0.0},
}


@dataclass(frozen=True, eq=False)
class World:
    """What validation demonstrations have recorded: where each action led."""

    states: Array
    """(U, *observation)"""
    led_to: Array
    """The number of the state after each action, -1 where it was never taken. (U, A)"""
    is_end: Array
    """(U,)"""
    starts: Array
    """The states that clean demonstrations begin in."""

    @staticmethod
    def of(demos: sdil.Demonstrations) -> World:
        windows = Windows(demos.all, 0)
        index = torch.arange(len(windows))
        following, exists = windows.next_states_at(index)
        rows = torch.cat([windows.at(index).state, following])
        numbering = Numbering(rows.numpy())
        before, after = numbering.of_rows.view(2, -1).numpy()
        led_to = np.full((len(numbering), int(demos.spaces.action.n)), -1)  # type: ignore[attr-defined]
        known = exists.numpy()
        led_to[before[known], windows.actions_at(index).numpy()[known]] = after[known]
        is_end = np.zeros(len(numbering), bool)
        is_end[numbering.of(np.stack([t.observations[-1] for t in demos.clean]))] = True
        starts = numbering.of(np.stack([t.observations[0] for t in demos.clean]))
        return World(rows[numbering.first].numpy(), led_to, is_end, starts)

    def walk(self, policy: Policy) -> dict[str, float]:
        """Follow the policy from every start."""
        at, state = self.starts, None
        steps = np.full(len(at), LIMIT)  # those that do not arrive count as the limit
        walking, lost = np.arange(len(at)), 0
        for step in range(1, LIMIT + 1):
            actions, state = policy.predict(self.states[at], state)
            then = self.led_to[at, actions]
            is_lost, arrived = then < 0, (then >= 0) & self.is_end[then]
            steps[walking[arrived]] = step
            lost += int(is_lost.sum())
            on = np.flatnonzero(~is_lost & ~arrived)
            walking, at, state = walking[on], then[on], state.keep(on)
            if not len(on):
                break
        n = len(self.starts)
        arrived_share = 1 - (lost + len(walking)) / n
        return {
            "arrived": 100 * arrived_share,
            "lost": 100 * lost / n,
            "walking": 100 * len(walking) / n,
            "steps": float(steps.mean()),
        }


def run_cell(task: str, noisy: int, recorded: int, size: int, seed: int) -> list[dict[str, Any]]:
    """All ways to act on one seed."""
    torch.set_num_threads(1)
    chosen = sdil.get_task(task)
    demos, _ = chosen.collect(clean=size, noisy=noisy, seed=seed)
    valid, _ = chosen.collect(clean=max(size // 2, 10), noisy=0, seed=10_000 + seed)
    seen, _ = chosen.collect(
        clean=recorded // 5, noisy=recorded, seed=60_000 + seed, noisy_random_steps=0.5
    )
    world = World.of(seen)
    cells = []

    def add(way: str, policy: Policy) -> None:
        cells.append({"clean": size, "seed": seed, "way": way, **world.walk(policy)})

    for way, fields in TRAINED.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a collapse
            policy = sdil.SDIL(**fields).fit(demos, valid=valid, seed=seed)
        add(way, policy)
        for other, changed in ACTING.items() if way == "default" else ():
            configuration = policy.configuration() | changed
            add(other, HierarchicalPolicy.build(policy.spaces, configuration, policy.tensors()))
    return cells


def main(
    task: str = "fourrooms",
    noisy: int = 600,
    recorded: int = 3_000,
    sizes: tuple[int, ...] = (10, 30, 100),
    seeds: tuple[int, ...] = (200, 201, 202, 203, 204, 205),
    workers: int = 2,
    as_json: Annotated[Path | None, tyro.conf.arg(name="json")] = None,
) -> None:
    """Measure, and print a Markdown table."""
    about = begin(task=task, noisy=noisy, recorded=recorded, clean=list(sizes), seeds=list(seeds))
    os.environ["OMP_NUM_THREADS"] = "1"
    cells: list[dict[str, Any]] = []
    with ProcessPoolExecutor(workers) as pool:
        running = [
            pool.submit(run_cell, task, noisy, recorded, size, seed)
            for seed in seeds
            for size in sizes
        ]
        for i, finished in enumerate(as_completed(running), 1):
            cells += finished.result()
            print(f"{i}/{len(running)}", flush=True)
    cells.sort(key=lambda cell: (cell["clean"], cell["seed"]))
    table = []
    for size in sizes:
        for way in [*TRAINED, *ACTING]:

            def of(what: str, way: str = way, size: int = size) -> Array:
                return np.array([c[what] for c in cells if (c["clean"], c["way"]) == (size, way)])

            more = "" if way == "default" else paired_interval(of("steps") - of("steps", "default"))
            shares = [f"{of(what).mean():.1f}" for what in ("arrived", "lost", "walking", "steps")]
            table.append((str(size), way, *shares, more))
    titles = ("clean", "acting", "arrived %", "lost %", "walking %", "steps", "more steps (95%)")
    print(markdown(titles, table))
    finish(about, cells, [], as_json)


if __name__ == "__main__":
    tyro.cli(main)
