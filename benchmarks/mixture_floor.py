"""The floor under a Gaussian's spread: which is best for telling bad steps, and for predicting?

A world that is no task of sdil, made for this: a mass that is pushed in the plane from the left
through a door, high or low, to a goal on the right. Clean episodes are steered well, with a small
tremor; noisy ones are interrupted by detours, hesitation and tremor, in some 40% of their steps.
BC clones the clean episodes, with each floor. `auroc` is that of its log-density of noisy steps,
good against bad, `nll` the negative log-density of unseen clean steps per entry, `reach` how often
it comes to the goal, greedily. The floor is chosen by `auroc`; the others are looked at.

The density that is measured is the one that is acted by: nothing is narrowed for either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from sklearn.metrics import roc_auc_score

from common.report import begin, finish, measure_all, print_table
from sdil import BC, Demonstrations, Trajectory
from sdil.spaces import Array

FLOORS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
DT, PUSH, LENGTH = 0.15, 1.0, 80


def main(
    seeds: tuple[int, ...] = (200, 201, 202),
    clean: int = 10,
    noisy: int = 60,
    tremors: tuple[float, ...] = (0.05, 0.15),
    floors: tuple[float, ...] = FLOORS,
    episodes: int = 20,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Compare floors on a mass that is pushed through doors.

    Args:
        seeds: Data and training follow from them; no other script uses 200 and above for a world.
        clean: Clean episodes.
        noisy: Noisy episodes.
        tremors: The standard deviation of what is added to clean actions, which lie in -1 .. 1.
        floors: The floors to try, in standard deviations of the data.
        episodes: In which the clone acts.
        workers: Processes.
        json: Save everything to this file.
    """
    sizes = f"{clean} clean, {noisy} noisy episodes of at most {LENGTH} steps"
    about = begin(seeds=list(seeds), sizes=sizes)
    cells = [(t, f, s, clean, noisy, episodes) for t in tremors for f in floors for s in seeds]
    rows: list[dict[str, Any]] = measure_all(measure, cells, workers)
    table = []
    for tremor in tremors:
        for floor in floors:
            found = [r for r in rows if (r["tremor"], r["floor"]) == (tremor, floor)]
            means = [np.mean([r[key] for r in found]) for key in ("auroc", "nll", "reach")]
            table.append([f"{tremor:g}", f"{floor:g}", *(f"{mean:.3f}" for mean in means)])
    print_table(["tremor", "floor", "auroc", "nll", "reach"], table)
    finish(about, rows, [], json)


def measure(
    tremor: float, floor: float, seed: int, clean: int, noisy: int, episodes: int
) -> dict[str, Any]:
    """One clone."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, round(1000 * tremor)])
    good = [push(rng, tremor, 0.0, f"c{i}")[0] for i in range(clean)]
    pairs = [push(rng, tremor, 0.5, f"n{i}") for i in range(noisy)]
    valid, unseen = ([push(rng, tremor, 0.0, f"v{i}")[0] for i in range(20)] for _ in range(2))
    policy = BC(floor=floor).fit(
        Demonstrations(good, []), valid=Demonstrations(valid[:5], []), seed=seed
    )
    told = np.concatenate(policy.log_likelihood([t for t, _ in pairs]))
    right = np.concatenate([truth for _, truth in pairs])
    states = [start(rng) for _ in range(episodes)]
    reached = np.zeros(episodes, bool)
    for _ in range(LENGTH):
        actions, _ = policy.predict(np.stack(states).astype(np.float32))
        states = [move(s, a.astype(float)) for s, a in zip(states, actions, strict=True)]
        reached |= np.linalg.norm(np.stack(states)[:, :2] - GOAL, axis=1) < 0.3
    return {
        "tremor": tremor,
        "floor": floor,
        "seed": seed,
        "auroc": float(roc_auc_score(right, told)),
        "nll": -float(np.concatenate(policy.log_likelihood(unseen)).mean()) / 2,
        "reach": float(np.mean(reached)),
    }


DOORS, GOAL = np.array([[0.4, 1.0], [0.4, -1.0]]), np.array([2.0, 0.0])


def start(rng: np.random.Generator) -> Array:
    """Where an episode begins: position and velocity."""
    return np.array([-2.0, rng.uniform(-0.6, 0.6), 0.0, 0.0])


def move(state: Array, action: Array) -> Array:
    """One step of the mass; between doors there is a wall."""
    velocity = 0.9 * state[2:] + DT * PUSH * np.clip(action, -1, 1)
    after = state[:2] + DT * velocity * 3
    if state[0] < 0 <= after[0] and np.abs(DOORS[:, 1] - after[1]).min() > 0.35:
        after, velocity = state[:2], np.zeros(2)
    return np.concatenate([after, velocity])


def steer(state: Array, aim: Array) -> Array:
    """What is right on the way to an aim."""
    return np.clip(2.0 * (aim - state[:2]) - 3.0 * state[2:], -1, 1)


def push(
    rng: np.random.Generator, tremor: float, share: float, name: str
) -> tuple[Trajectory, Array]:
    """An episode with about such a share of bad steps, and which of them are good."""
    state, door = start(rng), DOORS[rng.integers(2)]
    seen, actions, good = [state], [], []
    kind, left, elsewhere = "", 0, GOAL
    for _ in range(LENGTH):
        if left == 0 and rng.random() < share / 6:
            kind, left = (
                str(rng.choice(["detour", "hesitation", "tremor"])),
                int(rng.integers(4, 12)),
            )
            elsewhere = rng.uniform([-2, -1.5], [2, 1.5])
        aim = door if state[0] < 0 else GOAL
        action = steer(state, elsewhere if left and kind == "detour" else aim)
        action = action * (0.1 if left and kind == "hesitation" else 1.0)
        action += (0.8 if left and kind == "tremor" else tremor) * rng.normal(size=2)
        good.append(left == 0)
        left = max(left - 1, 0)
        actions.append(np.clip(action, -1, 1))
        state = move(state, actions[-1])
        seen.append(state)
        if np.linalg.norm(state[:2] - GOAL) < 0.15:
            break
    observations, acted = np.stack(seen).astype(np.float32), np.stack(actions).astype(np.float32)
    return Trajectory(observations, acted, None, True, name), np.array(good)


if __name__ == "__main__":
    tyro.cli(main)
