"""Cleaner data out: which steps of a set to keep, and the episodes that are left of it.

Demonstrations and step scores in, demonstrations out; no files. Which steps are chosen is in
`choosing.py`; runs of them become episodes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np

from sdil.choosing import (
    By,
    GoodShareLike,
    SetName,
    check_scores,
    choose_by_fold,
    choose_stretches,
    refuse_unknown,
    runs_of,
    selected_steps,
    stretches_of,
    values_of,
    why_all_of,
)
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.scores import StepScores
from sdil.spaces import Array
from sdil.trajectories import Trajectories, Trajectory
from sdil.ways import Way

SHORTEST = 2
BENDS = (
    "single steps are kept by how good each is: that bends how often actions occur, and what is "
    "learned from them can be worse than what is learned from everything; whole segments, whole "
    "episodes and weights bend less"
)


class NothingKeptError(InputError):
    """A rule by which nothing would be left."""


class CrossJudgedLike(Protocol):
    """How probably noisy steps are good by those that never saw a fold of the clean episodes."""

    @property
    def good(self) -> Array: ...
    @property
    def fold(self) -> Array: ...
    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True, eq=False)
class ByFold:
    """What would have been curated without having seen a fold of the clean episodes."""

    fold: Array
    """The fold of each clean episode. (clean episodes,)"""
    weighing: Array
    """What each step would weigh. (folds, noisy steps)"""
    kept: Array | None
    """Which would have been chosen; None where that cannot be told. (folds, noisy steps)"""


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
    how_well: float
    """How well it went: `scores.how_well(start, stop)`."""
    at: int
    """The position of `source` in its set."""


@dataclass(frozen=True, eq=False)
class Curated:
    """Demonstrations of which one set holds only what was kept, and how they came about."""

    demos: Demonstrations
    """The new demonstrations; the other set is as it was."""
    which: SetName
    """The set that was curated."""
    by: Literal["segment", "episode", "step", "selection", "weights"]
    """What was kept or dropped whole; "weights" where nothing was dropped, but all is weighed."""
    pieces: list[Piece]
    """One per episode of the curated set, in its order."""
    kept: list[Array]
    """Per episode of the original set (T,): is the step chosen?"""
    weights: list[Array]
    """Per episode of the original set (T,), in [0, 1]; 0 where the step is not chosen."""
    stretches: Array
    """How long each stretch is that was kept or dropped whole, through the original set. (U,)"""
    weighing: list[Array] | None = None
    """What each step would weigh by its score: (1 + optimality) / 2. None where the scores do not
    tell single steps apart. Per episode of the original set (T,)"""
    too_short: int = 0
    """Steps that were chosen, but in runs shorter than `min_length`, and so dropped."""
    why_all: str | None = None
    """Where the threshold was set aside and all kept: why, in a sentence."""
    by_fold: ByFold | None = None
    """The same without having seen some of the clean episodes, to try it on these fairly."""
    power: float = 1.0
    """Of `weighing`, by which `weights` weigh what is chosen."""
    at_most: float | None = None
    """How many times as much as all clean steps those that are chosen weigh together, at most."""

    def __repr__(self) -> str:
        kept, all_steps = (sum(int(f(m)) for m in self.kept) for f in (np.sum, len))
        return (
            f"Curated: {kept} of {all_steps} {self.which} steps kept ({kept / all_steps:.0%}), by "
            f"{self.by}, in {len(self.pieces)} episodes\n  {repr(self.demos).splitlines()[0]}"
        )

    def take(self, values: Sequence[Array]) -> list[Array]:
        """What is known of each step of the original set, (T,) each, cut as its episodes were."""
        return [np.asarray(values[p.at])[p.start : p.stop] for p in self.pieces]


def curate(
    demos: Demonstrations,
    scores: Sequence[StepScores],
    *,
    by: By = "segment",
    keep_above: float | None = None,
    keep_share: float | None = None,
    selection: Mapping[str, Any] | None = None,
    weights: bool = False,
    power: float = 1.0,
    at_most: float | None = None,
    min_length: int = SHORTEST,
    which: SetName = "noisy",
    unknown: Mapping[str, str] = MappingProxyType({}),
    good_share: GoodShareLike | None = None,
    cross_judged: CrossJudgedLike | None = None,
) -> Curated:
    """Keep the good part of one set, in runs of at least `min_length` steps, each an episode.

    `scores` is `judge.score(demos.noisy)`. `by` says what is kept or dropped whole: segments (see
    `segmentation.segments_of`) by their mean optimality; episodes by `how_well()`; single steps by
    their optimality, with a warning, since that bends how often actions occur.

    Give one of `keep_above` (what scores at least this), `keep_share` (the best, until they are
    this share of the steps) and `selection` (what the report's page downloads; taken as it is,
    whatever `by` and `min_length`). Episodes kept whole stay as they are.

    With `weights` the set stays as it was, and each chosen step weighs (1 + optimality) / 2, to
    this `power`, all of them together `at_most` so many times what the clean steps do
    (`did_it_help` tells good ones); then no rule is needed, and all steps count as chosen.

    `unknown` is `judge.unknown`: what rests on a question that the judge does not answer is
    refused. `good_share` is the judge's, where it has one: where it says that the noisy set may be
    all good, `keep_above` drops nothing of it, with a warning; the other rules are orders.
    `cross_judged` is the judge's too: with it `did_it_help` tries on clean episodes only what was
    told without them.
    """
    original = demos.noisy if which == "noisy" else demos.clean
    check_scores(original, scores, which)
    rules = [rule for rule in (keep_above, keep_share, selection) if rule is not None]
    if len(rules) > 1 or not (rules or weights):
        raise InputError("give one of keep_above, keep_share and selection")
    if not 0 < power < np.inf:
        raise InputError(f"power must be above 0, not {power}")
    if at_most is not None and not 0 < at_most < np.inf:
        raise InputError(f"at_most must be above 0, not {at_most}")
    if at_most is not None and not (weights and which == "noisy"):
        raise InputError("at_most goes with weights of the noisy set")
    if min_length < 1:
        raise InputError(f"min_length must be at least 1, not {min_length}")
    if by not in ("segment", "episode", "step"):
        raise InputError(f"by is segment, episode or step, not {by!r}")
    by_rule = keep_above is not None or keep_share is not None
    if by_rule or weights:
        refuse_unknown(scores, by if by_rule else None, weights, unknown)
    why_all = None
    if by_rule:
        stretches, values = values_of(by, scores)
        chosen = choose_stretches(stretches, values, keep_above, keep_share)
        if keep_above is not None and which == "noisy":
            why_all = why_all_of(good_share)
        if why_all is not None:
            chosen = np.ones_like(chosen)
            warnings.warn(why_all, stacklevel=2)
        kept = original.split_steps(np.repeat(chosen, stretches))
        if by == "step" and not weights and why_all is None:
            warnings.warn(BENDS, stacklevel=2)
    else:
        kept = [np.ones(length, bool) for length in original.lengths]
        if selection is not None:
            kept, min_length = selected_steps(selection, demos, which), 1
        values, stretches = np.empty(0), stretches_of(kept)
    of_steps = [np.asarray(s.optimality, np.float64) for s in scores]
    told = "step" not in unknown and any(o.any() for o in of_steps)
    weighing = [(1 + o) / 2 for o in of_steps] if told else None
    by_fold = None
    told_of = None if cross_judged is None or which != "noisy" else cross_judged.fingerprint
    if cross_judged is not None and told_of == demos.fingerprint(rewards=False):
        of_folds = cross_judged.good.astype(np.float64)
        by_steps = by_rule and by != "episode" and why_all is None
        rule = (keep_above, keep_share) if by_steps else None
        lengths = original.lengths.tolist()
        of_rule = choose_by_fold(of_folds, stretches, rule, 1 if weights else min_length, lengths)
        by_fold = ByFold(cross_judged.fold, of_folds, of_rule)
    if weights:
        assert weighing is not None
        whole = [(at, 0, len(mask)) for at, mask in enumerate(kept)]
        pieces = [_piece(original, scores, *where) for where in whole]
        chosen, way = np.concatenate(kept), Way(power, np.inf if at_most is None else at_most)
        weighed = chosen * way.weigh(np.concatenate(weighing), demos.clean.n_steps, chosen)
        return Curated(
            demos,
            which,
            "weights",
            pieces,
            kept,
            original.split_steps(weighed),
            stretches,
            weighing,
            why_all=why_all,
            by_fold=by_fold,
            power=power,
            at_most=at_most,
        )
    pieces = [
        _piece(original, scores, at, start, stop)
        for at, mask in enumerate(kept)
        for start, stop in runs_of(mask, min_length)
    ]
    if not pieces:
        raise NothingKeptError(_why_nothing(values, by, kept, min_length, which))
    before = sum(int(mask.sum()) for mask in kept)
    kept = [np.zeros(len(mask), bool) for mask in kept]  # without runs that were too short
    for piece in pieces:
        kept[piece.at][piece.start : piece.stop] = True
    cut = Trajectories.pack([_cut(original[p.at], p) for p in pieces], demos.spaces)
    clean, noisy = (demos.clean, cut) if which == "noisy" else (cut, demos.noisy)
    return Curated(
        demos=Demonstrations(clean, noisy, demos.spaces),
        which=which,
        by=by if by_rule else "selection",
        pieces=pieces,
        kept=kept,
        weights=[mask.astype(np.float64) for mask in kept],
        stretches=stretches,
        weighing=weighing,
        too_short=before - sum(int(mask.sum()) for mask in kept),
        why_all=why_all,
        by_fold=by_fold,
    )


def _piece(
    original: Trajectories, scores: Sequence[StepScores], at: int, start: int, stop: int
) -> Piece:
    name, of_steps = original.ids[at], scores[at].optimality
    return Piece(
        name if stop - start == len(of_steps) else f"{name}[{start}:{stop}]",
        name,
        start,
        stop,
        float(of_steps[start:stop].mean()),
        scores[at].how_well(start, stop),
        at,
    )


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


def _why_nothing(values: Array, by: By, kept: list[Array], min_length: int, which: str) -> str:
    chosen = sum(int(mask.sum()) for mask in kept)
    if not chosen:
        one = f"an {by}" if by == "episode" else f"a {by}"
        highest = (
            f"; the highest score of {one} is {float(values.max()):.3f}" if len(values) else ""
        )
        return f"nothing of the {which} set would be kept{highest}"
    return (
        f"nothing of the {which} set would be kept: {chosen} steps are chosen, but no "
        f"{min_length} of them in a row; lower min_length"
    )
