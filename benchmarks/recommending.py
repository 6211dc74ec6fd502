"""What to learn from: is the recommendation of `did_it_help` right on clean groups nobody saw?

    python benchmarks/recommending.py                  # our tasks: the table of docs/curate.md
    python benchmarks/recommending.py --kitchens ../shared/data/overcooked-human --settings

Behaviour cloning from the clean set, with all noisy steps, with curated ones and with weighed ones;
one of them is recommended, by the clean demonstrations that are given. Then all are measured on
clean demonstrations that are given to nobody: of the kitchens the fourth of the best four trials,
of our tasks 100 more.

The target is about a setting: on average over its seeds, who follows the recommendation has an NLL
there that is at most 0.01 above that of the best row. In a single run the best of four rows is
told in hindsight, by figures with luck of their own; how many runs are within 0.01 of that is shown
too ("at once").
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import Target, begin, finish, markdown, measure_all
from human_play import KITCHENS, cut
from judging import collect
from sdil.choosing import By
from sdil.curation import Curated
from sdil.evaluation.helped import Helped
from sdil.held_out import TEMPERATURES
from sdil.networks.cross_fitting import cross_fit
from sdil.networks.folds import Folds
from sdil.ways import Way

SETTINGS = (
    "fourrooms:10",
    "fourrooms:30",
    "detours:10",
    "doorkey-6x6:30",
    "sepsis:100",
    "all-good:30",
    "all-bad:30",
)
ROWS = ("clean", "all", "curated", "weighted")
WITHIN = 0.01


def of_kitchen(data: str, kitchen: str, seed: int) -> tuple[sdil.Demonstrations, Any]:
    """Demonstrations, and the trial that is held out."""
    sys.path.insert(0, data)
    measure: Any = import_module("measure")
    clean, held_out, noisy = measure.split(measure.load(Path(data) / kitchen), seed)
    demos = sdil.Demonstrations(clean=cut(clean, measure), noisy=cut(noisy, measure))
    return demos, cut(held_out, measure)


def run_cell(data: str, setting: str, noisy: int, seed: int, by: By) -> dict[str, Any]:
    """One seed: what is recommended, and the NLL of every row on what nobody saw."""
    import torch

    torch.set_num_threads(1)
    if setting in KITCHENS:
        demos, unseen = of_kitchen(data, setting, seed)
    else:
        demos, _ = collect(setting, noisy, seed)
        unseen = list(collect(f"{setting.rsplit(':', 1)[0]}:100", 1, 50_000 + seed)[0].clean)
    judge = sdil.Judge().fit(demos, seed=seed)
    scores = judge.score(demos.noisy)
    known: dict[str, Any] = {"unknown": judge.unknown, "good_share": judge.good_share}
    known["cross_judged"] = judge.cross_judged
    cell: dict[str, Any] = {"setting": setting, "seed": seed, "by": by}
    try:
        curated = sdil.curate(demos, scores, by=by, keep_above=0.0, **known)
    except sdil.InputError as refused:
        return cell | {"recommended": None, "why": str(refused), "regret": None}
    helped = sdil.did_it_help(demos, curated, seed=seed)
    cell |= {"recommended": helped.recommended, "verdict": helped.verdict}
    cell["power"], cell["at_most"] = helped.power, helped.at_most
    cell["nll"] = unseen_nll(demos, unseen, curated, helped, seed)
    cell["regret"] = cell["nll"][helped.recommended] - min(cell["nll"].values())
    return cell


def unseen_nll(
    demos: sdil.Demonstrations, unseen: list[Any], curated: Curated, helped: Helped, seed: int
) -> dict[str, float]:
    """Cloning from all clean groups, as long and at the temperature that is best across folds of
    them, measured on the unseen ones: mean over five clones, so that a row's luck is small."""
    kept = np.concatenate(curated.kept)
    weights: dict[str, Any] = {
        "clean": np.zeros(len(kept)),
        "all": np.ones(len(kept)),
        "curated": kept.astype(float),
    }
    if curated.weighing is not None and helped.power is not None:
        way = Way(helped.power, np.inf if helped.at_most is None else helped.at_most)
        weights["weighted"] = way.weigh(np.concatenate(curated.weighing), demos.clean.n_steps)
    rows = [name for name in ROWS if name in {row.name for row in helped.rows}]
    of_rows = np.stack([weights[row] for row in rows])
    folds = Folds.deal(demos, seed=seed).halved()
    more = [sdil.Trajectory(t.observations, t.actions, None, t.terminated) for t in unseen]
    every = sdil.Demonstrations(
        clean=[*demos.clean, *more], noisy=list(demos.noisy), spaces=demos.spaces
    )
    how_long = cross_fit(demos, folds, of_rows, temperatures=TEMPERATURES, clones=10, seed=seed)
    left_out = Folds.leave_out(every, len(more))
    found = cross_fit(every, left_out, of_rows, exactly=how_long, seed=seed)
    lengths = np.array([len(t) for t in more])
    by_steps = found.nll @ lengths / lengths.sum()
    return {name: float(value) for name, value in zip(rows, by_steps, strict=True)}


