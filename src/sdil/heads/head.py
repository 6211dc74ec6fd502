"""What a head is, and what a policy's outputs say with its help."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Reduction = Literal["none", "mean", "sum"]


@dataclass(frozen=True)
class Considered:
    """K actions in each of B states, as likely as a policy makes them."""

    actions: Tensor
    """(B, K, *action)"""
    log_probs: Tensor
    """`log p` of each, which carries the gradient. (B, K)"""
    probs: Tensor
    """What each counts for in a mean over what the policy does, which carries the gradient of the
    mean: of listed actions their probability, of drawn ones 1 / K. (B, K)"""
    drawn: bool
    """Whether these are draws, not all there are."""


class ActionHead(nn.Module):
    """A distribution over the actions of a space, from the outputs of a network."""

    size: int
    """Outputs that a network needs."""
    encoded: int
    """Numbers that other networks see of an action."""
    listed: int = 0
    """How many actions there are, where they can be listed and each has its probability."""

    def fit(self, actions: Tensor) -> None:
        """Take the scale from recorded actions (N, *action)."""

    @abstractmethod
    def log_prob(self, outputs: Tensor, actions: Tensor, temperature: float = 1.0) -> Tensor:
        """Of actions (..., *action) by outputs (..., size); of real numbers the density of what
        they are in units of the data. With a higher temperature they are less sure of the same.
        (...)"""

    def nll(
        self, outputs: Tensor, actions: Tensor, reduction: Reduction = "none", t: float = 1.0
    ) -> Tensor:
        """The negative of it, or the mean or the sum; `t` is the temperature."""
        each = -self.log_prob(outputs, actions, t)
        if reduction == "none":
            return each
        return each.mean() if reduction == "mean" else each.sum()

    @abstractmethod
    def error(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """How far the mode is from actions: 1 where it is another one of counted ones, of real
        numbers the mean over their entries, in units of the data. (...)"""

    @abstractmethod
    def apart(self, actions: Tensor, others: Tensor) -> Tensor:
        """How far actions are from others, entry by entry: in the data's own units, angles the
        short way round; of counted entries 1 where they differ. (..., entries)"""

    @abstractmethod
    def square_distance(self, actions: Tensor, others: Tensor) -> Tensor:
        """The mean square over entries of how far apart they are in units of the data; of counted
        entries 2 where they differ, as two one-hot vectors are. (...)"""

    @abstractmethod
    def usual(self, actions: Tensor) -> Tensor:
        """Outputs that say how often these actions (N, *action) are taken, whatever the state.
        (size,)"""

    @abstractmethod
    def mode(self, outputs: Tensor) -> Tensor:
        """What is done greedily. (..., *action)"""

    @abstractmethod
    def sample(
        self, outputs: Tensor, generator: torch.Generator | None = None, t: float = 1.0
    ) -> Tensor:
        """Draw; `t` is the temperature. (..., *action)"""

    @abstractmethod
    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Random numbers for so many draws by `pick`. (*shape, any)"""

    @abstractmethod
    def pick(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """What is drawn with this noise, before it is brought into the space: of real numbers in
        units of the data. (..., any)"""

    @abstractmethod
    def decode(self, picked: Tensor) -> Tensor:
        """The actions that were picked, within the space. (..., *action)"""

    @abstractmethod
    def weigh(self, outputs: Tensor, picked: Tensor) -> tuple[Tensor, Tensor]:
        """`log p` of what was picked, and the entropy of the distribution; of a mixture that of
        which of its parts acts, too, which is an upper bound. (...) each"""

    def consider(self, outputs: Tensor, generator: torch.Generator, count: int) -> Considered:
        """What a policy might do in each of B states (B, size): all actions where they can be
        listed, otherwise `count` draws, through which the gradient goes by their likelihood."""
        with torch.no_grad():
            rows = outputs[:, None].expand(-1, count, -1)
            picked = self.pick(rows, self.noise(rows.shape[:-1], generator).to(outputs))
        log_probs, _ = self.weigh(outputs[:, None].expand(-1, count, -1), picked)
        probs = (log_probs - log_probs.detach()).exp() / count
        return Considered(self.decode(picked), log_probs, probs, drawn=True)

    @abstractmethod
    def encode(self, actions: Tensor) -> Tensor:
        """(..., encoded), in single precision."""

    def used(self, actions: Tensor) -> Tensor:
        """How much of each kind of action there is: which one, or how much of each entry.
        (..., encoded)"""
        return self.encode(actions).abs()

    @abstractmethod
    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        """The outputs of a mixture of K distributions (..., K, size), as probable as the weights
        (..., K) say; a head understands more of them than its size, too. (..., any)"""

    @abstractmethod
    def plausibility(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """How well actions go with the outputs, from 0 to 1: the probability of counted ones; of
        real numbers, whose densities compare badly across states, how often one would do something
        less likely. (...)"""

    @property
    @abstractmethod
    def log_uniform(self) -> float:
        """`log_prob` of any action if all that the data shows were alike."""

    @abstractmethod
    def soften(self, network: nn.Sequential, temperature: float) -> None:
        """Make a network whose outputs these are less sure of the same, for good."""


@dataclass(frozen=True)
class Distribution:
    """What a policy would do in B windows."""

    head: ActionHead
    outputs: Tensor

    def log_prob(self, actions: Tensor) -> Tensor:
        """Of actions (B, *action); of real numbers the density of what they are in units of the
        training data. (B,)"""
        return self.head.log_prob(self.outputs, actions)

    def mode(self) -> Tensor:
        """What is done greedily. (B, *action)"""
        return self.head.mode(self.outputs)

    def apart(self, actions: Tensor) -> Tensor:
        """How far what is done greedily is from actions, entry by entry: of real numbers in their
        units, of counted entries 1 where it is another. (B, entries)"""
        return self.head.apart(self.mode(), actions)

    def sample(self, generator: torch.Generator | None = None, t: float = 1.0) -> Tensor:
        """Drawn, without a generator by torch's own; `t` is the temperature. (B, *action)"""
        return self.head.sample(self.outputs, generator, t)


def take(each: Tensor, which: Tensor) -> Tensor:
    """Of M vectors (..., M, D) the one that is asked for (...). (..., D)"""
    index = which[..., None, None].expand(*which.shape, 1, each.shape[-1])
    return each.gather(-2, index).squeeze(-2)


def by_luck(log_weights: Tensor, luck: Tensor) -> Tensor:
    """Which of M is drawn, as probable as the weights (..., M) say, by a number between 0 and 1
    (...). (...)"""
    reached = log_weights.softmax(-1).cumsum(-1) <= luck[..., None]
    return reached[..., :-1].sum(-1)


def draw_normal_and_uniform(
    shape: tuple[int, ...], normal: int, uniform: int, generator: torch.Generator | None
) -> Tensor:
    """So many numbers of each kind. (*shape, normal + uniform)"""
    first = torch.randn((*shape, normal), generator=generator)
    return torch.cat([first, torch.rand((*shape, uniform), generator=generator)], -1)
