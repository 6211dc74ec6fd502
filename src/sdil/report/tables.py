"""Tables of a study's records, and what they say in a sentence.

What is not there is said: a cell that is missing, failed or stale never looks like a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdil.evaluation.comparisons import (
    Estimate,
    Verdict,
    bootstrap,
    interquartile_mean,
    mean_and_deviation,
    paired_difference,
    probability_of_improvement,
    verdict,
)
from sdil.evaluation.statistics import wilson_interval
from sdil.report.rendering import TextTable
from sdil.spaces import Array
from sdil.studies.grid import Results, State

NAMES = {
    "reward": "reward",
    "reward_without_circles": "without circles",
    "reward_sampled": "sampled",
    "reward_default": "as by default",
    "acc": "ACC",
    "macro_f": "macro-F",
    "macro_auroc": "macro AUROC",
    "micro_auroc": "micro AUROC",
    "success": "success",
    "valid_nll": "valid NLL",
    "valid_acc": "valid ACC",
    "score_auroc": "AUROC",
    "score_average_precision": "avg. precision",
    "score_calibration_error": "calib. error",
    "score_brier": "Brier",
    "perplexity": "perplexity",
}
_PREDICTION = ("acc", "macro_f", "macro_auroc", "micro_auroc")
_WAYS = ("reward_without_circles", "reward_sampled", "reward_default")  # of acting
_SCORES = ("score_auroc", "score_average_precision", "score_calibration_error", "score_brier")
_AS_IT_IS = {"valid_nll", "perplexity"}  # the rest are shares, shown x100
CANNOT_TELL: Verdict = "cannot tell with this many seeds"
_HOLDS: dict[Verdict, str] = {
    "better": "holds",
    "worse": "does not hold: it is worse",
    CANNOT_TELL: "cannot be judged with this many seeds",
}


@dataclass(frozen=True)
class Comparison:
    """The champion against another row of one task, at one point of the axis."""

    task: str
    at: Any
    row: str
    limit: bool
    """Whether the other is told the truth, and so no competitor."""
    difference: Estimate | None
    probability: float | None
    """How likely the champion's run beats the other's."""

    @property
    def verdict(self) -> Verdict:
        return verdict(self.difference)


def scale(measure: str) -> float:
    """Shares and rewards are shown x100."""
    return 1.0 if measure in _AS_IT_IS else 100.0


def tables(results: Results) -> list[TextTable]:
    """All tables of a study, those of one task together."""
    made: list[TextTable] = []
    for task in _begun(results):
        made += (
            _of_methods(results, task) if results.study.axis is None else _of_curve(results, task)
        )
    if results.study.axis is None and len(_begun(results)) > 1:
        made += _over_all_tasks(results)
    return made


def comparisons(results: Results) -> list[Comparison]:
    """The champion against every other row, wherever both have been measured."""
    study, limits = results.study, results.study.limits
    made = []
    for task in study.tasks:
        measure = study.measure_of(task)
        for at in results.points(task):
            ours = results.values(study.champion, task, measure, at)
            for row in study.rows:
                theirs = results.values(row, task, measure, at)
                if row == study.champion or not ours or not theirs:
                    continue
                factor = scale(measure)
                difference = paired_difference(_times(ours, factor), _times(theirs, factor))
                probability = float(probability_of_improvement(_column(ours), _column(theirs)))
                made.append(Comparison(task, at, row, row in limits, difference, probability))
    return made


def notes(results: Results) -> list[str]:
    """What a reader must know: which cells are not there, and why."""
    states: dict[State, str] = {
        "missing": "not measured yet",
        "failed": "failed; `sdil study show --failures` prints why",
        "stale": "stale: the source has changed since, run the study again",
    }
    return [
        f"{results.count(state)} of {len(results.found)} cells {text}."
        for state, text in states.items()
        if results.count(state)
    ]


def headline(results: Results) -> list[str]:
    """Where the champion wins, and where it does not, in a sentence per task."""
    study = results.study
    lines = []
    every = comparisons(results)
    for task in study.tasks:
        mine = [c for c in every if c.task == task and not c.limit]
        if not mine:
            continue
        measure = NAMES[study.measure_of(task)]
        said = {v: [c for c in mine if c.verdict == v] for v in ("better", "worse", CANNOT_TELL)}
        text = f"{task} ({measure}): {study.champion} is better than {len(said['better'])} of "
        text += f"{len(mine)} {'methods' if study.axis is None else 'comparisons'}"
        text += f", worse than {len(said['worse'])}"
        text += _named(said["worse"], mine)
        text += f"; of {len(said[CANNOT_TELL])} these seeds cannot tell"
        text += _named(said[CANNOT_TELL], mine)
        lines.append(text + ".")
        lines += [
            f"{task}: the claim that {study.claim.text} {_HOLDS[c.verdict]}."
            for c in mine
            if study.claim is not None and (c.row, c.at) == (study.claim.row, study.claim.at)
        ]
    return lines


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


def _of_methods(results: Results, task: str) -> list[TextTable]:
    study = results.study
    measure = study.measure_of(task)
    sizes = results.at(study.rows[-1], task) or results.at(study.rows[0], task)
    title = f"{task}, {_sizes(results, task)}" if sizes else task
    rows = [r for r in study.rows if any(f.state != "missing" for f in results.at(r, task))]
    made = [
        TextTable(
            f"{title}: predicting clean test actions, x100",
            ("method", *(NAMES[m] for m in _PREDICTION)),
            tuple((r, *(mean_text(results, r, task, m) for m in _PREDICTION)) for r in rows),
        )
    ]
    if measure == "reward":
        ways = [w for w in _WAYS if any(results.values(r, task, w) for r in rows)]
        made.append(
            TextTable(
                f"{title}: in the environment, x100",
                ("method", "reward", "IQM (95%)", "success (95%)", *(NAMES[w] for w in ways)),
                tuple(
                    (
                        r,
                        mean_text(results, r, task, "reward"),
                        _iqm_text(results.values(r, task, "reward")),
                        _success_text(results, r, task),
                        *(mean_text(results, r, task, w) for w in ways),
                    )
                    for r in rows
                ),
            )
        )
    judged = [r for r in rows if results.values(r, task, "score_auroc")]
    if judged:
        made.append(
            TextTable(
                f"{title}: scores of noisy steps against the truth, x100",
                ("method", *(NAMES[m] for m in _SCORES)),
                tuple((r, *(mean_text(results, r, task, m) for m in _SCORES)) for r in judged),
            )
        )
    compared = [c for c in comparisons(results) if c.task == task]
    if compared:
        made.append(
            TextTable(
                f"{title}: {study.champion} against each, {NAMES[measure]} x100, by seed",
                (
                    "against",
                    f"{study.champion} minus it (95%)",
                    "P(better)",
                    study.champion + " is",
                ),
                tuple((c.row, *_comparison_text(c)) for c in compared),
            )
        )
    return made


def _of_curve(results: Results, task: str) -> list[TextTable]:
    study = results.study
    measure = study.measure_of(task)
    axis = str(study.axis)
    points = results.points(task)
    title = f"{task}, {_sizes(results, task)}"
    rows = [
        r
        for r in study.rows
        if any(f.state != "missing" for p in points for f in results.at(r, task, p))
    ]
    made = [
        TextTable(
            f"{title}: {NAMES[measure]} x100 by {axis}",
            (axis.partition(",")[0], *rows),
            tuple(
                (f"{at:g}", *(mean_text(results, r, task, measure, at) for r in rows))
                for at in points
            ),
        )
    ]
    judged = _judged_on_curve(results, task, rows)
    if judged:
        made.append(
            TextTable(
                f"{title}: scores of noisy steps against the truth, x100",
                (axis.partition(",")[0], "method", *(NAMES[m] for m in _SCORES)),
                tuple(judged),
                text_columns=2,
            )
        )
    compared = [c for c in comparisons(results) if c.task == task]
    if compared:
        made.append(
            TextTable(
                f"{title}: {study.champion} against each, {NAMES[measure]} x100, by seed",
                (
                    axis.partition(",")[0],
                    "against",
                    f"{study.champion} minus it (95%)",
                    "P(better)",
                    study.champion + " is",
                ),
                tuple((f"{c.at:g}", c.row, *_comparison_text(c)) for c in compared),
                text_columns=2,
            )
        )
    return made


def _judged_on_curve(results: Results, task: str, rows: Sequence[str]) -> list[tuple[str, ...]]:
    """A line per point and method; one for all points where a method's scores are the same."""
    lines: dict[str, list[tuple[str, ...]]] = {"all": []}
    lines |= {f"{at:g}": [] for at in results.points(task)}
    for row in rows:
        texts = {
            f"{at:g}": tuple(mean_text(results, row, task, m, at) for m in _SCORES)
            for at in results.points(task)
            if results.values(row, task, "score_auroc", at)
        }
        if len(texts) > 1 and len(set(texts.values())) == 1:
            texts = {"all": next(iter(texts.values()))}
        for at, text in texts.items():
            lines[at].append((at, row, *text))
    return [line for some in lines.values() for line in some]


