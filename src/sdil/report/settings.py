"""What a study's figures show: a panel for each task and setting, its rows best first.

The paper has two settings, clean demonstrations only and clean with noisy ones; a figure keeps them
apart. A panel in which every row is at the top shows nothing but that: a sentence says it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdil.evaluation.comparisons import Estimate, bootstrap, interquartile_mean
from sdil.report.comparing import NAMES, WAYS, scale
from sdil.studies.grid import Results

CLEAN_ONLY, WITH_NOISY = "clean only", "clean + noisy"
SETTINGS = (CLEAN_ONLY, WITH_NOISY)
HAIR = 1.0
"""Points of a hundred that a row at the top may be below it."""
_LESS_IS_BETTER = {"valid_nll", "test_nll", "relative_error"}


@dataclass(frozen=True)
class Panel:
    """The rows of a task in one setting, best first."""

    task: str
    setting: str
    measure: str
    points: list[Any]
    rows: dict[str, list[Estimate | None]]
    """What was found of each row, point by point."""
    expert: float | None = None
    """What the demonstrator earns, in the units of the rows; None where it is not known."""

    @property
    def unit(self) -> str:
        """What is measured, and how often it is taken."""
        return f"{NAMES[self.measure]} x{scale(self.measure, self.task):g}".removesuffix(" x1")

    @property
    def ceiling(self) -> bool:
        """Whether every row is at the top."""
        return self.at_top(self.rows)

    def at_top(self, rows: Collection[str]) -> bool:
        """Whether these rows, of those there are, are at most a hair below the expert, or 100."""
        if scale(self.measure, self.task) != 100.0:
            return False
        top = 100.0 if self.expert is None else self.expert
        return all(value >= top - HAIR for row in rows for value in self.values(row))

    def values(self, row: str) -> list[float]:
        """A row's value at every point where it has one; none of a row that is not here."""
        return [each.value for each in self.rows.get(row, ()) if each is not None]


def panels_of(results: Results, experts: Mapping[str, float]) -> list[Panel]:
    """The panels of what has been measured, task by task; `experts` is what demonstrators earn."""
    study = results.study
    made = []
    for task in study.tasks:
        measure, points = study.measure_of(task), results.points(task)
        earned = experts.get(task) if measure in WAYS else None
        for setting in SETTINGS:
            found = {
                row: [estimate(results, row, task, measure, at) for at in points]
                for row in study.rows
                if setting_of(results, row) == setting
            }
            rows = {row: line for row, line in found.items() if any(line)}
            if rows:
                best_first = sorted(rows, key=lambda row: _rank(rows[row], measure))
                ordered = {row: rows[row] for row in best_first}
                expert = None if earned is None else scale(measure, task) * earned
                made.append(Panel(task, setting, measure, points, ordered, expert))
    return made


def captions(results: Results, experts: Mapping[str, float]) -> list[str]:
    """What stands under the figures: who the experts are, and which panels would be all ceiling."""
    every = panels_of(results, experts)
    said = []
    known = {p.task: p.expert for p in every if p.expert is not None}
    if known:
        earned = ", ".join(f"{task} {value:.1f}" for task, value in known.items())
        said.append(
            "The dotted line is the expert: what the demonstrator of the clean episodes earns "
            f"from the same starts, its random steps included ({earned})."
        )
    for panel in every:
        if panel.ceiling:
            values = [value for row in panel.rows for value in panel.values(row)]
            top = "the expert" if panel.expert is not None else "100"
            said.append(
                f"Not drawn: {panel.task}, {panel.setting}, where every row is at the top "
                f"({min(values):.1f} to {max(values):.1f}, at most {HAIR:g} below {top})."
            )
    return said


def setting_of(results: Results, row: str) -> str:
    """Whether a row ever sees a noisy demonstration."""
    sizes = {e.cell.noisy for e in results.study.entries if e.row == row}
    return CLEAN_ONLY if sizes == {0} else WITH_NOISY


def short_name(row: str, setting: str) -> str:
    """A row's name in a panel that says its setting."""
    return row.replace(f", {CLEAN_ONLY}", "") if setting == CLEAN_ONLY else row


def estimate(results: Results, row: str, task: str, measure: str, at: Any) -> Estimate | None:
    """The interquartile mean over seeds, in points of a hundred where those are shown."""
    values = results.values(row, task, measure, at)
    if not values:
        return None
    column = scale(measure, task) * np.array([values[seed] for seed in sorted(values)])[:, None]
    return bootstrap(interquartile_mean, column)


def _rank(line: list[Estimate | None], measure: str) -> float:
    """Smaller is better: by the mean over the points that a row has."""
    mean = float(np.mean([each.value for each in line if each is not None]))
    return mean if measure in _LESS_IS_BETTER else -mean
