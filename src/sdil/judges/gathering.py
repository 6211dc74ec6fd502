"""How our judge comes by its evidence: it listens to its witnesses, decides which signals are heard
and what they are worth, and who looks odd. What it has then is in `evidence.py`."""

from __future__ import annotations

import numpy as np
import torch

from sdil.demonstrations import Demonstrations
from sdil.heads import ActionHead
from sdil.judges.doing import IDLING, WAITING
from sdil.judges.episodes import cross_fit_pace
from sdil.judges.evidence import EPISODE_SIGNALS, STEP_SIGNALS, Evidence
from sdil.judges.hearing import (
    AGREES,
    APART,
    MANY,
    OF_TIME,
    PLENTY,
    UNANCHORED,
    UNHARMED,
    Ground,
    agreement_with_others,
    chance_of_gain,
    separation,
    standing,
    step_level,
    without_kin,
)
from sdil.judges.joining import (
    bin_middles,
    estimate_good_share,
    how_far_apart_beside,
    how_far_kin_apart,
    weigh_signals,
    worth,
)
from sdil.judges.material import Material
from sdil.judges.neighbours import find_persistence
from sdil.judges.telling import Gathered, look_at
from sdil.judges.typical import SURE
from sdil.judges.witnesses import GatheringFields, Witnesses
from sdil.judging import CrossJudged, GoodShare
from sdil.labels import episodes_of
from sdil.spaces import Array
from sdil.training import Stages

_FAR_UNDER = 5.0  # robust standard deviations under the others


