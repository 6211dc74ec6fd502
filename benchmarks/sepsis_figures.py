"""The sepsis simulator: exact survival of each policy, what collecting costs, and BC beside it.

python benchmarks/sepsis_figures.py      # the tables of docs/sepsis.md
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import sdil
from report import Target, begin, finish, markdown
from sdil.cli.evaluate import measure_on
from sdil.spaces import Array
from sdil.tasks.sepsis import GOOD_ABOVE, TASK, clinicians, sepsis_model

COLUMNS = ("policy", "survival", "steps", "good steps %", "ACC %")
VALID = 10_000  # added to the seed


def main(
    sizes: tuple[int, ...] = (100, 600),
    episodes: int = 10_000,
    valid: int = 1000,
    seed: int = 0,
    json: Path | None = None,
) -> None:
    """Compute and measure.

    Args:
        sizes: Clean episodes that BC learns from.
        episodes: Episodes whose collection is timed, half of them clean.
        valid: Clean episodes, of another seed, on which accuracy is measured.
        seed: Everything random follows from it.
        json: Also write the figures to this file.
    """
    torch.set_num_threads(1)
    about = begin(sizes=sizes, episodes=episodes, valid=valid, seed=seed)
    model = sepsis_model()
    best = model.always(model.optimal_actions)
    policies = {
        "optimal": best,
        "optimal, 5% random steps (clean)": TASK.demonstrator(best, 0.05, None),
        "clinicians (noisy)": clinicians(),
        "random": model.at_random,
    }
    rows: list[dict[str, Any]] = [
        {"policy": name, **exactly(probs)} for name, probs in policies.items()
    ]
    test, _ = TASK.collect(clean=valid, noisy=0, seed=seed + VALID)
    for size in sizes:
        demos, _ = TASK.collect(clean=size, noisy=0, seed=seed)
        policy = sdil.BC().fit(demos, seed=seed)
        actions, _ = policy.predict(model.observations)
        accuracy = measure_on(policy, test).accuracy
        row = exactly(model.always(actions)) | {"accuracy": accuracy}
        assert abs(row["survival"] - sdil.evaluate(policy, "sepsis").reward_mean) < 1e-12
        rows.append({"policy": f"BC on {size} clean", **row})
    print(markdown(COLUMNS, [cells(row) for row in rows]))
    survival = {row["policy"]: row["survival"] for row in rows}
    collecting, saving = time_collection(episodes, seed)
    targets = [
        Target("optimal, distance from 0.875", abs(survival["optimal"] - 0.875), at_most=0.001),
        Target(
            "clinicians, distance from 0.782",
            abs(survival["clinicians (noisy)"] - 0.782),
            at_most=0.001,
        ),
        Target("random, distance from 0.780", abs(survival["random"] - 0.780), at_most=0.001),
        Target(f"seconds to collect {episodes} episodes", collecting, at_most=60),
        Target("seconds to collect and save them", collecting + saving, at_most=60),
    ]
    finish(about, rows, targets, json)


def exactly(action_probs: Array) -> dict[str, float]:
    """What a policy (S, A) is worth, how long its episodes are, and how many steps are good."""
    model = sepsis_model()
    visits = model.visits(action_probs)
    good = visits[:, None] * action_probs * (model.advantage > GOOD_ABOVE)
    return {
        "survival": float(model.arrivals(action_probs, visits) @ model.reward),
        "steps": float(visits.sum()),
        "good": float(good.sum() / visits.sum()),
    }


def cells(row: dict[str, Any]) -> list[str]:
    accuracy = f"{100 * row['accuracy']:.1f}" if "accuracy" in row else ""
    shares = [f"{row['survival']:.4f}", f"{row['steps']:.2f}", f"{100 * row['good']:.1f}"]
    return [row["policy"], *shares, accuracy]


def time_collection(episodes: int, seed: int) -> tuple[float, float]:
    """Seconds that collecting takes, and seconds that saving takes."""
    began = time.perf_counter()
    demos, truth = TASK.collect(clean=episodes - episodes // 2, noisy=episodes // 2, seed=seed)
    collected, busy = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        sdil.save_demonstrations(demos, Path(folder) / "demos", task=TASK.name, truth=truth)
    saved, busy = time.perf_counter(), time.process_time() - busy
    good = np.concatenate(truth.noisy_good).mean()
    print(f"{demos.clean.n_steps} clean and {demos.noisy.n_steps} noisy steps, {good:.1%} good")
    print(f"saving took {saved - collected:.1f} s, of these {busy:.1f} s of processor time")
    return collected - began, saved - collected


if __name__ == "__main__":
    tyro.cli(main)
