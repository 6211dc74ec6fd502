"""Density-based reward (Wang et al. 2020, Gleave et al. 2022: the `imitation` library).

The reward of a step is how densely the demonstrations lie there: `log p(s, a)` and `log p(s)` by
Gaussian kernels, weighted. Nothing adversarial is learned; the policy then practises for it by PPO.

Departures: states are compared by the mean square of their standardised differences, and an action
weighs as much as all of the state does, so that one bandwidth serves few and many inputs alike (a
constant in the log density is left out); of real numbers it is the mean square over its entries in
units of the data. Ended episodes go on in an absorbing state (see `ppo`):
its density is its share of the demonstrations, and real steps share the rest. Offline, the policy
maximises the expected log density of its own actions in the logged states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sdil.algorithms.adversarial import absorbed_share, offline_policy_loss
from sdil.algorithms.ppo import Rollout
from sdil.algorithms.reward_learner import Lesson, Losses, RewardLearner
from sdil.heads import ActionHead
from sdil.limits import Count, Positive, Share, Weight
from sdil.networks.raters import taken
from sdil.states import State

_STATES_AT_ONCE = 2_048
_LEAST = 1e-30  # a density of zero has no logarithm


class Density:
    """Gaussian kernels on demonstrated states, and on states with their actions."""

    def __init__(
        self,
        states: Tensor,
        actions: Tensor,
        head: ActionHead,
        *,
        bandwidth: float,
        state_weight: float,
    ) -> None:
        """The kernels' centres: (N, observation) and (N, *action)."""
        self.centres, self.actions, self.head = states, actions, head
        self.bandwidth, self.state_weight = bandwidth, state_weight
        self.sharpness = 0.5 / (bandwidth**2 * states.shape[1])
        if head.listed:
            # two one-hot actions are sqrt(2) apart, times what makes an action as long as a state
            other = math.exp(-1.0 / bandwidth**2)
            one_hot = head.encode(actions).to(states.dtype)
            self.action_kernel = (one_hot * (1.0 - other) + other) / len(states)  # (N, A)

    def log_density(self, states: Tensor) -> Tensor:
        """`log p(s, a)` and `log p(s)`, weighted, for every action that can be listed. (B, A)"""
        distinct, where = _distinct(states)
        blocks = [self._of_block(block) for block in distinct.split(_STATES_AT_ONCE)]
        return torch.cat(blocks).index_select(0, where)

    def of(self, states: Tensor, actions: Tensor) -> Tensor:
        """The same for these actions (B, K, *action) alone: those that `consider` names. (B, K)"""
        if self.head.listed:
            return self.log_density(states)
        size = max(1, _STATES_AT_ONCE // actions.shape[1] // 4)
        parts = zip(states.split(size), actions.split(size), strict=True)
        return torch.cat([self._of_actions(*part) for part in parts])

    def _of_block(self, states: Tensor) -> Tensor:
        highest, kernels = self._kernels(states)
        with_actions = (kernels @ self.action_kernel).clamp(min=_LEAST).log()
        return self._weighted(highest, kernels, with_actions)

    def _of_actions(self, states: Tensor, actions: Tensor) -> Tensor:
        highest, kernels = self._kernels(states)
        far = self.head.square_distance(actions[:, :, None], self.actions)  # (B, K, N)
        near = (-0.5 / self.bandwidth**2 * far).exp_()
        together = torch.einsum("bn,bkn->bk", kernels, near.to(kernels.dtype)) / len(self.centres)
        return self._weighted(highest, kernels, together.clamp(min=_LEAST).log())

    def _kernels(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Of each state and centre (B, N), and the log of what they are multiplied by (B, 1)."""
        exponents = -self.sharpness * torch.cdist(states, self.centres).square_()
        highest = exponents.amax(1, keepdim=True)
        return highest, (exponents - highest).exp_()

    def _weighted(self, highest: Tensor, kernels: Tensor, with_actions: Tensor) -> Tensor:
        of_states = kernels.mean(1, keepdim=True).log()
        weight = self.state_weight
        return highest + weight * of_states + (1.0 - weight) * with_actions


class DensityReward:
    """What PPO asks: the density of what it did. Nothing in it learns."""

    def __init__(self, density: Density, absorbed: float) -> None:
        """`absorbed` is the absorbing state's share of the demonstrations."""
        self.density, self.absorbed = density, absorbed

    def learn(self, rollout: Rollout) -> dict[str, float]:
        return {}

    def rewards(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        steps = rollout.steps
        each = self.density.of(steps.states, steps.actions[:, None])
        dense = taken(each, steps.actions) if self.density.head.listed else each[:, 0]
        real = dense + math.log(1.0 - self.absorbed)
        return real, torch.tensor(math.log(self.absorbed))

    def state(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        pass


@dataclass(frozen=True)
class DensityIRL(RewardLearner):
    """Density-based reward."""

    bandwidth: Positive = 0.3
    """Width of the kernels, where 1 is about the spread of the demonstrated states."""
    state_weight: Share = 0.5
    """How much the density of states counts; the rest is that of states with actions."""
    offline_entropy_weight: Weight = 0.5
    """Offline: weight of the policy's entropy; as large as the actions' part, so that the best
    policy is the density's own, `p(a | s)`."""
    n_centres: Count = 2_000
    """Demonstrated steps that carry a kernel, at the most; more are drawn from."""

    name: ClassVar[str] = "density-irl"
    reference: ClassVar[str] = "Wang et al. 2020, imitation"

    def reward(self, lesson: Lesson) -> DensityReward:
        share = absorbed_share(lesson.steps(self.imitated(lesson.train)), self.gamma)
        return DensityReward(self._density(lesson), share)

    def offline(self, lesson: Lesson) -> tuple[Mapping[str, nn.Module], Losses]:
        windows, density = lesson.windows, self._density(lesson)
        every = None  # of all actions, once and for all, where they can be listed
        if density.head.listed:
            every = density.log_density(lesson.states(windows, torch.arange(len(windows))))

        def losses(index: Tensor) -> dict[str, Tensor]:
            own = lesson.consider(lesson.network(windows.at(index)))
            rewards = (
                density.of(lesson.states(windows, index), own.actions)
                if every is None
                else every[index]
            )
            return {"policy": offline_policy_loss(rewards, own, self.offline_entropy_weight)}

        return {}, losses

    def _density(self, lesson: Lesson) -> Density:
        windows = lesson.windows
        order = torch.randperm(len(windows), generator=lesson.generator)
        index = order[: self.n_centres].sort().values
        return Density(
            lesson.states(windows, index),
            windows.actions_at(index),
            lesson.network.head,
            bandwidth=self.bandwidth,
            state_weight=self.state_weight,
        )


def _distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of (B, n), and which of them each row is: a grid has few states."""
    packed = np.ascontiguousarray(rows.numpy())
    as_bytes = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1])))[:, 0]
    _, first, where = np.unique(as_bytes, return_index=True, return_inverse=True)
    return rows[torch.from_numpy(first)], torch.from_numpy(where)
