"""A trim list: what to leave out of which episode, for tools that are not known here.

A CSV with a row per run of rows that are not kept: episode, first_frame, last_frame (both are left
out), first_second and last_second into the episode's video where its frame rate is known, score and
why. Frames and names are the source's own.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdil.files import new_file
from sdil.formats.rows import RowAnswer

COLUMNS = (
    *("episode", "first_frame", "last_frame", "first_second", "last_second", "score", "why"),
)


@dataclass(frozen=True)
class Trim:
    """A run of rows to leave out of an episode."""

    episode: str
    first_frame: int
    last_frame: int
    """The last that is left out."""
    first_second: float | None
    """Into the video, where the frame rate is known."""
    last_second: float | None
    """Where what is left out ends: one frame after the last begins."""
    score: float
    """Its mean."""
    why: str


def trims_of(
    answers: Sequence[RowAnswer],
    *,
    fps: float | None = None,
    starts: Mapping[str, float] | None = None,
) -> list[Trim]:
    """What is not kept of each judged episode, in the source's order.

    `fps`: frames per second. `starts`: where an episode begins in its video file, in seconds, where
    that holds several.
    """
    found = []
    for answer in answers:
        if answer.quality is None:
            continue
        begins = (starts or {}).get(answer.id, 0.0)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], (~answer.keep).astype(np.int8), [0]])))
        for first, stop in edges.reshape(-1, 2).tolist():
            score = float(answer.score[first:stop].mean())
            found.append(
                Trim(
                    answer.id,
                    int(answer.frames[first]),
                    int(answer.frames[stop - 1]),
                    None if fps is None else begins + first / fps,
                    None if fps is None else begins + stop / fps,
                    score,
                    _why(answer, first, stop, score),
                )
            )
    return found


def write_trims(path: Path, trims: Sequence[Trim]) -> None:
    """A CSV, whole or not at all."""
    with new_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for trim in trims:
            seconds = (trim.first_second, trim.last_second)
            shown = ["" if second is None else f"{second:.3f}" for second in seconds]
            frames = (trim.first_frame, trim.last_frame)
            writer.writerow([trim.episode, *frames, *shown, f"{trim.score:.4f}", trim.why])


def _why(answer: RowAnswer, first: int, stop: int, score: float) -> str:
    """What speaks against these rows, in words."""
    if not answer.keep.any() and answer.quality is not None and score >= 0:
        return f"the episode went badly (quality {answer.quality:.2f})"
    within = [s for s in answer.stretches if s.start < stop and s.stop > first]
    reasons = dict.fromkeys(s.why for s in sorted(within, key=lambda s: s.optimality) if s.why)
    against = f"; lowest signal: {', '.join(reasons)}" if reasons else ""
    whole = "the whole episode scores" if not answer.keep.any() else "it scores"
    return f"{whole} {score:.2f}{against}"
