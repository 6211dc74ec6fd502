"""Adversarial cooperative imitation learning (Wang et al., WWW 2020): GAIL with bad examples.

Two judges: the adversarial one tells the clean demonstrations from the policy's steps and pays for
looking like them, as in GAIL; the cooperative one, D_c, tells the noisy demonstrations from the
clean ones and the policy's steps, and the policy helps it: it is paid `log(1 - D_c)`, at most 0,
times a weight. This follows the article's abstract; its formulas were not at hand.

Departures: PPO, absorbing states and the offline form are GAIL's here; offline, the clean logged
states stand for the policy's, against which the cooperative judge sees the noisy steps. That an
episode ended says nothing about its quality, so the cooperative judge is not asked about the
absorbing state: a moment there costs what a mean step does. Without noisy demonstrations this is
GAIL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.algorithms.adversarial import (
    Adversary,
    Discriminator,
    StateActionDiscriminator,
    judge_loss,
    offline_judge_loss,
    offline_policy_loss,
)
from sdil.algorithms.ppo import Reward, Rollout, Steps
from sdil.algorithms.reward_learner import Lesson, Losses, RewardLearner
from sdil.demonstrations import Demonstrations
from sdil.limits import Count, Weight
from sdil.losses import Sums
from sdil.states import State, below, nest
from sdil.training import Optimisation
from sdil.trajectories import Trajectories
from sdil.windows import Windows


class Cooperation:
    """What an adversary pays, less what its policy has in common with bad examples."""

    def __init__(
        self,
        adversary: Adversary,
        judge: Discriminator,
        noisy: Steps,
        pays: Callable[[Tensor], Tensor],
        optimisation: Optimisation,
    ) -> None:
        """`pays` maps a logit to a reward; `optimisation` holds the cooperative judge."""
        self.adversary, self.judge, self.noisy = adversary, judge, noisy
        self.pays, self.optimisation = pays, optimisation

    def learn(self, rollout: Rollout) -> dict[str, float]:
        draw, sums = self.adversary.draw, Sums()
        for _ in range(self.adversary.updates):
            noisy = self.judge(draw(self.noisy))
            others = [self.judge(draw(s)) for s in (rollout.steps, self.adversary.demonstrated)]
            loss = judge_loss(noisy, torch.cat(others), 0.0, 0.0)
            self.optimisation.descend(loss)
            sums.add({"cooperative_judge": loss})
        return {**self.adversary.learn(rollout), **sums.means()}

    def rewards(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        likeness, absorbing = self.adversary.rewards(rollout)
        with torch.no_grad():
            difference = self.pays(self.judge(rollout.steps))
        return likeness + difference, absorbing + difference.mean()

    def state(self) -> State:
        return {
            **nest("adversarial", self.adversary.state()),
            **nest("cooperative", self.optimisation.state()),
        }

    def restore(self, state: State) -> None:
        self.adversary.restore(below(state, "adversarial"))
        self.optimisation.restore(below(state, "cooperative"))


@dataclass(frozen=True)
class ACIL(RewardLearner):
    """Adversarial cooperative imitation learning."""

    judge_updates: Count = 8
    """With an environment: updates of each judge per round."""
    cooperation: Weight = 0.5
    """Weight of the reward for being unlike the noisy demonstrations."""

    name: ClassVar[str] = "acil"
    reference: ClassVar[str] = "variant of Wang et al., WWW 2020"
    noisy_set: ClassVar[str] = "negatives"

    def imitated(self, train: Demonstrations) -> Trajectories:
        return train.clean

    def reward(self, lesson: Lesson) -> Reward:
        judge = self._judge(lesson)
        adversary = Adversary(
            judge,
            lesson.steps(self.imitated(lesson.train)),
            F.softplus,  # -log(1 - D)
            self.optimisation(lesson, {"judge": judge}),
            gamma=self.gamma,
            batch_size=self.batch_size,
            updates=self.judge_updates,
        )
        if not len(lesson.train.noisy):
            return adversary
        other = self._judge(lesson)
        noisy = lesson.steps(lesson.train.noisy)
        optimisation = self.optimisation(lesson, {"judge": other})
        return Cooperation(adversary, other, noisy, self._unlike, optimisation)

    def offline(self, lesson: Lesson) -> tuple[Mapping[str, nn.Module], Losses]:
        windows = lesson.windows
        noisy = Windows(lesson.train.noisy, self.look_back)
        adversarial = lesson.rater(self.hidden, self.layers)
        cooperative = lesson.rater(self.hidden, self.layers)

        def losses(index: Tensor) -> dict[str, Tensor]:
            own = lesson.consider(lesson.network(windows.at(index)))
            asked = lesson.states(windows, index), windows.actions_at(index), own.actions
            demonstrated, each = adversarial.both(*asked)
            rewards = F.softplus(each)
            terms = {"judge": offline_judge_loss(demonstrated, each, own.probs)}
            if len(noisy):
                there, here = cooperative.both(*asked)
                rewards = rewards + self._unlike(here)
                clean = F.softplus(there).mean()
                done = (own.probs.detach() * F.softplus(here)).sum(1).mean()
                terms["cooperative_judge"] = 0.5 * (clean + done) + noisy_loss(len(index))
            return {
                **terms,
                "policy": offline_policy_loss(rewards, own, self.offline_entropy_weight),
            }

        def noisy_loss(size: int) -> Tensor:
            index = torch.randint(len(noisy), (size,), generator=lesson.generator)
            there = cooperative(lesson.states(noisy, index), noisy.actions_at(index))
            return F.softplus(-there).mean()

        return {"adversarial": adversarial, "cooperative": cooperative}, losses

    def _judge(self, lesson: Lesson) -> StateActionDiscriminator:
        return StateActionDiscriminator(lesson.rater(self.hidden, self.layers))

    def _unlike(self, logits: Tensor) -> Tensor:
        return -self.cooperation * F.softplus(logits)  # log(1 - D_c)
