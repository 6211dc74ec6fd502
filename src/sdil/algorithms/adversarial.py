"""What GAIL, AIRL and ACIL share: judges that tell demonstrated steps from the policy's own.

With a simulator, an `Adversary` trains its judge on what the policy has just done, and pays the
policy for steps that look demonstrated. The absorbing state that follows an episode's end (see
`ppo`) is a single point, so its judge needs no learning: the best logit is the log of the ratio of
the shares that it has in the two sets. An episode that ended lies there for `1 / (1 - gamma)`
moments, the sum of the discounts.

Without a simulator ("offline") the judge sees logged states only: the demonstrated action against
the policy's, in expectation over all its actions, so that nothing is drawn; and the policy follows
the gradient of its expected reward in the same states. Actions that cannot be listed are drawn,
some in each state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.algorithms.ppo import Rollout, Steps
from sdil.heads import Considered
from sdil.losses import Sums
from sdil.networks.raters import ActionRater
from sdil.states import State
from sdil.training import Optimisation

_RAREST = 1e-3  # no share is taken for smaller than this, nor for larger than 1 minus this


class Discriminator(Protocol):
    """Maps steps to logits (B,): how much rather demonstrated than the policy's."""

    def __call__(self, steps: Steps) -> Tensor: ...


class StateActionDiscriminator(nn.Module):
    """`log D - log(1 - D)` of a state and an action."""

    def __init__(self, rater: ActionRater) -> None:
        super().__init__()
        self.rater = rater

    def forward(self, steps: Steps) -> Tensor:
        logits: Tensor = self.rater(steps.states, steps.actions)
        return logits


def absorbed_share(steps: Steps, gamma: float) -> float:
    """The share of the absorbing state, were each episode that ended to go on in it."""
    absorbed = float(steps.ended.sum()) / (1.0 - gamma)
    share = absorbed / (absorbed + len(steps))
    return min(max(share, _RAREST), 1.0 - _RAREST)


def judge_loss(
    demonstrated: Tensor, practised: Tensor, absorbed_there: float, absorbed_here: float
) -> Tensor:
    """Logistic loss of two batches of logits, each worth what its set leaves to real steps."""
    there = (1.0 - absorbed_there) * F.softplus(-demonstrated).mean()
    return there + (1.0 - absorbed_here) * F.softplus(practised).mean()


class Adversary:
    """A judge in training, and the reward that it pays."""

    def __init__(
        self,
        judge: Discriminator,
        demonstrated: Steps,
        pays: Callable[[Tensor], Tensor],
        optimisation: Optimisation,
        *,
        gamma: float,
        batch_size: int,
        updates: int,
    ) -> None:
        """`pays` maps a logit to a reward; `optimisation` holds the judge."""
        self.judge, self.demonstrated, self.pays = judge, demonstrated, pays
        self.optimisation, self.gamma = optimisation, gamma
        self.batch_size, self.updates = batch_size, updates
        self.absorbed = absorbed_share(demonstrated, gamma)

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Some updates against what the policy has just done."""
        absorbed = absorbed_share(rollout.steps, self.gamma)
        sums = Sums()
        for _ in range(self.updates):
            demonstrated = self.judge(self.draw(self.demonstrated))
            practised = self.judge(self.draw(rollout.steps))
            loss = judge_loss(demonstrated, practised, self.absorbed, absorbed)
            self.optimisation.descend(loss)
            sums.add({"judge": loss, "demonstrated_logit": demonstrated.mean()})
        return sums.means()

    def rewards(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Of every step, and of a moment in the absorbing state."""
        ratio = self.absorbed / absorbed_share(rollout.steps, self.gamma)
        with torch.no_grad():
            return self.pays(self.judge(rollout.steps)), self.pays(torch.tensor(ratio).log())

    def state(self) -> State:
        return self.optimisation.state()

    def restore(self, state: State) -> None:
        self.optimisation.restore(state)

    def draw(self, steps: Steps) -> Steps:
        """A batch of these steps."""
        size = (self.batch_size,)
        return steps.at(torch.randint(len(steps), size, generator=self.optimisation.generator))


def offline_judge_loss(demonstrated: Tensor, own: Tensor, probs: Tensor) -> Tensor:
    """Logits of the demonstrated action (B,) against those of the policy's (B, K), which count for
    `probs` (B, K)."""
    there = F.softplus(-demonstrated).mean()
    return there + (probs.detach() * F.softplus(own)).sum(1).mean()


def offline_policy_loss(rewards: Tensor, considered: Considered, entropy_weight: float) -> Tensor:
    """Minus the expected reward (B, K) over what the policy considers, and minus the weighted
    entropy.

    Of listed actions nothing is drawn. Of drawn ones the gradient goes by their likelihood, and
    each is compared with the mean of the others, which changes the mean of the gradient by nothing.
    """
    costs = entropy_weight * considered.log_probs - rewards.detach()
    if considered.drawn:
        costs = costs.detach()
        count = costs.shape[1]
        costs = (costs - costs.mean(1, keepdim=True)) * (count / max(count - 1, 1))
    return (considered.probs * costs).sum(1).mean()
