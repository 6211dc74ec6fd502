"""Does SDIL predict people worse than plain cloning does? Two kitchens, and patients.

    python benchmarks/predicting.py --kitchens ../shared/data/overcooked-human --mimic demos/mimic

Behaviour cloning of the clean set, of all steps alike, scored BC and SDIL, all with SDIL's
look-back, on the same clean demonstrations and without a validation set. They are measured by the
recorded actions of clean demonstrations that nobody saw: of the kitchens the fourth of the best
four trials, of patients the test part of `Demonstrations.split`, whose training part alone is
learned from. Beside them stand how often clean steps take each action, which is the commonest one
where accuracy is asked, and all alike.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import Target, begin, finish, markdown, measure_all
from human_play import KITCHENS
from recommending import of_kitchen
from sdil.evaluation.metrics import mean_nll, predict_recorded

MIMIC = "patients"
SIMPLE = ("as often as in the clean set", "all actions alike")


def run_cell(data: str, setting: str, seed: int) -> list[dict[str, Any]]:
    """All learners on one seed."""
    import torch

    torch.set_num_threads(1)
    if setting == MIMIC:
        parts = [sdil.load_demonstrations(Path(data) / name) for name in ("train", "valid", "test")]
        clean = [trajectory for part in parts for trajectory in part.clean]
        noisy = [trajectory for part in parts for trajectory in part.noisy]
        split = sdil.Demonstrations(clean, noisy, parts[0].spaces).split(seed=seed)
        demos, unseen = split.train, split.test.clean
    else:
        demos, held_out = of_kitchen(data, setting, seed)
        unseen = sdil.Demonstrations(held_out, [], demos.spaces).clean
    back = sdil.SDIL().look_back
    asked: dict[str, tuple[Any, sdil.Demonstrations]] = {
        "BC, clean only": (sdil.BC(look_back=back), demos.clean_only()),
        "BC, pooled": (sdil.BC(look_back=back), demos),
        "scored BC": (sdil.ScoredBC(look_back=back), demos),
        "SDIL": (sdil.SDIL(), demos),
    }
    cells = []

    def keep(row: str, probs: Any, actions: Any, **more: Any) -> None:
        figures = {
            "nll": mean_nll(probs, actions),
            "acc": float((probs.argmax(1) == actions).mean()),
        }
        cells.append({"setting": setting, "seed": seed, "row": row, **figures, **more})

    for row, (learner, given) in asked.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a collapse
            policy = learner.fit(given, seed=seed)
        probs, actions = predict_recorded(policy, unseen)
        keep(row, probs, actions, trusted=policy.trusted)
    taken = np.concatenate([t.actions for t in demos.clean])
    usual = (np.bincount(taken, minlength=probs.shape[1]) + 1.0) / (len(taken) + probs.shape[1])
    for row, share in zip(SIMPLE, (usual, np.full(len(usual), 1 / len(usual))), strict=True):
        keep(row, np.tile(share, (len(actions), 1)), actions)
    return cells


def main(
    kitchens: Path | None = None,
    mimic: Path | None = None,
    seeds: tuple[int, ...] = (0, 1, 2, 3),
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        kitchens: The folder that holds people's play and `measure.py`.
        mimic: Patients, as `sdil mimic build` makes them.
        seeds: Which trial is held out, or how patients are split.
        workers: Processes.
        json: Save everything to this file.
    """
    settings = [(str(kitchens.resolve()), name) for name in KITCHENS if kitchens]
    settings += [(str(mimic), MIMIC)] if mimic else []
    about = begin(settings=[name for _, name in settings], seeds=list(seeds))
    asked = [(data, name, seed) for data, name in settings for seed in seeds]
    cells = [cell for some in measure_all(run_cell, asked, workers) for cell in some]

    def mean(setting: str, row: str, what: str) -> float:
        mine = [c[what] for c in cells if (c["setting"], c["row"]) == (setting, row)]
        return float(np.mean(mine))

    rows = list(dict.fromkeys(cell["row"] for cell in cells))
    table, targets = [], []
    for _, setting in settings:
        for row in rows:
            nll, acc = mean(setting, row, "nll"), 100 * mean(setting, row, "acc")
            table.append((setting, row, f"{nll:.3f}", f"{acc:.1f}"))
        plain = rows[:2]
        nll = mean(setting, "SDIL", "nll") - min(mean(setting, row, "nll") for row in plain)
        acc = mean(setting, "SDIL", "acc") - max(mean(setting, row, "acc") for row in plain)
        targets.append(Target(f"{setting}: NLL above the better BC", nll, at_most=0.02))
        targets.append(Target(f"{setting}: points of accuracy", 100 * acc, at_least=-1))
    print(markdown(("data", "learner", "NLL", "accuracy"), table))
    finish(about, cells, targets, json)


if __name__ == "__main__":
    tyro.cli(main)
