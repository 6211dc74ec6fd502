"""Which steps of a set are chosen: whole stretches by their scores, or by hand.

A stretch is a segment, an episode or a single step; it is kept or dropped as one, by threshold or
by share. What becomes of the steps that are chosen is in `curation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.scores import StepScores
from sdil.segmentation import segments_of
from sdil.spaces import Array
from sdil.trajectories import Trajectories

SetName = Literal["noisy", "clean"]
By = Literal["segment", "episode", "step"]
SELECTION_FORMAT, SELECTION_VERSION = "sdil-selection", 1
SURELY = 0.75
"""At least so much of a set is good, and it may all be: then no threshold drops anything of it."""
_OTHERWISE = {"step": ("episode", "episode"), "episode": ("step", "segment")}
"""The other question, and the way of curating that asks it."""


class GoodShareLike(Protocol):
    """The estimated share of good noisy steps, and between which it lies."""

    @property
    def point(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def check_scores(original: Trajectories, scores: Sequence[StepScores], which: str) -> None:
    """Raise unless there is a score between -1 and 1 for every step of the set."""
    if not len(original):
        raise InputError(f"there are no {which} episodes to curate")
    for of_steps in ([s.optimality for s in scores], [_quality(s) for s in scores]):
        if [len(values) for values in of_steps] != original.lengths.tolist():
            raise InputError(
                f"the scores do not fit the {which} set: give judge.score(demos.{which})"
            )
        for name, given in zip(original.ids, of_steps, strict=True):
            values = np.asarray(given)
            good = (values >= -1) & (values <= 1)  # NaN is neither
            if not good.all():
                step = int(np.argmin(good))
                raise InputError(
                    f"{which} set, episode {name!r}, step {step}: the score is {values[step]}; "
                    "scores lie in [-1, 1], give what judge.score returned"
                )


def refuse_unknown(
    scores: Sequence[StepScores], by: By | None, weights: bool, unknown: Mapping[str, str]
) -> None:
    """Raise where the judge does not answer what is asked. `by` None: no rule asks anything."""
    asked = {"step"} if weights else set()
    if by is not None:
        asked.add("episode" if by == "episode" else "step")
    for question in sorted(asked):
        if question in unknown:
            other, way = _OTHERWISE[question]
            more = "" if weights or other in unknown else f'; by="{way}" asks another question'
            raise InputError(f"the judge does not answer this: {unknown[question]}{more}")
        of_steps = [s.optimality if question == "step" else _quality(s) for s in scores]
        if not any(np.any(values) for values in of_steps):
            raise InputError("the scores say nothing: all of them are 0")


def why_all_of(share: GoodShareLike | None) -> str | None:
    """Why nothing of the noisy set is dropped; None where a threshold may."""
    if share is None or share.high < 1.0 or share.low < SURELY:
        return None
    return (
        f"the noisy set cannot be told from a good one ({share.point:.0%} good, {share.low:.0%} to "
        f"{share.high:.0%}): nothing is dropped"
    )


def values_of(by: By, scores: Sequence[StepScores]) -> tuple[Array, Array]:
    """How long each stretch is that is kept or dropped whole, and its score. (U,) each"""
    if by == "step":
        values = np.concatenate([s.optimality for s in scores])
        return np.ones(len(values), np.int64), values  # in their own precision
    if by == "episode":
        of_steps = np.concatenate([_quality(s) for s in scores])
        lengths = np.array([len(s.optimality) for s in scores])
    else:
        of_steps = np.concatenate([s.optimality for s in scores])
        lengths = np.array([part.stop - part.start for s in scores for part in segments_of(s)])
    starts = np.cumsum(lengths) - lengths
    means = np.add.reduceat(of_steps.astype(np.float64), starts) / lengths
    return lengths, means.astype(of_steps.dtype)  # as the scores are stored, and compared


def choose_stretches(
    lengths: Array, values: Array, above: float | None, share: float | None
) -> Array:
    """Which stretches are kept. (U,)"""
    if above is not None:
        if not -1 <= above <= 1:
            raise InputError(f"keep_above lies in [-1, 1] as scores do, not {above}")
        return np.asarray(values >= above)
    assert share is not None
    if not 0 < share <= 1:
        raise InputError(f"keep_share lies in (0, 1], not {share}")
    order = np.argsort(-values, kind="stable")
    reached = np.cumsum(lengths[order]) >= round(share * int(lengths.sum()))
    chosen = np.zeros(len(values), bool)
    chosen[order[: int(np.argmax(reached)) + 1]] = True  # the one that reaches it is the last
    return chosen


def choose_by_fold(
    good: Array,
    stretches: Array,
    rule: tuple[float | None, float | None] | None,
    min_length: int,
    lengths: Sequence[int],
) -> Array | None:
    """Which steps the same rule keeps of the same stretches by each fold's word, those in too short
    runs left out as they are in the end. `lengths` are those of the episodes. (K, N)"""
    if rule is None:
        return None
    starts = np.cumsum(stretches) - stretches
    means = np.add.reduceat(2 * good - 1, starts, axis=1) / stretches
    chosen = [np.repeat(choose_stretches(stretches, values, *rule), stretches) for values in means]
    ends = np.cumsum(lengths)[:-1]
    for of_fold in chosen:
        for mask in np.split(of_fold, ends):
            kept = np.zeros_like(mask)
            for start, stop in runs_of(mask, min_length):
                kept[start:stop] = True
            mask[:] = kept
    return np.stack(chosen)


def runs_of(mask: Array, min_length: int) -> list[tuple[int, int]]:
    """Start and stop of each run of True that is long enough, or that is the whole episode."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    runs = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    return [(a, b) for a, b in runs if b - a >= min_length or b - a == len(mask)]


