"""`sdil collect`: demonstrations of a benchmark task."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from sdil.cli.console import check_seed, parse, print_command, print_json, print_wrapped, progress
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.files import refuse_existing
from sdil.formats.folder import save_demonstrations
from sdil.tasks import get_task

GridName = Literal["fourrooms", "doorkey-5x5", "doorkey-6x6", "doorkey-8x8", "errands"]
ControlName = Literal["pointmaze", "pick-place", "drawer-open", "pusht"]
GridPictures = Literal[
    "fourrooms-images", "doorkey-5x5-images", "doorkey-6x6-images", "doorkey-8x8-images"
]
ControlPictures = Literal["pick-place-images", "pusht-images"]
TaskName = Literal[GridName, "sepsis", ControlName, GridPictures, ControlPictures]


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(collect, arguments, "collect")


def collect(
    task: tyro.conf.Positional[TaskName],
    out: Path,
    clean: int | None = None,
    noisy: int | None = None,
    seed: int = 0,
    expert: Literal["planner", "ppo"] = "planner",
    noise: Literal["paper", "segments", "worst"] | None = None,
    clean_random_steps: float | None = None,
    noisy_random_steps: float | None = None,
    source: Path | None = None,
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Make demonstrations of a task: a clean set, a noisy set, and the truth about each step.

    Args:
        task: The task; one that ends in -images has the same episodes, seen as pictures.
        out: The folder to write; it must not exist.
        clean: Number of clean (trusted) episodes; 100 if not given, in pusht the 40 quickest.
        noisy: Number of noisy episodes; 600 if not given, in pusht all others.
        seed: Everything random follows from it.
        expert: Who demonstrates: a planner (shortest paths; in sepsis value iteration), or a PPO
            agent trained beforehand, which errands and sepsis have not.
        noise: What is wrong with the noisy set. paper: as in the paper (FourRooms: they head to
            another place; DoorKey: most steps are random; errands: the same sub-skills in other
            sequences, with things brought to the wrong place; sepsis: what clinicians did;
            pointmaze: they head to other goals). segments: good stretches interrupted by bad ones,
            whose places are known (FourRooms and DoorKey: detours and random steps; pointmaze:
            detours, hesitation, tremor; pick-place and drawer-open: defects in the acting). worst:
            every step leads farthest from the goal (FourRooms, DoorKey). If not given, the first
            of these that the task has.
        clean_random_steps: Share of random steps in clean episodes; the task's own if not given.
        noisy_random_steps: Share of random steps in noisy episodes; the task's own if not given.
        source: pusht only: the Zarr store with people's episodes, which you have to have.
        overwrite: Replace the folder if it exists.
        as_json: Print the answer as JSON.
    """
    check_seed(seed)
    refuse_existing(out, overwrite=overwrite, marker="sdil.json")
    if task in ("pusht", "pusht-images"):
        others = (noise, clean_random_steps, noisy_random_steps)
        if any(asked is not None for asked in others) or expert != "planner":
            raise InputError("pusht is what people did: it has no experts and no noise to choose")
        _collect_people(task, source, out, clean, noisy, overwrite=overwrite, as_json=as_json)
        return
    if source is not None:
        raise InputError(f"{task} is simulated: --source is for pusht alone")
    clean, noisy = 100 if clean is None else clean, 600 if noisy is None else noisy
    chosen = get_task(task)
    noise = chosen.noises[0] if noise is None else noise
    with progress(f"collecting {task}") as update:
        demos, truth = chosen.collect(
            clean=clean,
            noisy=noisy,
            seed=seed,
            expert=expert,
            noise=noise,
            clean_random_steps=clean_random_steps,
            noisy_random_steps=noisy_random_steps,
            on_progress=update,
        )
    origin = {
        "expert": expert,
        "noise": noise,
        "seed": seed,
        "clean_random_steps": clean_random_steps,
        "noisy_random_steps": noisy_random_steps,
    }
    save_demonstrations(
        demos,
        out,
        task=task,
        environment=chosen.environment,
        truth=truth,
        origin=origin,
        overwrite=overwrite,
    )
    good = float(np.concatenate(truth.noisy_good).mean()) if truth.noisy_good else None
    _answer(demos, out, good, as_json=as_json)


def _collect_people(
    task: str,
    source: Path | None,
    out: Path,
    clean: int | None,
    noisy: int | None,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """People's episodes of PushT; nobody knows the truth of their steps."""
    from sdil.tasks import pusht

    if source is None:
        raise InputError(
            f"{task} needs --source: a Zarr store with people's episodes (docs/control.md)"
        )
    n_clean, images = pusht.CLEAN if clean is None else clean, task != "pusht"
    demos = pusht.read(source, clean=n_clean, noisy=noisy, images=images).demos
    save_demonstrations(
        demos,
        out,
        task=task,
        environment=f"sdil/{task}-v0",
        origin={"source": source.name, "clean": "the quickest episodes"},
        overwrite=overwrite,
    )
    _answer(demos, out, None, as_json=as_json)


def _answer(demos: Demonstrations, out: Path, good: float | None, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "folder": str(out),
                "clean": {"episodes": len(demos.clean), "steps": demos.clean.n_steps},
                "noisy": {"episodes": len(demos.noisy), "steps": demos.noisy.n_steps},
                "noisy_good_share": good,
                "fingerprint": demos.fingerprint(),
            }
        )
        return
    print(f"{len(demos.clean)} clean episodes ({demos.clean.n_steps} steps)")
    share = "" if good is None else f", {good:.0%} of them good"
    print(f"{len(demos.noisy)} noisy episodes ({demos.noisy.n_steps} steps{share})")
    print_wrapped(f"written to {out}; look at it with:")
    print_command(f"sdil inspect {shlex.quote(str(out))}")
