"""How far to trust the noisy set, and how long to train.

A noisy step weighs p^e in training, where a clean one weighs 1 and p is how probably it is good by
a judge: cautiously, as if no more noisy steps were good than the lower end of its estimate says.
The exponent says how sure a step must be: at 0 all count alike, which is pooling. All noisy steps
together may also be held to weigh no more than a part of what the clean ones do: many doubtful
steps then teach what the few trusted ones never show, and do not outvote them.

The judge proposes. The smallest exponent is looked for with which hardly any bad step is drawn, by
p itself: so it follows the share of good steps and how well the judge tells them apart. Where steps
must be as sure as p itself says, or surer, p is taken and the noisy set is held to half the weight
of the clean one, or to a quarter where too many bad steps are to be expected of half; where none
will do, or perhaps no noisy step is good at all, noisy steps are left alone.

Clean groups that were left out have the last word: where small clones predict them clearly better
that trust noisy steps otherwise, the most cautious of these ways is gone that is not clearly worse
than the best. A judge that is sure that hardly any noisy step is good, and perhaps none, is not
contradicted. Held ways that the judge expects too many bad steps of are not tried: a few do no
harm to likelihood, which any others smooth, and lead a policy astray. What is not held back, or not
spoken for by the judge, must teach more than the same steps with their actions dealt anew, which
smooth as much. A judge that says nothing of steps needs not be contradicted clearly, and what they
teach may then show in naming actions alone: the likelihood of few groups varies much. p of a step
is told by those who never saw these groups. They also tell after how many updates training ends,
and whether it helps to look back; but not where actions are real numbers. There the last action
always tells much of the next, tremor and all, and a policy that has learned to go on as before goes
on as before.
Nothing is held out in the end: whoever asks trains on everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sdil.algorithms.judged import draw_by_weight, fingerprints
from sdil.algorithms.shared import once
from sdil.demonstrations import Demonstrations
from sdil.held_out import TEMPERATURES
from sdil.judging import FittedJudge
from sdil.networks.cross_fitting import CrossFitted, cross_fit
from sdil.networks.folds import Folds
from sdil.spaces import Array
from sdil.trajectories import Trajectory
from sdil.ways import Way

EXPONENTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
NOTHING, POOLING = Way(None), Way(0.0)
HELD = (Way(1.0, 0.5), Way(1.0, 0.25))  # the bolder first
_TRIED = (NOTHING, *HELD[::-1], Way(4.0), Way(1.0, 1.0), Way(0.0, 1.0), Way(1.0), POOLING)
"""Beside what the judge proposes, the most cautious first."""
_SILENT = (NOTHING, POOLING)  # where it says nothing of steps
_WORTH, _CLEAR = 0.01, 0.05  # in negative log-likelihood: something, and enough to overrule a judge
MOST_BAD = 0.15  # at most this share of the noisy steps that are drawn is bad
MOST_BAD_OF_ALL = 0.12  # where they are held to a part: of all steps that are drawn
LEAST_SHARE = 0.02  # of good noisy steps; where there may be fewer, the judge proposes none
FEW = 0.25  # where there may be none and are at most so many, nobody contradicts it


class TrustFields(Protocol):
    """Of those who ask: the size of their network, and what they take for too short a training."""

    @property
    def look_back(self) -> int: ...
    @property
    def hidden(self) -> int: ...
    @property
    def min_updates(self) -> int: ...
    @property
    def max_updates(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Trust:
    """What noisy steps weigh, and how it was found."""

    way: Way
    weights: Array
    """(noisy steps,)"""
    updates: int | None
    """How long to train; None where it could not be told."""
    temperature: float
    """By which to divide the logits of what is trained so long: it is too sure of itself."""
    looking_back_helps: bool
    """Whether clones that look back predict clean groups better."""
    tried: tuple[tuple[Way, float], ...]
    """Ways, the one that was meant first, and the negative log-likelihood of clean groups that were
    left out."""

    @property
    def sentence(self) -> str:
        """What became of the noisy steps."""
        n, e = len(self.weights), self.way.exponent
        if e is None:
            return f"none of the {n:,} noisy steps was imitated: they do not help"
        if self.way.pools:
            return f"all {n:,} noisy steps were imitated like clean ones"
        how = "all alike" if e == 0 else f"by p^{e:g}, p as judged"
        worth = f"as much as {self.weights.sum():,.0f} clean ones"
        return f"{n:,} noisy steps were imitated {how}: together {worth}"

    def draw(self, n_clean: int, generator: torch.Generator) -> Callable[[int], Tensor]:
        """Draws numbers of steps, clean ones first, by what they weigh."""
        return draw_by_weight(torch.from_numpy(self.weights), n_clean, generator)

    def draw_noisy(self, generator: torch.Generator) -> Callable[[int], Tensor]:
        """Draws numbers of noisy steps, from 0, to discover skills on: by p itself where trust is
        stricter, since what is to be told apart must be seen."""
        broad = max(1.0, self.way.exponent or 0.0)
        return draw_by_weight(torch.from_numpy(self.weights ** (1 / broad)), 0, generator)


def find_trust(
    demos: Demonstrations,
    judge: FittedJudge,
    valid: Demonstrations | None,
    fields: TrustFields,
    *,
    seed: int,
    always: bool = True,
) -> Trust:
    """Without an answer about steps only all of the noisy set is tried, or nothing of it. Who does
    not `always` look back trains for as long as is best for those who do only where that helps."""
    told = judge.optimality(demos.all)[demos.clean.n_steps :].double().numpy()
    good, n_clean = _cautious((1 + told) / 2, judge), demos.clean.n_steps
    silent = "step" in judge.unknown
    proposes_nothing = silent or _perhaps_none(judge)
    first = NOTHING if proposes_nothing else propose(good, n_clean)
    given = _to_try_on(demos, judge, valid, good, seed)
    if given is None:
        return _untried(first, good, n_clean)
    tried = _SILENT if silent else [way for way in _TRIED if is_bearable(way, good, n_clean)]
    ways = tuple(dict.fromkeys([first, *(() if _hardly_any(judge) else tried)]))
    speaks_for = not proposes_nothing and is_bearable(HELD[-1], good, n_clean)

    def choose() -> tuple[CrossFitted, int]:
        fitted = _fit(given, ways, fields, look_back=0, seed=seed)
        asked = given, ways, fitted, fields
        return fitted, _choose(*asked, silent=silent, speaks_for=speaks_for, seed=seed)

    size = fields.hidden, fields.min_updates, fields.max_updates
    of = partial(fingerprints, demos, valid)
    found, best = once(of, ("ways", judge, ways, *size, seed), choose)
    way = ways[best]
    if way == NOTHING or way.pools:  # all is as it would be without noisy steps, or were they clean
        used = demos.clean_only() if way == NOTHING else demos
        alone = trust_all(used, valid, fields, seed=seed, always=always, tells_length=True)
        updates, temperature, helps = alone.updates, alone.temperature, alone.looking_back_helps
    else:
        before = found.nll[best], int(found.updates[best]), float(found.temperature[best])
        updates, temperature, helps = _look_back(given, way, before, fields, seed, always=always)
    weights, by_nll = way.weigh(good, n_clean), zip(ways, found.nll.mean(1).tolist(), strict=True)
    return Trust(way, weights, updates, temperature, helps, tuple(by_nll))


def _choose(
    given: tuple[Demonstrations, Folds, Array],
    ways: tuple[Way, ...],
    found: CrossFitted,
    fields: TrustFields,
    *,
    silent: bool,
    speaks_for: bool,
    seed: int,
) -> int:
    """The most cautious way that is not clearly worse than the best, or, of a silent judge, the
    best. But for held ways of a judge that speaks for them, only one that clean groups gain by
    because of what was done, not because anything else is learned, too."""
    left = list(range(len(ways)))
    while True:
        best = min(left, key=lambda i: float(found.nll[i].mean()))
        if not silent:
            best = next(i for i in left if not _clearly(found.nll[i] - found.nll[best]))
        if ways[best] == NOTHING or (speaks_for and ways[best].at_most < math.inf):
            return best
        anew = _fit(given, (ways[best],), fields, look_back=0, seed=seed, dealt_anew=True)
        likelier = _clearly(anew.nll[0] - found.nll[best], least=0.0)
        named = _clearly(anew.error[0] - found.error[best], least=0.0)
        if likelier or (silent and named):
            return best
        left.remove(best)


def propose(good: Array, n_clean: int) -> Way:
    """What the judge speaks for, by p of each noisy step."""
    exponent = smallest_exponent(good)
    if exponent is None or exponent < 1:
        return Way(exponent)
    held = (*HELD, Way(exponent, HELD[0].at_most))  # of these sure ones few are bad
    return next(way for way in held if is_bearable(way, good, n_clean))


def is_bearable(way: Way, good: Array, n_clean: int) -> bool:
    """Whether the judge expects few bad steps among all that are drawn; of what is not held back,
    clean groups decide."""
    weights = way.weigh(good, n_clean)
    bad = float((weights * (1 - good)).sum())
    most = MOST_BAD_OF_ALL * (n_clean + float(weights.sum()))
    return way.at_most == math.inf or bad <= most


def smallest_exponent(good: Array) -> float | None:
    """With which hardly any bad step is drawn; None: with none. `good` is p of each noisy step."""
    for exponent in EXPONENTS:
        weights = good**exponent
        if weights.sum() > 0 and (weights * (1 - good)).sum() <= MOST_BAD * weights.sum():
            return exponent
    return None


def _cautious(good: Array, judge: FittedJudge) -> Array:
    """The same with the lowest share of good steps that the judge thinks possible."""
    if judge.good_share is None:
        return good
    point, low, _ = judge.good_share.odds
    sure = np.clip(good, 1e-6, 1 - 1e-6)
    return 1 / (1 + (1 - sure) / sure * np.exp(point - low))


def _perhaps_none(judge: FittedJudge) -> bool:
    """Whether no noisy step at all may be good, by the judge's estimate."""
    return judge.good_share is not None and judge.good_share.low < LEAST_SHARE


