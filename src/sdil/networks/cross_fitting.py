"""Behaviour cloning by several weightings of the noisy steps, measured on clean groups left out.

It tells whom to trust, and how long to train on everything. All clones, one for each weighting and
fold (two where folds are few), are small networks that train side by side. Clones of one fold
start from the same weights and draw by the same random numbers whatever their weighting, so that
what differs between them is the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from sdil.demonstrations import Demonstrations
from sdil.heads import ActionHead, make_head
from sdil.networks.encoders import RecordedFeatures, WindowFeatures
from sdil.networks.ensemble import Ensemble
from sdil.networks.folds import MOST_FOLDS, Folds
from sdil.relative import tell_so
from sdil.spaces import Array, require_vectors
from sdil.training import seeded
from sdil.windows import STEPS_AT_ONCE, Windows, varying_inputs

Progress = Callable[[int, int], None]
LOOKS = (25, 50, 75, 100, 150, 200, 250, 300, 400, 500, 600, *range(800, 2_001, 200))
"""After how many updates the clones are measured on the steps left out."""
SURE, GAIN, BEHIND = 600, 0.005, 0.1
"""After so many updates training ends where the second half of them gained no weighting more NLL
that is not so far behind the best one."""
HIDDEN, BATCH, LEARNING_RATE, WEIGHT_DECAY = 64, 256, 1e-3, 5e-4


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """What clones by R weightings say of the clean steps that they have not seen."""

    nll: Array
    """Negative log-likelihood of the recorded actions, mean over each group's steps; of the groups
    that are left out at some time. (R, G)"""
    error: Array
    """The share of steps at which another action is the likeliest; of real numbers how far that is
    from the recorded one, in standard deviations. (R, G)"""
    updates: Array
    """After how many updates each was best, on average over all groups. (R,)"""
    temperature: Array
    """And by which its logits were divided then, or its spread was widened. (R,)"""


def cross_fit(
    demos: Demonstrations,
    folds: Folds,
    weights: Array,
    *,
    look_back: int = 0,
    hidden: int = HIDDEN,
    at_least: int = 0,
    at_most: int | None = None,
    temperatures: tuple[float, ...] = (1.0,),
    exactly: CrossFitted | None = None,
    clones: int = MOST_FOLDS,
    dealt_anew: bool = False,
    for_the_best: bool = False,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> CrossFitted:
    """Clone clean steps, which weigh 1, and noisy ones by `weights`: (R, noisy steps), or
    (R, K, noisy steps) where each of K folds has its own.

    How many updates a clone gets is what was best on average in the other folds of its weighting:
    no group has a say in how it is measured itself. Two folds have too few others, and use both.
    Only the scale of the inputs, and when nobody gains any more, are told from all groups.
    Fewer than `at_least` updates do not count, unless more predict worse than how often clean steps
    take each action does, by likelihood and surely by naming the commonest. Logits are divided by
    that of `temperatures` which is best with it: who is too sure of himself need not stop early.
    Where it was found before how long each weighting is trained best, and by which temperature, it
    is measured `exactly` so, and nothing is chosen by the groups left out here. There are about
    as many `clones` of each weighting, several of a fold where folds are fewer. Noisy steps whose
    actions are `dealt_anew` among those of a batch teach how often each is taken, and nothing of
    where. Who only asks `for_the_best` weighting does not wait for those that are far behind it:
    they are trained no longer than it takes to tell.
    """
    require_vectors(demos.spaces, "behaviour cloning")
    everything = demos.all
    windows = Windows(everything, look_back, varying_inputs(everything))
    space = tell_so(windows, demos.spaces.action)
    actions = windows.actions_at(torch.arange(len(windows)))
    head = make_head(space)
    head.fit(actions)
    features = WindowFeatures(windows.observations.shape[1], head, look_back)
    features.standardise.fit(windows)
    recorded = RecordedFeatures(windows, features)

    def inputs(steps: Tensor) -> Tensor:
        """(clones, n) to (clones, n, F)"""
        return recorded.at(steps.flatten())[0].view(*steps.shape, -1)

    if exactly is not None:
        temperatures = tuple(sorted(set(exactly.temperature.tolist())))
        at_most = int(exactly.updates.max())
    of_clones = folds.of_clones(clones)
    with seeded(seed) as generator:
        networks = _clones(len(of_clones), len(weights), features.size, hidden, head.size)
    drawn = _Draws(folds, weights, of_clones, generator)
    held = _LeftOut(folds, len(weights), of_clones, head, temperatures)
    optimiser = _adam(networks)
    rows = np.arange(len(weights))  # that are still trained
    looks: list[Tensor] = []
    lengths: list[int] = []
    last = LOOKS[-1] if at_most is None else min(at_most, LOOKS[-1])
    for before, after in pairwise((0, *(n for n in LOOKS if n < last), last)):
        for batch in drawn.batches(after - before, rows):  # (clones, BATCH)
            taken = _deal_noisy(batch, demos.clean.n_steps, generator) if dealt_anew else batch
            loss = head.nll(networks(inputs(batch)), actions[taken], "sum")
            optimiser.zero_grad()
            (loss / BATCH).backward()  # each clone's gradient is what it would be alone
            optimiser.step()
        looks.append(held.measure(networks, inputs, actions, rows))
        if on_progress is not None:
            on_progress(after, last)
        lengths.append(after)
        if exactly is not None or after < max(SURE, at_least):
            continue
        if _last_gain(looks, lengths) <= GAIN:
            break
        near = rows[_not_far_behind(looks).numpy()[rows]]
        if for_the_best and len(near) < len(rows):
            kept = np.isin(np.repeat(rows, len(of_clones)), near)
            networks, optimiser = _leave_behind(networks, optimiser, np.flatnonzero(kept))
            rows = near
    clean = actions[: demos.clean.n_steps]
    usual = head.usual(clean).expand(len(clean), -1)
    as_usual = float(head.nll(usual, clean, "mean")), float(head.error(usual, clean).mean())
    each = np.array([(n, t) for n in lengths for t in temperatures])
    tried = torch.cat(looks).numpy()  # (looks * temperatures, 2, R, G)
    if exactly is not None:
        found = [_as_found(tried[:, :, r], each, exactly, r) for r in range(len(weights))]
        nll, error = np.stack(found, 1)[:, :, folds.left_out]
        return CrossFitted(nll, error, exactly.updates, exactly.temperature)
    return _at_the_best(tried, each, folds, at_least, as_usual)


def _deal_noisy(batch: Tensor, n_clean: int, generator: torch.Generator) -> Tensor:
    """The same steps, noisy ones in another order among their places. (clones, BATCH)"""
    noisy = batch >= n_clean
    luck = torch.rand(batch.shape, generator=generator, dtype=torch.float64)
    places = noisy.logical_not().byte().argsort(dim=1, stable=True)  # those of noisy steps first
    order = torch.where(noisy, luck, 2.0).argsort(dim=1, stable=True)
    return torch.empty_like(batch).scatter_(1, places, batch.gather(1, order))


def _last_gain(looks: list[Tensor], lengths: list[int]) -> float:
    """What the second half of the updates has gained the weighting that gained most, in NLL, of
    those that may yet be the best."""
    nll = _nll_by_look(looks)
    early = sum(updates <= lengths[-1] / 2 for updates in lengths)
    gains = nll[:early].min(0).values - nll.min(0).values
    return float(gains[_not_far_behind(looks)].max())


def _not_far_behind(looks: list[Tensor]) -> Tensor:
    """Which weightings may yet be the best. (R,)"""
    best = _nll_by_look(looks).min(0).values
    return best <= best.min() + BEHIND


def _nll_by_look(looks: list[Tensor]) -> Tensor:
    """Mean over groups, by the best temperature. (looks, R)"""
    return torch.stack(looks)[:, :, 0].min(1).values.mean(2)


def _adam(networks: Ensemble) -> torch.optim.Adam:
    return torch.optim.Adam(
        networks.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
    )


def _leave_behind(
    networks: Ensemble, optimiser: torch.optim.Adam, kept: Array
) -> tuple[Ensemble, torch.optim.Adam]:
    """Those that are kept, and what Adam knows of them."""
    some = networks.only(kept.tolist())
    anew = _adam(some)
    for before, now in zip(networks.parameters(), some.parameters(), strict=True):
        known = optimiser.state[before]
        anew.state[now] = {
            name: value if name == "step" else value[kept].clone() for name, value in known.items()
        }
    return some, anew


def _as_found(tried: Array, each: Array, found: CrossFitted, row: int) -> Array:
    """NLL and error (2, G) of a weighting when it had been trained as long as was found to be best,
    or the next time that it was looked at. `tried`: (L, 2, G)"""
    by_temperature = np.flatnonzero(each[:, 1] == found.temperature[row])
    late = np.flatnonzero(each[by_temperature, 0] >= found.updates[row])
    return np.asarray(tried[by_temperature[late[0]]])


def _clones(of_each: int, rows: int, inputs: int, hidden: int, outputs: int) -> Ensemble:
    """Those of one weighting together, in the order of `of_clones`."""
    first = Ensemble(of_each, inputs, hidden, outputs)
    clones = Ensemble(rows * len(first), inputs, hidden, outputs)
    with torch.no_grad():
        for mine, same in zip(clones.parameters(), first.parameters(), strict=True):
            mine.copy_(same.repeat(rows, 1, 1))
    return clones


class _Draws:
    """Steps to learn from, drawn for each clone by what they weigh."""

    def __init__(
        self, folds: Folds, weights: Array, of_clones: Array, generator: torch.Generator
    ) -> None:
        self._generator, self._folds, self._of_clones = generator, folds, of_clones
        self._ladders = []
        for of_row in weights:
            of_folds = np.broadcast_to(of_row, folds.noisy.shape)
            for fold, noisy in enumerate(folds.noisy):
                clean = folds.of_group[folds.group_of_step] != fold
                weight = np.concatenate([clean.astype(float), of_folds[fold] * noisy])
                steps = np.flatnonzero(weight)
                ladder = torch.from_numpy(np.cumsum(weight[steps]))
                self._ladders.append((torch.from_numpy(steps), ladder))

    def batches(self, count: int, rows: Array) -> Tensor:
        """Of these weightings. (count, clones, BATCH)"""
        of_clones, n_folds = self._of_clones, len(self._folds)
        size = (len(of_clones), count, BATCH)
        luck = torch.rand(size, generator=self._generator, dtype=torch.float64)
        found = []
        for first in (rows * n_folds).tolist():  # of a weighting
            for fold, mine in zip(of_clones, luck, strict=True):
                steps, ladder = self._ladders[first + fold]
                at = torch.searchsorted(ladder, mine * ladder[-1], right=True)
                found.append(steps[at.clamp(max=len(steps) - 1)])
        return torch.stack(found, 1)


class _LeftOut:
    """The steps that clones are measured on."""

    def __init__(
        self,
        folds: Folds,
        rows: int,
        of_clones: Array,
        head: ActionHead,
        temperatures: tuple[float, ...] = (1.0,),
    ) -> None:
        self._rows, self._folds, self._head = rows, folds, head
        self._of_each = len(of_clones) // len(folds)
        self._temperatures = temperatures
        of_step = folds.of_group[folds.group_of_step]
        longest = int(np.bincount(of_step).max())
        steps = torch.zeros(len(folds), longest, dtype=torch.int64)
        groups = torch.full_like(steps, folds.n_groups)  # none: only filled up
        for fold in range(len(folds)):
            mine = torch.from_numpy(np.flatnonzero(of_step == fold))
            steps[fold, : len(mine)] = mine
            groups[fold, : len(mine)] = torch.from_numpy(folds.group_of_step)[mine]
        self._steps, self._groups = steps[of_clones], groups[of_clones]
        self._sizes = torch.from_numpy(np.bincount(folds.group_of_step))

    @torch.no_grad()
    def measure(
        self,
        clones: Ensemble,
        inputs: Callable[[Tensor], Tensor],
        actions: Tensor,
        rows: Array,
    ) -> Tensor:
        """NLL and error of each group under the clones that have not seen it, by each temperature;
        without end of weightings that are not among these `rows`. (temperatures, 2, R, G)"""
        n = len(self._temperatures)
        total = torch.zeros(n, 2, len(clones), self._folds.n_groups + 1, dtype=torch.float64)
        at_once = max(1, STEPS_AT_ONCE // len(clones))
        for steps, groups in zip(
            self._steps.split(at_once, 1), self._groups.split(at_once, 1), strict=True
        ):
            steps, groups = steps.repeat(len(rows), 1), groups.repeat(len(rows), 1)
            outputs, taken = clones(inputs(steps)), actions[steps]
            wrong = self._head.error(outputs, taken)
            for at, temperature in zip(total, self._temperatures, strict=True):
                nll = self._head.nll(outputs, taken, t=temperature)  # (clones, n)
                at[0].scatter_add_(1, groups, nll.double())
                at[1].scatter_add_(1, groups, wrong)
        by_group = total.view(n, 2, len(rows), -1, total.shape[3]).sum(3)[..., :-1]
        found = torch.full((n, 2, self._rows, by_group.shape[-1]), torch.inf, dtype=torch.float64)
        found[:, :, rows] = by_group / self._sizes / self._of_each
        return found


def _at_the_best(
    tried: Array, each: Array, folds: Folds, at_least: int, as_usual: tuple[float, float]
) -> CrossFitted:
    """Each fold as it was when the others were at their best.

    `tried`: (L, 2, R, G), after so many updates and by such a temperature as `each` says. (L, 2)
    """
    chosen = np.empty(tried.shape[1:])
    late = each[:, 0] >= min(at_least, each[-1, 0])

    def best(groups: Array) -> Array:
        """Where each weighting is best on these groups. (R,)"""
        nll = tried[:, 0][:, :, groups].mean(2)  # (L, R)
        of_late = np.where(late[:, None], nll, np.inf).argmin(0)
        rows = np.arange(nll.shape[1])
        error = tried[of_late, 1, rows][:, groups]  # (R, groups)
        surely = error.mean(1) - error.std(1) / np.sqrt(error.shape[1])
        hopeless = (nll[of_late, rows] > as_usual[0]) & (surely > as_usual[1])
        return np.where(hopeless, nll.argmin(0), of_late)

    for fold in range(len(folds)):
        mine = folds.of_group == fold
        others = (~mine if len(folds) > 2 else np.ones_like(mine)) & folds.left_out
        for row, at in enumerate(best(others)):
            chosen[:, row, mine] = tried[at][:, row, mine]
    some = folds.left_out
    updates, temperature = each[best(some)].T
    longer = np.where(
        updates >= min(at_least, each[-1, 0]), at_least, 0
    )  # than anyone trained here
    updates = np.maximum(updates, longer).astype(int)
    return CrossFitted(chosen[0][:, some], chosen[1][:, some], updates, temperature)
