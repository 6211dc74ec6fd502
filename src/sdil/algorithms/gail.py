"""Generative adversarial imitation learning (Ho & Ermon 2016): fool a judge of single steps.

A judge D learns to tell demonstrated (state, action) pairs from the policy's; the policy is paid
`-log(1 - D)`. Departures: PPO in place of TRPO; episodes go on in an absorbing state (Kostrikov et
al. 2019; see `ppo` and `adversarial`); offline, logged states with the policy's own actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from sdil.algorithms.adversarial import (
    Adversary,
    StateActionDiscriminator,
    offline_judge_loss,
    offline_policy_loss,
)
from sdil.algorithms.reward_learner import Lesson, Losses, RewardLearner
from sdil.limits import Count


@dataclass(frozen=True)
class GAIL(RewardLearner):
    """Generative adversarial imitation learning."""

    judge_updates: Count = 8
    """With an environment: updates of the judge per round."""

    name: ClassVar[str] = "gail"
    reference: ClassVar[str] = "Ho & Ermon 2016"

    def reward(self, lesson: Lesson) -> Adversary:
        judge = StateActionDiscriminator(lesson.rater(self.hidden, self.layers))
        return Adversary(
            judge,
            lesson.steps(self.imitated(lesson.train)),
            F.softplus,  # -log(1 - D)
            self.optimisation(lesson, {"judge": judge}),
            gamma=self.gamma,
            batch_size=self.batch_size,
            updates=self.judge_updates,
        )

    def offline(self, lesson: Lesson) -> tuple[Mapping[str, nn.Module], Losses]:
        judge = lesson.rater(self.hidden, self.layers)
        windows = lesson.windows

        def losses(index: Tensor) -> dict[str, Tensor]:
            own = lesson.consider(lesson.network(windows.at(index)))
            demonstrated, each = judge.both(
                lesson.states(windows, index), windows.actions_at(index), own.actions
            )
            return {
                "judge": offline_judge_loss(demonstrated, each, own.probs),
                "policy": offline_policy_loss(F.softplus(each), own, self.offline_entropy_weight),
            }

        return {"judge": judge}, losses
