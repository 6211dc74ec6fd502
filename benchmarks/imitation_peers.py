"""Our baselines beside those of `imitation` 1.0.1, on the same FourRooms demonstrations.

    python benchmarks/imitation_peers.py
    python benchmarks/imitation_peers.py --only bc mce-irl --seeds 0 --steps 20000

Both get the same clean demonstrations, start states and environment steps, and are evaluated in the
same seeded episodes with greedy actions. What differs: ours stop early on further clean
demonstrations, imitation's train to the end of the budget with the settings of its documentation;
and imitation's MCE IRL, whose policy depends on the time, is evaluated with the time.
`imitation` runs in `.venv-imitation`, which is made where it does not exist.
"""

from __future__ import annotations

import dataclasses
import json as json_text
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import sdil
from common.peers import FILE, environment
from common.report import begin, finish, print_table
from sdil import BC, Demonstrations
from sdil.algorithms import LEARNERS
from sdil.spaces import Array
from sdil.table import Table

NAMES = ("bc", "gail", "airl", "density-irl", "mce-irl")
N_STARTS = 5_000


class TableLookup:
    """Acts by a table of actions (H or 1, S), one state per observation."""

    def __init__(self, table: Table, actions: Array) -> None:
        observations = table.observe(np.arange(len(table)))
        self._states = {row.tobytes(): i for i, row in enumerate(observations)}
        assert len(self._states) == len(table), "states that look alike cannot be told apart"
        self._actions = actions

    def predict(
        self,
        observation: Array,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, Any]:
        times = np.zeros((1, len(observation)), int) if state is None else state[0]
        at = [self._states[row.tobytes()] for row in observation]
        return self._actions[np.minimum(times[0], len(self._actions) - 1), at], (times + 1,)


def main(
    clean: int = 100,
    seeds: tuple[int, ...] = (0, 1, 2),
    steps: int = 200_000,
    mce_updates: int = 100,
    only: tuple[str, ...] = NAMES,
    episodes: int = 1_000,
    peers: bool = True,
    json: Path | None = None,
) -> None:
    """Train both on the same demonstrations, and print their rewards side by side.

    Args:
        clean: Clean trajectories to learn from.
        seeds: Demonstrations, training and episodes follow from each.
        steps: Steps in the environment for the learners that roll out.
        mce_updates: Updates of the reward of imitation's MCE IRL; each takes seconds.
        only: Which learners.
        episodes: Evaluation episodes.
        peers: Also train imitation's; without, ours alone.
        json: Save everything to this file.
    """
    torch.set_num_threads(1)  # as many as the others have
    about = begin(task="fourrooms", clean=clean, seeds=list(seeds), steps=steps, episodes=episodes)
    missing = [name for name in only if name not in LEARNERS]
    for name in missing:
        print(f"{name}: not among our learners ({', '.join(LEARNERS)}); imitation's alone")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in only:
            for seed in seeds:
                for whose in ("sdil", "imitation") if peers else ("sdil",):
                    if whose == "sdil" and name in missing:
                        continue
                    row = run(whose, name, seed, clean, steps, mce_updates, episodes, Path(folder))
                    rows.append(row)
                    print(
                        f"{name} {whose} seed {seed}: {row['reward']:.1f} in {row['seconds']:.0f} s"
                    )
    print()
    print_table(
        ["reward x100", "sdil", "imitation", "sdil, seconds", "imitation, seconds"],
        [[name, *_cells(rows, name)] for name in only],
    )
    finish(about, rows, [], json)


def run(
    whose: str,
    name: str,
    seed: int,
    clean: int,
    steps: int,
    mce_updates: int,
    episodes: int,
    folder: Path,
) -> dict[str, Any]:
    """One learner on one seed."""
    task = sdil.get_task("fourrooms")
    table = task.table()
    assert table is not None
    demos, _ = task.collect(clean=clean, noisy=0, seed=seed)
    began = time.perf_counter()
    policy: Any
    if whose == "sdil":
        valid, _ = task.collect(clean=max(clean // 2, 10), noisy=0, seed=10_000 + seed)
        kind = LEARNERS[name]
        fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        learner = kind(**({"env_steps": steps} if "env_steps" in fields else {}))
        policy = learner.fit(demos, valid=valid, seed=seed, env=table)
    else:
        python = environment("imitation")
        data, out = folder / "data.npz", folder / "actions.npy"
        save_for_imitation(table, demos, seed, steps, mce_updates, data)
        began = time.perf_counter()
        command: list[str | Path] = [python, FILE, "learn", name, data, out]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if done.returncode != 0:
            raise RuntimeError(f"imitation's {name} broke off:\n{done.stderr}")
        policy = TableLookup(table, np.load(out))
    seconds = time.perf_counter() - began
    ran = sdil.evaluate(policy, "fourrooms", episodes=episodes, seed=20_000 + seed)
    return {
        "learner": name,
        "whose": whose,
        "seed": seed,
        "reward": 100 * ran.reward_mean,
        "success": ran.success_rate,
        "seconds": seconds,
    }


def save_for_imitation(
    table: Table, demos: Demonstrations, seed: int, steps: int, mce_updates: int, file: Path
) -> None:
    """What `common/peers.py` reads. Observations are standardised as our networks do it."""
    observations = table.observe(np.arange(len(table)))
    numbers = {row.tobytes(): i for i, row in enumerate(observations)}
    states = [numbers[row.tobytes()] for t in demos.clean for row in t.observations]
    seen = observations[states].astype(np.float64)
    spread = seen.std(0)
    scaled = (observations - seen.mean(0)) / np.where(spread > 1e-6, spread, 1.0)
    setting = {
        "seed": seed,
        "steps": steps,
        "updates": BC.max_updates,
        "mce_updates": mce_updates,
        "hidden": BC.hidden,
        "batch_size": BC.batch_size,
        "learning_rate": BC.learning_rate,
    }
    np.savez(
        file,
        next_state=table.next_state,
        end=table.end,
        observations=scaled.astype(np.float32),
        starts=np.array([table.start_state(i) for i in range(N_STARTS)]),
        horizon=table.horizon,
        demo_states=np.array(states),
        demo_actions=np.concatenate([t.actions for t in demos.clean]),
        lengths=demos.clean.lengths,
        setting=json_text.dumps(setting),
    )


def _cells(rows: list[dict[str, Any]], name: str) -> list[str]:
    cells: dict[str, list[str]] = {"reward": [], "seconds": []}
    for key, shown in cells.items():
        for whose in ("sdil", "imitation"):
            values = [r[key] for r in rows if (r["learner"], r["whose"]) == (name, whose)]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            shown.append(f"{statistics.mean(values):.1f}{spread}" if values else "-")
    return cells["reward"] + cells["seconds"]


if __name__ == "__main__":
    tyro.cli(main)
