"""A study's curves, and its figures: curves with bands, or intervals and profiles of methods.

`curves_of` gives the numbers and `spacing` where they stand; figures and the page draw those.
Interquartile means with stratified bootstrap 95% intervals. Colours are those of Okabe and Ito,
which colour-blind people can tell apart; markers differ too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.evaluation.comparisons import Estimate, bootstrap, interquartile_mean, profile_band
from sdil.report.comparing import NAMES, scale
from sdil.report.tables import together
from sdil.spaces import Array
from sdil.studies.grid import Results, Study

COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "oD^vPX"
CHAMPION = ("#D55E00", "s")
_MOST_PROFILES = 6


def draw(results: Results, stem: Path) -> list[Path]:
    """Draw what the study shows to `stem`.png and `stem`.svg; the files that were written."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise InputError("figures need Matplotlib: pip install 'sdil[figures]'") from None
    mpl.use("agg")
    mpl.rcParams.update({"svg.hashsalt": "sdil", "font.size": 9, "axes.titlesize": 10})
    made = {"": _curves(results)} if results.study.axis else _methods(results)
    written = []
    stem.parent.mkdir(parents=True, exist_ok=True)
    for name, figure in made.items():
        if figure is None:
            continue
        for kind in ("png", "svg"):
            path = stem.with_name(f"{stem.name}{name}.{kind}")
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(path, dpi=150, metadata=metadata)
            written.append(path)
    return written


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
            found = [_estimate(results, row, task, measure, at) for at in points]
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
                "ylabel": f"{NAMES[measure]} x{scale(measure):g}".removesuffix(" x1"),
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


def _figure(columns: int, height: float, width: float = 4.2) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure((width * columns, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.3, linewidth=0.5)
    return figure, list(axes)


def _curves(results: Results) -> Any:
    study, curves = results.study, curves_of(results)
    if not curves:
        return None
    figure, axes = _figure(len(curves), 3.4)
    for ax, (name, curve) in zip(axes, curves.items(), strict=True):
        lines = {  # what was measured at one point only is no curve: the tables have it
            row: found
            for row, found in curve["series"].items()
            if len(curve["x"]) == 1 or sum(mean is not None for mean in found["mean"]) > 1
        }
        draw_curve(ax, curve | {"series": lines}, lambda row: _style(study, row))
        ax.set_title(name.removeprefix(f"{study.name} (").removesuffix(")"))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _style(study: Study, row: str) -> dict[str, Any]:
    """A line's look; the champion's is the same in every figure."""
    colour, marker = CHAMPION
    if row != study.champion:
        i = [r for r in study.rows if r != study.champion].index(row)
        again = i // len(COLOURS)  # a colour's second row has another marker
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[(i + again) % len(MARKERS)]
    return {
        "color": colour,
        "marker": marker,
        "markersize": 4,
        "linestyle": "--" if row.startswith("BC, clean only") else "-",
        "linewidth": 2.5 if row == study.champion else 1.2,
    }


def _has(results: Results, row: str, task: str) -> bool:
    measure = results.study.measure_of(task)
    return any(results.values(row, task, measure, at) for at in results.points(task))


def _estimate(results: Results, row: str, task: str, measure: str, at: Any) -> Estimate | None:
    values = results.values(row, task, measure, at)
    if not values:
        return None
    column = scale(measure) * np.array([values[seed] for seed in sorted(values)])[:, None]
    return bootstrap(interquartile_mean, column)


def _methods(results: Results) -> dict[str, Any]:
    return {"": _intervals(results), "-profiles": _profiles(results)}


def _intervals(results: Results) -> Any:
    """A dot and a bar per method and task."""
    study = results.study
    tasks = [t for t in study.tasks if any(_has(results, row, t) for row in study.rows)]
    rows = [r for r in study.rows if any(_has(results, r, t) for t in tasks)]
    if not tasks:
        return None
    figure, axes = _figure(len(tasks), 0.8 + 0.22 * len(rows), width=2.8)
    for ax, task in zip(axes, tasks, strict=True):
        measure = study.measure_of(task)
        for y, row in enumerate(reversed(rows)):
            found = _estimate(results, row, task, measure, None)
            if found is None:
                continue
            colour = CHAMPION[0] if row == study.champion else COLOURS[0]
            if found.low is not None and found.high is not None:
                ax.plot([found.low, found.high], [y, y], color=colour, linewidth=4, alpha=0.4)
            ax.plot(found.value, y, "o", color=colour, markersize=4)
        ax.set_yticks(range(len(rows)), rows[::-1] if ax is axes[0] else [""] * len(rows))
        ax.set_ylim(-0.7, len(rows) - 0.3)
        ax.set_title(task)
        ax.set_xlabel(f"{NAMES[measure]} x100")
    return figure


def _profiles(results: Results) -> Any:
    """Performance profiles over all tasks, of the champion, the base, and the best others."""
    study = results.study
    tasks = [t for t in study.tasks if study.measure_of(t) == "reward"]
    tasks = [t for t in tasks if any(_has(results, row, t) for row in study.rows)]
    every = {row: together(results, row, tasks) for row in study.rows}
    scores = {row: found for row, found in every.items() if found is not None}
    if len(tasks) < 2 or study.champion not in scores:
        return None
    best = sorted(scores, key=lambda row: -float(interquartile_mean(scores[row])))
    first = [row for row in ("BC, clean only", study.champion) if row in scores]
    chosen = [*first, *(row for row in best if row not in first)][:_MOST_PROFILES]
    shown = np.concatenate([scores[row].ravel() for row in chosen])
    thresholds = np.linspace(shown.min() - 0.01, shown.max() + 0.01, 201)  # where they differ
    figure, (ax,) = _figure(1, 3.4, width=5.5)
    colours = iter(COLOURS)
    for row in chosen:
        colour = CHAMPION[0] if row == study.champion else next(colours)
        middle, low, high = profile_band(scores[row], thresholds)
        ax.plot(100 * thresholds, middle, color=colour, label=row)
        ax.fill_between(100 * thresholds, low, high, color=colour, alpha=0.12, linewidth=0)
    ax.set_xlabel("reward x100, " + ", ".join(tasks))
    ax.set_ylabel("share of runs above it")
    figure.legend(loc="outside right upper", frameon=False)
    return figure
