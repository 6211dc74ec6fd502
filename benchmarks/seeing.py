"""What is lost by looking: the same episodes as numbers and as pictures.

    python benchmarks/seeing.py --device cuda --workers 5
    python benchmarks/seeing.py --device cuda --seeds --source pusht_cchi_v7_replay.zarr

FourRooms, 30 clean and 600 noisy demonstrations: the judge's AUROC against the truth of each noisy
step, and SDIL's reward x100, from vectors and from pictures. PushT by people: rising against
falling as `pusht.py` has it, from states and from pictures drawn of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import Target, begin, finish, markdown, measure_all
from pusht import measure
from sdil.evaluation.scores import compare_with_truth
from sdil.tasks import pusht

WAYS = ("greedy", "without-circles")
KINDS = ("vectors", "pictures")


def of_rooms(task: str, clean: int, noisy: int, seed: int, device: str, episodes: int) -> Any:
    """One seed, as numbers and as pictures."""
    import torch

    torch.set_num_threads(1)
    cell: dict[str, Any] = {"task": task, "seed": seed}
    for kind, name in (("vectors", task), ("pictures", f"{task}-images")):
        demos, truth = sdil.get_task(name).collect(clean=clean, noisy=noisy, seed=seed)
        judge = sdil.Judge().fit(demos, seed=seed, device=device)
        said = np.concatenate([each.optimality for each in judge.score(demos.noisy)])
        cell[f"{kind}, AUROC"] = compare_with_truth(said, np.concatenate(truth.noisy_good))[0]
        policy = sdil.SDIL().fit(demos, judge=judge, seed=seed, device=device)
        for way in WAYS:
            ran = sdil.evaluate(policy, name, seed=seed, episodes=episodes, acting=way)
            cell[f"{kind}, {way}"] = 100 * ran.reward_mean
    return cell


def of_people(source: str, seed: int, device: str) -> Any:
    """One seed of PushT."""
    import torch

    torch.set_num_threads(1)
    cell: dict[str, Any] = {"task": "pusht", "seed": seed}
    for kind in ("vectors", "pictures"):
        people = pusht.read(source, images=kind == "pictures")
        judge = sdil.Judge().fit(people.demos, seed=seed, device=device)
        scores = [each.optimality for each in judge.score(people.demos.noisy)]
        cell[f"{kind}, AUROC"] = measure(scores, people)["auroc"]
    return cell


def main(
    task: str = "fourrooms",
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    clean: int = 30,
    noisy: int = 600,
    episodes: int = 1000,
    source: Path | None = None,
    people_seeds: tuple[int, ...] = (0, 1, 2),
    device: str = "cpu",
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        task: A grid that can be seen as pictures.
        seeds: Of the grid; 100 and up are for development.
        clean: Clean demonstrations, all told.
        noisy: Noisy demonstrations.
        episodes: Of each evaluation.
        source: The Zarr store of PushT; without it PushT is left out.
        people_seeds: Of PushT.
        device: cpu, cuda or auto.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(task=task, seeds=list(seeds), clean=clean, noisy=noisy, device=device)
    asked = [(task, clean, noisy, seed, device, episodes) for seed in seeds]
    cells = measure_all(of_rooms, asked, workers)
    if source is not None:
        asked_people = [(str(source.resolve()), seed, device) for seed in people_seeds]
        cells += measure_all(of_people, asked_people, workers)
    lines, targets = [], []
    for name, within in ((task, 0.03), ("pusht", 0.05)):
        mine = [cell for cell in cells if cell["task"] == name]
        for what in ("AUROC", *WAYS):
            found = [[c[f"{k}, {what}"] for c in mine if f"{k}, {what}" in c] for k in KINDS]
            if not found[0]:
                continue
            mean = [float(np.mean(each)) for each in found]
            digits = 3 if what == "AUROC" else 1
            lines.append(
                [
                    name,
                    what,
                    *(
                        f"{m:.{digits}f} ± {np.std(f):.{digits}f}"
                        for m, f in zip(mean, found, strict=True)
                    ),
                ]
            )
            least = -within if what == "AUROC" else -3.0
            targets.append(Target(f"{name}, {what}: pictures - vectors", mean[1] - mean[0], least))
    print(markdown(("task", "measure", "from vectors", "from pictures"), lines))
    finish(about, cells, targets, json)


if __name__ == "__main__":
    tyro.cli(main)
