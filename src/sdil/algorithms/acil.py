"""Adversarial cooperative imitation learning (Wang et al., WWW 2020): GAIL with bad examples.

Two judges: the adversarial one tells the clean demonstrations from the policy's steps and pays for
looking like them, as in GAIL; the cooperative one, D_c, tells the noisy demonstrations from the
policy's steps, and the policy helps it: it is paid `log(1 - D_c)`, at most 0, times a weight.
Departures: PPO, absorbing states and the offline form are GAIL's here. That an episode ended says
nothing about its quality, so the cooperative judge is not asked about the absorbing state: a
moment there costs what a mean step does. Without noisy demonstrations this is GAIL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.algorithms.adversarial import (
    Adversary,
    StateActionJudge,
    offline_judge_loss,
    offline_policy_loss,
)
from sdil.algorithms.ppo import Reward, Rollout
from sdil.algorithms.reward_learner import Lesson, Losses, RewardLearner
from sdil.algorithms.training import State, below, nest
from sdil.demonstrations import Demonstrations
from sdil.trajectories import Trajectories
from sdil.windows import Windows


class Cooperation:
    """The sum of what an adversarial and a cooperative judge pay."""

    def __init__(self, adversarial: Adversary, cooperative: Adversary) -> None:
        self.adversarial, self.cooperative = adversarial, cooperative

    def learn(self, rollout: Rollout) -> dict[str, float]:
        told = self.cooperative.learn(rollout)
        return {**self.adversarial.learn(rollout), "cooperative_judge": told["judge"]}

    def rewards(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        likeness, absorbing = self.adversarial.rewards(rollout)
        difference, _ = self.cooperative.rewards(rollout)
        return likeness + difference, absorbing + difference.mean()

    def state(self) -> State:
        return {
            **nest("adversarial", self.adversarial.state()),
            **nest("cooperative", self.cooperative.state()),
        }

    def restore(self, state: State) -> None:
        self.adversarial.restore(below(state, "adversarial"))
        self.cooperative.restore(below(state, "cooperative"))


@dataclass(frozen=True)
class ACIL(RewardLearner):
    """Adversarial cooperative imitation learning."""

    judge_updates: int = 8
    """With an environment: updates of each judge per round."""
    cooperation: float = 0.5
    """Weight of the reward for being unlike the noisy demonstrations."""

    name: ClassVar[str] = "acil"
    reference: ClassVar[str] = "Wang et al. 2020"
    noisy_set: ClassVar[str] = "negatives"

    def imitated(self, train: Demonstrations) -> Trajectories:
        return train.clean

    def reward(self, lesson: Lesson) -> Reward:
        adversarial = self._adversary(lesson, self.imitated(lesson.train), cooperates=False)
        if not len(lesson.train.noisy):
            return adversarial
        return Cooperation(
            adversarial, self._adversary(lesson, lesson.train.noisy, cooperates=True)
        )

    def offline(self, lesson: Lesson) -> tuple[Mapping[str, nn.Module], Losses]:
        windows = lesson.windows
        noisy = Windows(lesson.train.noisy, self.look_back)
        adversarial, cooperative = self._judge(lesson), self._judge(lesson)

        def losses(index: Tensor) -> dict[str, Tensor]:
            log_probs = lesson.network(windows.at(index)).log_softmax(1)
            states = lesson.states(windows, index)
            each_action = adversarial.each_action(states)
            rewards = F.softplus(each_action)
            terms = {
                "judge": offline_judge_loss(
                    each_action, windows.actions_at(index), log_probs.exp()
                ),
            }
            if len(noisy):
                with torch.no_grad():
                    rewards = rewards + self._unlike(cooperative.each_action(states))
                terms |= unlearn(len(index))
            policy = offline_policy_loss(rewards, log_probs, self.entropy_weight)
            return {**terms, "policy": policy}

        def unlearn(size: int) -> dict[str, Tensor]:
            """The same in as many noisy states: be unlike what was done there."""
            index = torch.randint(len(noisy), (size,), generator=lesson.generator)
            log_probs = lesson.network(noisy.at(index)).log_softmax(1)
            each_action = cooperative.each_action(lesson.states(noisy, index))
            actions, unlike = noisy.actions_at(index), self._unlike(each_action)
            return {
                "cooperative_judge": offline_judge_loss(each_action, actions, log_probs.exp()),
                "noisy_policy": offline_policy_loss(unlike, log_probs, self.entropy_weight),
            }

        return {"adversarial": adversarial, "cooperative": cooperative}, losses

    def _judge(self, lesson: Lesson) -> StateActionJudge:
        return StateActionJudge(*lesson.sizes, self.hidden, self.layers)

    def _unlike(self, logits: Tensor) -> Tensor:
        return -self.cooperation * F.softplus(logits)  # log(1 - D_c)

    def _adversary(
        self, lesson: Lesson, trajectories: Trajectories, *, cooperates: bool
    ) -> Adversary:
        judge = self._judge(lesson)
        return Adversary(
            judge,
            lesson.steps(trajectories),
            self._unlike if cooperates else F.softplus,
            self.optimisation(lesson, {"judge": judge}),
            gamma=self.gamma,
            batch_size=self.batch_size,
            updates=self.judge_updates,
        )
