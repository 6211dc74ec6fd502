"""The figures of a report, as files. Each function takes a record and gives a Matplotlib figure.

Figs. 4 to 10 are the paper's; `timeline`, `histogram`, `against_truth` and `stability` go beyond.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sdil.errors import InputError
from sdil.explanation.record import Explanation
from sdil.report.canvas import colour_of, panels, save, styled
from sdil.report.curves import draw_curve
from sdil.report.score_figures import (
    against_truth,
    histogram,
    telling_episodes,
    timeline,
)
from sdil.report.skill_figures import (
    embeddings,
    fixed_skills,
    preference,
    skill_map,
    stability,
)

__all__ = [
    "against_truth",
    "embeddings",
    "fixed_skills",
    "histogram",
    "preference",
    "save",
    "save_all",
    "skill_map",
    "stability",
    "study",
    "timeline",
]

Progress = Callable[[int, int, str], None]


def save_all(
    record: Explanation, folder: Path, format: str, *, on_progress: Progress | None = None
) -> list[Path]:
    """Every figure that there is something to show in, a file each; returns their names."""
    drawings = _drawings(record)
    written = []
    for i, (name, draw) in enumerate(drawings.items()):
        if on_progress is not None:
            on_progress(i, len(drawings), "drawing figures")
        path = folder / f"{name}.{format}"
        save(draw(), path)
        written.append(path)
    return written


def _drawings(record: Explanation) -> dict[str, Callable[[], Figure]]:
    """What can be drawn, by file name."""
    found: dict[str, Callable[[], Figure]] = {"histogram": lambda: histogram(record)}
    if record.skills is not None and not np.isnan(record.skills.noisy_share).any():
        found["preference"] = lambda: preference(record)
    if record.scores.skill is not None and record.walls is not None:
        found["skill-map"] = lambda: skill_map(record)
    if record.fixed_skills:
        found["fixed-skills"] = lambda: fixed_skills(record)
    if record.embeddings:
        found["embeddings"] = lambda: embeddings(record)
    if len(record.known_steps()[0]):
        found["against-truth"] = lambda: against_truth(record)
    if record.stability:
        found["stability"] = lambda: stability(record)
    for name in telling_episodes(record):
        found[f"timeline-{_file_name(name)}"] = partial(timeline, record, name)
    for name in record.studies:
        found[f"study-{_file_name(name)}"] = partial(study, record, name)
    return found


@styled
def study(record: Explanation, name: str) -> Figure:
    """A curve per series with its interval (Figs. 4 to 6)."""
    if name not in record.studies:
        raise InputError(f"the record has no study {name!r}; it has {', '.join(record.studies)}")
    curves = record.studies[name]
    numbers = {row: i for i, row in enumerate(curves["series"])}

    def look(row: str) -> dict[str, Any]:
        i = numbers[row]
        return {"color": colour_of(i), "marker": "os^Dv<>P"[i % 8], "lw": 1.5, "ms": 4.5}

    figure, (ax,) = panels(1, 1, 4.8, 3.3)
    draw_curve(ax, curves, look)
    ax.set_title(curves.get("title", name))
    ax.grid()
    ax.legend()
    return figure


def _file_name(name: str) -> str:
    """A name from data as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "unnamed"
