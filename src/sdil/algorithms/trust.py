"""How far to trust the noisy set, and how long to train.

A noisy step weighs p^e in training, where a clean one weighs 1 and p is how probably it is good by
a judge: cautiously, as if no more noisy steps were good than the lower end of its estimate says.
The exponent says how far the noisy set is trusted: at 0 all steps count alike, which is pooling;
the larger it is, the surer a step must be. It is the smallest with which hardly any bad step is
drawn, by p itself: so it follows the share of good steps and how well the judge tells them apart.
Where none does, noisy steps are left alone.

Clean groups that were left out have the last word: where small clones predict them clearly better
that pool everything, or that leave noisy steps alone, this is done. p of a step is then told by
those who never saw these groups. They also tell after how many updates training ends. Nothing is
held out in the end: whoever asks trains on everything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sdil.algorithms.judged import draw_by_weight
from sdil.demonstrations import Demonstrations
from sdil.judging import FittedJudge
from sdil.networks.cross_fitting import Folds, cross_fit
from sdil.spaces import Array
from sdil.training import TEMPERATURES
from sdil.trajectories import Trajectory

EXPONENTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_WORTH = 0.01  # in negative log-likelihood
MOST_BAD = 0.15  # at most this share of the noisy steps that are drawn is bad


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

    exponent: float | None
    """None: noisy steps are left alone; 0: they count like clean ones."""
    weights: Array
    """(noisy steps,)"""
    updates: int | None
    """How long to train; None where it could not be told."""
    temperature: float
    """By which to divide the logits of what is trained so long: it is too sure of itself."""
    tried: tuple[tuple[float | None, float], ...]
    """Exponents, the one that was meant first, and the negative log-likelihood of clean groups that
    were left out."""

    @property
    def sentence(self) -> str:
        """What became of the noisy steps."""
        n, e = len(self.weights), self.exponent
        if e is None:
            return f"none of the {n:,} noisy steps was imitated: they do not help"
        if e == 0:
            return f"all {n:,} noisy steps were imitated like clean ones"
        worth = f"as much as {self.weights.sum():,.0f} clean ones"
        return f"{n:,} noisy steps were imitated by p^{e:g}, p as judged: together {worth}"

    def draw(self, n_clean: int, generator: torch.Generator) -> Callable[[int], Tensor]:
        """Draws numbers of steps, clean ones first, by what they weigh."""
        return draw_by_weight(torch.from_numpy(self.weights), n_clean, generator)


def find_trust(
    demos: Demonstrations,
    judge: FittedJudge,
    valid: Demonstrations | None,
    fields: TrustFields,
    *,
    seed: int,
) -> Trust:
    """Without an answer about steps only all of the noisy set is tried, or nothing of it."""
    told = judge.optimality(demos.all)[demos.clean.n_steps :].double().numpy()
    good = _cautious((1 + told) / 2, judge)
    first = None if "step" in judge.unknown else smallest_exponent(good)
    exponents = tuple(dict.fromkeys([first, None, 0.0]))
    found = _try(demos, judge, valid, good, exponents, fields, look_back=0, seed=seed)
    if found.exponent is None:  # then all is as without noisy steps: how long to train, too
        alone = trust_all(demos.clean_only(), valid, fields, seed=seed)
        return replace(found, updates=alone.updates, temperature=alone.temperature)
    return found


def smallest_exponent(good: Array) -> float | None:
    """With which hardly any bad step is drawn; None: with none. `good` is p of each noisy step."""
    for exponent in EXPONENTS:
        weights = _weigh(good, exponent)
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


def trust_all(
    demos: Demonstrations, valid: Demonstrations | None, fields: TrustFields, *, seed: int
) -> Trust:
    """All steps count alike; how long to train is not told where `valid` will tell it."""
    good = np.ones(demos.noisy.n_steps)
    if valid is not None:
        return Trust(0.0, good, None, 1.0, ())
    look_back = fields.look_back
    return _try(demos, None, None, good, (0.0,), fields, look_back=look_back, seed=seed)


def _try(
    demos: Demonstrations,
    judge: FittedJudge | None,
    valid: Demonstrations | None,
    good: Array,
    exponents: tuple[float | None, ...],
    fields: TrustFields,
    *,
    look_back: int,
    seed: int,
) -> Trust:
    given = _to_try_on(demos, judge, valid, good, seed)
    if given is None:
        return Trust(exponents[0], _weigh(good, exponents[0]), None, 1.0, ())
    every, folds, by_fold = given
    weights = np.stack([_weigh(by_fold, exponent) for exponent in exponents])
    found = cross_fit(
        every,
        folds,
        weights,
        look_back=look_back,
        hidden=fields.hidden,
        at_least=min(fields.min_updates, fields.max_updates),
        at_most=fields.max_updates,
        temperatures=TEMPERATURES,
        seed=seed,
    )
    nll = found.nll.mean(1)
    best = int(nll.argmin())
    if not _clearly(found.nll[0] - found.nll[best]):
        best = 0
    return Trust(
        exponents[best],
        _weigh(good, exponents[best]),
        int(found.updates[best]),
        float(found.temperature[best]),
        tuple(zip(exponents, nll.tolist(), strict=True)),
    )


def _clearly(gain: Array) -> bool:
    """Whether groups gain more than their mean may err, and something at all."""
    error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else 0.0
    return bool(gain.mean() > max(error, _WORTH))


def _weigh(good: Array, exponent: float | None) -> Array:
    return np.zeros_like(good) if exponent is None else good**exponent


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
