"""The champion of a study against every other row, and what that says in a sentence.

Rewards are compared once for each way of acting, everyone by the same. A row whose cells do not
depend on what the study varies is compared once, with the champion's mean over all points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdil.evaluation.comparisons import (
    Estimate,
    Verdict,
    paired_difference,
    probability_of_improvement,
    verdict,
)
from sdil.named import is_import_path
from sdil.spaces import Array
from sdil.studies.grid import Results

NAMES = {
    "reward": "reward",
    "reward_without_circles": "without circles",
    "reward_not_stuck": "not stuck",
    "reward_sampled": "sampled",
    "reward_default": "as by default",
    "acc": "ACC",
    "macro_f": "macro-F",
    "macro_auroc": "macro AUROC",
    "micro_auroc": "micro AUROC",
    "test_nll": "NLL",
    "relative_error": "error, standard deviations",
    "success": "success",
    "valid_nll": "valid NLL",
    "valid_acc": "valid ACC",
    "score_auroc": "AUROC",
    "score_average_precision": "avg. precision",
    "score_calibration_error": "calib. error",
    "score_brier": "Brier",
    "perplexity": "perplexity",
}
WAYS = {
    "reward": "greedy",
    "reward_without_circles": "without circles",
    "reward_not_stuck": "not stuck",
    "reward_sampled": "sampled",
}
"""Rewards, by the way of acting that all policies share."""
CANNOT_TELL: Verdict = "cannot tell with this many seeds"
_AS_IT_IS = {
    "valid_nll",
    "test_nll",
    "relative_error",
    "perplexity",
}  # the rest are shares, shown x100
_HOLDS: dict[Verdict, str] = {
    "better": "holds",
    "worse": "does not hold: it is worse",
    CANNOT_TELL: "cannot be judged with this many seeds",
}


@dataclass(frozen=True)
class Comparison:
    """The champion against another row of one task, at one point of the axis."""

    task: str
    measure: str
    at: Any
    """None: there is no axis, or the row is the same at all its points."""
    row: str
    limit: bool
    """Whether the other is told the truth, and so no competitor."""
    difference: Estimate | None
    probability: float | None
    """How likely the champion's run beats the other's."""

    @property
    def verdict(self) -> Verdict:
        return verdict(self.difference)


def scale(measure: str, task: str) -> float:
    """Shares and rewards are shown x100, but not rewards of somebody's own task."""
    return 1.0 if measure in _AS_IT_IS or is_plain(measure, task) else 100.0


def is_plain(measure: str, *tasks: str) -> bool:
    """Whether these are rewards that are shown as they are: of a task of somebody's own."""
    return measure.startswith("reward") and any(is_import_path(task) for task in tasks)


def digits_of(measure: str, *tasks: str) -> int:
    """After the point."""
    return 3 if is_plain(measure, *tasks) else 1


def compared_measures(results: Results, task: str) -> list[str]:
    """What the champion is compared by in this task: of rewards, those of each way of acting."""
    study = results.study
    measure = study.measure_of(task)
    if measure not in WAYS:
        return [measure]
    return [measure] + [
        way
        for way in WAYS
        if way != measure
        and any(results.values(study.champion, task, way, at) for at in results.points(task))
    ]


def comparisons(results: Results) -> list[Comparison]:
    """The champion against every other row, wherever both have been measured."""
    study = results.study
    made = []
    for task in study.tasks:
        points = results.points(task)
        others = [row for row in study.rows if row != study.champion]
        same = [r for r in others if len(points) > 1 and _is_the_same(results, r, task)]
        places = [(row, points) for row in same]
        places += [(row, [at]) for at in points for row in others if row not in same]
        for measure in compared_measures(results, task):
            found = [_compare(results, task, measure, row, some) for row, some in places]
            made += [each for each in found if each is not None]
    return made


def headline(results: Results) -> list[str]:
    """Where the champion wins, and where it does not: a sentence per task and way of acting."""
    study = results.study
    lines = []
    every = comparisons(results)
    for task in study.tasks:
        for measure in compared_measures(results, task):
            mine = [c for c in every if (c.task, c.measure) == (task, measure) and not c.limit]
            if not mine:
                continue
            where = f"{task} ({_long_name(measure)})"
            tell = ("better", "worse", CANNOT_TELL)
            said = {v: [c for c in mine if c.verdict == v] for v in tell}
            text = f"{where}: {study.champion} is better than {len(said['better'])} of "
            text += f"{len(mine)} {'methods' if study.axis is None else 'comparisons'}"
            text += f", worse than {len(said['worse'])}"
            text += _named(said["worse"], mine)
            text += f"; of {len(said[CANNOT_TELL])} these seeds cannot tell"
            text += _named(said[CANNOT_TELL], mine)
            lines.append(text + ".")
            claim = study.claim
            if claim is not None and claim.row in study.rows:
                checked = _compare(results, task, measure, claim.row, [claim.at])
                if checked is not None:
                    lines.append(f"{where}: the claim that {claim.text} {_HOLDS[checked.verdict]}.")
    return lines


def column(values: Mapping[int, float]) -> Array:
    """By seed, as (runs, 1 task)."""
    return np.array([values[seed] for seed in sorted(values)])[:, None]


def _long_name(measure: str) -> str:
    return f"reward, {WAYS[measure]}" if measure in WAYS else NAMES[measure]


def _is_the_same(results: Results, row: str, task: str) -> bool:
    """Whether its cells are the same at all points of the axis."""
    cells = {
        frozenset(f.entry.cell for f in results.at(row, task, at)) for at in results.points(task)
    }
    return len(cells) == 1


def _compare(
    results: Results, task: str, measure: str, row: str, points: Sequence[Any]
) -> Comparison | None:
    """By seed, in the mean over these points; None where nothing can be compared."""
    study, factor = results.study, scale(measure, task)
    ours, theirs = (_over(results, each, task, measure, points) for each in (study.champion, row))
    if not ours or not theirs:
        return None
    difference = paired_difference(_times(ours, factor), _times(theirs, factor))
    probability = float(probability_of_improvement(column(ours), column(theirs)))
    at = points[0] if len(points) == 1 else None
    return Comparison(task, measure, at, row, row in study.limits, difference, probability)


def _over(
    results: Results, row: str, task: str, measure: str, points: Sequence[Any]
) -> dict[int, float]:
    """The mean over points, of the seeds that have them all."""
    found = [results.values(row, task, measure, at) for at in points]
    seeds = set.intersection(*(set(values) for values in found)) if found else set()
    return {seed: float(np.mean([values[seed] for values in found])) for seed in sorted(seeds)}


def _named(some: list[Comparison], every: list[Comparison]) -> str:
    """The rows in brackets, and at which points of the axis; nothing if there are none."""
    named = []
    for row in dict.fromkeys(c.row for c in every):
        mine = [c for c in some if c.row == row]
        at = [f"{c.at:g}" for c in mine if c.at is not None]
        all_points = len(at) > 1 and len(at) == sum(c.row == row for c in every)
        where = "everywhere" if all_points else f"at {', '.join(at)}"
        if mine:
            named.append(f"{row} {where}" if at else row)
    return f" ({'; '.join(named)})" if named else ""


def _times(values: Mapping[int, float], factor: float) -> dict[int, float]:
    return {seed: factor * value for seed, value in values.items()}