def _over_all_tasks(results: Results) -> list[TextTable]:
    """Interquartile means over tasks, of the rows that have every seed of every task."""
    study = results.study
    tasks = [t for t in _begun(results) if study.measure_of(t) == "reward"]
    scores = {row: together(results, row, tasks) for row in study.rows}
    ours = scores.get(study.champion)
    rows = []
    for row, theirs in scores.items():
        if theirs is None:
            continue
        chance = "-"
        if ours is not None and row != study.champion:
            chance = _interval(bootstrap(probability_of_improvement, ours, theirs), 2, 1.0)
        rows.append((row, _interval(bootstrap(interquartile_mean, theirs), 1, 100.0), chance))
    title = f"{', '.join(tasks)} together: reward x100, stratified bootstrap"
    columns = ("method", "IQM (95%)", f"P({study.champion} better) (95%)")
    return [TextTable(title, columns, tuple(rows))] if rows and len(tasks) > 1 else []


def together(results: Results, row: str, tasks: Sequence[str]) -> Array | None:
    """Rewards of the seeds that every task has; None where there are none. (seeds, tasks)"""
    by_task = [results.values(row, task, "reward") for task in tasks]
    seeds = sorted(set.intersection(*(set(values) for values in by_task))) if by_task else []
    if not seeds:
        return None
    return np.array([[values[seed] for values in by_task] for seed in seeds])


