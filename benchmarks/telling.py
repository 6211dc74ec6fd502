"""What do twenty labelled spans teach the judge? Labels from the truth, AUROC on the other steps.

    python benchmarks/telling.py                                  # 10 seeds of two tasks
    python benchmarks/telling.py --settings fourrooms:5 --seeds 100 101

A setting is a task and a number of clean demonstrations. A span's label is the majority of its
steps; where between 25 and 75% of them are good it is unsure. Labels are taken in before
("before"), of spans that the program asks for ("chosen"), of as many at random of the same spans
("at random"), and chosen with one answer in ten turned round ("one in ten wrong"). AUROC and
calibration error are over noisy steps that are labelled in none of them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import begin, finish, markdown, measure_all

SETTINGS = ("fourrooms:5", "doorkey-6x6:5")
WAYS = ("before", "chosen", "at random", "one in ten wrong")


def answer(good: Any) -> str:
    """What a person who knows the truth says of a span."""
    share = float(np.mean(good))
    return "good" if share > 0.75 else "bad" if share < 0.25 else "unsure"


def run_cell(setting: str, noisy: int, seed: int, n: int, rounds: int) -> dict[str, Any]:
    """One seed."""
    import torch

    torch.set_num_threads(1)
    task, clean = setting.rsplit(":", 1)
    demos, truth = sdil.get_task(task).collect(clean=int(clean), noisy=noisy, seed=seed)
    judge = sdil.Judge().fit(demos, seed=seed)
    return measure(judge, demos, truth, setting, seed, n, rounds)


def measure(
    judge: Any, demos: Any, truth: Any, setting: str, seed: int, n: int, rounds: int
) -> dict[str, Any]:
    """A fitted judge, told in each way."""
    from sdil.evaluation.calibration import calibration_of_scores
    from sdil.evaluation.scores import compare_with_truth
    from sdil.judges.asking import spans_of
    from sdil.labels import Label, episodes_of, told_steps

    ids, rng = demos.noisy.ids, np.random.default_rng(seed)
    good = dict(zip(ids, truth.noisy_good, strict=True))

    def label(episode: str, first: int, last: int) -> Label:
        said = answer(good[episode][first : last + 1])
        return Label("noisy", episode, first, last, said)

    chosen: list[Label] = []
    told = judge
    begun = time.process_time()
    for _ in range(rounds):  # a person answers some, and the program asks for more
        asked = told.ask(demos, n // rounds, chosen)
        chosen += [label(q.episode, q.first_step, q.last_step) for q in asked]
        told = judge.tell(chosen)
    seconds = (time.process_time() - begun) / rounds
    spans = spans_of(judge.score(demos.noisy))
    drawn = [spans[i] for i in rng.permutation(len(spans))[:n]]
    random = [label(ids[i], first, stop - 1) for i, first, stop in drawn]
    turned = {"good": "bad", "bad": "good", "unsure": "unsure"}
    wrong = set(rng.permutation(len(chosen))[: len(chosen) // 10].tolist())
    faulty = [
        Label("noisy", x.episode, x.first_step, x.last_step, turned[x.label]) if i in wrong else x
        for i, x in enumerate(chosen)
    ]
    ways = dict(zip(WAYS, ([], chosen, random, faulty), strict=True))
    episodes = episodes_of(demos)
    known = [
        told_steps(labels, episodes)[1][demos.clean.n_steps :] >= 0 for labels in ways.values()
    ]
    rest, is_good = ~np.any(known, axis=0), np.concatenate(truth.noisy_good)
    cell: dict[str, Any] = {"setting": setting, "seed": seed, "seconds": seconds}
    for way, labels in ways.items():
        now = judge.tell(labels)
        scores = np.concatenate([s.optimality for s in now.score(demos.noisy)])[rest]
        cell[way] = {
            "auroc": compare_with_truth(scores, is_good[rest])[0],
            "calibration": calibration_of_scores(scores, is_good[rest]).ece,
            "share": now.good_share.point if now.good_share else None,
            "labels": {k: sum(x.label == k for x in labels) for k in ("good", "bad", "unsure")},
        }
    return cell


def main(
    settings: tuple[str, ...] = SETTINGS,
    seeds: tuple[int, ...] = tuple(range(10)),
    noisy: int = 600,
    labels: int = 20,
    rounds: int = 4,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        settings: Task and number of clean demonstrations.
        seeds: The table gives means over them.
        noisy: Noisy episodes.
        labels: Spans that are labelled.
        rounds: In so many parts, with a rejudging after each.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(settings=list(settings), seeds=list(seeds), noisy=noisy, labels=labels)
    jobs = [(setting, noisy, seed, labels, rounds) for setting in settings for seed in seeds]
    cells = measure_all(run_cell, jobs, workers)
    columns = ("setting", "labels", "AUROC", "of 1 - AUROC removed", "calibration error", "seconds")
    print(markdown(columns, [line for s in settings for line in lines(s, cells)]))
    finish(about, cells, [], json)


def lines(setting: str, cells: list[dict[str, Any]]) -> list[list[str]]:
    """The rows of a setting."""
    mine = [c for c in cells if c["setting"] == setting]
    rows = []
    for way in WAYS:
        before, after = (np.array([c[w]["auroc"] for c in mine]) for w in ("before", way))
        removed = float((after - before).sum() / (1 - before).sum())
        error = float(np.mean([c[way]["calibration"] for c in mine]))
        seconds = f"{np.mean([c['seconds'] for c in mine]):.1f}" if way == "chosen" else ""
        rows.append(
            [setting, way, f"{after.mean():.3f}", f"{removed:.0%}", f"{error:.2f}", seconds]
        )
    return rows


if __name__ == "__main__":
    tyro.cli(main)
