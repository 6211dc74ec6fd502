"""Behaviour cloning on FourRooms: reward by number of clean demonstrations.

The planner demonstrates. For each seed s, demonstrations are collected with s, validation with
10000 + s, the clean test set with 30000 + s, and episodes start as 20000 + s says. The planner's
own figures, from the same starts, are the limit: with 5% random steps, as in the clean
demonstrations (of which those that fail are left out), and with none.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro

from report import begin, finish, markdown
from sdil import BC, Demonstrations, action_metrics, evaluate
from sdil.cli.evaluate import measure_on
from sdil.evaluation.rollout import episode_seeds
from sdil.spaces import Array
from sdil.table import Table
from sdil.tasks.experts import planner
from sdil.tasks.fourrooms import TASK

VALID, EPISODES, TEST = 10_000, 20_000, 30_000  # added to the seed
COLUMNS = ("demonstrations", "policy sees", "reward ×100", "success %", "ACC %", "macro-F %")


@dataclass(frozen=True)
class Score:
    """What one seed gave, in percent."""

    reward: float
    success: float
    accuracy: float
    macro_f: float


@dataclass(frozen=True)
class Row:
    """One row of the table: a setting and its scores, one for each seed."""

    demonstrations: str
    sees: str
    scores: list[Score]

    def cells(self) -> list[str]:
        columns = zip(*[asdict(score).values() for score in self.scores], strict=True)
        return [self.demonstrations, self.sees, *[_mean_and_spread(c) for c in columns]]


def main(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    sizes: tuple[int, ...] = (10, 30, 100, 600),
    pooled: int = 100,
    noisy: int = 600,
    look_backs: tuple[int, ...] = (0, 5),
    episodes: int = 1000,
    test: int = 300,
    markdown_file: Annotated[Path | None, tyro.conf.arg(name="markdown")] = None,
    json: Path | None = None,
) -> None:
    """Train and measure behaviour cloning for each number of clean demonstrations.

    Args:
        seeds: One training and evaluation for each; the table gives mean ± standard deviation.
        sizes: Numbers of clean demonstrations.
        pooled: Clean demonstrations of the row in which all noisy ones are cloned as well.
        noisy: Noisy demonstrations of that row; 0 leaves it out.
        look_backs: Past steps that the policy sees.
        episodes: Episodes of each evaluation.
        test: Clean trajectories that predicted actions are compared with.
        markdown_file: Save the table to this file.
        json: Save everything to this file.
    """
    torch.set_num_threads(1)
    about = begin(
        seeds=" ".join(map(str, seeds)),
        sizes=f"{episodes} episodes and {test} test trajectories for each seed; validation on "
        "half as many further clean trajectories, at least 10",
    )
    tests = {seed: TASK.collect(clean=test, noisy=0, seed=TEST + seed)[0] for seed in seeds}
    settings = [(clean, 0) for clean in sizes] + ([(pooled, noisy)] if noisy else [])
    rows = []
    for clean, n_noisy in settings:
        for look_back in look_backs:
            scores = [
                clone(clean, n_noisy, look_back, seed, episodes, tests[seed]) for seed in seeds
            ]
            name = f"{clean} clean" + (f" + {n_noisy} noisy pooled" if n_noisy else "")
            sees = f"s_t and {look_back} steps back" if look_back else "s_t alone"
            rows.append(Row(name, sees, scores))
            print(" | ".join(rows[-1].cells()), file=sys.stderr, flush=True)
    for random_steps in (TASK.clean.random_steps, 0.0):
        scores = [demonstrate(random_steps, seed, episodes, tests[seed]) for seed in seeds]
        careless = f"{random_steps:.0%} random steps" if random_steps else "no random steps"
        rows.append(Row("the planner itself", careless, scores))
    table = markdown(COLUMNS, [row.cells() for row in rows])
    print(table, flush=True)
    if markdown_file is not None:
        markdown_file.write_text(table)
    finish(about, [asdict(row) for row in rows], [], json)


def clone(
    clean: int, noisy: int, look_back: int, seed: int, episodes: int, test: Demonstrations
) -> Score:
    """Behaviour cloning on clean and noisy demonstrations alike."""
    demos, _ = TASK.collect(clean=clean, noisy=noisy, seed=seed)
    valid, _ = TASK.collect(clean=max(10, clean // 2), noisy=0, seed=VALID + seed)
    policy = BC(look_back=look_back).fit(demos, valid=valid, seed=seed)
    ran = evaluate(policy, TASK.name, episodes=episodes, seed=EPISODES + seed)
    metrics = measure_on(policy, test)
    assert ran.success_rate is not None
    return Score(
        reward=100 * ran.reward_mean,
        success=100 * ran.success_rate,
        accuracy=100 * metrics.accuracy,
        macro_f=100 * metrics.macro_f,
    )


def demonstrate(random_steps: float, seed: int, episodes: int, test: Demonstrations) -> Score:
    """The planner from the same starts, and how well it predicts the test set."""
    table = TASK.table_of_seed(seed)
    rng = np.random.default_rng(seed)
    act = planner(table.good)
    best = np.array([act(state, rng) for state in range(len(table))])
    at = np.array([table.start_state(int(s)) for s in episode_seeds(EPISODES + seed, episodes)])
    rewards, running = np.zeros(episodes), np.ones(episodes, bool)
    for step in range(1, table.horizon + 1):
        careless = rng.random(episodes) < random_steps
        actions = np.where(careless, rng.choice(TASK.actions, episodes), best[at])
        rewards += running * table.reward_at(table.reward[at, actions], step)
        running &= ~table.end[at, actions]
        at = table.next_state[at, actions]
    probs = _predictions(table, best, test)
    metrics = action_metrics(probs, test.clean.actions)
    return Score(
        reward=100 * float(rewards.mean()),
        success=100 * float((rewards > 0).mean()),
        accuracy=100 * metrics.accuracy,
        macro_f=100 * metrics.macro_f,
    )


def _predictions(table: Table, best: Array, test: Demonstrations) -> Array:
    """What the planner would do in each step of the test set. (N, A)"""
    seen = table.observe(np.arange(len(table)))
    number = {observation.tobytes(): state for state, observation in enumerate(seen)}
    states = test.clean.observations[test.clean.rows()]
    chosen = best[[number[state.tobytes()] for state in states]]
    return np.eye(table.next_state.shape[1])[chosen]


def _mean_and_spread(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


if __name__ == "__main__":
    tyro.cli(main)