def selected_steps(
    selection: Mapping[str, Any], demos: Demonstrations, which: SetName
) -> list[Array]:
    """The steps that a selection names, per episode of the set (T,), after checking all of it."""
    if not isinstance(selection, Mapping) or selection.get("format") != SELECTION_FORMAT:
        raise InputError(f"selection: it is not one, its format should be {SELECTION_FORMAT!r}")
    if selection.get("version") != SELECTION_VERSION:
        raise InputError(
            f"selection: version {selection.get('version')!r} is not the one this sdil reads "
            f"({SELECTION_VERSION}); download it again from a report of this version"
        )
    if selection.get("fingerprint") != demos.fingerprint():
        raise InputError(
            "selection: it was made for other demonstrations (the fingerprints differ); "
            "give those the report was made of, or make the report again"
        )
    original = demos.noisy if which == "noisy" else demos.clean
    at = {name: i for i, name in enumerate(original.ids)}
    kept = [np.zeros(length, bool) for length in original.lengths]
    segments = selection.get("segments")
    if not isinstance(segments, list):
        raise InputError("selection: it has no list of segments")
    for number, segment in enumerate(segments):
        where = f"selection, segment {number}"
        try:
            group, name = segment["set"], segment["episode"]
            start, stop = segment["start"], segment["stop"]
        except (KeyError, TypeError):
            raise InputError(f"{where}: it needs set, episode, start and stop") from None
        if group != which:
            raise InputError(f"{where}: it is of the {group} set, but the {which} one is curated")
        if name not in at:
            raise InputError(f"{where}: the {which} set has no episode {name!r}")
        mask = kept[at[name]]
        whole = all(isinstance(x, int) and not isinstance(x, bool) for x in (start, stop))
        if not (whole and 0 <= start < stop <= len(mask)):
            raise InputError(
                f"{where}: steps {start} to {stop} do not lie in episode {name!r}, "
                f"which has {len(mask)}"
            )
        if mask[start:stop].any():
            raise InputError(f"{where}: it overlaps another segment of episode {name!r}")
        mask[start:stop] = True
    return kept


def stretches_of(kept: Sequence[Array]) -> Array:
    """How long the runs of chosen steps are and those between them, episode by episode."""
    edges = [[0, *(np.flatnonzero(np.diff(mask)) + 1).tolist(), len(mask)] for mask in kept]
    return np.array([b - a for of_episode in edges for a, b in pairwise(of_episode)])


def _quality(scores: StepScores) -> Array:
    return scores.optimality if scores.quality is None else scores.quality
