"""What do twenty labelled spans teach the judge? Labels from the truth, AUROC on the other steps.

    python benchmarks/telling.py                                  # 10 seeds of two tasks
    python benchmarks/telling.py --settings fourrooms:5 mass-aims:5 --seeds 100 101 --noisy 300
    python benchmarks/telling.py --of one.json two.json           # what was measured in parts

A setting is a task and a number of clean demonstrations; "mass-interrupted" and "mass-aims" are the
made-up world of `common/pushed_mass.py`. A span's label is the majority of its steps; where between
25 and 75% of them are good it is unsure. Labels are taken in before ("before"), of spans that the
program asks for, two at a time ("chosen"), of as many at random of all spans ("at random"), and
chosen with one answer in ten turned round ("one in ten wrong"). "No clean set" is another judge,
which has no clean demonstration: twice as many labels, the first half of them of steps that are
asked for before there is a judge (`sdil.first_questions`), whose good ones are its clean set, the
second half of spans that it asks for. AUROC and calibration error are over noisy steps that are
labelled in none of these.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from json import loads
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common import pushed_mass
from common.report import Target, begin, finish, markdown, measure_all

SETTINGS = ("fourrooms:5", "doorkey-6x6:5")
WAYS = ("before", "chosen", "at random", "one in ten wrong")
NO_CLEAN = "no clean set"
TURNED = {"good": "bad", "bad": "good", "unsure": "unsure"}


def answer(good: Any) -> str:
    """What a person who knows the truth says of a span."""
    share = float(np.mean(good))
    return "good" if share > 0.75 else "bad" if share < 0.25 else "unsure"


def collect(setting: str, noisy: int, seed: int) -> tuple[sdil.Demonstrations, list[Any]]:
    """Demonstrations, and which steps of each noisy episode are good."""
    task, clean = setting.rsplit(":", 1)
    if task.startswith("mass-"):
        kind: Any = task.removeprefix("mass-")
        return pushed_mass.collect(int(clean), noisy, kind, seed)
    demos, truth = sdil.get_task(task).collect(clean=int(clean), noisy=noisy, seed=seed)
    return demos, list(truth.noisy_good)


class Person:
    """Knows which noisy steps are good."""

    def __init__(self, demos: sdil.Demonstrations, good: Sequence[Any]) -> None:
        self.good = dict(zip(demos.noisy.ids, good, strict=True))

    def label(self, episode: str, first: int, last: int) -> sdil.Label:
        said = answer(self.good[episode][first : last + 1])
        return sdil.Label("noisy", episode, first, last, said)

    def answers(
        self, judge: Any, demos: sdil.Demonstrations, n: int, rounds: int, known: Sequence[Any] = ()
    ) -> list[sdil.Label]:
        """Labels of spans that the judge asks for, with a rejudging after each round."""
        labels, told = list(known), judge.tell(known)
        for _ in range(rounds):
            asked = told.ask(demos, n // rounds, labels)
            labels += [self.label(q.episode, q.first_step, q.last_step) for q in asked]
            told = judge.tell(labels)
        return labels


def run_cell(
    setting: str, noisy: int, seed: int, n: int, rounds: int, no_clean: bool
) -> dict[str, Any]:
    """One seed."""
    import torch

    from sdil.judges.asking import spans_of

    torch.set_num_threads(1)
    demos, good = collect(setting, noisy, seed)
    person, rng = Person(demos, good), np.random.default_rng(seed)
    judge = sdil.Judge().fit(demos, seed=seed)
    begun = time.process_time()
    chosen = person.answers(judge, demos, n, rounds)
    seconds = (time.process_time() - begun) / rounds
    spans, ids = spans_of(judge.score(demos.noisy)), demos.noisy.ids
    drawn = [spans[i] for i in rng.permutation(len(spans))[:n]]
    random = [person.label(ids[i], first, stop - 1) for i, first, stop in drawn]
    wrong = set(rng.permutation(len(chosen))[: len(chosen) // 10].tolist())
    faulty = [
        sdil.Label("noisy", x.episode, x.first_step, x.last_step, TURNED[x.label])
        if i in wrong
        else x
        for i, x in enumerate(chosen)
    ]
    told = {
        way: (judge.tell(labels), labels)
        for way, labels in zip(WAYS, ([], chosen, random, faulty), strict=True)
    }
    begin = sdil.first_questions(demos.noisy, n, seed=seed) if no_clean else []
    first = [person.label(q.episode, q.first_step, q.last_step) for q in begin]
    if any(label.label == "good" for label in first):  # otherwise there is nothing to trust
        others = sdil.clean_from_labels(list(demos.noisy), first, demos.spaces)
        own = sdil.Judge().fit(others, seed=seed)
        labels = person.answers(own, others, n, rounds, first)
        told[NO_CLEAN] = own.tell(labels), labels
    cell: dict[str, Any] = {"setting": setting, "seed": seed, "seconds": seconds}
    return cell | measure(told, demos, np.concatenate(good))


def measure(told: dict[str, Any], demos: sdil.Demonstrations, good: Any) -> dict[str, Any]:
    """Judges that were told in several ways, on steps that are labelled in none of them."""
    from sdil.evaluation.calibration import calibration_of_scores
    from sdil.evaluation.scores import compare_with_truth
    from sdil.labels import episodes_of, told_steps

    episodes, before = episodes_of(demos), demos.clean.n_steps
    known = [told_steps(labels, episodes)[1][before:] >= 0 for _, labels in told.values()]
    rest = ~np.any(known, axis=0)
    cell = {}
    for way, (judge, labels) in told.items():
        scores = np.concatenate([s.optimality for s in judge.score(demos.noisy)])[rest]
        length = [x.last_step - x.first_step + 1 for x in labels]
        cell[way] = {
            "auroc": compare_with_truth(scores, good[rest])[0],
            "calibration": calibration_of_scores(scores, good[rest]).ece,
            "share": judge.good_share.point if judge.good_share else None,
            "labels": {k: sum(x.label == k for x in labels) for k in TURNED},
            "length": float(np.mean(length)) if length else 0.0,
        }
    return cell


def main(
    settings: tuple[str, ...] = SETTINGS,
    seeds: tuple[int, ...] = tuple(range(10)),
    noisy: int = 600,
    labels: int = 20,
    rounds: int | None = None,
    no_clean: bool = True,
    workers: int = 2,
    json: Path | None = None,
    of: tuple[Path, ...] = (),
) -> None:
    """Measure, and print a Markdown table.

    Args:
        settings: Task and number of clean demonstrations.
        seeds: The table gives means over them.
        noisy: Noisy episodes.
        labels: Spans that are labelled.
        rounds: In so many parts, with a rejudging after each; by default two labels each.
        no_clean: Whether a judge without clean demonstrations is measured too.
        workers: Processes.
        json: Save everything to this file.
        of: Files that were saved so: show what they hold together, and measure nothing.
    """
    if of:
        cells = [row for file in of for row in loads(file.read_text("utf-8"))["rows"]]
        settings = tuple(dict.fromkeys(cell["setting"] for cell in cells))
        seeds = tuple(sorted({cell["seed"] for cell in cells}))
        if len({(cell["setting"], cell["seed"]) for cell in cells}) < len(cells):
            sys.exit("some seed of a setting is in two of these files")
    rounds = max(1, labels // 2) if rounds is None else rounds
    sizes = {} if of else {"noisy": noisy, "labels": labels, "rounds": rounds}
    about = begin(settings=list(settings), seeds=list(seeds), **sizes)
    if not of:
        more = labels, rounds, no_clean
        jobs = [(setting, noisy, seed, *more) for setting in settings for seed in seeds]
        cells = measure_all(run_cell, jobs, workers)
    columns = (
        *("setting", "labels", "good / bad / unsure", "AUROC", "of 1 - AUROC removed"),
        *("calibration error", "seconds"),
    )
    print(markdown(columns, [line for s in settings for line in lines(s, cells)]))
    finish(about, cells, targets(settings, cells), json)


def removed(cells: Sequence[dict[str, Any]], way: str) -> float:
    """Of 1 - AUROC."""
    before, after = (np.array([c[w]["auroc"] for c in cells]) for w in ("before", way))
    return float((after - before).sum() / (1 - before).sum())


def lines(setting: str, cells: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of a setting."""
    mine = [c for c in cells if c["setting"] == setting]
    rows = []
    every = mine
    for way in (*WAYS, NO_CLEAN):
        mine = [c for c in every if way in c]
        if not mine:
            continue
        auroc = float(np.mean([c[way]["auroc"] for c in mine]))
        error = float(np.mean([c[way]["calibration"] for c in mine]))
        said = " / ".join(f"{np.mean([c[way]['labels'][k] for c in mine]):.1f}" for k in TURNED)
        seconds = f"{np.mean([c['seconds'] for c in mine]):.1f}" if way == "chosen" else ""
        rows.append(
            [
                setting,
                way,
                said,
                f"{auroc:.3f}",
                f"{removed(mine, way):.0%}",
                f"{error:.3f}",
                seconds,
            ]
        )
    return rows


