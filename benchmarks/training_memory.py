"""Peak memory of training, against the size of the data.

Each row is a fresh process that makes the data straight into flat arrays, trains behaviour cloning
for one epoch (a pass over four fifths of the data) and validates on the other fifth. The peak is
the process's own highest resident size (`ru_maxrss`), PyTorch and all other imports included.
"""

from __future__ import annotations

import json as json_text
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import tyro

from common.report import Target, begin, finish, print_table

MEGABYTE = 1e6


def main(
    seed: int = 0,
    episodes: int = 50_000,
    steps: int = 20,
    features: int = 153,
    look_backs: tuple[int, ...] = (0, 5),
    json: Path | None = None,
) -> None:
    """Measure how much memory training needs at the most.

    Args:
        seed: The data and all training follow from it.
        episodes: Number of episodes.
        steps: Steps of each.
        features: Size of an observation, in float32.
        look_backs: Past steps that the policy sees; one process for each.
        json: Save everything to this file.
    """
    about = begin(
        seed=seed, sizes=f"{episodes} episodes of {steps} steps, {features} float32 each; one epoch"
    )
    rows = [train_apart(seed, episodes, steps, features, look_back) for look_back in look_backs]
    sizes = ("data", "imported", "loaded", "trained")
    print_table(
        ["look_back", "data MB", "peak: imports", "+ data", "+ training", "peak/data", "updates"],
        [
            [
                str(row["look_back"]),
                *[f"{row[key] / MEGABYTE:,.0f}" for key in sizes],
                f"{row['trained'] / row['data']:.2f}x",
                str(row["updates"]),
            ]
            for row in rows
        ],
    )
    targets = [
        Target(
            f"look_back {row['look_back']}: peak / data", row["trained"] / row["data"], at_most=2.5
        )
        for row in rows
    ]
    finish(about, rows, targets, json)


def train_apart(*arguments: int) -> dict[str, Any]:
    """`train` in a process of its own."""
    call = f"import training_memory; training_memory.train{arguments}"
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=Path(__file__).parent,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    answer: dict[str, Any] = json_text.loads(done.stdout)
    return answer


def train(seed: int, episodes: int, steps: int, features: int, look_back: int) -> None:
    """Make the data, train, and print the peak after each part, in bytes."""
    import gymnasium as gym
    import numpy as np
    import torch

    from sdil import BC, Demonstrations, Spaces
    from sdil.training import Epoch
    from sdil.trajectories import Trajectories

    torch.set_num_threads(1)
    imported = peak()
    rng = np.random.default_rng(seed)
    yes = np.ones(episodes, bool)
    trajectories = Trajectories(
        observations=rng.standard_normal((episodes * (steps + 1), features), np.float32),
        actions=rng.integers(0, 7, episodes * steps),
        rewards=np.zeros(episodes * steps),
        first_row=np.arange(episodes) * (steps + 1),
        first_step=np.arange(episodes) * steps,
        lengths=np.full(episodes, steps),
        has_final=yes,
        has_rewards=yes,
        terminated=yes,
        ids=tuple(str(i) for i in range(episodes)),
        groups=(None,) * episodes,
    )
    spaces = Spaces(
        gym.spaces.Box(-np.inf, np.inf, (features,), np.float32), gym.spaces.Discrete(7)
    )
    demos = Demonstrations(trajectories, trajectories[:0], spaces)
    loaded = peak()
    ends: list[Epoch] = []
    learner = BC(look_back=look_back, min_updates=1, max_updates=1)  # an epoch is the least
    learner.fit(demos, seed=seed, on_epoch=ends.append)
    assert len(ends) == 1
    n_train = (demos.clean.n_steps * 4) // 5
    arrays = (trajectories.observations, trajectories.actions, trajectories.rewards)
    answer = {
        "look_back": look_back,
        "data": sum(array.nbytes for array in arrays),
        "imported": imported,
        "loaded": loaded,
        "trained": peak(),
        "updates": -(-n_train // learner.batch_size),
    }
    print(json_text.dumps(answer))


def peak() -> int:
    """The highest resident size of this process so far, in bytes."""
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest * 1024


if __name__ == "__main__":
    tyro.cli(main)
