"""Rules of acting: wrappers over any policy, which change what it does and nothing else.

`action_probs`, and every measure of prediction with it, is of the bare policy. A policy acts
greedily where it has no rule; rules are saved with it as a chain. Each is a frozen dataclass:

- `WithoutCircles`: back in a state that it has just been in, it does what it has tried least there;
- `ListenToValue`: where several actions were recorded, it listens to what its judge says of each;
- `Sample`: an action is drawn, not the likeliest taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.limits import Count, Positive
from sdil.policy import Policy, Rule
from sdil.windows import DistinctStates, Window, Windows

_AGAIN = 1e-6  # what is left of an action's probability for each time it was tried more often

AnyPolicy = TypeVar("AnyPolicy", bound=Policy)


@dataclass(frozen=True)
class WithoutCircles:
    """Back in a state that it has just been in, it does what it has tried least there.

    Otherwise a greedy policy, once in a circle, stays there for ever.
    """

    memory: Count = 30
    """Steps for which it remembers what it did in a state."""

    name: ClassVar[str] = "without-circles"
    draws: ClassVar[bool] = False

    @property
    def look_back(self) -> int:
        return self.memory

    def __call__(self, probs: Tensor, window: Window, policy: Policy) -> Tensor:
        return prefer_untried(probs, window)

    def configuration(self) -> dict[str, Any]:
        return {"rule": self.name, **asdict(self)}


@dataclass(frozen=True)
class ListenToValue:
    """In a state that was recorded with several actions, it listens to what its judge says of each.

    For policies whose judge plans in what was recorded, and hears that signal.
    """

    weight: Positive = 2.0
    """Of the log-odds of "good" that are added to the log-probabilities."""

    name: ClassVar[str] = "value"
    draws: ClassVar[bool] = False
    look_back: ClassVar[int] = 0

    def __call__(self, probs: Tensor, window: Window, policy: Policy) -> Tensor:
        return (probs.log() + self.weight * _advice(policy)(window.state)).softmax(1)

    def configuration(self) -> dict[str, Any]:
        return {"rule": self.name, **asdict(self)}


@dataclass(frozen=True)
class Sample:
    """An action is drawn, with torch's global generator, not the likeliest taken."""

    temperature: Positive = 1.0
    """Above 1 it tries more, under 1 less."""

    name: ClassVar[str] = "sampled"
    draws: ClassVar[bool] = True
    look_back: ClassVar[int] = 0

    def __call__(self, probs: Tensor, window: Window, policy: Policy) -> Tensor:
        return (probs.log() / self.temperature).softmax(1)

    def configuration(self) -> dict[str, Any]:
        return {"rule": self.name, **asdict(self)}


RULES: dict[str, type[WithoutCircles] | type[ListenToValue] | type[Sample]] = {
    rule.name: rule for rule in (WithoutCircles, ListenToValue, Sample)
}
GREEDY, DEFAULT = "greedy", "default"
_REAL = "its actions are real numbers, and none comes again"
WAYS = (DEFAULT, GREEDY, *RULES)
"""What `acting=` takes by name."""


def rule_of(configuration: dict[str, Any]) -> Rule:
    """The inverse of a rule's `configuration`."""
    fields = dict(configuration)
    return RULES[fields.pop("rule")](**fields)


def act_by(policy: AnyPolicy, acting: str | Rule | Sequence[Rule]) -> AnyPolicy:
    """The same policy acting in this way: by name, one of `WAYS`, or by rules of your own."""
    if not isinstance(acting, str | Sequence):
        acting = (acting,)
    if isinstance(acting, str):
        if acting not in WAYS:
            raise InputError(f"there is no way of acting {acting!r}; there are {', '.join(WAYS)}")
        if acting == DEFAULT:
            return policy
        acting = () if acting == GREEDY else (RULES[acting](),)
    if any(isinstance(rule, ListenToValue) for rule in acting):
        _advice(policy)  # refuses a policy that has nobody to listen to
    return policy.acting_by(acting)


def describe_acting(policy: Policy) -> str:
    """How a policy acts by default, in words: "value, without-circles", or "greedy"."""
    return ", ".join(rule.name for rule in policy.rules) or GREEDY


def suit(policy: AnyPolicy, train: Demonstrations, *, greedy: bool = True) -> AnyPolicy:
    """The same policy, which knows what rules its demonstrations and its judge speak for.

    It acts by them by default, or by none where it is to be `greedy`.
    """
    rules: list[Rule] = []
    why_not: dict[str, str] = {}
    if not isinstance(train.spaces.action, gym.spaces.Discrete):
        why_not = dict.fromkeys((ListenToValue.name, WithoutCircles.name), _REAL)
        return policy.acting_by((), why_not)
    if policy.judge is not None and policy.judge.advice() is not None:
        rules.append(ListenToValue())
    else:
        why_not[ListenToValue.name] = "it has no judge that hears the value of recorded actions"
    circles = WithoutCircles()
    reason = _why_circles(train, circles.memory)
    if reason is None:
        rules.append(circles)
    else:
        why_not[circles.name] = reason
    return policy.acting_by(() if greedy else rules, why_not)


def _why_circles(train: Demonstrations, memory: int) -> str | None:
    """Why avoiding circles is not called for; None where demonstrations come back to states and
    clean ones do not repeat there."""
    windows = Windows(train.all, 0)
    states = DistinctStates(windows.observations[windows.rows].numpy())
    state, action = states.of_rows, windows.actions[windows.steps]
    back, again = torch.zeros(2, len(windows), dtype=torch.bool)
    for far in range(1, min(memory, len(windows) - 1) + 1):
        same = (state[far:] == state[:-far]) & (windows.times[far:] >= far)
        back[far:] |= same
        again[far:] |= same & (action[far:] == action[:-far])
    if not back.any():
        return "no state comes again in its demonstrations"
    n_clean = train.clean.n_steps
    if not back[:n_clean].any():
        return "only noisy demonstrations come back to a state"
    if again[:n_clean].sum() > back[:n_clean].sum() / 2:
        return "clean demonstrations that come back to a state repeat what they did there"
    return None


def prefer_untried(probs: Tensor, window: Window) -> Tensor:
    """`probs` (B, A), moved to the actions that were tried least in the very state of now."""
    same = (window.past_states == window.state[:, None]).flatten(2).all(2) & window.mask  # (B, M)
    taken = F.one_hot(window.past_actions.long(), probs.shape[1])  # (B, M, A)
    tried = (taken * same[..., None]).sum(1)  # how often each action was taken there (B, A)
    moved = probs * _AGAIN ** (tried - tried.amin(1, keepdim=True))
    return moved / moved.sum(1, keepdim=True)


def _advice(policy: Policy) -> Any:
    said = None if policy.judge is None else policy.judge.advice()
    if said is None:
        raise InputError(
            f"this policy ({policy.learner}) has no judge that hears the value of recorded "
            "actions, so it cannot act by it"
        )
    return said
