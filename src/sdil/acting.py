"""Rules of acting: wrappers over any policy, which change what it does and nothing else.

`action_probs`, and every measure of prediction with it, is of the bare policy. A policy acts
greedily where it has no rule; rules are saved with it as a chain. Each is a frozen dataclass:

- `WithoutCircles`: back in a state that it has just been in, it does what it has tried least there;
- `ListenToValue`: where several actions were recorded, it listens to what its judge says of each;
- `NotStuck`, where actions cannot be listed: near where it has been for longer than clean
  demonstrations ever stay, it does what it has tried least there;
- `Sample`: an action is drawn, not the likeliest taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.heads import Distribution
from sdil.limits import Count, CountOrNone, Positive, Weight
from sdil.policy import Policy, Rule
from sdil.windows import DistinctStates, Window, Windows

_TRIES = 32  # draws from which another action is taken
_MOST = 0.99  # of clean steps: how long they stay near where they were
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
class NotStuck:
    """Near where it has been for longer than clean demonstrations stay, it does something else.

    For real-valued states and actions, where no state comes again. Of some draws of the policy's
    own it does the one that is farthest from what it has tried there. The draws are always the
    same, so that what it does follows from what it sees.
    """

    moves: tuple[Weight, ...] = ()
    """How far each entry of a state moves in a step of the data; 0: it does not count. `fit` finds
    it."""
    stays: CountOrNone = 0
    """Of the last steps so many may lie near the state of now: clean demonstrations do that."""
    near: Positive = 0.25
    """Nearer than this share of a usual step is near."""
    memory: Count = 30
    """Steps for which it remembers where it was and what it did."""

    name: ClassVar[str] = "not-stuck"
    draws: ClassVar[bool] = False

    @property
    def look_back(self) -> int:
        return self.memory

    def __call__(self, probs: Tensor, window: Window, policy: Policy) -> Tensor:
        """Of listed actions it says nothing: `WithoutCircles` does."""
        return probs

    def instead(self, found: Distribution, chosen: Tensor, window: Window) -> Tensor:
        near = self.is_near(window.state[:, None], window.past_states) & window.mask  # (B, M)
        stuck = torch.where(near.sum(1) > self.stays)[0]
        if not len(stuck):
            return chosen
        head, rows = found.head, found.outputs[stuck]
        noise = head.noise((_TRIES,), torch.Generator().manual_seed(0)).to(rows.dtype)
        shape = len(stuck), _TRIES, -1
        drawn = head.decode(head.pick(rows[:, None].expand(*shape), noise.expand(*shape)))
        past = window.past_actions[stuck]  # (B, M, *action)
        apart = head.square_distance(drawn[:, :, None], past[:, None])  # (B, tries, M)
        apart = apart.masked_fill(~near[stuck][:, None], torch.inf).amin(2)
        other = chosen.clone()
        other[stuck] = drawn[torch.arange(len(stuck)), apart.argmax(1)].to(chosen.dtype)
        return other

    def is_near(self, states: Tensor, others: Tensor) -> Tensor:
        """Whether states are near others, both (..., *observation). (...)"""
        moves = torch.tensor(self.moves, dtype=torch.float64)
        counts = moves > 0
        apart = states.double() - others.double()
        steps = apart.flatten(states.ndim - 1)[..., counts] / moves[counts]
        return steps.square().mean(-1) < self.near**2

    def configuration(self) -> dict[str, Any]:
        return {"rule": self.name, **asdict(self), "moves": list(self.moves)}


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


RULES: dict[str, type[WithoutCircles] | type[ListenToValue] | type[NotStuck] | type[Sample]] = {
    rule.name: rule for rule in (WithoutCircles, ListenToValue, NotStuck, Sample)
}
GREEDY, DEFAULT = "greedy", "default"
_REAL = "its actions are real numbers, and none comes again"
_CHUNKS = "it acts on several predictions before it looks again"
WAYS = (DEFAULT, GREEDY, *RULES)
"""What `acting=` takes by name."""


def rule_of(configuration: dict[str, Any]) -> Rule:
    """The inverse of a rule's `configuration`."""
    fields = dict(configuration)
    if "moves" in fields:
        fields["moves"] = tuple(map(float, fields["moves"]))
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
        known = {rule.name: rule for rule in (*policy.rules, *policy.offers)}
        acting = () if acting == GREEDY else (known.get(acting) or RULES[acting](),)
    if any(isinstance(rule, ListenToValue) for rule in acting):
        _advice(policy)  # refuses a policy that has nobody to listen to
    if any(isinstance(rule, NotStuck) and not any(rule.moves) for rule in acting):
        raise InputError(
            "not-stuck must know how far states move in a step: fit the policy with this version, "
            "or give sdil.NotStuck(moves=...)"
        )
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
    if not train.spaces.listed:
        why_not = dict.fromkeys((ListenToValue.name, WithoutCircles.name), _REAL)
        stuck, reason = _watch_moves(train)
        if policy.act_on > 1:
            reason = _CHUNKS
        if reason is not None:
            why_not[NotStuck.name] = reason
        offers = () if stuck is None or policy.act_on > 1 else (stuck,)
        return policy.acting_by(
            () if greedy or reason is not None else offers, why_not, offers=offers
        )
    if policy.act_on > 1:
        return policy.acting_by(
            (), dict.fromkeys((ListenToValue.name, WithoutCircles.name), _CHUNKS)
        )
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


def _watch_moves(train: Demonstrations) -> tuple[NotStuck | None, str | None]:
    """The rule as the clean demonstrations have it, and why it is not called for, if so."""
    windows = Windows(train.clean, NotStuck().memory)
    following, exists = windows.next_states_at(torch.arange(len(windows)))
    now = windows.observations[windows.rows]
    steps = (following.double() - now.double()).flatten(1)[exists]
    if not len(steps) or not steps.any():
        return None, "no clean demonstration shows how far states move in a step"
    rule = NotStuck(moves=tuple(steps.square().mean(0).sqrt().tolist()))
    stays = []
    for part in windows.parts():
        window = windows.at(part)
        stays.append((rule.is_near(window.state[:, None], window.past_states) & window.mask).sum(1))
    usual = int(torch.cat(stays).double().quantile(_MOST))
    rule = replace(rule, stays=usual)
    if usual > rule.memory // 2:
        return rule, (
            f"clean demonstrations stay near where they were for {usual} of {rule.memory} steps"
        )
    return rule, None


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
