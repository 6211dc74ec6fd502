"""What the demonstrators themselves earn, the limit of every table, and what collecting costs.

    python benchmarks/demonstrators.py      # rows of docs/algorithms/bc.md and docs/sepsis.md

In FourRooms the planner, from the starts of a study's episodes: with 5% random steps, as in the
clean demonstrations (of which those that fail are left out), and with none; and how well it
predicts a study's test set. In the sepsis simulator everything is exact.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import Target, begin, finish, markdown
from sdil.evaluation.rollout import episode_seeds
from sdil.spaces import Array
from sdil.table import Table, TableWalk
from sdil.tasks import fourrooms, sepsis
from sdil.tasks.experts import planner

EPISODES, TEST = 20_000, 30_000  # added to the seed
GRID = ("planner", "reward ×100", "success %", "ACC %", "macro-F %")
SEPSIS = ("policy", "survival", "steps", "good steps %")
SURVIVAL = {"optimal": 0.875, "clinicians (noisy)": 0.782, "random": 0.780}


def main(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    episodes: int = 1_000,
    test: int = 300,
    collected: int = 10_000,
    json: Path | None = None,
) -> None:
    """Compute and measure.

    Args:
        seeds: Starts, random steps and test sets of FourRooms; mean ± standard deviation.
        episodes: Episodes of each.
        test: Clean trajectories that the planner's actions are compared with.
        collected: Sepsis episodes whose collection is timed, half of them clean.
        json: Also write the figures to this file.
    """
    about = begin(seeds=list(seeds), episodes=episodes, test=test, collected=collected)
    rows: list[dict[str, Any]] = []
    for random_steps in (fourrooms.TASK.clean.random_steps, 0.0):
        found = [plan(random_steps, seed, episodes, test) for seed in seeds]
        name = f"{random_steps:.0%} random steps" if random_steps else "no random steps"
        measures = {key: [each[key] for each in found] for key in found[0]}
        rows.append({"task": "fourrooms", "policy": name, **measures})
    print(markdown(GRID, [_grid_cells(row) for row in rows]))
    model = sepsis.sepsis_model()
    best = model.always(model.optimal_actions)
    policies = {
        "optimal": best,
        "optimal, 5% random steps (clean)": sepsis.TASK.demonstrator(best, 0.05, None),
        "clinicians (noisy)": sepsis.clinicians(),
        "random": model.at_random,
    }
    exact: list[dict[str, Any]] = [
        {"task": "sepsis", "policy": name, **exactly(probs)} for name, probs in policies.items()
    ]
    print(markdown(SEPSIS, [_sepsis_cells(row) for row in exact]))
    survival = {row["policy"]: row["survival"] for row in exact}
    collecting, saving = time_collection(collected, seeds[0])
    targets = [
        Target(f"{name}, distance from {wanted}", abs(survival[name] - wanted), at_most=0.001)
        for name, wanted in SURVIVAL.items()
    ]
    targets += [
        Target(f"seconds to collect {collected} episodes", collecting, at_most=60),
        Target("seconds to collect and save them", collecting + saving, at_most=60),
    ]
    finish(about, [*rows, *exact], targets, json)


def plan(random_steps: float, seed: int, episodes: int, test: int) -> dict[str, float]:
    """FourRooms' planner on one seed, in percent."""
    table = fourrooms.TASK.table_of_seed(seed)
    rng = np.random.default_rng(seed)
    act = planner(table.good)
    best = np.array([act(state, rng) for state in range(len(table))])
    starts = [table.start_state(int(s)) for s in episode_seeds(EPISODES + seed, episodes)]
    walk = TableWalk(table, np.array(starts))
    rewards, running = np.zeros(episodes), np.ones(episodes, bool)
    for _ in range(table.horizon):  # those that are over walk on, unpaid: all draw at one pace
        careless = rng.random(episodes) < random_steps
        earned, ended, _ = walk.step(
            np.where(careless, rng.choice(fourrooms.TASK.actions, episodes), best[walk.at])
        )
        rewards += running * earned
        running &= ~ended
    tested, _ = fourrooms.TASK.collect(clean=test, noisy=0, seed=TEST + seed)
    metrics = sdil.action_metrics(_predictions(table, best, tested), tested.clean.actions)
    return {
        "reward": 100 * float(rewards.mean()),
        "success": 100 * float((rewards > 0).mean()),
        "accuracy": 100 * metrics.accuracy,
        "macro_f": 100 * metrics.macro_f,
    }


def _predictions(table: Table, best: Array, test: sdil.Demonstrations) -> Array:
    """What the planner would do in each step of the test set. (N, A)"""
    number = {look: state for state, look in enumerate(table.looks[1])}
    looks = table.look_of(test.clean.observations[test.clean.rows()])
    chosen = best[[number[look] for look in looks]]
    return np.eye(table.next_state.shape[1])[chosen]


def exactly(action_probs: Array) -> dict[str, float]:
    """What a policy (S, A) is worth, how long its episodes are, and how many steps are good."""
    model = sepsis.sepsis_model()
    visits = model.visits(action_probs)
    good = visits[:, None] * action_probs * (model.advantage > sepsis.GOOD_ABOVE)
    return {
        "survival": float(model.arrivals(action_probs, visits) @ model.reward),
        "steps": float(visits.sum()),
        "good": float(good.sum() / visits.sum()),
    }


def time_collection(episodes: int, seed: int) -> tuple[float, float]:
    """Seconds that collecting sepsis episodes takes, and seconds that saving takes."""
    task = sepsis.TASK
    began = time.perf_counter()
    demos, truth = task.collect(clean=episodes - episodes // 2, noisy=episodes // 2, seed=seed)
    collected, busy = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        sdil.save_demonstrations(demos, Path(folder) / "demos", task=task.name, truth=truth)
    saved, busy = time.perf_counter(), time.process_time() - busy
    good = np.concatenate(truth.noisy_good).mean()
    print(f"{demos.clean.n_steps} clean and {demos.noisy.n_steps} noisy steps, {good:.1%} good")
    print(f"saving took {saved - collected:.1f} s, of these {busy:.1f} s of processor time")
    return collected - began, saved - collected


def _grid_cells(row: dict[str, Any]) -> list[str]:
    texts = [row["policy"]]
    for values in (row[key] for key in ("reward", "success", "accuracy", "macro_f")):
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        texts.append(f"{statistics.mean(values):.1f}{spread}")
    return texts


def _sepsis_cells(row: dict[str, Any]) -> list[str]:
    return [
        row["policy"],
        f"{row['survival']:.4f}",
        f"{row['steps']:.2f}",
        f"{100 * row['good']:.1f}",
    ]


if __name__ == "__main__":
    tyro.cli(main)
