"""How our judge comes by its evidence: it learns the signals, decides which are heard, and weighs
them. What it has then is in `evidence.py`."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
import torch

from sdil.judges.distance import coarse, learn_distance
from sdil.judges.doing import Doing
from sdil.judges.episodes import Episodes, Pace, cross_fit_pace
from sdil.judges.evidence import (
    EPISODE_SIGNALS,
    OUTCOMES,
    STEP_SIGNALS,
    Evidence,
)
from sdil.judges.expected import Expected, learn_expected
from sdil.judges.hearing import (
    AGREES,
    APART,
    STEP_LEVEL,
    Ground,
    agreement_with_others,
    chance_of_gain,
    of_steps,
    separation,
)
from sdil.judges.integrity import Integrity, learn_integrity
from sdil.judges.joining import (
    bin_middles,
    estimate_good_share,
    weigh_signals,
    worth,
)
from sdil.judges.likelihood import Clones, learn_clones
from sdil.judges.material import Material, Pools
from sdil.judges.progress import Progress
from sdil.judges.value import RecordedGraph, Value
from sdil.judging import GoodShare
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import MEMBERS, Ensemble
from sdil.spaces import Array
from sdil.training import OptimiserFields, Stages

_MEASURING = 2  # networks of those that measure distances and expect outcomes
_IDLING = 0.3  # a step that idles is worth what this share of acting ones are under
_WAITING = 0.1  # and this share where it is asked how well an episode went: waiting gets nowhere
_ODD = 5.0  # robust standard deviations under the others


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


class Gathering:
    """Evidence in the making: of each fold one that never saw it, and one that has seen all."""

    def __init__(
        self,
        fields: GatheringFields,
        material: Material,
        n_actions: int,
        stages: Stages,
        generator: torch.Generator,
        seed: int,
    ) -> None:
        self.fields, self.material, self.n_actions = fields, material, n_actions
        self.stages, self.generator, self.seed = stages, generator, seed
        self.asked = tuple(fields.signals.split("+"))
        windows = material.windows
        self.n_folds = material.n_folds
        self.actions = windows.actions_at(torch.arange(len(windows))).long().numpy()
        n_inputs = len(material.inputs)
        self.standardise = Standardise(n_inputs)
        self.standardise.fit(windows)
        self.doing = Doing(n_inputs, n_actions)
        if "doing" in self.asked:
            self.doing.learn(windows, material.n_clean)
        self.acts = ~self.doing.idle.numpy()[self.actions]  # (N,)
        folds, hidden = self.n_folds, fields.hidden
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            self.clones, self.consensus = (
                Ensemble(folds + MEMBERS, n_inputs, hidden, n_actions) for _ in range(2)
            )
            self.distance = Ensemble(coarse(folds) + _MEASURING, 2 * n_inputs, hidden, 2)
            outputs = len(OUTCOMES) * n_actions
            self.expected = Expected(
                Ensemble(folds + _MEASURING, n_inputs, hidden, outputs), len(OUTCOMES)
            )
            self.integrity = Integrity(Ensemble(1, 2 * n_inputs, hidden, n_actions))
        self.views: list[Evidence] = []  # of each fold, then the final one
        self.grounds: dict[str, Ground] = {}
        self.heard: list[str] = []
        self._weighed: tuple[list[str], Array, GoodShare] | None = None
        self.told: dict[str, Array] = {}  # by those that never saw a step's group (N,)
        self.expects: set[str] = set()  # outcomes that were seen, and so are learned to expect

    def run(self) -> tuple[Evidence, dict[str, str]]:
        """What was found, and the clean groups that look odd."""
        if {"likelihood", "consensus"} & set(self.asked):
            self._clone("clone clean", self.clones, (self.material.learners(self._clean, MEMBERS),))
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
        self.views = [self._view(k) for k in [*range(self.n_folds), None]]
        final = self.views[-1]
        outcomes = self._expect_outcomes()
        for name in ("likelihood", *OUTCOMES):
            if name in self.asked and (name == "likelihood" or name in self.expects):
                self._hear(name)
        if "value" in self.asked and self._plan():
            self._hear("value")
        self._refuse_strangers()
        if "consensus" in self.asked and self.heard:
            self._find_consensus()
        self._join(final)
        odd = self._odd_ones()
        self._judge_episodes(final, outcomes)
        self._check_integrity(final)
        return final, odd

    def _view(self, fold: int | None) -> Evidence:
        """Evidence that never saw a fold, or that has seen all."""
        clones = [fold] if fold is not None else list(range(self.n_folds, self.n_folds + MEMBERS))
        measuring = clones if fold is not None else clones[:_MEASURING]
        count = coarse(self.n_folds)
        distances = [fold % count] if fold is not None else [count + i for i in range(_MEASURING)]
        n_rates = self.n_actions + len(self.material.inputs)
        idle = self.doing.idle
        ends = Progress.towards(self.material, self.standardise, fold, self.seed)
        return Evidence(
            self.standardise,
            self.doing,
            Clones(self.clones.only(clones), idle),
            Clones(self.consensus.only(clones), idle),
            self.distance.only(distances),
            ends,
            Value(torch.zeros(0, len(self.material.inputs)), torch.zeros(0, self.n_actions)),
            self.expected.only(measuring),
            Integrity(self.integrity.networks.only([0])),  # learned last, by the final one alone
            Pace(n_rates),
            Episodes(EPISODE_SIGNALS),
        ).requires_grad_(False)

    def _clone(self, phase: str, networks: Ensemble, pools: tuple[Pools, ...]) -> None:
        learn_clones(
            phase,
            networks,
            self.material.windows,
            self.standardise,
            pools,
            self.stages,
            self.generator,
            batch_size=self.fields.batch_size,
            updates=self.fields.clone_updates,
        )

    def _cross_fitted(self, tell: str, name: str) -> Array:
        """What those say of each step who never saw its group. (N,)"""
        windows = self.material.windows
        if not self.n_folds:
            index = torch.arange(len(windows))
            return np.asarray(getattr(self.views[-1], tell)(name, windows, index).numpy())
        found = np.full(len(windows), np.nan)
        for k, view in enumerate(self.views[:-1]):
            index = self.material.of_fold(k)
            found[index.numpy()] = getattr(view, tell)(name, windows, index).numpy()
        return found

    def _expect_outcomes(self) -> dict[str, Array]:
        """What came of each step by those that never saw its group, and what is to be expected."""
        windows, material = self.material.windows, self.material
        chosen = [name for name in OUTCOMES if name in self.asked]
        unknown = np.full(len(windows), np.nan)
        found = {n: self._cross_fitted("outcome", n) if n in chosen else unknown for n in OUTCOMES}
        final = {
            n: self.views[-1].outcome(n, windows, torch.arange(len(windows))).numpy()
            if n in chosen
            else unknown
            for n in OUTCOMES
        }
        each = np.stack([found[n] for n in OUTCOMES], 1)  # (N, S)
        known = ~np.isnan(each[: material.n_train]).all(1) & self.acts[: material.n_train]
        folds = material.fold[: material.n_train][known]
        if known.any() and all((folds != k).any() for k in range(self.n_folds)):
            of_all = np.stack([final[n] for n in OUTCOMES], 1)
            learn_expected(
                self.expected,
                torch.from_numpy(np.stack([each] * self.n_folds + [of_all] * _MEASURING)),
                windows,
                self.standardise,
                self.material.learners(np.flatnonzero(known), _MEASURING),
                self.stages,
                self.generator,
                batch_size=max(1, self.fields.batch_size // 2),
                updates=self.fields.outcome_updates,
            )
            self.expects = {n for n in chosen if not np.isnan(found[n][: material.n_train]).all()}
            for k, view in enumerate(self.views):
                last = list(range(self.n_folds, self.n_folds + _MEASURING))
                view.expected = self.expected.only([k] if k < self.n_folds else last)
        return {n: found[n] for n in chosen}

    def _hear(self, name: str, *, needs: bool = True) -> None:
        """Test a step signal on clean groups that it never saw."""
        self.told[name] = self._cross_fitted("tell", name)
        reference = self.material.reference
        if not len(reference) or np.isnan(self.told[name]).all():
            return
        windows, table = self.material.windows, np.zeros((len(reference), self.n_actions))
        for k, view in enumerate(self.views):
            final = k == self.n_folds
            if final and self.n_folds:
                break
            mine = np.ones(len(reference), bool) if final else self.material.fold[reference] == k
            index = torch.from_numpy(reference[mine])
            table[mine] = view.table(name, windows, index).numpy()
        acting = self.acts[reference]
        steps = reference[acting]
        self.grounds[name] = of_steps(
            table[acting],
            self.actions[steps],
            self.material.trajectory[steps],
            self.material.group[steps],
        )
        known = not np.isnan(self.told[name][self.material.noisy]).all()
        if known and needs and self.grounds[name].heard(STEP_LEVEL):
            self.heard.append(name)

    def _plan(self) -> bool:
        """The value of actions in the graph of recorded states; False where there is none."""
        material, windows = self.material, self.material.windows
        ended = windows.ended.numpy() & windows.has_next.numpy()
        ends = np.flatnonzero(ended[: material.n_clean])
        if not len(ends):
            return False
        graph = RecordedGraph.of(windows, material.n_train, self.n_actions)
        several = graph.several
        if not len(several):
            return False
        for k, view in enumerate(self.views):
            mine = ends if k == self.n_folds else ends[material.fold[ends] != k]
            if not len(mine):
                continue
            to_go = view.to_go if "progress" in self.heard else None
            advantage = graph.advantage(graph.numbers_after(windows, mine), to_go, material.unit)
            found = torch.from_numpy(advantage[several]).float()
            view.value = Value(graph.states[several], found)
        return True

    def _refuse_strangers(self) -> None:
        """A signal that neither rates clean steps above noisy ones nor agrees with the others on
        noisy ones is about something else: whoever goes straight to a wrong place is efficient."""
        clean, noisy = self._acting
        while len(self.heard) > 1:
            agreement = {
                name: agreement_with_others(name, {n: self.told[n][noisy] for n in self.heard})
                for name in self.heard
                if name != "likelihood"
                and separation(self.told[name][clean], self.told[name][noisy]) < APART
            }
            stranger = min(agreement, key=lambda name: agreement[name], default=None)
            if stranger is None or agreement[stranger] >= AGREES:
                return
            self.heard.remove(stranger)
            self.views[-1].strangers[STEP_SIGNALS.index(stranger)] = True

    def _find_consensus(self) -> None:
        """Clones of both sets, noisy steps by what is thought of them by now."""
        material = self.material
        totals, share = self._weigh()
        p = 1.0 / (1.0 + np.exp(-(share.odds[0] + totals)))
        weights = torch.from_numpy(np.where(self.acts, np.nan_to_num(p) ** 2, 0.0))
        noisy = np.flatnonzero(self.acts[: material.n_train])
        noisy = noisy[noisy >= material.n_clean]
        folds = material.fold[noisy]
        if not len(noisy) or not all((folds != k).any() for k in range(self.n_folds)):
            return
        pools = (
            self.material.learners(self._clean, MEMBERS),
            material.learners(noisy, MEMBERS, weights),
        )
        self._clone("clone both", self.consensus, pools)
        for k, view in enumerate(self.views):
            last = list(range(self.n_folds, self.n_folds + MEMBERS))
            some = [k] if k < self.n_folds else last
            view.consensus = Clones(self.consensus.only(some), self.doing.idle)
        alone = self.told.get("likelihood")
        self._hear("consensus", needs=alone is None)
        if alone is None:
            return
        steps = material.reference[self.acts[material.reference]]
        gain = self.told["consensus"][steps] - alone[steps]
        agrees = chance_of_gain(gain, material.group[steps]) < STEP_LEVEL
        if agrees and self.grounds["consensus"].heard(STEP_LEVEL):  # one witness, not two
            self.heard = ["consensus", *(name for name in self.heard if name != "likelihood")]

    def _weigh(self) -> tuple[Array, GoodShare]:
        """Joined log-odds of every step by those that never saw its group, 0 where it idles, and
        the share of good ones."""
        if self._weighed is not None and self._weighed[0] == self.heard:
            return self._weighed[1:]
        fixed = self.fields.good_share
        first = 0.5 if fixed == "auto" else fixed
        totals = self._joined(first)[0]
        if fixed != "auto":
            return self._keep(totals, GoodShare(fixed, fixed, fixed))
        clean, noisy = self._acting
        share = estimate_good_share(
            totals[clean],
            self.material.group[clean],
            totals[noisy],
            self.material.group[noisy],
            seed=self.seed,
        )
        point = float(np.clip(share.point, 0.02, 0.98))
        return self._keep(self._joined(point)[0], share)

    def _keep(self, totals: Array, share: GoodShare) -> tuple[Array, GoodShare]:
        self._weighed = list(self.heard), totals, share
        return totals, share

    @property
    def _clean(self) -> Array:
        """Clean steps to clone: those that act, or all where a fold would be left with none."""
        acting = np.flatnonzero(self.acts[: self.material.n_clean])
        folds = self.material.fold[acting]
        enough = len(acting) and all((folds != k).any() for k in range(self.n_folds))
        return acting if enough else np.arange(self.material.n_clean)

    @property
    def _acting(self) -> tuple[Array, Array]:
        """Clean reference steps and noisy ones that act."""
        clean, noisy = self.material.reference, self.material.noisy
        return clean[self.acts[clean]], noisy[self.acts[noisy]]

    def _joined(self, good_share: float) -> tuple[Array, list[Array]]:
        clean, noisy = self._acting
        signals = [self.told[name] for name in self.heard]
        log_odds = weigh_signals(
            [s[clean] for s in signals], [s[noisy] for s in signals], good_share
        )
        total = np.zeros(len(self.actions))
        for signal, odds in zip(signals, log_odds, strict=True):
            total += worth(signal, bin_middles(signal[noisy]), odds)
        return total, log_odds

    def _join(self, final: Evidence) -> None:
        """What values of the final networks are worth: as much as those that stand as high among
        noisy steps by networks that never saw them."""
        for name, ground in self.grounds.items():
            row = torch.tensor([ground.figure, ground.chance, ground.groups], dtype=torch.float64)
            final.step_grounds[STEP_SIGNALS.index(name)] = row
        noisy = self._acting[1]
        if not self.heard or not len(noisy):
            return
        _, share = self._weigh()
        found = torch.tensor([share.point, share.low, share.high], dtype=torch.float64)
        final.good_share.copy_(found)
        point = float(np.clip(share.point, 0.02, 0.98))
        _, log_odds = self._joined(point)
        total = np.zeros(len(noisy))
        for name, odds in zip(self.heard, log_odds, strict=True):
            signal = final.tell(name, self.material.windows, torch.from_numpy(noisy)).numpy()
            i = STEP_SIGNALS.index(name)
            final.middles[i] = torch.from_numpy(bin_middles(signal))
            final.log_odds[i] = torch.from_numpy(odds)
            total += final.worth(name, signal)
        final.idling.copy_(torch.from_numpy(np.quantile(total, [_IDLING, _WAITING])))
        final.caps.copy_(self.doing.idle.any())

    def _odd_ones(self) -> dict[str, str]:
        """Clean groups that are rated far under the others."""
        clean = self._acting[0]
        if not self.heard or not self.n_folds:
            return {}
        total = self._weigh()[0][clean]
        groups, place = np.unique(self.material.group[clean], return_inverse=True)
        mean = np.bincount(place, total) / np.bincount(place)
        middle = np.median(mean)
        spread = 1.4826 * np.median(np.abs(mean - middle)) + 0.1
        return {
            self.material.names[g].removeprefix("clean:"): (
                f"its steps are rated {value:+.1f} in log-odds, the others' {middle:+.1f}"
            )
            for g, value in zip(groups, mean, strict=True)
            if value < middle - _ODD * spread
        }

    def _judge_episodes(self, final: Evidence, outcomes: dict[str, Array]) -> None:
        told = dict(outcomes)
        if "doing" in self.asked:
            told["doing"] = self._cross_fitted("outcome", "doing")
        if "likelihood" in self.asked:
            told["likelihood"] = self.told["likelihood"]
        if "steps" in self.asked and self.heard:
            index = torch.arange(len(self.actions))
            settle = final.settling(self.material.windows, index, waiting=True)
            told["steps"] = settle(self._weigh()[0])
        if "pace" in self.asked:
            final.pace, told["pace"] = cross_fit_pace(self.material, self.n_actions)
        if not len(self.material.reference):
            return
        for name, ground in final.episodes.learn(told, self.material).items():
            row = torch.tensor([ground.figure, ground.chance, ground.groups], dtype=torch.float64)
            final.episode_grounds[EPISODE_SIGNALS.index(name)] = row

    def _check_integrity(self, final: Evidence) -> None:
        windows = self.material.windows
        known = np.flatnonzero(windows.has_next.numpy()[: self.material.n_train])
        if len(known):
            learn_integrity(
                self.integrity,
                windows,
                self.standardise,
                Pools([torch.from_numpy(known)]),
                self.stages,
                self.generator,
                batch_size=max(1, self.fields.batch_size // 2),
                updates=self.fields.outcome_updates,
            )
        final.integrity = self.integrity
