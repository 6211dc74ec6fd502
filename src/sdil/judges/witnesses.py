"""Those who tell our judge's signals: networks that learn from all groups but those of a fold, so
that somebody judges each step who never saw its group, and some that learn from all.

What they say decides nothing yet: who is heard, and what it is worth, is found in `gathering.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from sdil.heads import ActionHead, Real, counts_actions
from sdil.judges.distance import coarse, learn_distance
from sdil.judges.doing import Doing
from sdil.judges.episodes import Episodes, Pace, count_rates
from sdil.judges.evidence import EPISODE_SIGNALS, OUTCOMES, REAL_OUTCOMES, Evidence
from sdil.judges.expected import Expected, learn_expected
from sdil.judges.hearing import Ground, above_dealt, of_gains, of_steps
from sdil.judges.integrity import Integrity, learn_integrity
from sdil.judges.learned_value import LearnedValue, learn_value
from sdil.judges.likelihood import WIDTHS, Clones, learn_clones
from sdil.judges.material import Material, Pools
from sdil.judges.progress import Progress
from sdil.judges.typical import Typical, learn_typical
from sdil.judges.value import RecordedGraph, Value
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import MEMBERS, Ensemble
from sdil.spaces import Array
from sdil.training import OptimiserFields, Stages

_DEALT = 16  # actions of other steps, where they are real numbers
_LOOKS, _FEWEST = 170, 60  # how often clones look at a clean step of real actions; updates
_MEASURING = 2  # networks of those that measure distances and expect outcomes


class GatheringFields(OptimiserFields, Protocol):
    """What `Judge` has among its fields."""

    @property
    def signals(self) -> str: ...
    @property
    def good_share(self) -> float | Literal["auto"]: ...
    @property
    def clone_updates(self) -> int: ...
    @property
    def distance_updates(self) -> int: ...
    @property
    def outcome_updates(self) -> int: ...
    @property
    def hidden(self) -> int: ...


class Witnesses:
    """Evidence in the making: of each fold one that never saw it, and one that has seen all."""

    def __init__(
        self,
        fields: GatheringFields,
        material: Material,
        head: ActionHead,
        stages: Stages,
        generator: torch.Generator,
        seed: int,
    ) -> None:
        self.fields, self.material, self.head = fields, material, head
        self.stages, self.generator, self.seed = stages, generator, seed
        self.asked = tuple(fields.signals.split("+"))
        windows = material.windows
        self.n_folds = material.n_folds
        self.actions = windows.actions_at(torch.arange(len(windows)))
        head.fit(self.actions[: material.n_train])
        n_inputs, self.n_counted = len(material.inputs), head.size if counts_actions(head) else 0
        self.real = isinstance(head, Real)
        """Whether actions are real numbers, all of them."""
        self.standardise = Standardise(n_inputs)
        self.standardise.fit(windows)
        self.doing = Doing(n_inputs, self.n_counted)
        if "doing" in self.asked:
            self.doing.learn(windows, material.n_clean)
        self.acts = ~self.doing.idles(windows, torch.arange(len(windows))).numpy()  # (N,)
        folds, hidden = self.n_folds, fields.hidden
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            self.clones, self.consensus = (
                Ensemble(folds + MEMBERS, n_inputs, hidden, head.size) for _ in range(2)
            )
            self.distance = Ensemble(coarse(folds) + _MEASURING, 2 * n_inputs, hidden, 2)
            self.outcomes = OUTCOMES if self.n_counted else REAL_OUTCOMES
            n = len(self.outcomes)
            sizes = (
                (n_inputs, hidden, n * self.n_counted)
                if self.n_counted
                else (n_inputs + head.encoded, hidden, n)
            )
            self.expected = Expected(Ensemble(folds + _MEASURING, *sizes), n)
            self.integrity = Integrity(Ensemble(1, 2 * n_inputs, hidden, head.size))
            self.learned: Ensemble | None = None
            if not self.n_counted:
                self.learned = Ensemble(coarse(folds) + _MEASURING, n_inputs, hidden, 1)
        self.values = False
        """Whether there is a learned value."""
        self._learn_to_clone_and_measure()
        self.views = [self._view(k) for k in [*range(self.n_folds), None]]
        """Of each fold, then the final one."""
        if "likelihood" in self.asked and not self.n_counted:
            self._choose_width()

    @property
    def final(self) -> Evidence:
        return self.views[-1]

    def _learn_to_clone_and_measure(self) -> None:
        if {"likelihood", "consensus"} & set(self.asked):
            pools = (self.material.learners(self._clean, MEMBERS),)
            self._clone("clone clean", self.clones, pools, self._clean_updates)
        if {"progress", "efficiency"} & set(self.asked):
            learn_distance(
                self.distance,
                self.material,
                self.standardise,
                _MEASURING,
                self.stages,
                self.generator,
                batch_size=self.fields.batch_size,
                updates=self.fields.distance_updates,
            )
        if "value" in self.asked and self.learned is not None:
            self.values = learn_value(
                self.learned,
                self.material,
                self.standardise,
                _MEASURING,
                self.stages,
                self.generator,
                batch_size=max(1, self.fields.batch_size // 2),
                updates=max(1, self.fields.distance_updates // 3),
            )

    def _view(self, fold: int | None) -> Evidence:
        """Evidence that never saw a fold, or that has seen all."""
        clones = [fold] if fold is not None else list(range(self.n_folds, self.n_folds + MEMBERS))
        measuring = clones if fold is not None else clones[:_MEASURING]
        count = coarse(self.n_folds)
        distances = [fold % count] if fold is not None else [count + i for i in range(_MEASURING)]
        n_rates = count_rates(self.head, len(self.material.inputs))
        idle = self.doing.idle
        ends = Progress.towards(self.material, self.standardise, fold, self.seed)
        return Evidence(
            self.head,
            self.standardise,
            self.doing,
            Clones(self.clones.only(clones), idle),
            Clones(self.consensus.only(clones), idle),
            self.distance.only(distances),
            ends,
            Value(torch.zeros(0, len(self.material.inputs)), torch.zeros(0, self.n_counted)),
            self.expected.only(measuring),
            Integrity(self.integrity.networks.only([0])),  # learned last, by the final one alone
            Pace(n_rates),
            Episodes(EPISODE_SIGNALS),
            None if self.learned is None else LearnedValue(self.learned.only(distances)),
        ).requires_grad_(False)

    def _clone(
        self, phase: str, networks: Ensemble, pools: tuple[Pools, ...], updates: int
    ) -> None:
        learn_clones(
            phase,
            networks,
            self.head,
            self.material.windows,
            self.standardise,
            pools,
            self.stages,
            self.generator,
            batch_size=self.fields.batch_size,
            updates=updates,
        )

    @property
    def _clean_updates(self) -> int:
        """How long clean steps are cloned: densities of a few of them are soon learned by heart."""
        updates = self.fields.clone_updates
        if self.n_counted:
            return updates
        enough = _LOOKS * self.material.n_clean // self.fields.batch_size
        return min(updates, max(enough, _FEWEST))

    def _choose_width(self) -> None:
        """As wide as predicts the actions of unseen clean groups best."""
        steps = self.material.reference
        if not len(steps):
            return

        def predicts(width: float) -> float:
            for view in self.views:
                view.clones.width.fill_(width)
            return float(self._rate("likelihood", steps, self.actions[steps][:, None]).mean())

        best = max(WIDTHS, key=predicts)
        for view in self.views:
            view.clones.width.fill_(best)

    def cross_fitted(self, tell: str, name: str) -> Array:
        """What those say of each step who never saw its group: `tell` of a signal, or its
        `outcome`. (N,)"""
        windows = self.material.windows
        if not self.n_folds:
            index = torch.arange(len(windows))
            return np.asarray(getattr(self.final, tell)(name, windows, index).numpy())
        found = np.full(len(windows), np.nan)
        for k, view in enumerate(self.views[:-1]):
            index = self.material.of_fold(k)
            found[index.numpy()] = getattr(view, tell)(name, windows, index).numpy()
        return found

    def ground(self, name: str, steps: Array) -> Ground:
        """Of a signal, on these clean reference steps: it should rate own actions above those of
        the same trajectory dealt out anew, or of that which it was cut out of; of real numbers
        above those of other steps."""
        trajectory, group = self.material.trajectory[steps], self.material.group[steps]
        if self.n_counted:
            every = torch.arange(self.n_counted).expand(len(steps), -1)
            table, taken = self._rate(name, steps, every), self.actions.numpy().astype(np.int64)
            whole = self.material.taken_in_whole(trajectory, taken, self.acts, self.n_counted)
            return of_steps(table, taken[steps], trajectory, group, whole)
        others = self.material.deal(steps, _DEALT, np.random.default_rng([self.seed, 23]))
        own, dealt = self.actions[steps][:, None], self.actions[others]
        table = self._rate(name, steps, torch.cat([own, dealt], 1))
        return of_gains(above_dealt(table[:, 0], table[:, 1:]), group)

    def _rate(self, name: str, steps: Array, actions: Tensor) -> Array:
        """What those say of actions (R, D, *action) who never saw the group of a step. (R, D)"""
        windows = self.material.windows
        table = np.zeros(actions.shape[:2])
        for k, mine in self._unseen(steps):
            index = torch.from_numpy(steps[mine])
            table[mine] = self.views[k].rate(name, windows, index, actions[mine]).numpy()
        return table

    def _unseen(self, steps: Array) -> Iterator[tuple[int, Array]]:
        """The number of each view, and the places of those of these steps (R,) that it judges,
        since it never saw them."""
        if not self.n_folds:
            yield 0, np.arange(len(steps))
        for k in range(self.n_folds):
            yield k, np.flatnonzero(self.material.fold[steps] == k)

    def expect_outcomes(self) -> tuple[dict[str, Array], set[str]]:
        """What came of each step (N,) by those that never saw its group, and of which signals it is
        now known what is to be expected."""
        windows, material = self.material.windows, self.material
        names = self.outcomes
        chosen = [n for n in names if n in self.asked and (n != "value" or self.values)]
        unknown = np.full(len(windows), np.nan)
        found = {n: self.cross_fitted("outcome", n) if n in chosen else unknown for n in names}
        final = {
            n: self.final.outcome(n, windows, torch.arange(len(windows))).numpy()
            if n in chosen
            else unknown
            for n in names
        }
        each = np.stack([found[n] for n in names], 1)  # (N, S)
        expects: set[str] = set()
        known = ~np.isnan(each[: material.n_train]).all(1) & self.acts[: material.n_train]
        folds = material.fold[: material.n_train][known]
        if known.any() and all((folds != k).any() for k in range(self.n_folds)):
            of_all = np.stack([final[n] for n in names], 1)
            learn_expected(
                self.expected,
                self.head,
                torch.from_numpy(np.stack([each] * self.n_folds + [of_all] * _MEASURING)),
                windows,
                self.standardise,
                self.material.learners(np.flatnonzero(known), _MEASURING),
                self.stages,
                self.generator,
                batch_size=max(1, self.fields.batch_size // 2),
                updates=self.fields.outcome_updates,
            )
            expects = {n for n in chosen if not np.isnan(found[n][: material.n_train]).all()}
            for k, view in enumerate(self.views):
                last = list(range(self.n_folds, self.n_folds + _MEASURING))
                view.expected = self.expected.only([k] if k < self.n_folds else last)
        return {n: found[n] for n in chosen}, expects

    def plan(self, *, by_distance: bool) -> bool:
        """The value of actions in the graph of recorded states, and past it by the distance that
        was learned; False where there is none."""
        material, windows = self.material, self.material.windows
        ended = windows.ended.numpy() & windows.has_next.numpy()
        ends = np.flatnonzero(ended[: material.n_clean])
        if not len(ends) or not self.n_counted:
            return False
        graph = RecordedGraph.of(windows, material.n_train, self.n_counted)
        several = graph.several
        if not len(several):
            return False
        for k, view in enumerate(self.views):
            mine = ends if k == self.n_folds else ends[material.fold[ends] != k]
            if not len(mine):
                continue
            to_go = view.to_go if by_distance else None
            advantage = graph.advantage(graph.numbers_after(windows, mine), to_go, material.unit)
            found = torch.from_numpy(advantage[several]).float()
            view.value = Value(graph.states[several], found)
        return True

    @property
    def _clean(self) -> Array:
        """Clean steps to clone: those that act, or all where a fold would be left with none."""
        acting = np.flatnonzero(self.acts[: self.material.n_clean])
        folds = self.material.fold[acting]
        enough = len(acting) and all((folds != k).any() for k in range(self.n_folds))
        return acting if enough else np.arange(self.material.n_clean)

    def _of_both(self, weights: Array) -> tuple[Pools, ...]:
        """Steps of both sets, noisy ones as often as `weights` (N,) say; none: too few act."""
        material = self.material
        noisy = np.flatnonzero(self.acts[: material.n_train])
        noisy = noisy[noisy >= material.n_clean]
        folds = material.fold[noisy]
        if not len(noisy) or not all((folds != k).any() for k in range(self.n_folds)):
            return ()
        drawn = torch.from_numpy(np.where(self.acts, weights, 0.0))
        return material.learners(self._clean, MEMBERS), material.learners(noisy, MEMBERS, drawn)

    def clone_both(self, weights: Array, updates: int) -> bool:
        """Clones of both sets, noisy steps as often as `weights` (N,) say; False: too few act.
        Asked again, they go on from what they have learned."""
        pools = self._of_both(weights)
        if not pools:
            return False
        self._clone("clone both", self.consensus, pools, updates)
        for k, view in enumerate(self.views):
            last = list(range(self.n_folds, self.n_folds + MEMBERS))
            some = [k] if k < self.n_folds else last
            view.consensus = Clones(self.consensus.only(some), self.doing.idle)
            if not self.n_counted:
                view.consensus.width.copy_(view.clones.width)
        return True

    def find_typical(self, weights: Array) -> bool:
        """What those usually do whose steps look right, noisy ones as often as `weights` (N,) say;
        False: too few act."""
        pools, steps = self._of_both(weights), self.material.reference
        if not pools or not len(steps):
            return False
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=self.generator)))
            sizes = len(self.material.inputs), self.fields.hidden, self.head.encoded
            networks = Ensemble(self.n_folds + MEMBERS, *sizes)
        learn_typical(
            networks,
            self.head,
            self.material.windows,
            self.standardise,
            pools,
            self.stages,
            self.generator,
            batch_size=self.fields.batch_size,
            updates=self.fields.clone_updates,
        )
        every = Typical(networks, self.head.encoded)
        last = list(range(self.n_folds, self.n_folds + MEMBERS))
        each = [every.only([k] if k < self.n_folds else last) for k in range(len(self.views))]
        apart = np.zeros((len(steps), self.head.encoded))
        for k, mine in self._unseen(steps):
            states = self.standardise(self.material.windows.at(torch.from_numpy(steps[mine])).state)
            encoded = self.head.encode(self.actions[steps[mine]])[:, None].to(states.dtype)
            with torch.no_grad():
                apart[mine] = each[k].apart(states, encoded)[:, 0].double().numpy()
        for view, typical in zip(self.views, each, strict=True):
            typical.scale_as(apart)
            view.typical = typical.requires_grad_(False)
        return True

    def check_integrity(self) -> None:
        """Whether states follow from actions, by a network of the final evidence alone."""
        windows = self.material.windows
        known = np.flatnonzero(windows.has_next.numpy()[: self.material.n_train])
        if len(known):
            learn_integrity(
                self.integrity,
                self.head,
                windows,
                self.standardise,
                Pools([torch.from_numpy(known)]),
                self.stages,
                self.generator,
                batch_size=max(1, self.fields.batch_size // 2),
                updates=self.fields.outcome_updates,
            )
        self.final.integrity = self.integrity