def _hardly_any(judge: FittedJudge) -> bool:
    """Whether perhaps no noisy step is good, and surely few are: what clean groups would gain by
    them is gained by anything that smooths."""
    share = judge.good_share
    return share is not None and _perhaps_none(judge) and share.high <= FEW


def trust_all(
    demos: Demonstrations,
    valid: Demonstrations | None,
    fields: TrustFields,
    *,
    seed: int,
    always: bool = True,
    tells_length: bool = False,
) -> Trust:
    """All steps count alike. How long to train is not told where `valid` will tell it, unless that
    is asked for."""
    good = np.ones(demos.noisy.n_steps)
    given = None
    if valid is None or tells_length:
        given = _to_try_on(demos, None, valid, good, seed)
    if given is None:
        return _untried(POOLING, good, demos.clean.n_steps)
    found = _fit(given, (POOLING,), fields, look_back=0, seed=seed)
    before = found.nll[0], int(found.updates[0]), float(found.temperature[0])
    updates, temperature, helps = _look_back(given, POOLING, before, fields, seed, always=always)
    tried = ((POOLING, float(found.nll.mean())),)
    return Trust(POOLING, good, updates, temperature, helps, tried)


def _untried(way: Way, good: Array, n_clean: int) -> Trust:
    return Trust(way, way.weigh(good, n_clean), None, 1.0, False, ())