def mean_text(results: Results, row: str, task: str, measure: str, at: Any = None) -> str:
    """Mean and deviation; how many seeds, where some are not there; or why there is none."""
    found = results.at(row, task, at)
    values = results.values(row, task, measure, at)
    if not values:
        states = [f.state for f in found if f.state != "done"]
        return states[0] if states else "-"
    mean, deviation = mean_and_deviation(_column(values)[:, 0] * scale(measure))
    text = f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"
    return text if len(values) == len(found) else f"{text} ({len(values)} of {len(found)})"


def _iqm_text(values: Mapping[int, float]) -> str:
    return _interval(bootstrap(interquartile_mean, _column(values)), 1, 100.0) if values else "-"


def _success_text(results: Results, row: str, task: str) -> str:
    """Successes of all episodes of all seeds; without an interval where nothing was sampled."""
    shares = results.values(row, task, "success")
    episodes = results.values(row, task, "episodes")
    if not shares:
        return "-"
    total = int(sum(episodes.values()))
    if not total:
        return f"{100 * np.mean(list(shares.values())):.1f} (exact)"
    won = round(sum(shares[seed] * episodes[seed] for seed in shares))
    low, high = wilson_interval(won, total)
    return f"{100 * won / total:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _comparison_text(comparison: Comparison) -> tuple[str, str, str]:
    difference, probability = comparison.difference, comparison.probability
    return (
        "-" if difference is None else _interval(difference, 1, 1.0, sign="+"),
        "-" if probability is None else f"{probability:.2f}",
        comparison.verdict,
    )


def _interval(estimate: Estimate, digits: int, factor: float, *, sign: str = "") -> str:
    def text(value: float) -> str:
        return f"{factor * value:{sign}.{digits}f}"

    if estimate.low is None or estimate.high is None:
        return text(estimate.value)
    return f"{text(estimate.value)} ({text(estimate.low)} to {text(estimate.high)})"


def _begun(results: Results) -> list[str]:
    """Tasks of which anything has been measured or tried."""
    begun = {f.entry.cell.task for f in results.found if f.state != "missing"}
    return [task for task in results.study.tasks if task in begun]


def _sizes(results: Results, task: str) -> str:
    """How many demonstrations, and seeds."""
    cells = [f.entry.cell for f in results.found if f.entry.cell.task == task]
    clean = {c.clean for c in cells if c.clean is not None}
    noisy = {c.noisy for c in cells if c.noisy}
    seeds = len({c.seed for c in cells})
    parts = [f"{_span(clean)} clean" if clean else "", f"{_span(noisy)} noisy" if noisy else ""]
    return ", ".join(p for p in (*parts, f"{seeds} seeds") if p)


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _times(values: Mapping[int, float], factor: float) -> dict[int, float]:
    return {seed: factor * value for seed, value in values.items()}


def _column(values: Mapping[int, float]) -> Array:
    """By seed, as (runs, 1 task)."""
    return np.array([values[seed] for seed in sorted(values)])[:, None]
