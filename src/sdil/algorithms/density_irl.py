"""Density-based reward (Wang et al. 2020, Gleave et al. 2022: the `imitation` library).

The reward of a step is how densely the demonstrations lie there: `log p(s, a)` and `log p(s)` by
Gaussian kernels, weighted. Nothing adversarial is learned; the policy then practises for it by PPO.

Departures: states are compared by the mean square of their standardised differences, and an action
weighs as much as all of the state does, so that one bandwidth serves few and many inputs alike (a
constant in the log density is left out). Ended episodes go on in an absorbing state (see `ppo`):
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
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.algorithms.adversarial import absorbed_share, offline_policy_loss, taken
from sdil.algorithms.ppo import Rollout
from sdil.algorithms.reward_learner import Lesson, Losses, RewardLearner
from sdil.limits import Count, Positive, Share, Weight
from sdil.training import State

_STATES_AT_ONCE = 2_048
_LEAST = 1e-30  # a density of zero has no logarithm


class Density:
    """Gaussian kernels on demonstrated states, and on states with their actions."""

    def __init__(
        self,
        states: Tensor,
        actions: Tensor,
        n_actions: int,
        *,
        bandwidth: float,
        state_weight: float,
    ) -> None:
        """The kernels' centres: (N, observation) and (N,)."""
        self.centres = states
        self.sharpness = 0.5 / (bandwidth**2 * states.shape[1])
        # two one-hot actions are sqrt(2) apart, times what makes an action as long as a state
        other = math.exp(-1.0 / bandwidth**2)
        one_hot = F.one_hot(actions.long(), n_actions).to(states.dtype)
        self.action_kernel = (one_hot * (1.0 - other) + other) / len(states)  # (N, A)
        self.state_weight = state_weight

    def log_density(self, states: Tensor) -> Tensor:
        """`log p(s, a)` and `log p(s)`, weighted, for every action. (B, A)"""
        distinct, where = _distinct(states)
        blocks = [self._of_block(block) for block in distinct.split(_STATES_AT_ONCE)]
        return torch.cat(blocks).index_select(0, where)

    def _of_block(self, states: Tensor) -> Tensor:
        exponents = -self.sharpness * torch.cdist(states, self.centres).square_()  # (B, N)
        highest = exponents.amax(1, keepdim=True)
        kernels = (exponents - highest).exp_()
        with_actions = (kernels @ self.action_kernel).clamp(min=_LEAST).log()
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
        each_action = self.density.log_density(rollout.steps.states)
        real = taken(each_action, rollout.steps.actions) + math.log(1.0 - self.absorbed)
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
        windows = lesson.windows
        all_states = lesson.states(windows, torch.arange(len(windows)))
        rewards = self._density(lesson).log_density(all_states)

        def losses(index: Tensor) -> dict[str, Tensor]:
            log_probs = lesson.network(windows.at(index)).log_softmax(1)
            return {
                "policy": offline_policy_loss(
                    rewards[index], log_probs, self.offline_entropy_weight
                )
            }

        return {}, losses

    def _density(self, lesson: Lesson) -> Density:
        windows = lesson.windows
        order = torch.randperm(len(windows), generator=lesson.generator)
        index = order[: self.n_centres].sort().values
        return Density(
            lesson.states(windows, index),
            windows.actions_at(index),
            lesson.sizes[1],
            bandwidth=self.bandwidth,
            state_weight=self.state_weight,
        )


def _distinct(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of (B, n), and which of them each row is: a grid has few states."""
    packed = np.ascontiguousarray(rows.numpy())
    as_bytes = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1])))[:, 0]
    _, first, where = np.unique(as_bytes, return_index=True, return_inverse=True)
    return rows[torch.from_numpy(first)], torch.from_numpy(where)
