"""A study's curves: interquartile means with stratified bootstrap 95% intervals.

`curves_of` gives the numbers and `spacing` where they stand; figures and the page draw those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sdil.report.comparing import NAMES, scale
from sdil.report.settings import estimate
from sdil.spaces import Array
from sdil.studies.grid import Results


def curves_of(results: Results) -> dict[str, dict[str, Any]]:
    """A curve for each task that has been measured, as a report shows it; none of a table.

    {"lambda (fourrooms)": {"x", "xlabel", "ylabel", "series": {row: {"mean", "low", "high"}}}},
    with None where a row has no value.
    """
    study = results.study
    made: dict[str, dict[str, Any]] = {}
    for task in study.tasks if study.axis else ():
        measure, points = study.measure_of(task), results.points(task)
        series = {}
        for row in study.rows:
            found = [estimate(results, row, task, measure, at) for at in points]
            if any(found):
                series[row] = {
                    "mean": [e and e.value for e in found],
                    "low": [e and (e.value if e.low is None else e.low) for e in found],
                    "high": [e and (e.value if e.high is None else e.high) for e in found],
                }
        if series:
            made[f"{study.name} ({task})"] = {
                "x": points,
                "xlabel": str(study.axis),
                "ylabel": f"{NAMES[measure]} x{scale(measure, task):g}".removesuffix(" x1"),
                "series": series,
            }
    return made


def spacing(x: list[Any]) -> tuple[Array, str]:
    """Where each x goes, and the scale: in equal steps where a 0 or a word keeps logarithms out."""
    if all(isinstance(value, int | float) for value in x):
        at = np.array(x, float)
        above = at[at > 0]
        wide = len(above) > 1 and above.max() / above.min() >= 8
        if not wide or len(above) == len(at):
            return at, "log" if wide else "linear"
    return np.arange(len(x), dtype=float), "linear"


def draw_curve(ax: Any, curve: dict[str, Any], style: Callable[[str], dict[str, Any]]) -> None:
    """A line and a band for each series of a curve; `style` gives a line's look by its name."""
    at, kind = spacing(curve["x"])
    for name, series in curve["series"].items():
        mean, low, high = (np.array(series[key], float) for key in ("mean", "low", "high"))
        (line,) = ax.plot(at, mean, label=name, **style(name))
        ax.fill_between(at, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.set_xscale(kind)
    ax.set_xticks(at, [point_label(value) for value in curve["x"]])
    ax.set_xticks([], minor=True)
    ax.set(xlabel=curve.get("xlabel", ""), ylabel=curve.get("ylabel", ""))


def point_label(x: Any) -> str:
    """How a point of a curve is called."""
    return x if isinstance(x, str) else f"{x:g}"
