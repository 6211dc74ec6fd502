"""What every learner returns: a policy that acts like Stable-Baselines3's.

The look-back history travels in `state`, so `stable_baselines3`'s `evaluate_policy` and any
Gymnasium loop work unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, is_dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Self

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from sdil.cores import steadily
from sdil.demonstrations import pack_given
from sdil.errors import InputError
from sdil.files import refuse_missing
from sdil.heads import Categorical, Distribution, counts_actions
from sdil.judging import JUDGE, FittedJudge, rebuild_judge
from sdil.limits import check_fields
from sdil.saved import Saved, damaged, read_saved, write_saved
from sdil.scores import StepScores
from sdil.spaces import Array, Spaces, element_shape
from sdil.training import below, nest, not_below
from sdil.trajectories import Trajectory
from sdil.windows import Window, Windows, cut

FORMAT_VERSION = 2
POLICY = "policy"  # the stem of its files


@dataclass(frozen=True)
class History:
    """The last M steps of n episodes that are being acted in, newest at the end."""

    states: Tensor
    """(n, M, *observation)"""
    actions: Tensor
    """(n, M, *action)"""
    ages: Tensor
    """How many steps each episode has behind it. (n,)"""

    @staticmethod
    def none(spaces: Spaces, n: int, look_back: int) -> History:
        """What n episodes that begin now have behind them."""
        observation, action = spaces.observation, spaces.action
        states = np.zeros((n, look_back, *element_shape(observation)), observation.dtype)
        actions = np.zeros((n, look_back, *element_shape(action)), action.dtype)
        ages = torch.zeros(n, dtype=torch.int64)
        return History(torch.from_numpy(states), torch.from_numpy(actions), ages)

    def window(self, observations: Tensor) -> Window:
        """What a policy sees now; cut by the same code as the windows it was trained on."""
        n, look_back = self.actions.shape[:2]
        states = torch.cat([self.states, observations[:, None]], 1)  # (n, M+1, *observation)
        numbers = torch.arange(n)
        return cut(
            states.flatten(0, 1),
            self.actions.flatten(0, 1),
            rows=numbers * (look_back + 1) + look_back,
            steps=numbers * look_back + look_back,
            times=self.ages,
            look_back=look_back,
        )

    def after(self, observations: Tensor, actions: Tensor) -> History:
        """The history one step later."""
        if self.actions.shape[1] == 0:
            return History(self.states, self.actions, self.ages + 1)
        return History(
            torch.cat([self.states[:, 1:], observations[:, None]], 1),
            torch.cat([self.actions[:, 1:], actions[:, None]], 1),
            self.ages + 1,
        )

    def keep(self, episodes: Array) -> History:
        """The part that belongs to these episodes."""
        chosen = torch.from_numpy(episodes)
        return History(self.states[chosen], self.actions[chosen], self.ages[chosen])

    def restarted(self, episode_start: Tensor) -> History:
        """The same, with nothing behind the episodes that start now."""
        return History(self.states, self.actions, torch.where(episode_start, 0, self.ages))


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
    learner: str
    """The name of the learner that made it: for the record only."""
    judge: FittedJudge | None = None
    """What judges steps for it."""
    trusted: str = ""
    """How far its learner has trusted the noisy set, where it says so."""
    rules: tuple[Rule, ...] = ()
    """How it acts, in this order."""
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

    def action_probs(self, window: Window) -> Tensor:
        """`p(a | window)` of counted actions. (B, number of actions), in double precision."""
        found = self.distribution(window)
        if not counts_actions(found.head):
            raise InputError(
                f"this policy's actions are real numbers ({self.spaces.action}): they have a "
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
        windows = Windows(packed, self.look_back)
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
        windows = Windows(packed, self.look_back)
        with torch.no_grad():
            probs = torch.cat([self.action_probs(windows.at(part)) for part in windows.parts()])
        return packed.split_steps(probs.numpy())

    @steadily
    def score(self, trajectories: Sequence[Trajectory]) -> list[StepScores]:
        """How good each step of any trajectories is, by its judge."""
        if self.judge is None:
            raise InputError(
                f"{self.learner} was trained without noisy demonstrations, and so has no judge; "
                "sdil.Judge().fit(demos) (`sdil judge`) judges without a policy"
                if self.learner in JUDGING
                else f"{self.learner or 'a policy made by hand'} does not judge steps; "
                f"{', '.join(JUDGING)} do, and sdil.Judge().fit(demos) (`sdil judge`) judges "
                "without a policy"
            )
        return self.judge.score(trajectories)

    @property
    def remembers(self) -> int:
        """Past steps that it looks at when it acts."""
        return max(self.look_back, *(rule.look_back for rule in self.rules), 0)

    @property
    def draws(self) -> bool:
        """Whether it draws its actions even where it is asked to be deterministic."""
        return any(rule.draws for rule in self.rules)

    def acting_by(self, rules: Sequence[Rule], why_not: Mapping[str, str] | None = None) -> Self:
        """The same policy with other rules of acting."""
        for rule in rules:
            if not rule.draws and not isinstance(self.spaces.action, gym.spaces.Discrete):
                raise InputError(
                    f"{rule.name} is a rule for counted actions; this policy's are real numbers "
                    f"({self.spaces.action})"
                )
            if is_dataclass(rule):
                check_fields(rule, rule.name)
        other = copy(self)
        other.rules = tuple(rules)
        if why_not is not None:
            other.why_not = dict(why_not)
        return other

    def predict(
        self,
        observation: Array,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, Any]:
        """Actions for one observation or a batch, and the state to pass in next time.

        `state` None means that all episodes start now; `episode_start` (n,) marks those that do.
        With `deterministic` False, actions are drawn with torch's global generator.
        """
        shape = element_shape(self.spaces.observation)
        given = batch = np.asarray(observation)
        if given.dtype.kind not in "biuf":
            raise InputError(f"observations are numbers, not {given.dtype}")
        if given.dtype != self.spaces.observation.dtype:
            with np.errstate(over="ignore", invalid="ignore"):  # refused below, by name
                batch = given.astype(self.spaces.observation.dtype)
        single = batch.shape == shape
        if single:
            batch = batch[None]
        if batch.shape[1:] != shape:
            raise InputError(
                f"this policy expects observations of shape {shape} or (n, *{shape}), "
                f"not {np.shape(observation)}"
            )
        _check_finite(batch if batch.dtype.kind == "f" else given.reshape(batch.shape))
        seen = _tensor(batch)
        history = History.none(self.spaces, len(batch), self.remembers) if state is None else state
        if (
            not isinstance(history, History)
            or len(history.ages) != len(batch)
            or history.actions.shape[1] != self.remembers
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
            chosen = self._act(history.window(seen), draw=draw)
        actions = chosen.numpy()
        history = history.after(seen, chosen)
        return (actions[0] if single else actions), history

    def probs_of_acting(self, observations: Array) -> Array:
        """How likely each action is by its rules, in states where nothing is behind it. (n, A)"""
        seen = _tensor(np.asarray(observations, self.spaces.observation.dtype))
        with torch.no_grad():
            nothing = History.none(self.spaces, len(seen), self.remembers)
            return self._by_rules(nothing.window(seen)).numpy()

    def _act(self, window: Window, *, draw: bool) -> Tensor:
        """(n, *action)"""
        if isinstance(self.spaces.action, gym.spaces.Discrete):
            probs = self._by_rules(window)  # (n, A)
            return torch.multinomial(probs, 1)[:, 0] if draw else probs.argmax(1)
        found = self.distribution(window.latest(self.look_back))
        warm = prod(getattr(rule, "temperature", 1.0) for rule in self.rules)  # of those that draw
        return found.sample(t=warm) if draw else found.mode()

    def _by_rules(self, window: Window) -> Tensor:
        probs = self.action_probs(window.latest(self.look_back))
        for rule in self.rules:
            probs = rule(probs, window.latest(rule.look_back), self)
        return probs

    def save(self, folder: str | Path) -> None:
        """Write `policy.safetensors` and `policy.json` into a folder, judge and rules with it."""
        judging = {} if self.judge is None else nest(JUDGE, self.judge.tensors())
        about = {
            "kind": self.kind,
            "learner": self.learner,
            "hyperparameters": self.hyperparameters,
            "spaces": self.spaces.to_json(),
            "configuration": self.configuration(),
            "judge": None if self.judge is None else self.judge.about(),
            "trusted": self.trusted,
            "acting": [rule.configuration() for rule in self.rules],
            "not_acting": dict(self.why_not),
        }
        tensors = {**self.tensors(), **judging}
        write_saved(Path(folder), POLICY, about, tensors, version=FORMAT_VERSION)


def _check_finite(batch: Array) -> None:
    if batch.dtype.kind == "f" and not np.isfinite(batch).all():
        row, *element = (int(j) for j in np.argwhere(~np.isfinite(batch))[0])
        raise InputError(
            f"the observation of episode {row} (row {row} of {len(batch)}): element "
            f"{tuple(element)} is {batch[(row, *element)]}; give finite numbers"
        )


def _tensor(array: Array) -> Tensor:
    """A tensor of an array that may be read-only, as recorded observations are."""
    usable = array.flags.writeable and array.flags.c_contiguous
    return torch.from_numpy(array if usable else array.copy())


def read_policy(
    folder: str | Path,
    kinds: dict[str, type[Policy]],
    judges: dict[str, type[FittedJudge]],
    rules: Callable[[dict[str, Any]], Rule],
) -> Policy:
    """Build the policy saved in `folder`; names that were saved are mapped to their classes."""
    folder = Path(folder)
    refuse_missing(folder, "`sdil train` makes a run folder")
    what = "a finished run (or it was interrupted)"
    about, tensors = read_saved(folder, POLICY, version=FORMAT_VERSION, what=what)
    try:
        judging, own = below(tensors, JUDGE), not_below(tensors, JUDGE)
        policy = kinds[about["kind"]].build(
            Spaces.from_json(about["spaces"]), about["configuration"], own
        )
        policy.learner, policy.hyperparameters = about["learner"], about["hyperparameters"]
        policy.trusted = str(about.get("trusted", ""))
        if about["judge"] is not None:
            policy.judge = rebuild_judge(about["judge"], judging, judges)
        policy = policy.acting_by([rules(rule) for rule in about["acting"]], about["not_acting"])
    except Exception as error:  # torch and dictionaries each have their own
        raise InputError(damaged(folder, POLICY, error)) from None
    return policy
