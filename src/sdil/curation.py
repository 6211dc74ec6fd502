"""Cleaner data out: which steps of a set to keep, and the episodes that are left of it.

Demonstrations and step scores in, demonstrations out; no files. Steps are chosen by threshold, by
share, or by a selection that someone made by hand; runs of kept steps become episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.scores import StepScores
from sdil.spaces import Array
from sdil.trajectories import Trajectories, Trajectory

SetName = Literal["noisy", "clean"]
SELECTION_FORMAT, SELECTION_VERSION = "sdil-selection", 1
SHORTEST = 2


@dataclass(frozen=True)
class Piece:
    """Where an episode of a curated set comes from: steps `start` to `stop` of `source`."""

    id: str
    """Its name in the curated set."""
    source: str
    """The episode it was cut from."""
    start: int
    stop: int
    """One past its last step."""
    optimality: float
    """Mean score of its steps."""
    at: int
    """The position of `source` in its set."""


@dataclass(frozen=True, eq=False)
class Curated:
    """Demonstrations of which one set holds only what was kept, and how they came about."""

    demos: Demonstrations
    """The new demonstrations; the other set is as it was."""
    which: SetName
    """The set that was curated."""
    pieces: list[Piece]
    """One per episode of the curated set, in its order."""
    kept: list[Array]
    """Per episode of the original set (T,): is the step chosen?"""
    weights: list[Array]
    """Per episode of the original set (T,), in [0, 1]; 0 where the step is not chosen."""
    too_short: int = 0
    """Steps that were chosen, but in runs shorter than `min_length`, and so dropped."""

    def take(self, values: Sequence[Array]) -> list[Array]:
        """What is known of each step of the original set, (T,) each, cut as its episodes were."""
        return [np.asarray(values[p.at])[p.start : p.stop] for p in self.pieces]


def curate(
    demos: Demonstrations,
    scores: Sequence[StepScores],
    *,
    keep_above: float | None = None,
    keep_share: float | None = None,
    selection: Mapping[str, Any] | None = None,
    weights: bool = False,
    min_length: int = SHORTEST,
    which: SetName = "noisy",
) -> Curated:
    """Keep the good steps of one set, in runs of at least `min_length`, each an episode.

    `scores` is `judge.score(demos.noisy)`. Give one of `keep_above` (steps scored at least this),
    `keep_share` (this share of the steps, the highest scored) and `selection` (what the report's
    page downloads; taken as it is, whatever `min_length`). Episodes kept whole stay as they are.

    With `weights` the set stays as it was, and each chosen step weighs (1 + optimality) / 2; then
    no rule is needed, and all steps count as chosen.
    """
    original = demos.noisy if which == "noisy" else demos.clean
    _check(original, scores, which)
    rules = [rule for rule in (keep_above, keep_share, selection) if rule is not None]
    if len(rules) > 1 or not (rules or weights):
        raise InputError("give one of keep_above, keep_share and selection")
    if min_length < 1:
        raise InputError(f"min_length must be at least 1, not {min_length}")
    optimality = [np.asarray(s.optimality) for s in scores]  # in their own precision
    if keep_above is not None:
        kept = _above(optimality, keep_above)
    elif keep_share is not None:
        kept = _best(original, optimality, keep_share)
    elif selection is not None:
        kept, min_length = selected_steps(selection, demos, which), 1
    else:
        kept = [np.ones(len(o), bool) for o in optimality]
    if weights:
        pieces = [
            Piece(name, name, 0, len(o), float(o.mean()), at)
            for at, (name, o) in enumerate(zip(original.ids, optimality, strict=True))
        ]
        weighed = [
            k * (1 + o.astype(np.float64)) / 2 for k, o in zip(kept, optimality, strict=True)
        ]
        return Curated(demos, which, pieces, kept, weighed)
    pieces = [
        Piece(
            name if stop - start == len(mask) else f"{name}[{start}:{stop}]",
            name,
            start,
            stop,
            float(o[start:stop].mean()),
            at,
        )
        for at, (name, mask, o) in enumerate(zip(original.ids, kept, optimality, strict=True))
        for start, stop in _runs(mask, min_length)
    ]
    if not pieces:
        raise InputError(_why_nothing(optimality, kept, min_length, which))
    chosen = sum(int(mask.sum()) for mask in kept)
    kept = [np.zeros(len(mask), bool) for mask in kept]  # without runs that were too short
    for piece in pieces:
        kept[piece.at][piece.start : piece.stop] = True
    cut = Trajectories.pack([_cut(original[p.at], p) for p in pieces], demos.spaces)
    clean, noisy = (demos.clean, cut) if which == "noisy" else (cut, demos.noisy)
    left = Demonstrations(clean, noisy, demos.spaces)
    too_short = chosen - sum(int(mask.sum()) for mask in kept)
    weights_of = [mask.astype(np.float64) for mask in kept]
    return Curated(left, which, pieces, kept, weights_of, too_short)


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


def _check(original: Trajectories, scores: Sequence[StepScores], which: str) -> None:
    if not len(original):
        raise InputError(f"there are no {which} episodes to curate")
    if [len(s.optimality) for s in scores] != original.lengths.tolist():
        raise InputError(f"the scores do not fit the {which} set: give judge.score(demos.{which})")
    for name, scored in zip(original.ids, scores, strict=True):
        optimality = np.asarray(scored.optimality)
        good = (optimality >= -1) & (optimality <= 1)  # NaN is neither
        if not good.all():
            step = int(np.argmin(good))
            raise InputError(
                f"{which} set, episode {name!r}, step {step}: the score is {optimality[step]}; "
                "scores lie in [-1, 1], give what judge.score returned"
            )


def _above(optimality: list[Array], threshold: float) -> list[Array]:
    if not -1 <= threshold <= 1:
        raise InputError(f"keep_above lies in [-1, 1] as scores do, not {threshold}")
    return [o >= threshold for o in optimality]


def _best(original: Trajectories, optimality: list[Array], share: float) -> list[Array]:
    if not 0 < share <= 1:
        raise InputError(f"keep_share lies in (0, 1], not {share}")
    order = np.argsort(-np.concatenate(optimality), kind="stable")
    mask = np.zeros(len(order), bool)
    mask[order[: round(share * len(order))]] = True
    return original.split_steps(mask)


def _runs(mask: Array, min_length: int) -> list[tuple[int, int]]:
    """Start and stop of each run of True that is long enough, or that is the whole episode."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    runs = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    return [(a, b) for a, b in runs if b - a >= min_length or b - a == len(mask)]


def _cut(whole: Trajectory, piece: Piece) -> Trajectory:
    """Steps of an episode as an episode. What follows is known: it is cut off, not ended."""
    at_end = piece.stop == len(whole)
    return Trajectory(
        observations=whole.observations[piece.start : piece.stop + 1],
        actions=whole.actions[piece.start : piece.stop],
        rewards=None if whole.rewards is None else whole.rewards[piece.start : piece.stop],
        terminated=whole.terminated and at_end,
        id=piece.id,
        group=whole.group,
    )


def _why_nothing(optimality: list[Array], kept: list[Array], min_length: int, which: str) -> str:
    chosen = sum(int(mask.sum()) for mask in kept)
    if not chosen:
        highest = max(float(o.max()) for o in optimality)
        return f"nothing of the {which} set would be kept: its highest score is {highest:.3f}"
    return (
        f"nothing of the {which} set would be kept: {chosen} steps are chosen, but no "
        f"{min_length} of them in a row; lower min_length"
    )
