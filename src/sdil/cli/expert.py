"""`sdil expert`: a PPO agent that can demonstrate a benchmark task."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from sdil.cli.collect import GridName
from sdil.cli.console import parse, plain, print_json, progress
from sdil.errors import InputError


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(expert, arguments, "expert")


def expert(
    task: tyro.conf.Positional[GridName],
    aim: Literal["goal", "decoy"] = "goal",
    out: Path | None = None,
    steps: int | None = None,
    seed: int = 0,
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Train a PPO agent that demonstrates a task; this is how the shipped agents were made.

    Args:
        task: The task.
        aim: Where the agent heads to. decoy: the place to which noisy demonstrations of FourRooms
            head; no other task has one.
        out: The file to write; it must not exist. ./TASK-AIM.safetensors if not given.
        steps: Steps of training, rounded up to a multiple of 8,192; those of the shipped agent if
            not given.
        seed: Everything random follows from it.
        overwrite: Replace the file if it exists.
        as_json: Print the answer as JSON.
    """
    out = Path(f"{task}-{aim}.safetensors") if out is None else out
    if out.is_dir():
        raise InputError(f"{out} is a folder; --out names a file")
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; choose another name or pass --overwrite")
    try:
        from sdil.tasks.train_expert import train
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("stable_baselines3"):
            raise
        raise InputError(
            'training an expert needs Stable-Baselines3: pip install "stable-baselines3>=2.4"'
        ) from None
    torch.set_num_threads(1)  # fastest for networks this small, and always the same sums
    began = time.perf_counter()
    with progress(f"training {task}-{aim}") as update:
        trained = train(task, aim, steps=steps, seed=seed, on_progress=update)
    trained.save(out)
    seconds = time.perf_counter() - began
    if as_json:
        print_json(
            {
                "file": str(out),
                "task": task,
                "aim": aim,
                "steps": trained.steps,
                "seed": seed,
                "seconds": round(seconds, 1),
                "episodes": len(trained.episodes.rewards),
                "success_rate": trained.success_rate,
                "mean_reward": trained.mean_reward,
                "mean_length": trained.mean_length,
            }
        )
        return
    print(f"trained for {trained.steps} steps in {seconds:.1f} s")
    print(
        f"{len(trained.episodes.rewards)} episodes: {trained.success_rate:.1%} reach the {aim}, "
        f"mean reward {trained.mean_reward:.3f}, mean length {trained.mean_length:.1f}"
    )
    print(plain(f"written to {out}"))
