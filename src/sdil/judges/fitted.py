"""Our judge, fitted: it answers by the evidence that was gathered, and says which signals it hears
and why, which answers are unknown, and which clean demonstrations look odd."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.judges.asking import Question, choose
from sdil.judges.episodes import Episodes
from sdil.judges.evidence import EPISODE_SIGNALS, SIGNALS, STEP_SIGNALS, Evidence
from sdil.judges.hearing import EPISODE_LEVEL, OF_TIME, RATHER, Ground, step_level
from sdil.judges.lessons import Posterior
from sdil.judges.likeness import Seen
from sdil.judges.material import windows_of
from sdil.judges.telling import Gathered, judge_again, learn_from, rewrite
from sdil.judging import CrossJudged, FittedJudge, Signal
from sdil.labels import LABELS, Label, check_labels
from sdil.relative import Relative
from sdil.scores import JudgedSteps
from sdil.spaces import Array, Spaces
from sdil.states import below, nest, not_below
from sdil.trajectories import Trajectories
from sdil.windows import Windows


class EvidenceJudge(FittedJudge):
    """Judges by evidence that was gathered."""

    kind = "evidence"
    cautious = True

    def __init__(
        self,
        spaces: Spaces,
        evidence: Evidence,
        inputs: Tensor,
        *,
        relative: Relative | None = None,
        odd: Mapping[str, str] | None = None,
        cross_judged: CrossJudged | None = None,
        gathered: Gathered | None = None,
        labels: Mapping[str, int] | None = None,
        random_state: Tensor | None = None,
        hyperparameters: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        """`inputs` are the entries of an observation that vary: the others are not looked at;
        `relative` says how actions are told that say where something should be; `cross_judged` is
        what was said before labels."""
        self.spaces, self.name, self.seed = spaces, "evidence", seed
        self.hyperparameters = hyperparameters or {}
        self.random_state = random_state
        self.evidence = evidence.requires_grad_(False)
        self.odd = dict(odd or {})
        self._untold, self.gathered = cross_judged, gathered
        self.cross_judged = judge_again(cross_judged, gathered, evidence)
        self.labels = dict(labels or {})
        """How many answers of people it knows, of each kind."""
        knows = bool(evidence.heard or evidence.lessons is not None)
        self.good_share = evidence.share() if knows else None
        self._inputs, self._relative = inputs, relative
        self._double = (
            Evidence.of_tensors(evidence.state_dict(), spaces.action).double().requires_grad_(False)
        )
        self._double.distance.float()  # half the time, and no answer hangs on its last digits

    def tell(self, labels: Sequence[Label]) -> EvidenceJudge:
        """The same judge, told by people what some steps are: no network is trained again.

        All labels that count are given, not only new ones: it begins from what it thought before
        it was told anything. Without any it is what it was then.
        """
        gathered = self._kept()
        check_labels(labels, gathered.episodes)
        told = learn_from(gathered, labels)
        evidence = Evidence.of_tensors(self.evidence.state_dict(), self.spaces.action)
        rewrite(evidence, gathered, told)
        told_so = EvidenceJudge(
            self.inner_spaces,
            evidence,
            self._inputs,
            relative=self._relative,
            odd=self.odd,
            cross_judged=self._untold,
            gathered=gathered,
            labels={name: sum(label.label == name for label in labels) for name in LABELS}
            if labels
            else None,
            random_state=self.random_state,
            hyperparameters=self.hyperparameters,
            seed=self.seed,
        )
        return told_so if self.encoder is None else told_so.seeing_by(self.encoder, self.spaces)

    def known_by(self, fingerprint: str) -> Self:
        other = super().known_by(fingerprint)
        if other._untold is not None:  # which is what is saved, and what labels begin from
            other._untold = replace(other._untold, fingerprint=fingerprint)
        return other

    def save_again(self, folder: Path) -> None:
        """Write it over the judge of a judgement folder that it came from."""
        self.write(folder, over=True)

    def ask(
        self, demos: Demonstrations, n: int = 20, labels: Sequence[Label] = ()
    ) -> list[Question]:
        """The noisy spans that a person should label next, best first, beside those labelled."""
        gathered, scores = self._kept(), self.score(demos.noisy)
        windows = self._windows(demos.noisy)
        posterior = gathered.posterior(labels) or Posterior.of_nothing()

        def look(steps: Array) -> Seen:
            return self.evidence.look(gathered.looks, windows, torch.from_numpy(steps))

        acts = ~self.evidence.doing.idles(windows, torch.arange(len(windows))).numpy()
        stays = float(self.evidence.persistence)
        return choose(demos.noisy.ids, scores, n, labels, posterior, look, acts, stays)

    def _kept(self) -> Gathered:
        if self.gathered is None:
            raise InputError(
                "this judge kept nothing that labels could be held against: it was made before "
                "labels taught so, or its signals say nothing of the noisy steps; judge anew"
            )
        return self.gathered

    @property
    def _asked(self) -> list[str]:
        return str(self.hyperparameters.get("signals", "+".join(SIGNALS))).split("+")

    @property
    def signals(self) -> tuple[Signal, ...]:
        found = []
        strangers = [
            name
            for name, is_one in zip(STEP_SIGNALS, self.evidence.strangers.tolist(), strict=True)
            if is_one
        ]
        for name, row in zip(STEP_SIGNALS, self.evidence.step_grounds.tolist(), strict=True):
            if name == "doing" and name in self._asked:
                found.append(_doing(self.evidence))
            elif name in self._asked:
                ground = Ground(*row)
                found.append(_step_signal(name, ground, self.evidence, strangers))
        for name, row in zip(EPISODE_SIGNALS, self.evidence.episode_grounds.tolist(), strict=True):
            if name in self._asked:
                found.append(_episode_signal(name, Ground(*row), self.evidence.episodes))
        return tuple(found)

    @cached_property
    def unknown(self) -> Mapping[str, str]:  # type: ignore[override]  # elsewhere an attribute
        silent = {}
        if not self.evidence.heard and self.evidence.lessons is None:
            silent["step"] = (
                "which steps are good is unknown: no signal predicts the actions of clean groups "
                "that it never saw better than the same actions dealt out anew; give more clean "
                "demonstrations, or more groups of them"
            )
        if not self.evidence.episodes.heard:
            silent["episode"] = (
                "how well an episode went is unknown: the signals together do not set clean groups "
                "above noisy ones beyond chance; the noisy set may be as good, or the clean groups "
                "too few"
            )
        return silent

    def judge(self, packed: Trajectories) -> JudgedSteps:
        return self._double.judge(
            self._windows(packed), frozenset({"step", "episode", "integrity"})
        )

    def optimality(self, packed: Trajectories) -> Tensor:
        steps = self.evidence.judge(self._windows(packed), frozenset({"step"}))
        return torch.from_numpy(steps.optimality)

    def likelihood(self, packed: Trajectories) -> Tensor | None:
        if "likelihood" not in self._asked:
            return None
        windows = self._windows(packed)
        index = torch.arange(len(windows))
        told = self.evidence.tell("likelihood", windows, index).exp()
        return told.clamp(max=1.0).nan_to_num(0.0)

    def advice(self) -> Callable[[Tensor], Tensor] | None:
        return self._advice

    @cached_property
    def _advice(self) -> Callable[[Tensor], Tensor] | None:
        if "value" not in self.evidence.heard or self.evidence.learned is not None:
            return None  # a learned value knows recorded actions, not all there are
        said = self.evidence.value.advice(lambda signal: self.evidence.worth("value", signal))
        return lambda observations: said(observations[:, self._inputs])

    def _windows(self, packed: Trajectories) -> Windows:
        return windows_of(self.seen(packed), self._inputs, self._relative)

    def tensors(self) -> dict[str, Tensor]:
        state = {} if self.random_state is None else {"random_state": self.random_state}
        if self._untold is not None:
            state |= {
                "cross_judged.good": torch.from_numpy(self._untold.good),
                "cross_judged.fold": torch.from_numpy(self._untold.fold),
                "cross_judged.fingerprint": _as_tensor(self._untold.fingerprint),
            }
            if self._untold.clean is not None:
                state["cross_judged.clean"] = torch.from_numpy(self._untold.clean)
        if self.gathered is not None:
            state |= {f"gathered.{name}": t for name, t in self.gathered.tensors().items()}
        if self._relative is not None:
            state |= nest("relative", self._relative.tensors())
        odd = _as_tensor(json.dumps(self.odd))
        return {**self.evidence.state_dict(), "inputs": self._inputs, "odd": odd, **state}

    def configuration(self) -> dict[str, Any]:
        return {"labels": self.labels} if self.labels else {}

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> EvidenceJudge:
        own, of_folds = not_below(tensors, "cross_judged"), below(tensors, "cross_judged")
        own, kept = not_below(own, "gathered"), below(own, "gathered")
        own, follows = not_below(own, "relative"), below(own, "relative")
        inputs, odd, state = own.pop("inputs"), own.pop("odd"), own.pop("random_state", None)
        cross_judged = None
        if of_folds:
            cross_judged = CrossJudged(
                of_folds["good"].numpy(),
                of_folds["fold"].numpy(),
                _as_text(of_folds["fingerprint"]),
                of_folds["clean"].numpy() if "clean" in of_folds else None,  # of before: none
            )
        return cls(
            spaces,
            Evidence.of_tensors(own, spaces.action),
            inputs,
            relative=Relative.of_tensors(follows) if follows else None,
            odd=json.loads(_as_text(odd)),
            cross_judged=cross_judged,
            gathered=Gathered.of_tensors(kept) if kept else None,  # of before: none
            labels=configuration.get("labels"),
            random_state=state,
        )


def _as_tensor(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def _as_text(tensor: Tensor) -> str:
    return bytes(tensor.tolist()).decode()


def _step_signal(name: str, ground: Ground, evidence: Evidence, strangers: list[str]) -> Signal:
    heard = evidence.heard
    if np.isnan(ground.figure):
        nothing = "it says nothing of these demonstrations"
        if name == "typical":
            nothing = "it is asked where consensus is heard, of actions that are real numbers"
        elif name in ("progress", "value") and not len(evidence.progress.waypoints):
            nothing = "no clean demonstration ended (terminated) with its last observation known"
        return Signal(name, False, nothing)
    others = "the same actions dealt out anew" if evidence.learned is None else "those of others"
    told = (
        f"it rates the actions of unseen clean groups above {others} in "
        f"{ground.figure:.0%} of {ground.groups:.0f}; by chance {_percent(ground.chance)}"
    )
    level = step_level(name, int(ground.groups), beside=bool(set(heard) - {name}))
    if name in heard:
        return Signal(name, True, told)
    if name == "likelihood" and "consensus" in heard:
        return Signal(name, True, f"{told}; heard as a part of consensus")
    if name in strangers:
        more = "it neither rates clean steps above noisy ones nor agrees with the others"
        return Signal(name, False, f"{told}; but {more}")
    if ground.heard(level):
        of_time = [n for n in OF_TIME if n in heard]
        more = {
            "consensus": "it does not predict them better than likelihood does",
            "typical": f"it agrees less with {' and '.join(of_time)} than consensus does"
            if of_time
            else "nobody is heard who knows how long things took",
        }.get(name, "there is nothing heard that it could be held against")
        return Signal(name, False, f"{told}; but {more}")
    return Signal(name, False, f"{told}, where under {level:.0%} is needed")


def _doing(evidence: Evidence) -> Signal:
    """It is no matter of chance: there are actions that idle, or there are none."""
    idle = torch.where(evidence.doing.idle)[0].tolist()
    if not idle or "doing" not in evidence.heard:
        return Signal("doing", False, "no action of the clean demonstrations idles")
    told = (
        f"clean demonstrators idle, by action {', '.join(map(str, idle))}: such steps stand apart"
    )
    return Signal("doing", True, f"{told}, and those that act and move nothing among the least")


def _episode_signal(name: str, ground: Ground, episodes: Episodes) -> Signal:
    if np.isnan(ground.figure):
        return Signal(name, False, "it says nothing of these demonstrations", "episode")
    told = (
        f"it rates {ground.groups:.0f} unseen clean groups above noisy ones with an AUROC of "
        f"{ground.figure:.2f}; by chance {_percent(ground.chance)}"
    )
    if name in episodes.heard:
        return Signal(name, True, told, "episode")
    together = float(episodes.chance)
    if together < EPISODE_LEVEL:
        return Signal(name, False, f"{told}, where under {RATHER:.0%} is needed", "episode")
    more = (
        f"by all signals together {_percent(together)}, where under {EPISODE_LEVEL:.0%} is needed"
    )
    return Signal(name, False, f"{told}; {more}", "episode")


def _percent(chance: float) -> str:
    return "under 0.1%" if chance < 0.001 else f"{chance:.1%}"
