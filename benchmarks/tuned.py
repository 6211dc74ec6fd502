"""What does a search change, of the same length for every learner?

    python benchmarks/tuned.py                       # 8 settings each, then seeds 0 to 4
    python benchmarks/tuned.py --trials 16 --seeds 0 1 2 3 4 5 6 7 8 9

Each learner gets as many settings to try, on the same two development seeds, by the same measure:
the likelihood of clean validation actions, which nobody is given and which sees no reward
(`sdil study tune`). The first setting is the learner as it is; the others vary step size, weight
decay and size of the networks, and the fields of its own that are named below. The best one is then
measured on the table's seeds beside the learner as it is. What the judge and trust of SDIL and
scored BC were given by hand before (docs/baselines.md) is in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from common.report import begin, finish, markdown
from sdil.evaluation.comparisons import paired_difference
from sdil.studies.cell import Cell, sorted_fields
from sdil.studies.grid import Entry, Progress, Results, Study, run_study
from sdil.studies.runners import on_workers
from sdil.studies.tune import USUAL_SPACE, tune

WAYS = {
    "greedy": "reward",
    "without circles": "reward_without_circles",
    "sampled": "reward_sampled",
    "accuracy": "acc",
    "macro AUROC": "macro_auroc",
}


@dataclass(frozen=True)
class Row:
    """A learner, and what is searched beside the fields that all have."""

    learner: str
    clean_only: bool = False
    own: dict[str, Any] = field(default_factory=dict)


ROWS = {
    "BC, clean only": Row("bc", clean_only=True),
    "BC, pooled": Row("bc"),
    "DWBC": Row("dwbc", own={"eta": [0.3, 0.5, 0.7], "alpha": {"low": 2.0, "high": 15.0}}),
    "scored BC": Row("scored-bc"),
    "SDIL": Row("sdil", own={"mi_weight": {"low": 0.1, "high": 3.0, "log": True}}),
}
OURS = "SDIL"


def main(
    tasks: tuple[str, ...] = ("fourrooms", "sepsis"),
    clean: int = 30,
    noisy: int = 600,
    trials: int = 8,
    tuning_seeds: tuple[int, ...] = (600, 601),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    workers: int = 2,
    root: Path = Path("studies"),
    json: Path | None = None,
) -> None:
    """Search, measure, and print a Markdown table for each task.

    Args:
        tasks: The tasks, each tuned for by itself.
        clean: Clean trajectories, all told.
        noisy: Noisy ones.
        trials: Settings that each learner may try.
        tuning_seeds: On these; no table uses them.
        seeds: The table gives means over these.
        workers: Processes.
        root: Where trials and cells are kept; the same command goes on where it stopped.
        json: Save everything to this file.
    """
    sizes = {"clean": clean, "noisy": noisy, "trials": trials}
    about = begin(tasks=tasks, **sizes, tuning_seeds=tuning_seeds, seeds=seeds)
    run, entries, chosen = on_workers(workers), [], []
    for task in tasks:
        for name, row in ROWS.items():
            cell = Cell(task, row.learner, 0, clean, 0 if row.clean_only else noisy, valid=False)
            found = tune(
                cell,
                USUAL_SPACE | row.own,
                where=f"the space of {name}",
                trials=trials,
                seeds=tuning_seeds,
                root=root,
                run=run,
                abreast=workers,
                on_progress=_tell,
            )
            best = found[0]
            first = next(trial for trial in found if trial.number == 0)
            fields = {} if best.number == 0 else best.fields
            chosen.append(
                {
                    "task": task,
                    "row": name,
                    "fields": fields,
                    "nll_as_it_is": first.valid_nll,
                    "nll_tuned": best.valid_nll,
                }
            )
            for seed in seeds:
                one = replace(cell, seed=seed)
                entries.append(Entry(name, one))
                tuned = replace(one, fields=sorted_fields(fields))
                entries.append(Entry(f"{name}, tuned", tuned))
    study = Study("tuned", "Tuned alike", tuple(entries), None, dict.fromkeys(tasks, "reward"), "")
    results = run_study(study, root, run, on_progress=_tell)
    for task in tasks:
        print(f"**{task}**\n")
        print(markdown(("learner", "settings, NLL", *WAYS), table(results, task, chosen)), "\n")
        print(markdown((f"{OURS} minus", *WAYS), differences(results, task)), "\n")
    finish(about, chosen, [], json)


def table(results: Results, task: str, chosen: list[dict[str, Any]]) -> list[list[str]]:
    """Each learner as it is and tuned: mean and spread over seeds."""
    lines = []
    for one in (c for c in chosen if c["task"] == task):
        settings = ", ".join(
            f"{k} {v:.2g}" if isinstance(v, float) else f"{k} {v}" for k, v in one["fields"].items()
        )
        for row, said in (
            (one["row"], f"as it is: {one['nll_as_it_is']:.3f}"),
            (f"{one['row']}, tuned", f"{settings or 'as it is'}: {one['nll_tuned']:.3f}"),
        ):
            figures = (list(results.values(row, task, what).values()) for what in WAYS.values())
            shown = (f"{100 * np.mean(v):.1f} ± {100 * np.std(v):.1f}" for v in figures)
            lines.append([row, said, *shown])
    return lines


def differences(results: Results, task: str) -> list[list[str]]:
    """SDIL against each, both tuned, by seed."""
    lines = []
    for name in ROWS:
        if name == OURS:
            continue
        shown = []
        for what in WAYS.values():
            ours, theirs = (results.values(f"{row}, tuned", task, what) for row in (OURS, name))
            gain = paired_difference(ours, theirs)
            assert gain is not None
            value = f"{100 * gain.value:+.1f}"
            if gain.low is not None and gain.high is not None:
                value += f" ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
            shown.append(value)
        lines.append([f"{name}, both tuned", *shown])
    return lines


def _tell(progress: Progress) -> None:
    print(f"{progress.done}/{progress.total}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