def main(
    settings: tuple[str, ...] = SETTINGS,
    kitchens: Path | None = None,
    seeds: tuple[int, ...] = (0, 1, 2, 3),
    by: tuple[By, ...] = ("segment", "episode"),
    noisy: int = 600,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        settings: Tasks, and how many clean demonstrations, all told.
        kitchens: Folder of people's play, with measure.py.
        seeds: Of kitchens: the choice of the held-out trial.
        by: What is kept or dropped whole.
        noisy: Noisy episodes of our tasks.
        workers: Processes.
        json: Save everything to this file.
    """
    data = "" if kitchens is None else str(kitchens.resolve())
    if data and not (Path(data) / "measure.py").is_file():
        sys.exit(f"{data} has no measure.py; the play of people is not ours to bundle")
    every = (*(KITCHENS if data else ()), *settings)
    about = begin(settings=list(every), seeds=list(seeds), by=list(by))
    jobs = [(data, setting, noisy, seed, way) for setting in every for way in by for seed in seeds]
    cells = measure_all(run_cell, jobs, workers)
    lines, targets = [], []
    for setting in every:
        for way in by:
            mine = [c for c in cells if c["setting"] == setting and c["by"] == way]
            lines.append(line(setting, way, mine))
            if any(c["recommended"] for c in mine):
                what = f"{setting}, by {way}: NLL of the recommended minus the best row's"
                targets.append(Target(what, above_the_best(mine), at_most=WITHIN))
    columns = ("setting", "by", *ROWS, "recommended", "its NLL", "minus the best", "at once")
    print(markdown(columns, lines))
    regrets = [c["regret"] for c in cells if c["regret"] is not None]
    at_once = float(np.mean([r <= WITHIN for r in regrets])) if regrets else 0.0
    print(
        f"\nmean regret {np.mean(regrets):.3f}, within {WITHIN} at once in {at_once:.0%} of runs\n"
    )
    finish(about, cells, targets, json)


def means(mine: list[dict[str, Any]]) -> dict[str, float]:
    """The NLL of each row that every run has, on average over runs, and of the recommended."""
    told = [c for c in mine if c["recommended"] is not None]
    rows = [row for row in ROWS if all(row in c["nll"] for c in told)]
    found = {row: float(np.mean([c["nll"][row] for c in told])) for row in rows}
    return found | {"recommended": float(np.mean([c["nll"][c["recommended"]] for c in told]))}


def above_the_best(mine: list[dict[str, Any]]) -> float:
    """How far who follows the recommendation is above who always takes the best row."""
    found = means(mine)
    return found.pop("recommended") - min(found.values())


def line(setting: str, way: str, mine: list[dict[str, Any]]) -> list[str]:
    """A row of the table: means over the seeds."""
    told = [c for c in mine if c["recommended"] is not None]
    if not told:
        return [setting, way, *("" for _ in ROWS), "refused", "", "", ""]
    found = means(mine)
    chosen = [c["recommended"] for c in told]
    regrets = [c["regret"] for c in told]
    return [
        setting,
        way,
        *(f"{found[row]:.3f}" if row in found else "" for row in ROWS),
        ", ".join(f"{name} {chosen.count(name)}" for name in dict.fromkeys(chosen)),
        f"{found['recommended']:.3f}",
        f"{above_the_best(mine):+.3f}",
        f"{sum(r <= WITHIN for r in regrets)} of {len(regrets)}",
    ]


if __name__ == "__main__":
    tyro.cli(main)
