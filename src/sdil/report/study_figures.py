"""A study's figures: curves with bands, or intervals and profiles of methods.

A row of panels for each task, the two settings apart; rows stand best first. Interquartile means
with stratified bootstrap 95% intervals. Colours are those of Okabe and Ito, which colour-blind
people can tell apart; markers differ too, and a row has the same look in every panel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sdil.evaluation.comparisons import interquartile_mean, profile_band
from sdil.files import new_file
from sdil.report.canvas import INK, follow_scheme, styled
from sdil.report.comparing import is_plain
from sdil.report.curves import draw_curve
from sdil.report.settings import SETTINGS, Panel, panels_of, setting_of, short_name
from sdil.report.tables import together
from sdil.spaces import Array
from sdil.studies.grid import Results, Study

COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
MARKERS = "oD^vPX"
CHAMPION = ("#D55E00", "s")
WIDTH = 7.6  # inches: scaled to the width of a page of the site, the type is still readable
_MOST_PROFILES = 6
_ROW, _TITLE, _HEAD, _CURVE = 0.2, 0.3, 0.6, 2.7  # inches
_DOTS_ABREAST = 2  # tasks
_EXPERT: dict[str, Any] = {"color": INK, "linestyle": ":", "linewidth": 1.3, "zorder": 1.5}
_LABEL = 0.026  # a letter of a label, as a share of the width of a curve


def draw(results: Results, stem: Path, experts: Mapping[str, float]) -> list[Path]:
    """Draw what the study shows to `stem`.png and `stem`.svg; the files that were written."""
    shown = [panel for panel in panels_of(results, experts) if not panel.ceiling]
    figures = {"": _panels(results.study, shown)} if shown else {}
    if results.study.axis is None:
        profiled = _profiled(results, shown)
        figures |= {"-profiles": _profiles(results.study, *profiled)} if profiled else {}
    return [
        path
        for name, figure in figures.items()
        for path in _write(figure, stem.with_name(f"{stem.name}{name}"))
    ]


def _write(figure: Figure, stem: Path) -> list[Path]:
    """White as PNG; as SVG without a ground of its own, light or dark as the page around it is."""
    png, svg = (stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg"))
    with new_file(png) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": None})
    with new_file(svg) as temporary:
        follow_scheme(figure, temporary)
    return [png, svg]


@styled
def _panels(study: Study, shown: list[Panel]) -> Figure:
    """Task by task: curves of the settings side by side, dots one under the other, on one scale."""
    lines = _arranged([list(some) for _, some in groupby(shown, key=lambda panel: panel.task)])
    heights = [max(_height(some) for some in line) for line in lines]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, line in zip(parts, lines, strict=True):
        columns = 1 if _is_curve(line[0][0]) else _DOTS_ABREAST
        places = part.subfigures(1, columns, squeeze=False)[0]
        for place, some in zip(places, line, strict=False):  # the last line may have one task less
            place.suptitle(some[0].task, x=0.01, ha="left", fontsize=11, fontweight="bold")
            _of_task(place, study, some)
    return figure


def _arranged(tasks: list[list[Panel]]) -> list[list[list[Panel]]]:
    """Lines of tasks: one of curves has its own, of dots two share one."""
    lines: list[list[list[Panel]]] = []
    for some in tasks:
        last = lines[-1] if lines else None
        alone = _is_curve(some[0]) or last is None or _is_curve(last[0][0])
        if alone or last is None or len(last) == _DOTS_ABREAST:
            lines.append([some])
        else:
            last.append(some)
    return lines


def _height(some: list[Panel]) -> float:
    return _CURVE if _is_curve(some[0]) else _HEAD + sum(_TITLE + _ROW * len(p.rows) for p in some)


def _of_task(place: Any, study: Study, some: list[Panel]) -> None:
    if _is_curve(some[0]):
        axes = place.subplots(1, len(some), squeeze=False, sharex=True, sharey=True)[0]
    else:
        sizes = [len(panel.rows) + 0.5 for panel in some]
        axes = place.subplots(len(some), 1, squeeze=False, sharex=True, height_ratios=sizes)[:, 0]
    for ax, panel in zip(axes, some, strict=True):
        _plain_axes(ax)
        if _is_curve(panel):
            _lines(ax, study, panel, first=ax is axes[0])
        else:
            _dots(ax, study, panel, first=ax is axes[0], last=ax is axes[-1])
        ax.set_title(panel.setting, fontweight="normal")


def _is_curve(panel: Panel) -> bool:
    return len(panel.points) > 1


def _plain_axes(ax: Axes) -> None:
    """Axes in the one ink, which follows the page, and its shades."""
    ax.grid(color=INK, alpha=0.15, linewidth=0.6)
    ax.tick_params(color=(INK, 0.6), labelcolor=INK)
    for spine in ax.spines.values():
        spine.set_edgecolor((INK, 0.6))


def _dots(ax: Axes, study: Study, panel: Panel, first: bool, last: bool) -> None:
    """A dot, a bar and a number per row, the best at the top."""
    found = {row: line[0] for row, line in panel.rows.items()}
    for place, (row, each) in enumerate(found.items()):
        assert each is not None  # a panel with one point has the rows that were measured there
        colour = CHAMPION[0] if row == study.champion else COLOURS[0]
        limit = row in study.limits  # told the truth, and so no competitor: hollow
        if each.low is not None and each.high is not None:
            bar = [each.low, each.high], [-place, -place]
            ax.plot(*bar, color=colour, linewidth=4, alpha=0.5, solid_capstyle="butt")
        ground = "none" if limit else colour
        ax.plot(each.value, -place, "o", color=colour, markerfacecolor=ground, markersize=4.5)
        at_right = ax.get_yaxis_transform()
        ax.text(1.02, -place, f"{each.value:.1f}", transform=at_right, va="center", fontsize=8.5)
    ax.set_yticks([-place for place in range(len(found))])
    ax.set_yticklabels([short_name(row, panel.setting) for row in found])
    for label, row in zip(ax.get_yticklabels(), found, strict=True):
        label.set_fontweight("bold" if row == study.champion else "normal")
    ax.set_ylim(0.25 - len(found), 0.75)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    if last:
        ax.set_xlabel(panel.unit)
    if panel.expert is not None:
        ax.axvline(panel.expert, **_EXPERT)
    if panel.expert is not None and first:
        above: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "va": "bottom"}
        text = f"expert {panel.expert:.1f}"
        ax.text(panel.expert, 1.01, text, ha="center", fontsize=8.5, **above)


def _lines(ax: Axes, study: Study, panel: Panel, first: bool) -> None:
    """A line and a band per row; the legend beside them names the best first."""
    lines = {  # what was measured at one point only is no curve: the tables have it
        row: line for row, line in panel.rows.items() if sum(each is not None for each in line) > 1
    }
    series = {
        row: {
            "mean": [e and e.value for e in line],
            "low": [e and (e.value if e.low is None else e.low) for e in line],
            "high": [e and (e.value if e.high is None else e.high) for e in line],
        }
        for row, line in lines.items()
    }
    curve = {"x": panel.points, "xlabel": str(study.axis), "series": series}
    draw_curve(ax, curve, lambda row: _style(study, row, study.rows))
    _thin_out(ax)
    if first:
        ax.set_ylabel(panel.unit)
    if panel.expert is not None:
        ax.axhline(panel.expert, label=f"expert {panel.expert:.1f}", **_EXPERT)
    handles, labels = ax.get_legend_handles_labels()
    named = [short_name(label, panel.setting) for label in labels]
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.03)}
    ax.legend(handles, named, fontsize=8.5, handlelength=1.8, labelspacing=0.35, **place)


def _thin_out(ax: Axes) -> None:
    """Leave out labels of the x-axis that would run into the one before."""
    ticks, labels = ax.get_xticks(), [label.get_text() for label in ax.get_xticklabels()]
    low, high = ax.transData.transform([(x, 0) for x in ax.get_xlim()])[:, 0]
    before, shown = -np.inf, []
    for at, label in zip(
        ax.transData.transform([(x, 0) for x in ticks])[:, 0], labels, strict=True
    ):
        room = (at - before) / (high - low) > _LABEL * (len(label) + 1)
        shown.append(label if room else "")
        before = at if room else before
    ax.set_xticks(ticks, shown)


def _style(study: Study, row: str, rows: Iterable[str]) -> dict[str, Any]:
    """The look of one of these rows; the champion's is the same in every figure.

    A learner has the same look in both settings.
    """
    name = short_name(row, SETTINGS[0])
    names = dict.fromkeys(short_name(each, SETTINGS[0]) for each in rows)
    colour, marker, again = *CHAMPION, 0
    if name != study.champion:
        i = [each for each in names if each != study.champion].index(name)
        again = i // len(COLOURS)  # a colour's second row is dashed and has another marker
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[(i + again) % len(MARKERS)]
    return {
        "color": colour,
        "marker": marker,
        "markersize": 4,
        "linestyle": "--" if again % 2 else "-",
        "linewidth": 2.5 if row == study.champion else 1.3,
    }


def _profiled(
    results: Results, shown: list[Panel]
) -> tuple[list[str], dict[str, dict[str, Array]]] | None:
    """Tasks, and the rewards (runs, tasks) there of the best rows of each setting.

    The champion is always among them. Tasks where all of these are at the top are left out; None
    where fewer than two are left.
    """
    study = results.study
    tasks = list(dict.fromkeys(panel.task for panel in shown if panel.measure == "reward"))
    scores = _together(results, study.rows, tasks)
    best = sorted(scores, key=lambda row: -float(interquartile_mean(scores[row])))
    chosen: dict[str, list[str]] = {}
    for setting in SETTINGS:
        rows = [row for row in best if setting_of(results, row) == setting]
        others = [row for row in rows if row != study.champion][: _MOST_PROFILES - 1]
        chosen[setting] = [row for row in rows if row in others or row == study.champion]
    every = chosen[SETTINGS[0]] + chosen[SETTINGS[1]]
    telling = {panel.task for panel in shown if not panel.at_top(every)}
    tasks = [task for task in tasks if task in telling]
    if len(tasks) < 2 or study.champion not in every:
        return None
    found = {setting: _together(results, rows, tasks) for setting, rows in chosen.items() if rows}
    return tasks, found


def _together(results: Results, rows: Iterable[str], tasks: list[str]) -> dict[str, Array]:
    """The rewards of the rows that have them all. (runs, tasks) each"""
    found = {row: together(results, row, tasks) for row in rows} if tasks else {}
    return {row: each for row, each in found.items() if each is not None}


@styled
def _profiles(study: Study, tasks: list[str], chosen: dict[str, dict[str, Array]]) -> Figure:
    """Performance profiles over several tasks; the legend names the best first."""
    every = [row for rows in chosen.values() for row in rows]
    runs = np.concatenate([each.ravel() for rows in chosen.values() for each in rows.values()])
    thresholds = np.linspace(runs.min() - 0.01, runs.max() + 0.01, 201)  # where they differ
    times = 1 if is_plain("reward", *tasks) else 100
    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    axes = figure.subplots(1, len(chosen), squeeze=False, sharex=True, sharey=True)[0]
    for ax, (setting, rows) in zip(axes, chosen.items(), strict=True):
        _plain_axes(ax)
        for row, scores in rows.items():
            look = _style(study, row, every) | {"marker": "", "label": short_name(row, setting)}
            middle, low, high = profile_band(scores, thresholds)
            ax.plot(times * thresholds, middle, **look)
            band = {"color": look["color"], "alpha": 0.12, "linewidth": 0}
            ax.fill_between(times * thresholds, low, high, **band)
        ax.set_title(setting, fontweight="normal")
        ax.set_xlabel(f"reward{'' if times == 1 else ' x100'}, " + ", ".join(tasks))
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.03), fontsize=8.5, handlelength=1.4)
    axes[0].set_ylabel("share of runs above it")
    return figure