class Gathering:
    """Who is heard, and what it is worth."""

    def __init__(
        self,
        fields: GatheringFields,
        material: Material,
        head: ActionHead,
        stages: Stages,
        generator: torch.Generator,
        seed: int,
    ) -> None:
        self.good_share, self.material, self.seed = fields.good_share, material, seed
        self.asked = tuple(fields.signals.split("+"))
        self.witnesses = Witnesses(fields, material, head, stages, generator, seed)
        self.final, self.acts = self.witnesses.final, self.witnesses.acts
        self.grounds: dict[str, Ground] = {}
        self.heard: list[str] = []
        self.told: dict[str, Array] = {}  # by those that never saw a step's group (N,)
        self._weighed: tuple[list[str], Array, GoodShare] | None = None

    def run(self) -> tuple[Evidence, dict[str, str]]:
        """What was found, and the clean groups that look odd."""
        outcomes, expected = self.witnesses.expect_outcomes()
        for name in ("likelihood", *self.witnesses.outcomes):
            if name in self.asked and (name == "likelihood" or name in expected):
                self._hear(name)
        if "value" in self.asked and self.witnesses.plan(by_distance="progress" in self.heard):
            self._hear("value")
        self._refuse_strangers()
        if "consensus" in self.asked and self.heard:
            self._find_consensus()
        if "typical" in self.asked and "consensus" in self.heard and self.witnesses.real:
            self._find_typical()
        self._join()
        odd = self._judge_episodes(outcomes) | self._odd_by_steps()
        self.witnesses.check_integrity()
        return self.final, odd

    def _hear(self, name: str, *, needs: bool = True) -> None:
        """Test a step signal on clean groups that it never saw."""
        self.told[name] = self.witnesses.cross_fitted("tell", name)
        reference = self.material.reference
        if not len(reference) or np.isnan(self.told[name]).all():
            return
        self.grounds[name] = self.witnesses.ground(name, reference[self.acts[reference]])
        known = not np.isnan(self.told[name][self.material.noisy]).all()
        if known and needs and self._passes(name):
            self.heard.append(name)

    def _passes(self, name: str) -> bool:
        ground = self.grounds[name]
        return ground.heard(step_level(name, ground.groups, beside=bool(self.heard)))

    def _refuse_strangers(self) -> None:
        """A signal that neither rates clean steps above noisy ones nor agrees with the others on
        noisy ones is about something else: whoever goes straight to a wrong place is efficient, and
        where demonstrations end may be nowhere in particular. Of a signal that knows the aim only
        plenty of clean groups can say so; of few, agreement alone does not speak for one that does
        not, where others are heard that do. Where actions are real numbers, signals that know the
        aim are all learned from the same time that passed: they are held against the likelihood, be
        the clean groups few or many."""
        clean, noisy = self._acting
        groups = len(np.unique(self.material.group[clean]))
        learned = not self.witnesses.n_counted
        while len(self.heard) > 1:
            told = {n: self.told[n][noisy] for n in self.heard}
            agreement = {
                name: agreement_with_others(name, without_kin(name, told) if learned else told)
                for name in self.heard
                if name in UNANCHORED or (name != "likelihood" and (groups >= PLENTY or learned))
                if separation(self.told[name][clean], told[name]) < APART
            }
            stranger = min(agreement, key=lambda name: agreement[name], default=None)
            aimed = groups < MANY and bool({"progress", "value"} & set(self.heard))
            aimed &= stranger in UNANCHORED
            if stranger is None or (agreement[stranger] >= AGREES and not aimed):
                return
            self.heard.remove(stranger)
            self.final.strangers[STEP_SIGNALS.index(stranger)] = True

    def _find_consensus(self) -> None:
        """Clones of both sets, noisy steps by what is thought of them by now; of real actions twice
        over, the second time by what the first clones changed in that."""
        counted = bool(self.witnesses.n_counted)
        first = list(self.heard)
        for updates in self._cloning(counted):
            if not self.witnesses.clone_both(self._good_by_now() ** 2, updates):
                return
            self.heard, self._weighed = list(first), None
            self._hear_consensus(UNHARMED if not counted else None)

    def _good_by_now(self) -> Array:
        """How probably each step is good, by those that never saw its group. (N,)"""
        totals, share = self._weigh()
        return np.nan_to_num(1.0 / (1.0 + np.exp(-(share.odds[0] + totals))))

    def _find_typical(self) -> None:
        """What those usually do whose steps surely look right by now. Like consensus it is learned
        of both sets, so where that is refused this is, too. Where there are several ways the mean
        of them is none, and where few steps look right it is one of wrong ones: it is heard where
        those who do not clone, but know how long things took, agree with it no less than they do
        with consensus."""
        if not self.witnesses.find_typical(self._good_by_now() ** SURE):
            return
        self._hear("typical")
        told = {n: self.told[n][self._acting[1]] for n in self.heard}
        others = {n: told[n] for n in told if n in OF_TIME}
        if "typical" in told and not (
            others
            and agreement_with_others("typical", {"typical": told["typical"], **others})
            >= agreement_with_others("consensus", {"consensus": told["consensus"], **others})
        ):
            self.heard.remove("typical")

    def _cloning(self, counted: bool) -> tuple[int, ...]:
        updates = self.witnesses.fields.clone_updates
        return (updates,) if counted else (updates, max(1, updates // 4))

    def _hear_consensus(self, level: float | None) -> None:
        """Heard where it predicts unseen clean groups better than likelihood alone does."""
        material, alone = self.material, self.told.get("likelihood")
        self._hear("consensus", needs=alone is None)
        if alone is None or "consensus" not in self.grounds:
            return
        steps = material.reference[self.acts[material.reference]]
        gain = self.told["consensus"][steps] - alone[steps]
        level = level or step_level("consensus", self.grounds["consensus"].groups)
        agrees = chance_of_gain(gain, material.group[steps]) < level
        if agrees and self._passes("consensus"):  # one witness, not two
            self.heard = ["consensus", *(name for name in self.heard if name != "likelihood")]

    def _weigh(self) -> tuple[Array, GoodShare]:
        """Joined log-odds of every step by those that never saw its group, and of the steps beside
        it, 0 where it idles; and the share of good ones."""
        if self._weighed is not None and self._weighed[0] == self.heard:
            return self._weighed[1:]
        material, fixed = self.material, self.good_share
        said = self._joined(0.5 if fixed == "auto" else fixed)[0]
        totals = said.sum(0)
        clean, noisy = self._acting
        if fixed != "auto":
            share = GoodShare(fixed, fixed, fixed)
        else:
            share = estimate_good_share(
                totals[clean],
                material.group[clean],
                totals[noisy],
                material.group[noisy],
                seed=self.seed,
            )
            said = self._joined(share.partial)[0]
            totals = said.sum(0)
        point = [share.point, share.low, share.high]
        self.final.good_share.copy_(torch.tensor(point, dtype=torch.float64))
        found = find_persistence(totals[noisy], material.trajectory[noisy], share.partial)
        self.final.persistence.fill_(found)
        self.final.trust.fill_(1.0)
        if not self.witnesses.n_counted:
            self.final.trust.fill_(self._trust(said))
        totals = self.final.with_neighbours(material.windows, torch.arange(len(totals)), totals)
        self._weighed = list(self.heard), totals, share
        return totals, share

    @property
    def _acting(self) -> tuple[Array, Array]:
        """Clean reference steps and noisy ones that act."""
        clean, noisy = self.material.reference, self.material.noisy
        return clean[self.acts[clean]], noisy[self.acts[noisy]]

    def _trust(self, said: Array) -> float:
        """How much what is said counts, by what signals and neighbours repeat of clean steps."""
        clean, windows = self._acting[0], self.material.windows
        steps = torch.from_numpy(clean)
        return how_far_apart_beside(
            said[:, clean],
            lambda total: self.final.with_neighbours(windows, steps, total),
            seed=self.seed,
        )

    def _joined(self, good_share: float) -> tuple[Array, list[Array]]:
        """What each heard signal says of every step (S, N), in log-odds, and of its bins."""
        clean, noisy = self._acting
        signals = [self.told[name] for name in self.heard]
        log_odds = weigh_signals(
            [s[clean] for s in signals], [s[noisy] for s in signals], good_share
        )
        middles = [bin_middles(signal[noisy]) for signal in signals]

        def say(log_odds: list[Array]) -> Array:
            each = [worth(*of) for of in zip(signals, middles, log_odds, strict=True)]
            return np.array(each).reshape(len(each), len(self.acts))

        said = say(log_odds)
        if self.witnesses.real:
            learned_from_time = np.isin(self.heard, OF_TIME)  # the others clone
            once = how_far_kin_apart(learned_from_time, said[:, clean])
            log_odds = [odds * part for odds, part in zip(log_odds, once, strict=True)]
            said = say(log_odds)
        return said, log_odds

    def _join(self) -> None:
        """What values of the final networks are worth: as much as those that stand as high among
        noisy steps by networks that never saw them."""
        for name, ground in self.grounds.items():
            row = torch.tensor([ground.figure, ground.chance, ground.groups], dtype=torch.float64)
            self.final.step_grounds[STEP_SIGNALS.index(name)] = row
        noisy = self._acting[1]
        if not self.heard or not len(noisy):
            return
        _, share = self._weigh()
        _, log_odds = self._joined(share.partial)
        total = np.zeros(len(noisy))
        for name, odds in zip(self.heard, log_odds, strict=True):
            signal = self.final.tell(name, self.material.windows, torch.from_numpy(noisy)).numpy()
            i = STEP_SIGNALS.index(name)
            self.final.middles[i] = torch.from_numpy(bin_middles(signal))
            self.final.log_odds[i] = torch.from_numpy(odds)
            total += self.final.worth(name, signal)
        self.final.idling.copy_(torch.from_numpy(np.quantile(total, [IDLING, WAITING])))
        self.final.caps.copy_(self.final.doing.idle.any())

    def cross_judged(self, demos: Demonstrations) -> CrossJudged | None:
        """How probably each noisy step is good by those that never saw a fold of the clean groups;
        None where there are no folds, or no step signal is heard."""
        material, noisy = self.material, self.material.noisy
        if not self.heard or not len(noisy) or not material.n_folds:
            return None
        index, acts = torch.from_numpy(noisy), self.acts[noisy]
        settle, prior = self.final.settling(material.windows, index), self._weigh()[1].odds[0]
        found = []
        for view in self.witnesses.views[:-1]:
            total = np.zeros(len(noisy))
            for name in self.heard:
                signal = view.tell(name, material.windows, index).numpy()
                odds = self.final.log_odds[STEP_SIGNALS.index(name)].numpy()
                total += worth(signal, bin_middles(signal[acts]), odds)
            total = self.final.with_neighbours(material.windows, index, total)
            found.append(1.0 / (1.0 + np.exp(-(prior + settle(total)))))
        first = np.cumsum(demos.clean.lengths) - demos.clean.lengths
        unseen = torch.from_numpy(material.reference)
        clean = self.final.settling(material.windows, unseen)(self._weigh()[0][material.reference])
        return CrossJudged(
            np.array(found, np.float16),
            material.fold[first],
            demos.fingerprint(rewards=False),
            (1.0 / (1.0 + np.exp(-(prior + clean)))).astype(np.float16),
        )

    def gathered(self, demos: Demonstrations) -> Gathered | None:
        """How steps are seen, kept for when people label some; None: nobody said anything."""
        material, noisy = self.material, self._acting[1]
        steps = np.concatenate([material.reference, material.noisy])
        names = [n for n in self.told if len(noisy) and not np.isnan(self.told[n][noisy]).all()]
        if not names:
            return None
        told = {name: self.told[name] for name in names}
        n_clean = len(material.reference)
        looks, seen = look_at(self.final, material.windows, told, steps, n_clean)
        rows = [STEP_SIGNALS.index(n) for n in names]
        return Gathered(
            log_odds=self.final.log_odds[rows].numpy().copy(),
            share=self.final.share(),
            idling=self.final.idling.numpy().copy(),
            acts=self.acts[steps],
            n_clean=n_clean,
            place=np.where(steps < material.n_train, steps, -1),
            episodes=episodes_of(demos),
            looks=looks,
            seen=seen,
        )

    def _odd_by_steps(self) -> dict[str, str]:
        """Clean groups that are rated far under the others."""
        clean = self._acting[0]
        if not self.heard or not self.material.n_folds:
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
            if value < middle - _FAR_UNDER * spread
        }

    def _judge_episodes(self, outcomes: dict[str, Array]) -> dict[str, str]:
        """Also the clean groups that went as badly as the worst noisy ones."""
        told = {n: found for n, found in outcomes.items() if n in EPISODE_SIGNALS}
        material = self.material
        if "doing" in self.asked:
            told["doing"] = self.witnesses.cross_fitted("outcome", "doing")
        if "likelihood" in self.asked:
            told["likelihood"] = self.told["likelihood"]
        if "steps" in self.asked and self.heard:
            index = torch.arange(len(self.acts))
            settle = self.final.settling(material.windows, index, waiting=True)
            told["steps"] = settle(self._weigh()[0])
        if not len(material.reference):
            return {}
        if "pace" in self.asked:  # which must not learn from a clean one that is none
            odd = standing(told, material.reference, material.noisy, material.group).odd
            self.final.pace, told["pace"] = cross_fit_pace(material, self.witnesses.head, odd)
        grounds, odd = self.final.episodes.learn(told, material)
        for name, ground in grounds.items():
            row = torch.tensor([ground.figure, ground.chance, ground.groups], dtype=torch.float64)
            self.final.episode_grounds[EPISODE_SIGNALS.index(name)] = row
        why = "it went as badly as the worst of the noisy ones, and the other clean ones far better"
        return {material.names[g].removeprefix("clean:"): why for g in odd}
