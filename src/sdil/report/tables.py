"""Tables of a study's records, and what they say in a sentence.

What is not there is said: a cell that is missing, failed or stale never looks like a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sdil.evaluation.comparisons import (
    Estimate,
    bootstrap,
    interquartile_mean,
    mean_and_deviation,
    probability_of_improvement,
)
from sdil.evaluation.statistics import wilson_interval
from sdil.report.comparing import (
    CANNOT_TELL,
    NAMES,
    WAYS,
    Comparison,
    column,
    compared_measures,
    comparisons,
    digits_of,
    is_plain,
    scale,
)
from sdil.report.rendering import TextTable
from sdil.spaces import Array
from sdil.studies.grid import Results, State

_PREDICTION = ("acc", "macro_f", "macro_auroc", "micro_auroc")
_OF_REAL_ACTIONS = ("relative_error",)  # densities are in units of what a row learned from
_MORE_WAYS = (  # beside greedily
    *("reward_without_circles", "reward_not_stuck", "reward_sampled", "reward_default"),
)
_SCORES = ("score_auroc", "score_average_precision", "score_calibration_error", "score_brier")


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


def _of_methods(results: Results, task: str) -> list[TextTable]:
    study = results.study
    measure = study.measure_of(task)
    sizes = results.at(study.rows[-1], task) or results.at(study.rows[0], task)
    title = f"{task}, {_sizes(results, task)}" if sizes else task
    rows = [r for r in study.rows if any(f.state != "missing" for f in results.at(r, task))]
    real = any(results.values(r, task, "relative_error") for r in rows)
    predicted = _OF_REAL_ACTIONS if real else _PREDICTION
    made = [
        TextTable(
            f"{title}: predicting clean test actions{'' if real else ', x100'}",
            ("method", *(NAMES[m] for m in predicted)),
            tuple((r, *(mean_text(results, r, task, m) for m in predicted)) for r in rows),
        )
    ]
    if measure == "reward":
        ways = [w for w in _MORE_WAYS if any(results.values(r, task, w) for r in rows)]
        made.append(
            TextTable(
                f"{title}: reward in the environment"
                + ("; success x100" if is_plain(measure, task) else ", x100"),
                ("method", "greedy", "IQM (95%)", "success (95%)", *(NAMES[w] for w in ways)),
                tuple(
                    (
                        r,
                        mean_text(results, r, task, "reward"),
                        _iqm_text(results.values(r, task, "reward"), task),
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
    return made + _against_each(results, task, title)


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
    if measure in WAYS:
        ways = compared_measures(results, task)
        first = TextTable(
            f"{title}: reward{'' if is_plain('reward', task) else ' x100'} by {axis}",
            (axis.partition(",")[0], "method", *(WAYS[way] for way in ways)),
            tuple(
                (f"{at:g}", r, *(mean_text(results, r, task, way, at) for way in ways))
                for at in points
                for r in rows
                if results.at(r, task, at)
            ),
            text_columns=2,
        )
    else:
        first = TextTable(
            f"{title}: {NAMES[measure]} x100 by {axis}",
            (axis.partition(",")[0], *rows),
            tuple(
                (f"{at:g}", *(mean_text(results, r, task, measure, at) for r in rows))
                for at in points
            ),
        )
    made = [first]
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
    return made + _against_each(results, task, title)


def _against_each(results: Results, task: str, title: str) -> list[TextTable]:
    """The champion against every row; of rewards a column for each way of acting."""
    study, measures = results.study, compared_measures(results, task)
    compared = [c for c in comparisons(results) if c.task == task]
    if not compared:
        return []
    by_place: dict[tuple[Any, str], dict[str, Comparison]] = {}
    for each in compared:
        by_place.setdefault((each.at, each.row), {})[each.measure] = each
    name = study.champion
    if len(measures) == 1:
        told = NAMES[measures[0]]
        columns: tuple[str, ...] = (f"{name} minus it (95%)", "P(better)", f"{name} is")
    else:
        told = "reward"
        columns = tuple(f"{name} minus it, {WAYS[m]} (95%)" for m in measures)
    axis = () if study.axis is None else (study.axis.partition(",")[0],)
    rows = []
    for (at, row), found in by_place.items():
        where = () if study.axis is None else ("all" if at is None else f"{at:g}",)
        if len(measures) == 1:
            texts: tuple[str, ...] = _comparison_text(found[measures[0]])
        else:
            texts = tuple(_short_text(found.get(m)) for m in measures)
        rows.append((*where, row, *texts))
    times = "" if is_plain(measures[0], task) else " x100"
    heading = f"{title}: {name} against each, {told}{times}, by seed"
    return [TextTable(heading, (*axis, "against", *columns), tuple(rows), len(axis) + 1)]


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
    digits = digits_of("reward", *tasks)
    times = 1.0 if is_plain("reward", *tasks) else 100.0
    rows = []
    for row, theirs in scores.items():
        if theirs is None:
            continue
        chance = "-"
        if ours is not None and row != study.champion:
            chance = _interval(bootstrap(probability_of_improvement, ours, theirs), 2, 1.0)
        rows.append((row, _interval(bootstrap(interquartile_mean, theirs), digits, times), chance))
    told = "reward" if times == 1.0 else "reward x100"
    title = f"{', '.join(tasks)} together: {told}, stratified bootstrap"
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
    mean, deviation = mean_and_deviation(column(values)[:, 0] * scale(measure, task))
    n = digits_of(measure, task)
    text = f"{mean:.{n}f}" if deviation is None else f"{mean:.{n}f} ± {deviation:.{n}f}"
    return text if len(values) == len(found) else f"{text} ({len(values)} of {len(found)})"


def _iqm_text(values: Mapping[int, float], task: str) -> str:
    if not values:
        return "-"
    found = bootstrap(interquartile_mean, column(values))
    return _interval(found, digits_of("reward", task), scale("reward", task))


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
    digits = digits_of(comparison.measure, comparison.task)
    return (
        "-" if difference is None else _interval(difference, digits, 1.0, sign="+"),
        "-" if probability is None else f"{probability:.2f}",
        comparison.verdict,
    )


def _short_text(comparison: Comparison | None) -> str:
    if comparison is None or comparison.difference is None:
        return "-"
    said = comparison.verdict
    end = "" if said == CANNOT_TELL else f" {said}"
    digits = digits_of(comparison.measure, comparison.task)
    return _interval(comparison.difference, digits, 1.0, sign="+") + end


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
    any_valid = any(c.valid and c.clean is not None for c in cells)
    more = " and half as many more (10 at the least) to validate" if any_valid else ""
    parts = [f"{_span(clean)} clean{more}" if clean else ""]
    parts += [f"{_span(noisy)} noisy" if noisy else ""]
    return ", ".join(p for p in (*parts, f"{seeds} seeds") if p)


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"
