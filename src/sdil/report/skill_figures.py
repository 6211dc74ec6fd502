"""Figures of skills: who selects them, what they do, where, whether they last (Figs. 7 to 10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sdil.errors import InputError
from sdil.explanation.record import Embedding, Explanation, Skills
from sdil.report.arrows import Arrow, cell_arrows
from sdil.report.canvas import (
    BAD,
    CLEAN,
    GOOD,
    INK,
    NOISY,
    STRIP,
    action_legend,
    colour_actions,
    colour_legend,
    colour_of,
    draw_walls,
    ink_on,
    panels,
    show_frame,
    signed,
    spread_out,
    styled,
)
from sdil.spaces import Array

_ON_MAP = 50  # demonstrations of each set (paper, Fig. 8)
_Part = TypeVar("_Part")


@styled
def preference(record: Explanation) -> Figure:
    """How often clean and noisy demonstrations select each skill (Fig. 7)."""
    skills = _need(record.skills)
    order = np.argsort(-(skills.clean_share - skills.noisy_share), kind="stable")
    figure, (ax,) = panels(1, 1, max(4.5, 0.75 * len(order) + 1.5), 3.1)
    at = np.arange(len(order))
    clean, noisy = skills.clean_share[order], skills.noisy_share[order]
    ax.bar(at - 0.2, clean, 0.38, color=CLEAN, label="clean")
    ax.bar(at + 0.2, noisy, 0.38, color=NOISY, hatch="///", edgecolor="white", lw=0, label="noisy")
    for x, k in enumerate(order):
        score = skills.optimality[k]
        if np.isfinite(score):
            ax.annotate(
                signed(score),
                (x, max(clean[x], noisy[x])),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=GOOD if score > 0 else BAD,
            )
    ax.set_xticks(at, [f"skill {k}" for k in order])
    ax.set_ylabel("selection probability")
    ax.set_title("Which skills clean and noisy demonstrations select")
    ax.set_xlabel("best liked by clean demonstrations first; above each pair: its optimality score")
    ax.grid(axis="y")
    ax.margins(y=0.12)
    ax.legend(ncols=2)
    return figure


@styled
def skill_map(record: Explanation) -> Figure:
    """Where demonstrations go, and with which skill (Fig. 8)."""
    episodes, skill = record.episodes, _need(record.scores.skill)
    walls, positions = _need(record.walls), _need(episodes.positions)
    sides = [name for name in ("clean", "noisy") if (episodes.is_clean == (name == "clean")).any()]
    figure, axes = panels(len(sides), 2, 3.7, 3.9)
    shown: set[int] = set()
    for ax, name in zip(axes, sides, strict=True):
        chosen = np.flatnonzero(episodes.is_clean == (name == "clean"))[:_ON_MAP]
        steps = _steps_of(episodes.offsets, chosen)
        arrows = cell_arrows(positions[steps], _need(episodes.moves)[steps], skill[steps])
        draw_walls(ax, walls)
        _draw_arrows(ax, arrows)
        shown |= {a.skill for a in arrows if a.skill is not None}
        ax.set_title(f"{len(chosen)} {name} demonstrations")
    numbers = sorted(shown)
    colour_legend(
        figure,
        [f"skill {k}" for k in numbers],
        [colour_of(k) for k in numbers],
        "Majority move of each cell; the fainter, the less consistent",
    )
    return figure


@styled
def fixed_skills(record: Explanation) -> Figure:
    """What the agent does with each skill held fixed (Fig. 9)."""
    if record.walls is None:
        return _skill_clips(record)
    skills = _need(record.skills)
    figure, axes = panels(len(record.fixed_skills), 4, 2.3, 2.55)
    for ax, fixed in zip(axes, record.fixed_skills, strict=True):
        draw_walls(ax, record.walls)
        own = np.full(len(fixed.steps), fixed.skill)
        cells = np.unique(fixed.steps[:, :2], axis=0)
        ax.scatter(cells[:, 0], cells[:, 1], s=4, color=(*colour_of(fixed.skill), 0.6), lw=0)
        _draw_arrows(ax, cell_arrows(fixed.steps[:, :2], _need(fixed.moves), own))
        ax.set_title(_ranked(skills, fixed.skill))
    figure.suptitle(
        "Each skill held fixed, where it is the most probable one: arrows where most moves agree, "
        "dots elsewhere\n(clean less noisy selection probability; best liked by clean "
        "demonstrations first)",
        fontsize=9,
    )
    return figure


def _skill_clips(record: Explanation) -> Figure:
    """The same for a task without a map: what it does how often, and how that looks."""
    skills, rows = _need(record.skills), record.fixed_skills
    shares = np.stack([f.action_counts / max(1, f.action_counts.sum()) for f in rows])  # (K, A)
    counts = np.sum([f.action_counts for f in rows], 0)  # (A,)
    colours = colour_actions(counts)[1]
    strip = any(f.frames for f in rows)
    figure = Figure(figsize=(9.0 if strip else 4.5, 0.9 * len(rows) + 0.9))
    grid = figure.add_gridspec(len(rows), STRIP + 4 if strip else 4, wspace=0.05)
    for row, fixed in enumerate(rows):
        ax = figure.add_subplot(grid[row, :4])
        _draw_shares(ax, shares[row], colours)
        ax.set_title(_ranked(skills, fixed.skill), fontsize=8.5, pad=1)
        for column, i in enumerate(spread_out(len(fixed.frames), STRIP)):
            cell = figure.add_subplot(grid[row, 4 + column])
            show_frame(cell, fixed.frames[i])
            if row == 0:
                cell.set_title(f"step {i}", fontsize=7.5, fontweight="normal", loc="center", pad=2)
    action_legend(
        figure,
        record.action_names,
        counts,
        "Actions with the skill held fixed"
        + (", and the beginning of one episode" if strip else ""),
    )
    return figure


def _draw_shares(ax: Axes, shares: Array, colours: list[Any]) -> None:
    """How often each action is taken, as one bar of 100%."""
    left = 0.0
    for share, colour in zip(shares.tolist(), colours, strict=True):
        ax.barh(0, share, 0.62, left, color=colour, ec="white", lw=0.6)
        if share > 0.07:
            ax.text(
                left + share / 2,
                0,
                f"{100 * share:.0f}%",
                ha="center",
                va="center",
                fontsize=7.5,
                color=ink_on(colour),
            )
        left += share
    ax.set(xlim=(0, 1), ylim=(-0.5, 0.5), yticks=[], xticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)


@styled
def embeddings(record: Explanation) -> Figure:
    """t-SNE of transition embeddings by action, with the skill prototypes (Fig. 10)."""
    figure, axes = panels(
        len(record.embeddings), 3, 3.7 if len(record.embeddings) > 1 else 5.2, 3.9
    )
    counts = np.bincount(record.episodes.actions, minlength=len(record.action_names))
    colours = np.array(colour_actions(counts)[1])
    for ax, embedding in zip(axes, sorted(record.embeddings, key=lambda e: e.label), strict=True):
        _draw_embedding(ax, embedding, colours[record.episodes.actions[embedding.steps]])
    action_legend(
        figure,
        record.action_names,
        counts,
        "t-SNE of steps by action; numbered diamonds are skill prototypes",
    )
    return figure


def _draw_embedding(ax: Axes, embedding: Embedding, colours: Array) -> None:
    points, skills = embedding.points, embedding.prototypes
    ax.scatter(points[:, 0], points[:, 1], s=7, c=colours, alpha=0.75, lw=0, rasterized=True)
    for k, (x, y) in enumerate(skills):  # a later one covers an earlier one whole
        ax.plot(x, y, "D", ms=9.5, mfc="white", mec=INK, mew=1.1, zorder=3 + k)
        ax.text(x, y, str(k), ha="center", va="center_baseline", fontsize=7, zorder=3 + k)
    ax.set_title(embedding.label.replace("lambda ", "λ = "))
    ax.set(xticks=[], yticks=[])
    ax.set_box_aspect(1)
    for spine in ax.spines.values():
        spine.set(visible=True, color="#c3c9cf")


@styled
def stability(record: Explanation) -> Figure:
    """How far runs that differ in the seed agree on skills and scores."""
    runs = [Path(run).name for run in record.stability["runs"]]
    shown = [
        ("agreement", "Skills: adjusted Rand index"),
        ("accuracy", "Skills: steps that agree, matched"),
        ("scores", "Scores: rank correlation"),
    ]
    side = 1.9 + 0.2 * len(runs)
    figure, axes = panels(3, 3, side + 0.5, side + 0.1)
    for ax, (key, title) in zip(axes, shown, strict=True):
        matrix = np.array(record.stability[key], float)
        ax.imshow(matrix, cmap="viridis", vmin=0, vmax=1)
        for (i, j), value in np.ndenumerate(matrix):
            ink = INK if value > 0.6 else "white"
            text = "?" if np.isnan(value) else f"{value:.2f}".replace("-", "−")
            ax.text(j, i, text, ha="center", va="center", color=ink)
        at = np.arange(len(runs))
        ax.set_xticks(at, [str(i + 1) for i in at])
        named = [f"{run}  {i + 1}" for i, run in enumerate(runs)]
        ax.set_yticks(at, named if key == "agreement" else [str(i + 1) for i in at])
        ax.set_title(title, fontsize=8.5)
        ax.tick_params(length=0)
        for spine in ax.spines.values():
            spine.set_visible(False)
    return figure


def _draw_arrows(ax: Axes, arrows: list[Arrow]) -> None:
    """From the middle of a cell towards where most steps go."""
    if not arrows:
        return
    colours = [(*colour_of(a.skill or 0), 0.15 + 0.85 * a.consistency) for a in arrows]
    ax.quiver(
        [a.column - 0.38 * a.dx for a in arrows],
        [a.row - 0.38 * a.dy for a in arrows],
        [0.76 * a.dx for a in arrows],
        [0.76 * a.dy for a in arrows],
        color=colours,
        angles="xy",
        scale_units="xy",
        scale=1,
        width=0.28,
        units="xy",
        headwidth=2.6,
        headlength=2.0,
        headaxislength=1.9,
        minlength=0,
    )


def _ranked(skills: Skills, skill: int) -> str:
    liking = skills.clean_share[skill] - skills.noisy_share[skill]
    return f"skill {skill}" + (f" ({signed(liking, 3)})" if np.isfinite(liking) else "")


def _steps_of(offsets: Array, episodes: Array) -> Array:
    """The numbers of all steps of these episodes."""
    parts = [np.arange(offsets[e], offsets[e + 1]) for e in episodes]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _need(part: _Part | None) -> _Part:
    if part is None:
        raise InputError("the record lacks what this figure shows; see `save_all`")
    return part
