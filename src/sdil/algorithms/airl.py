"""Adversarial inverse reinforcement learning (Fu, Luo & Levine 2018): a judge that is a reward.

`D = exp f / (exp f + pi(a | s))` with `f = g(s, a) + gamma h(s') - h(s)`; the policy is paid
`log D - log(1 - D) = f - log pi(a | s)`. Departures: `g` sees the action too, since on these tasks
the reward need not carry over to another world; `h` is 0 in the absorbing state in which ended
episodes go on (a constant in `h` is one in `g`), where nothing is chosen: `pi` is 1 there and `f`
the best there is (see `adversarial`). Offline, what an action that was not taken leads to is not
known, so the shaping by `h`, which changes no best policy, is left out: `f = g`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from sdil.algorithms.adversarial import (
    Adversary,
    offline_judge_loss,
    offline_policy_loss,
)
from sdil.algorithms.ppo import Steps
from sdil.algorithms.reward_learner import Lesson, Losses, RewardLearner
from sdil.limits import Count, Weight
from sdil.networks.encoders import mlp
from sdil.networks.policies import PlainNetwork
from sdil.networks.raters import ActionRater


class ShapedDiscriminator(nn.Module):
    """The logit of AIRL's D: `g(s, a) + gamma h(s') - h(s) - log pi(a | s)`."""

    def __init__(self, network: PlainNetwork, hidden: int, layers: int, gamma: float) -> None:
        super().__init__()
        size = network.features.observation_size
        self.g = ActionRater(size, network.head, hidden, layers)
        self.h = mlp(size, hidden, layers, 1)
        self.gamma = gamma
        self._policy = (network,)  # in a tuple: no part of this, it learns from its own loss

    def forward(self, steps: Steps) -> Tensor:
        with torch.no_grad():
            network = self._policy[0]
            log_prob = network.head.log_prob(network.body(steps.features), steps.actions)
        after = self.h(steps.next_states)[:, 0].masked_fill(steps.ended, 0.0)
        shaping = self.gamma * after - self.h(steps.states)[:, 0]
        return self.g(steps.states, steps.actions) - log_prob + shaping


@dataclass(frozen=True)
class AIRL(RewardLearner):
    """Adversarial inverse reinforcement learning."""

    judge_updates: Count = 8
    """With an environment: updates of the judge per round."""
    offline_entropy_weight: Weight = 0.0
    """Offline: weight of the policy's entropy beside the `-log pi` that is in the reward."""

    name: ClassVar[str] = "airl"
    reference: ClassVar[str] = "Fu, Luo & Levine 2018"

    def reward(self, lesson: Lesson) -> Adversary:
        judge = ShapedDiscriminator(lesson.network, self.hidden, self.layers, self.gamma)
        return Adversary(
            judge,
            lesson.steps(self.imitated(lesson.train)),
            lambda logits: logits,  # log D - log(1 - D)
            self.optimisation(lesson, {"judge": judge}),
            gamma=self.gamma,
            batch_size=self.batch_size,
            updates=self.judge_updates,
        )

    def offline(self, lesson: Lesson) -> tuple[Mapping[str, nn.Module], Losses]:
        g = lesson.rater(self.hidden, self.layers)
        windows = lesson.windows

        def losses(index: Tensor) -> dict[str, Tensor]:
            outputs, actions = lesson.network(windows.at(index)), windows.actions_at(index)
            own = lesson.consider(outputs)
            demonstrated, each = g.both(lesson.states(windows, index), actions, own.actions)
            likely = lesson.network.head.log_prob(outputs.detach(), actions)
            logits = each - own.log_probs.detach()
            return {
                "judge": offline_judge_loss(demonstrated - likely, logits, own.probs),
                "policy": offline_policy_loss(logits, own, self.offline_entropy_weight),
            }

        return {"g": g}, losses
