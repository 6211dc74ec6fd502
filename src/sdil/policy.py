"""What every learner returns: a policy that acts like Stable-Baselines3's.

The look-back history travels in `state`, so `stable_baselines3`'s `evaluate_policy` and any
Gymnasium loop work unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import is_dataclass, replace
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from sdil.checking import batch_of
from sdil.cores import steadily
from sdil.demonstrations import pack_given
from sdil.errors import InputError
from sdil.files import refuse_missing
from sdil.heads import Categorical, Distribution
from sdil.history import History
from sdil.judging import JUDGE, FittedJudge, rebuild_judge
from sdil.limits import check_fields
from sdil.nested import shape_actions
from sdil.observations import observation_type, pack_observations
from sdil.saved import (
    BuildEncoder,
    Encoder,
    NeedsFeaturesError,
    Saved,
    damaged,
    read_saved,
    split_sight,
    write_saved,
)
from sdil.scores import StepScores
from sdil.spaces import Array, Spaces
from sdil.states import below, nest, not_below
from sdil.trajectories import Trajectory
from sdil.windows import Window, Windows

FORMAT_VERSION = 2
POLICY = "policy"  # the stem of its files


class Rule(Protocol):
    """A rule of acting: it changes what is done, never `action_probs` (see `acting.py`)."""

    @property
    def name(self) -> str: ...
    @property
    def look_back(self) -> int:
        """Past steps that it looks at."""
        ...

    @property
    def draws(self) -> bool:
        """Whether an action is drawn instead of the likeliest one taken."""
        ...

    def __call__(self, probs: Tensor, window: Window, policy: Policy) -> Tensor:
        """Other probabilities of the actions. (B, A)"""
        ...

    def configuration(self) -> dict[str, Any]:
        """Its name and fields; JSON."""
        ...


@runtime_checkable
class Redirecting(Rule, Protocol):
    """A rule for actions that cannot be listed: it may do something else instead."""

    def instead(self, found: Distribution, chosen: Tensor, window: Window) -> Tensor:
        """What is done in place of `chosen`. (B, *action)"""
        ...


JUDGING = (*("sdil", "scored-bc", "weighted-bc", "dwbc", "isw-bc", "demodice", "ileed", "cail"),)
"""The learners whose policies judge steps; a test holds them against the registry."""


class Policy(Saved):
    """A policy. `spaces` and `look_back` say what it expects.

    It predicts (`distribution`, of counted actions `action_probs`), judges steps where it has a
    `judge`, and acts (`predict`): by its `rules`, which are a wrapper over what it predicts; with
    none of them, greedily.
    """

    look_back: int
    """Past steps that `action_probs` looks at."""
    act_on: int = 1
    """Actions that it plans and does before it looks again."""
    learner: str
    """The name of the learner that made it: for the record only."""
    judge: FittedJudge | None = None
    """What judges steps for it."""
    trusted: str = ""
    """How far its learner has trusted the noisy set, where it says so."""
    rules: tuple[Rule, ...] = ()
    """How it acts, in this order."""
    offers: tuple[Rule, ...] = ()
    """Rules whose fields its demonstrations have set: how they are asked for by name."""
    why_not: Mapping[str, str] = MappingProxyType({})
    """Rules that its demonstrations do not speak for, and why."""

    def __repr__(self) -> str:
        acts = ", ".join(rule.name for rule in self.rules) or "greedily"
        judge = "no judge of steps" if self.judge is None else f"judges steps by {self.judge.name}"
        return (
            f"Policy of {self.learner or 'no learner'}: acts {acts}, {judge}, looks back "
            f"{self.look_back} steps\n  {self.spaces}"
        )

    def distribution(self, window: Window) -> Distribution:
        """What it would do, in double precision. A policy has this, or `action_probs`.

        Double, so that what a policy does cannot depend on how many episodes run side by side:
        the order in which a matrix product is summed varies with the batch.
        """
        if type(self).action_probs is Policy.action_probs:
            raise NotImplementedError
        probs = self.action_probs(window)
        return Distribution(Categorical(probs.shape[1]), probs.log())

    def plan(self, window: Window) -> Distribution:
        """What it would do now and in the steps that follow; of one that looks at every step what
        it would do now. (B, act_on, ...)"""
        found = self.distribution(window)
        return Distribution(found.head, found.outputs[:, None])

    def action_probs(self, window: Window) -> Tensor:
        """`p(a | window)` of counted actions. (B, number of actions), in double precision."""
        found = self.distribution(window)
        if not found.head.listed:
            raise InputError(
                f"this policy's actions cannot be listed ({self.spaces.action}): they have a "
                "density, not a probability each. Ask `distribution(window)` or `log_likelihood`"
            )
        return found.outputs.softmax(1)

    @steadily
    def log_likelihood(self, trajectories: Sequence[Trajectory]) -> list[Array]:
        """How likely it finds the action of each recorded step, whatever rules it acts by: log p,
        of real numbers the log-density of what they are in units of the training data.

        One array (T,) per trajectory, in double precision.
        """
        if not len(trajectories):
            return []
        packed = pack_given(trajectories, self.spaces)
        windows = Windows(self.seen(packed), self.look_back)
        with torch.no_grad():
            found = [
                self.distribution(windows.at(part)).log_prob(windows.actions_at(part))
                for part in windows.parts()
            ]
        return packed.split_steps(torch.cat(found).numpy())

    @steadily
    def probabilities(self, trajectories: Sequence[Trajectory]) -> list[Array]:
        """How likely it finds each action at every recorded step, whatever rules it acts by.

        One array (T, number of actions) per trajectory, in double precision.
        """
        if not len(trajectories):
            return []
        packed = pack_given(trajectories, self.spaces)
        windows = Windows(self.seen(packed), self.look_back)
        with torch.no_grad():
            probs = torch.cat([self.action_probs(windows.at(part)) for part in windows.parts()])
        return packed.split_steps(probs.numpy())

    @steadily
    def score(
        self, trajectories: Sequence[Trajectory], *, device: str | None = None
    ) -> list[StepScores]:
        """How good each step of any trajectories is, by its judge; `device` as for a judge."""
        if self.judge is None:
            raise InputError(
                f"{self.learner} was trained without noisy demonstrations, and so has no judge; "
                "sdil.Judge().fit(demos) (`sdil judge`) judges without a policy"
                if self.learner in JUDGING
                else f"{self.learner or 'a policy made by hand'} does not judge steps; "
                f"{', '.join(JUDGING)} do, and sdil.Judge().fit(demos) (`sdil judge`) judges "
                "without a policy"
            )
        return self.judge.score(trajectories, device=device)

    @property
    def remembers(self) -> int:
        """Past steps that it looks at when it acts."""
        return max(self.look_back, *(rule.look_back for rule in self.rules), 0)

    @property
    def draws(self) -> bool:
        """Whether it draws its actions even where it is asked to be deterministic."""
        return any(rule.draws for rule in self.rules)

    def acting_by(
        self,
        rules: Sequence[Rule],
        why_not: Mapping[str, str] | None = None,
        *,
        offers: Sequence[Rule] | None = None,
    ) -> Self:
        """The same policy with other rules of acting."""
        for rule in rules:
            reason = _why_unfit(rule, self)
            if reason is not None:
                raise InputError(f"{rule.name} {reason}")
            if is_dataclass(rule):
                check_fields(rule, rule.name)
        other = copy(self)
        other.rules = tuple(rules)
        if why_not is not None:
            other.why_not = dict(why_not)
        if offers is not None:
            other.offers = tuple(offers)
        return other

    def predict(
        self,
        observation: Array,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, Any]:
        """Actions for one observation or a batch, and the state to pass in next time. Those of a
        `Dict` or `Tuple` have its form; of a batch each part has a leading axis.

        `state` None means that all episodes start now; `episode_start` (n,) marks those that do.
        With `deterministic` False, actions are drawn with torch's global generator.
        """
        batch, single = batch_of(self.spaces.observation, observation)
        seen = _tensor(self.seen_rows(batch))
        spaces = self.inner_spaces
        history = History.none(spaces, len(batch), self.remembers) if state is None else state
        if (
            not isinstance(history, History)
            or len(history.ages) != len(batch)
            or history.actions.shape[1] != self.remembers
            or (history.planned is not None and history.planned.shape[1] != self.act_on)
        ):
            raise InputError(
                "`state` must be what predict returned for the same number of episodes, by the "
                "same rules of acting"
            )
        if state is not None and episode_start is not None:
            starts = torch.from_numpy(np.atleast_1d(np.asarray(episode_start, bool)))
            history = history.restarted(starts)
        draw = self.draws or not deterministic
        with torch.no_grad():
            if self.act_on == 1:
                chosen = self._act(history.window(seen), draw=draw)
            else:
                chosen, history = self._go_on(history, seen, draw=draw)
        actions = chosen.numpy()
        history = history.after(seen, chosen)
        return shape_actions(self.spaces.action, actions[0] if single else actions), history

    def probs_of_acting(self, observations: Array) -> Array:
        """How likely each action is by its rules, in states where nothing is behind it. (n, A)"""
        given = pack_observations(self.spaces.observation, observations)
        raw = np.asarray(given, observation_type(self.spaces.observation))
        seen = _tensor(self.seen_rows(raw))
        with torch.no_grad():
            nothing = History.none(self.inner_spaces, len(seen), self.remembers)
            return self._by_rules(nothing.window(seen)).numpy()

    def _act(self, window: Window, *, draw: bool) -> Tensor:
        """(n, *action)"""
        if self.spaces.listed:
            probs = self._by_rules(window)  # (n, A)
            return torch.multinomial(probs, 1)[:, 0] if draw else probs.argmax(1)
        found = self.distribution(window.latest(self.look_back))
        chosen = found.sample(t=self._warmth()) if draw else found.mode()
        for rule in self.rules:
            if isinstance(rule, Redirecting):
                chosen = rule.instead(found, chosen, window.latest(rule.look_back))
        return chosen

    def _warmth(self) -> float:
        """The temperature of those of its rules that draw."""
        return prod(getattr(rule, "temperature", 1.0) for rule in self.rules)

    def _go_on(self, history: History, seen: Tensor, *, draw: bool) -> tuple[Tensor, History]:
        """What was planned, or the first of a new plan where nothing of the last is left; and what
        is planned now. (n, *action)"""
        planned, pending = history.planned, history.pending
        if planned is None or pending is None:
            planned = history.actions.new_zeros(len(seen), self.act_on, *history.actions.shape[2:])
            pending = torch.zeros(len(seen), dtype=torch.int64)
        empty = pending == 0
        if empty.any():
            found = self.plan(history.window(seen).latest(self.look_back))
            anew = found.sample(t=self._warmth()) if draw else found.mode()  # (n, act_on, *action)
            planned = torch.where(_spread(empty, anew), anew, planned)
            pending = torch.where(empty, self.act_on, pending)
        chosen = planned[torch.arange(len(seen)), self.act_on - pending]
        return chosen, replace(history, planned=planned, pending=pending - 1)

    def _by_rules(self, window: Window) -> Tensor:
        probs = self.action_probs(window.latest(self.look_back))
        for rule in self.rules:
            probs = rule(probs, window.latest(rule.look_back), self)
        return probs

    def seeing_by(self, encoder: Encoder, spaces: Spaces) -> Self:
        other = super().seeing_by(encoder, spaces)
        if other.judge is not None and other.judge.encoder is None:
            other.judge = other.judge.seeing_by(encoder, spaces)
        return other

    def save(self, folder: str | Path) -> None:
        """Write `policy.safetensors` and `policy.json` into a folder, judge and rules with it."""
        judging = {} if self.judge is None else nest(JUDGE, self.judge.tensors())
        about = {
            "kind": self.kind,
            "learner": self.learner,
            "hyperparameters": self.hyperparameters,
            "spaces": self.inner_spaces.to_json(),
            "configuration": self.configuration(),
            "judge": None if self.judge is None else self.judge.about(),
            "trusted": self.trusted,
            "acting": [rule.configuration() for rule in self.rules],
            "not_acting": dict(self.why_not),
            "offers": [rule.configuration() for rule in self.offers],
        }
        seen, eyes = self.sight()  # its judge sees by the same
        tensors = {**self.tensors(), **judging, **eyes}
        write_saved(Path(folder), POLICY, {**about, **seen}, tensors, version=FORMAT_VERSION)


def _why_unfit(rule: Rule, policy: Policy) -> str | None:
    """Why a policy cannot act by a rule; None where it can."""
    if rule.draws:
        return None
    if policy.act_on > 1:
        return (
            f"decides at every step; this policy looks only every {policy.act_on} steps (`act_on`)"
        )
    real = f"this policy's are real numbers ({policy.spaces.action})"
    if isinstance(rule, Redirecting):
        return "is a rule for actions that cannot be listed" if policy.spaces.listed else None
    return None if policy.spaces.listed else f"is a rule for counted actions; {real}"


def _spread(rows: Tensor, values: Tensor) -> Tensor:
    """(n,) with axes added behind, so that it chooses among `values` (n, ...)."""
    return rows.view(-1, *[1] * (values.ndim - 1))


def _tensor(array: Array) -> Tensor:
    """A tensor of an array that may be read-only, as recorded observations are."""
    usable = array.flags.writeable and array.flags.c_contiguous
    return torch.from_numpy(array if usable else array.copy())


def read_policy(
    folder: str | Path,
    kinds: dict[str, type[Policy]],
    judges: dict[str, type[FittedJudge]],
    rules: Callable[[dict[str, Any]], Rule],
    encoder: BuildEncoder,
) -> Policy:
    """Build the policy saved in `folder`; names that were saved are mapped to their classes."""
    folder = Path(folder)
    refuse_missing(folder, "`sdil train` makes a run folder")
    what = "a finished run (or it was interrupted)"
    about, tensors = read_saved(folder, POLICY, version=FORMAT_VERSION, what=what)
    try:
        sight, tensors = split_sight(about, tensors, encoder)
        judging, own = below(tensors, JUDGE), not_below(tensors, JUDGE)
        policy = kinds[about["kind"]].build(
            Spaces.from_json(about["spaces"]), about["configuration"], own
        )
        policy.learner, policy.hyperparameters = about["learner"], about["hyperparameters"]
        policy.trusted = str(about.get("trusted", ""))
        if about["judge"] is not None:
            policy.judge = rebuild_judge(about["judge"], judging, judges)
        acting, offers = ([rules(rule) for rule in about.get(k, [])] for k in ("acting", "offers"))
        policy = policy.acting_by(acting, about["not_acting"], offers=offers)
        if sight is not None:
            policy = policy.seeing_by(*sight)
    except NeedsFeaturesError as error:
        raise InputError(f"{folder}: {error}") from None
    except Exception as error:  # torch and dictionaries each have their own
        raise InputError(damaged(folder, POLICY, error)) from None
    return policy
