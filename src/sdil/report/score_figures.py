"""Figures of step scores: along one demonstration, over all of them, and against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sdil.errors import InputError
from sdil.evaluation.calibration import calibration_of_scores
from sdil.explanation.record import Explanation
from sdil.report.canvas import (
    BAD,
    CLEAN,
    GOOD,
    INK,
    NOISY,
    PALE,
    STRIP,
    colour_of,
    cut_strip,
    draw_walls,
    ink_on,
    panels,
    show_frame,
    signed,
    spread_out,
    styled,
)
from sdil.spaces import Array

_MANY = 150  # segments between which no lines are drawn: they would hide them


@styled
def timeline(record: Explanation, name: str) -> Figure:
    """How good each step of one demonstration ("clean/ID" or "noisy/ID") is, and its skills."""
    episodes, scores = record.episodes, record.scores
    e = _episode_number(record, name)
    steps = slice(int(episodes.offsets[e]), int(episodes.offsets[e + 1]))
    optimality = scores.optimality[steps]
    n = len(optimality)
    ribbons = _ribbons(record, steps)
    on_map = record.walls is not None and episodes.positions is not None
    frames: Sequence[str | Array] = () if on_map else record.frames.get(name, ())
    step_of = [-(-i * n // len(frames)) for i in range(len(frames))]
    if not on_map and name in record.strips:
        strip = next(iter(record.strips[name].values()))  # of several cameras the first
        frames, step_of = cut_strip(strip), [i * strip.every for i in range(strip.count)]
    heights = [3.0, *[0.42] * len(ribbons), *([1.3] if frames else [])]
    figure = Figure(figsize=(9.6 if on_map else 7.2, 0.75 * sum(heights) + 0.9))
    grid = figure.add_gridspec(len(heights), STRIP + 3 * on_map, height_ratios=heights)
    if on_map:
        _draw_path(figure.add_subplot(grid[:, STRIP:]), record, steps)
    ax = figure.add_subplot(grid[0, :STRIP])
    edges = np.arange(n + 1)
    ax.axhline(0, color="#5b6570", lw=0.8)
    ax.stairs(np.where(optimality > 0, optimality, 0), edges, fill=True, color=GOOD, alpha=0.35)
    ax.stairs(np.where(optimality < 0, optimality, 0), edges, fill=True, color=BAD, alpha=0.35)
    ax.stairs(optimality, edges, baseline=None, color=INK, lw=1.3)
    if scores.spread is not None:
        middle, reach = edges[:-1] + 0.5, scores.spread[steps]
        ax.errorbar(middle, optimality, reach, fmt="none", ecolor=INK, elinewidth=0.6)
    ax.set(xlim=(0, n), ylim=(-1.05, 1.05), yticks=(-1, -0.5, 0, 0.5, 1), ylabel="optimality")
    ax.grid(axis="y")
    ax.set_title(f"{name}: {n} steps, mean optimality {signed(optimality.mean())}")
    ax.tick_params(labelbottom=not ribbons)
    for i, (label, colours, texts) in enumerate(ribbons):
        ribbon = figure.add_subplot(grid[1 + i, :STRIP], sharex=ax)
        _draw_ribbon(ribbon, colours, texts)
        ribbon.set_ylabel(label, rotation=0, ha="right", va="center")
        ribbon.tick_params(labelbottom=i == len(ribbons) - 1)
    (figure.axes[-1]).set_xlabel("step")
    for column, i in enumerate(spread_out(len(frames), STRIP)):
        cell = figure.add_subplot(grid[-1, column])
        show_frame(cell, frames[i])
        cell.set_title(f"step {step_of[i]}", fontsize=7.5, fontweight="normal", loc="center", pad=2)
    return figure


def _draw_path(ax: Axes, record: Explanation, steps: slice) -> None:
    """Where one demonstration goes, each move in the colour of its score."""
    from matplotlib.colors import LinearSegmentedColormap

    walls, positions, moves = record.walls, record.episodes.positions, record.episodes.moves
    assert walls is not None
    assert positions is not None
    draw_walls(ax, walls)
    colours = LinearSegmentedColormap.from_list("scores", [BAD, "#d0d0cc", GOOD])
    at = positions[steps]
    by = np.diff(at, axis=0, append=at[-1:]) if moves is None else moves[steps]
    ax.quiver(
        *at.T,
        *by.T,
        record.scores.optimality[steps],
        cmap=colours,
        clim=(-1, 1),
        angles="xy",
        scale_units="xy",
        scale=1,
        units="xy",
        width=0.3,
        headwidth=2.2,
        headlength=1.6,
        headaxislength=1.6,
        minlength=0,
    )
    ax.plot(*at[0], "o", ms=6, mfc="white", mec=INK, mew=1.2)
    ax.set_title("from the circle; green good, red bad", fontweight="normal", fontsize=8.5)


def _ribbons(record: Explanation, steps: slice) -> list[tuple[str, list[object], list[str]]]:
    """A colour and a text per step: of its skill, and of what is true of it."""
    found: list[tuple[str, list[object], list[str]]] = []
    if record.scores.skill is not None:
        skill = record.scores.skill[steps].tolist()
        found.append(("skill", [colour_of(k) for k in skill], [str(k) for k in skill]))
    if record.episodes.good is not None:
        good = record.episodes.good[steps].tolist()
        colours = {1: GOOD, 0: BAD, -1: PALE}
        texts = {1: "good", 0: "bad", -1: "?"}
        found.append(("truth", [colours[g] for g in good], [texts[g] for g in good]))
    return found


def _draw_ribbon(ax: Axes, colours: list[object], texts: list[str]) -> None:
    """A cell per step; a run of the same text is labelled where there is room."""
    from matplotlib.colors import to_rgb

    n = len(texts)
    rgb = np.array([to_rgb(c) for c in colours])[None]
    ax.pcolormesh(np.arange(n + 1), (0, 1), rgb)
    edges = [0, *[i for i in range(1, n) if texts[i] != texts[i - 1]], n]
    if len(edges) < _MANY:
        ax.vlines(edges, 0, 1, color="white", lw=0.8)
    for start, stop in pairwise(edges):
        if (stop - start) / n > 0.011 * len(texts[start]) + 0.006:
            ax.text(
                (start + stop) / 2,
                0.48,
                texts[start],
                ha="center",
                va="center",
                fontsize=7.5,
                color=ink_on(colours[start]),
            )
    ax.set(ylim=(0, 1), yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0)


@styled
def histogram(record: Explanation) -> Figure:
    """The share of steps under each score, clean (held-out where known) against noisy.

    Not bars: a score that was cut into ten equal bins has ten equal ones.
    """
    clean = _clean_steps(record)
    unseen = (record.about.get("health") or {}).get("clean_quantiles") or []
    figure, (ax,) = panels(1, 1, 5.2, 3.0)
    of_clean = np.asarray(unseen) if unseen else record.scores.optimality[clean]
    for name, scores, colour in (
        ("held-out clean" if unseen else "clean", of_clean, CLEAN),
        ("noisy", record.scores.optimality[~clean], NOISY),
    ):
        if len(scores):
            ax.ecdf(scores, color=colour, lw=1.8, label=f"{name} steps")
    ax.axvline(0, color="#5b6570", lw=0.8)
    ax.set(
        xlim=(-1, 1), xlabel="optimality: bad (−1) to good (1)", ylabel="share of steps under it"
    )
    ax.set_title("What a threshold drops")
    ax.grid(axis="y")
    ax.legend(loc="best")
    return figure


@styled
def against_truth(record: Explanation) -> Figure:
    """Whether scores of noisy steps mean what they say, and find the good steps."""
    optimality, good = record.known_steps()
    if not len(good):
        raise InputError("nothing is known of which noisy steps are good")
    figure, (left, right) = panels(2, 2, 3.7, 3.5)
    measured = calibration_of_scores(optimality, good)
    filled = measured.count > 0
    left.plot([0, 1], [0, 1], "--", color="#5b6570", lw=1)
    left.plot(measured.said[filled], measured.happened[filled], "-", color=CLEAN, lw=1.5)
    left.scatter(
        measured.said[filled],
        measured.happened[filled],
        s=12 + 200 * measured.count[filled] / measured.count.max(),
        color=CLEAN,
        ec="white",
        lw=0.8,
        zorder=3,
    )
    left.set(xlim=(0, 1), ylim=(0, 1), xlabel="said to be good, (1 + optimality) / 2")
    left.set_ylabel("are good")
    left.set_title(f"Calibration (ECE {measured.ece:.2f})")
    precision, recall, average = _precision_recall(optimality, good)
    right.plot(recall[1:], precision, color=CLEAN, lw=1.5, label="by score")
    right.axhline(good.mean(), ls="--", color="#5b6570", lw=1, label="by chance")
    right.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall of good steps", ylabel="precision")
    right.set_title(f"Precision-recall (AP {average:.2f})")
    right.legend(loc="lower left")
    for ax in (left, right):
        ax.grid()
        ax.set_box_aspect(1)
    return figure


def _precision_recall(scores: Array, good: Array) -> tuple[Array, Array, float]:
    """Precision (n,) between recalls (n + 1,) as the threshold falls, and average precision."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(good[order])
    last = np.append(np.diff(scores[order]) != 0, True)  # equal scores are taken together
    precision = hits[last] / (np.flatnonzero(last) + 1)
    recall = np.concatenate([[0.0], hits[last] / max(1, hits[-1])])
    return precision, recall, float(np.sum(precision * np.diff(recall)))


def telling_episodes(record: Explanation) -> list[str]:
    """The best and the worst of the noisy demonstrations that are not shorter than most."""
    episodes = record.episodes
    noisy = np.flatnonzero(~episodes.is_clean)
    if not len(noisy):
        return []
    lengths = np.diff(episodes.offsets)
    long = noisy[lengths[noisy] >= np.median(lengths[noisy])]
    means = np.add.reduceat(record.scores.optimality, episodes.offsets[:-1]) / lengths
    ends = {int(long[means[long].argmin()]), int(long[means[long].argmax()])}
    return [f"noisy/{episodes.ids[e]}" for e in sorted(ends)]


def _episode_number(record: Explanation, name: str) -> int:
    which, _, episode = name.partition("/")
    for e, (known, clean) in enumerate(
        zip(record.episodes.ids, record.episodes.is_clean, strict=True)
    ):
        if known == episode and which == ("clean" if clean else "noisy"):
            return e
    raise InputError(f"the record has no demonstration {name!r}; they are named clean/ID, noisy/ID")


def _clean_steps(record: Explanation) -> Array:
    """(N,) booleans"""
    return np.repeat(record.episodes.is_clean, np.diff(record.episodes.offsets))
