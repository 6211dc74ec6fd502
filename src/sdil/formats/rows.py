"""What is said of a source's episodes, row by row: what most writers write back.

A judge speaks of steps of demonstrations. These may be every n-th row of the source and some of its
episodes; a `RowAnswer` says the same of every row of the episode that they come from, so that no
writer needs to know how the source was read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdil.errors import InputError
from sdil.formats.answers import Answered, answers_by_episode
from sdil.formats.source import Source
from sdil.segmentation import segments_of
from sdil.spaces import Array

SCORE, WEIGHT, KEEP = "sdil_score", "sdil_weight", "sdil_keep"
"""What is written beside the data: -1 bad to 1 good; how much it should weigh, 0 to 1; kept?"""
SOURCE, FIRST = "sdil_source", "sdil_first"
"""What a cut episode says of itself: the episode it comes from, and its first row there."""


@dataclass(frozen=True)
class Stretch:
    """Rows of an episode that are about equally good."""

    start: int
    stop: int
    """One past its last row."""
    optimality: float
    why: str = ""
    """The signal that speaks most against it, where there are several."""


@dataclass(frozen=True, eq=False)
class RowAnswer:
    """What is said of one episode of N rows; one that nobody judged stays as it is."""

    id: str
    """The source's own name of it."""
    score: Array
    """How good each row is, -1 to 1; NaN where nobody judged it. (N,) float32"""
    keep: Array
    """Which rows to keep. (N,) bool"""
    weight: Array
    """How much each row should weigh, 0 to 1; 1 where it is trusted or not judged. (N,) float32"""
    frames: Array
    """The source's own number of each row. (N,) integers"""
    quality: float | None = None
    """How well it went, -1 to 1; None where nobody judged it."""
    trusted: bool = False
    """Whether it is of the clean set."""
    stretches: tuple[Stretch, ...] = ()
    """Its segments, in order; none where nobody judged it."""

    def __len__(self) -> int:
        return len(self.score)

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Start and stop of each run of kept rows."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.keep.astype(np.int8), [0]])))
        return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]

    @property
    def is_whole(self) -> bool:
        """Whether all of it is kept."""
        return bool(self.keep.all())


def answer_rows(
    source: Source, answered: Iterable[Answered], *, trusted: Collection[str] = ()
) -> list[RowAnswer]:
    """What is said of each of a source's episodes, in their order.

    Rows that are trusted and those of episodes that nobody judged weigh 1 and are kept, unless
    `keep` and `weight` say otherwise.
    """
    told = answers_by_episode(answered)
    unknown = set(told) - {episode.id for episode in source.episodes}
    if unknown:
        raise InputError(
            f"{source.location} has no episode {min(unknown)!r}, which was judged: it is not what "
            "the demonstrations were read from, or it was changed since"
        )
    return [
        _of_episode(source, at, told.get(episode.id), episode.id in trusted)
        for at, episode in enumerate(source.episodes)
    ]


def _of_episode(source: Source, at: int, told: Answered | None, trusted: bool) -> RowAnswer:
    episode = source.episodes[at]
    n = episode.steps
    frames = frames_of(source, at)
    one = np.ones(n, np.float32)
    if told is None:
        nobody = np.full(n, np.nan, np.float32)
        return RowAnswer(episode.id, nobody, one.astype(bool), one, frames)
    scores = told.scores
    score = told.over_frames(scores.optimality, frames).astype(np.float32)
    keep = (
        one.astype(bool) if told.keep is None else told.over_frames(told.keep, frames).astype(bool)
    )
    own = np.arange(len(scores.optimality)) if told.frames is None else told.frames
    weight = one if trusted else (1 + score) / 2
    if told.weight is not None:
        weight = told.over_frames(told.weight, frames).astype(np.float32)
    segments = segments_of(scores)
    starts = [0, *np.searchsorted(frames, [own[s.start] for s in segments[1:]]), n]
    stretches = [
        Stretch(
            int(first),
            int(stop),
            segment.optimality,
            lowest_part(scores.parts, segment.start, segment.stop),
        )
        for segment, first, stop in zip(segments, starts[:-1], starts[1:], strict=True)
    ]
    return RowAnswer(
        id=episode.id,
        score=score,
        keep=keep,
        weight=weight,
        frames=frames,
        quality=scores.how_well(),
        trusted=trusted,
        stretches=tuple(stretches),
    )


def frames_of(source: Source, at: int) -> Array:
    """The source's own number of each row of an episode: 0, 1, ... where it has none. (N,)"""
    frames = source.read(at, []).frames
    return np.arange(source.episodes[at].steps) if frames is None else np.asarray(frames)


def lowest_part(parts: Mapping[str, Array], start: int, stop: int) -> str:
    """The signal whose mean over the stretch is lowest."""
    if not parts:
        return ""
    return min(parts, key=lambda name: float(np.mean(parts[name][start:stop])))


def files_of(place: Path, answers: Sequence[RowAnswer]) -> dict[str, Path]:
    """The file of each episode, where each has its own, called like it."""
    files = [place] if place.is_file() else sorted(place.iterdir())
    endings = (".hdf5", ".h5", ".npz", ".npy")
    known = {p.stem: p for p in files if p.is_file() and (p.suffix in endings or p == place)}
    for answer in answers:
        if answer.id not in known:
            raise InputError(f"{place}: there is no file {answer.id} any more; import it again")
    return {answer.id: known[answer.id] for answer in answers}