def targets(settings: Sequence[str], cells: list[dict[str, Any]]) -> list[Target]:
    """What issue 23 asks for."""
    found = []
    for setting in settings:
        mine = [c for c in cells if c["setting"] == setting]
        gain, faulty = removed(mine, "chosen"), removed(mine, "one in ten wrong")
        error = float(np.mean([c["chosen"]["calibration"] for c in mine]))
        found.append(Target(f"{setting}: chosen, of 1 - AUROC removed", gain, at_least=0.25))
        found.append(Target(f"{setting}: chosen, calibration error", error, at_most=0.08))
        if gain > 0:
            cost = (gain - faulty) / gain
            found.append(
                Target(f"{setting}: one in ten wrong, of the gain lost", cost, at_most=0.5)
            )
        free = [c for c in mine if NO_CLEAN in c]
        if free:
            more = float(np.mean([c[NO_CLEAN]["auroc"] - c["before"]["auroc"] for c in free]))
            found.append(Target(f"{setting}: no clean set, AUROC above before", more, at_least=0.0))
    low, middle, high = better_than_chance(cells)
    print(f"chosen above at random, of 1 - AUROC: {middle:.3f} (95%: {low:.3f} to {high:.3f})")
    found.append(Target("all settings: chosen above at random, lower end", low, at_least=0.0))
    return found


def better_than_chance(cells: Sequence[dict[str, Any]]) -> tuple[float, float, float]:
    """By how much more of 1 - AUROC is removed by spans that are chosen than by spans at random,
    pooled over settings and seeds in pairs: lower end, mean and upper end of a 95% bootstrap."""
    gain = np.array(
        [
            (c["chosen"]["auroc"] - c["at random"]["auroc"]) / (1 - c["before"]["auroc"])
            for c in cells
        ]
    )
    drawn = np.random.default_rng(0).integers(len(gain), size=(10_000, len(gain)))
    low, high = np.quantile(gain[drawn].mean(1), [0.025, 0.975])
    return float(low), float(gain.mean()), float(high)


if __name__ == "__main__":
    tyro.cli(main)
