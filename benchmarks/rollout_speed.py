"""Speed of rollouts in FourRooms: through the table, in MiniGrid, and MiniGrid stepped alone.

The table must give the same reward and length in every episode. `stepping alone` gives ready-made
environments the actions that were recorded before, resets included; `evaluate` gets ready-made ones
too. Everything runs turn by turn in one thread; times are CPU times, which other programs on the
machine disturb less. A time is the median over the rounds, a ratio that of the ratios within each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro

from common.report import Target, begin, finish, print_table
from sdil import BC, evaluate, get_task
from sdil.evaluation.rollout import EpisodeOutcomes
from sdil.policy import Policy

Environment = gym.Env[Any, Any]
Call = tuple[int, int | None, Any]
"""An environment's number, and the seed of a reset or the action of a step."""


def main(
    seed: int = 0,
    clean: int = 100,
    episodes: int = 1000,
    n_envs: int = 64,
    look_backs: tuple[int, ...] = (0, 5),
    rounds: int = 5,
    json: Path | None = None,
) -> None:
    """Measure how long a policy's episodes take.

    Args:
        seed: Demonstrations, training and episodes follow from it.
        clean: Clean demonstrations that the policy is trained on.
        episodes: Episodes in each measurement.
        n_envs: Environments side by side in MiniGrid.
        look_backs: Past steps that the policy sees; one policy for each.
        rounds: Measurements of each, taken in turn.
        json: Save everything to this file.
    """
    torch.set_num_threads(1)
    about = begin(
        seed=seed,
        sizes=f"{episodes} episodes, {n_envs} environments side by side, {rounds} rounds; "
        f"BC from {clean} clean demonstrations; one thread",
    )
    task = get_task("fourrooms")
    began = time.perf_counter()
    task.table()
    print(f"making the table, once: {time.perf_counter() - began:.2f} s\n", flush=True)
    demos, _ = task.collect(clean=clean, noisy=0, seed=seed)
    rows: list[dict[str, Any]] = []
    targets = []
    for look_back in look_backs:
        policy = BC(look_back=look_back).fit(demos, seed=seed)
        row = {"look_back": look_back, **measure(policy, episodes, seed, n_envs, rounds)}
        rows.append(row)
        name = f"look_back {look_back}"
        targets += [
            Target(f"{name}: MiniGrid / table", row["minigrid_per_table"], at_least=20.0),
            Target(f"{name}: MiniGrid / stepping", row["minigrid_per_stepping"], at_most=1.3),
        ]
    columns = ["look_back", "mean length", "table s", "MiniGrid s", "stepping alone s"]
    print_table(
        [*columns, "MiniGrid/table", "MiniGrid/stepping"],
        [
            [
                str(r["look_back"]),
                f"{r['length_mean']:.1f}",
                f"{r['table_seconds']:.3f}",
                f"{r['minigrid_seconds']:.2f}",
                f"{r['stepping_seconds']:.2f}",
                f"{r['minigrid_per_table']:.1f}",
                f"{r['minigrid_per_stepping']:.2f}",
            ]
            for r in rows
        ],
    )
    print("table and MiniGrid agree in the reward and length of every episode")
    finish(about, rows, targets, json)


def measure(policy: Policy, episodes: int, seed: int, n_envs: int, rounds: int) -> dict[str, Any]:
    """Seconds of each way, and their ratios; raises where table and MiniGrid differ."""
    calls: list[Call] = []
    n_envs = min(n_envs, episodes)
    recorders = iter([_Recorder(make(), number, calls) for number in range(n_envs)])
    slow = evaluate(policy, lambda: next(recorders), episodes=episodes, seed=seed, n_envs=n_envs)
    fast = evaluate(policy, "fourrooms", episodes=episodes, seed=seed)
    must_agree(slow.episodes, fast.episodes)
    table, minigrid, stepping = [], [], []
    for _ in range(rounds):
        table.append(seconds(lambda: evaluate(policy, "fourrooms", episodes=episodes, seed=seed)))
        ready = iter([make() for _ in range(n_envs)])
        minigrid.append(
            seconds(
                lambda ready=ready: evaluate(  # type: ignore[misc]
                    policy, lambda: next(ready), episodes=episodes, seed=seed, n_envs=n_envs
                )
            )
        )
        envs = [make() for _ in range(n_envs)]
        stepping.append(seconds(lambda envs=envs: replay(envs, calls)))  # type: ignore[misc]
    ratios_table = [slow / fast for slow, fast in zip(minigrid, table, strict=True)]
    ratios_stepping = [whole / part for whole, part in zip(minigrid, stepping, strict=True)]
    return {
        "length_mean": slow.length_mean,
        "table_seconds": statistics.median(table),
        "minigrid_seconds": statistics.median(minigrid),
        "stepping_seconds": statistics.median(stepping),
        "minigrid_per_table": statistics.median(ratios_table),
        "minigrid_per_stepping": statistics.median(ratios_stepping),
        "by_round": {"table": table, "minigrid": minigrid, "stepping": stepping},
    }


def make() -> Environment:
    """FourRooms in MiniGrid. A factory, unlike a name, keeps `evaluate` from taking the table."""
    return gym.make("sdil/fourrooms-v0", disable_env_checker=True)


def must_agree(a: EpisodeOutcomes, b: EpisodeOutcomes) -> None:
    """Raise unless every episode earned the same in as many steps."""
    assert np.array_equal(a.seeds, b.seeds)
    assert np.array_equal(a.lengths, b.lengths)
    assert np.array_equal(a.rewards, b.rewards)


def replay(envs: list[Environment], calls: list[Call]) -> None:
    """Do what was recorded."""
    for number, seed, action in calls:
        if seed is None:
            envs[number].step(action)
        else:
            envs[number].reset(seed=seed)


def seconds(work: Callable[[], object]) -> float:
    """How long it takes, in CPU time."""
    began = time.process_time()
    work()
    return time.process_time() - began


class _Recorder(gym.Wrapper[Any, Any, Any, Any]):
    """Writes down what it is told, in the order in which all environments are told it."""

    def __init__(self, env: Environment, number: int, calls: list[Call]) -> None:
        super().__init__(env)
        self.number, self.calls = number, calls

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.calls.append((self.number, seed, None))
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.calls.append((self.number, None, action))
        return self.env.step(action)


if __name__ == "__main__":
    tyro.cli(main)
