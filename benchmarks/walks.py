"""By what the rules of acting were chosen: walks through validation demonstrations.

    python benchmarks/walks.py                               # development seeds, for docs/sdil.md
    python benchmarks/walks.py --learner scored-bc --sizes 30 --seeds 200 201

Prediction does not see circles: a policy can name most actions of a demonstration and still turn
left and right for ever. So policies are followed from where clean validation demonstrations begin,
by the transitions that a large validation set has recorded: `--recorded` noisy demonstrations, half
of their steps at random, so that most of what a policy may do was done, and a fifth as many clean
ones. A walk arrives where a clean demonstration ends; it is lost where it does what nobody
recorded; otherwise it goes on until the limit. No reward takes part, and no environment after the
recording. Only for tasks in which the same states come again, and an action in a state always leads
to the same one. Where a policy's judge does not hear the value of actions, ways that listen to it
are the same without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import sdil
from common.report import begin, finish, markdown, measure_all, paired_interval
from sdil.acting import ListenToValue, WithoutCircles
from sdil.algorithms import LEARNERS
from sdil.policy import Policy, Rule
from sdil.spaces import Array
from sdil.windows import DistinctStates, Windows

LIMIT = 100  # steps
SUITED = "value and without circles"  # what FourRooms speaks for
ACTING: dict[str, Sequence[Rule]] = {
    SUITED: (ListenToValue(), WithoutCircles()),
    "greedy": (),
    "value": (ListenToValue(),),
    "without circles": (WithoutCircles(),),
    **{f"memory {n}": (ListenToValue(), WithoutCircles(memory=n)) for n in (5, 10, 60)},
    **{f"weight {w:g}": (ListenToValue(weight=w), WithoutCircles()) for w in (0.5, 1.0, 4.0)},
}
OF_SDIL: dict[str, dict[str, Any]] = {  # trained otherwise, acting as suits
    "weights of any update kept": {"min_updates": 1},
    "noisy steps imitated": {"noisy_share": 0.75},
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
        numbering = DistinctStates(rows.numpy())
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


def acting_by(policy: Policy, rules: Sequence[Rule]) -> Policy:
    """The policy by these rules, less the value where its judge does not hear it."""
    hears = policy.judge is not None and policy.judge.advice() is not None
    return policy.acting_by([rule for rule in rules if hears or rule.name != ListenToValue.name])


def run_cell(
    task: str, learner: str, noisy: int, recorded: int, size: int, seed: int
) -> list[dict[str, Any]]:
    """All ways to act on one seed."""
    torch.set_num_threads(1)
    chosen = sdil.get_task(task)
    demos, _ = chosen.collect(clean=size, noisy=noisy, seed=seed)
    valid, _ = chosen.collect(clean=max(size // 2, 10), noisy=0, seed=10_000 + seed)
    seen, _ = chosen.collect(
        clean=recorded // 5, noisy=recorded, seed=60_000 + seed, noisy_random_steps=0.5
    )
    world = World.of(seen)

    def trained(**fields: Any) -> Policy:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a collapse
            return LEARNERS[learner](**fields).fit(demos, valid=valid, seed=seed)

    policy = trained()
    ways = {way: acting_by(policy, rules) for way, rules in ACTING.items()}
    for way, fields in OF_SDIL.items() if learner == "sdil" else ():
        ways[way] = acting_by(trained(**fields), ACTING[SUITED])
    return [
        {"clean": size, "seed": seed, "way": way, **world.walk(each)} for way, each in ways.items()
    ]


def main(
    task: str = "fourrooms",
    learner: str = "sdil",
    noisy: int = 600,
    recorded: int = 3_000,
    sizes: tuple[int, ...] = (10, 30, 100),
    seeds: tuple[int, ...] = (200, 201, 202, 203, 204, 205),
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        task: The task.
        learner: Whose policies walk.
        noisy: Noisy demonstrations to learn from.
        recorded: Noisy demonstrations of the validation set that is walked through.
        sizes: Numbers of clean demonstrations to learn from.
        seeds: Development seeds, which no table uses.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(
        task=task,
        learner=learner,
        noisy=noisy,
        recorded=recorded,
        clean=list(sizes),
        seeds=list(seeds),
    )
    asked = [(task, learner, noisy, recorded, size, seed) for size in sizes for seed in seeds]
    cells = [cell for some in measure_all(run_cell, asked, workers) for cell in some]
    table = []
    for size in sizes:
        for way in dict.fromkeys(cell["way"] for cell in cells):

            def of(what: str, way: str = way, size: int = size) -> Array:
                return np.array([c[what] for c in cells if (c["clean"], c["way"]) == (size, way)])

            more = "" if way == SUITED else paired_interval(of("steps") - of("steps", SUITED))
            shares = [f"{of(what).mean():.1f}" for what in ("arrived", "lost", "walking", "steps")]
            table.append((str(size), way, *shares, more))
    titles = ("clean", "acting", "arrived %", "lost %", "walking %", "steps", "more steps (95%)")
    print(markdown(titles, table))
    finish(about, cells, [], json)


if __name__ == "__main__":
    tyro.cli(main)