def _look_back(
    given: tuple[Demonstrations, Folds, Array],
    way: Way,
    before: tuple[Array, int, float],
    fields: TrustFields,
    seed: int,
    *,
    always: bool,
) -> tuple[int, float, bool]:
    """How long to train, the temperature, and whether looking back helps; `before` are the negative
    log-likelihood of groups, the length and the temperature of clones that do not look back."""
    nll, updates, temperature = before
    if not fields.look_back or not (always or given[0].spaces.listed):
        return updates, temperature, False
    found = _fit(given, (way,), fields, look_back=fields.look_back, seed=seed)
    helps = bool((nll - found.nll[0]).mean() > _WORTH)
    if helps or always:
        updates, temperature = int(found.updates[0]), float(found.temperature[0])
    return updates, temperature, helps


def _fit(
    given: tuple[Demonstrations, Folds, Array],
    ways: tuple[Way, ...],
    fields: TrustFields,
    *,
    look_back: int,
    seed: int,
    dealt_anew: bool = False,
) -> CrossFitted:
    every, folds, by_fold = given
    of_step = folds.of_group[folds.group_of_step]
    n_clean = (of_step != np.arange(len(folds))[:, None]).sum(1, keepdims=True)  # (K, 1)
    return cross_fit(
        every,
        folds,
        np.stack([way.weigh(by_fold, n_clean, folds.noisy) for way in ways]),
        look_back=look_back,
        hidden=fields.hidden,
        at_least=min(fields.min_updates, fields.max_updates),
        at_most=fields.max_updates,
        temperatures=TEMPERATURES,
        dealt_anew=dealt_anew,
        for_the_best=True,
        seed=seed,
    )


def _clearly(gain: Array, least: float = _CLEAR) -> bool:
    """Whether groups gain more than their mean may err, and enough."""
    error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else 0.0
    return bool(gain.mean() > max(error, least))


def _to_try_on(
    demos: Demonstrations,
    judge: FittedJudge | None,
    valid: Demonstrations | None,
    good: Array,
    seed: int,
) -> tuple[Demonstrations, Folds, Array] | None:
    """Demonstrations, clean groups to leave out, and p of each noisy step by fold. (K, N)"""
    if valid is not None:
        more = [Trajectory(t.observations, t.actions, None, t.terminated) for t in valid.clean]
        clean = [*demos.clean, *more]
        every = Demonstrations(clean, list(demos.noisy), demos.spaces)
        return every, Folds.leave_out(every, len(more)), good[None]
    if demos.n_clean_groups < 2:
        return None
    told = None if judge is None else judge.cross_judged
    if (
        judge is not None
        and told is not None
        and told.fingerprint == demos.fingerprint(rewards=False)
    ):
        by_fold = _cautious(told.good.astype(np.float64), judge)
        return demos, Folds.of_episodes(demos, told.fold), by_fold
    folds = Folds.deal(demos, seed=seed)
    return demos, folds, np.broadcast_to(good, folds.noisy.shape)
