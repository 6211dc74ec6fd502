"""DemoDICE: offline imitation with supplementary imperfect demonstrations (Kim et al., ICLR 2022).

The log-ratio of clean to all steps is a reward; `nu` is a value of states that makes the visits of
a policy stationary, and a step is imitated with weight `exp(A / (1 + alpha))`, A its advantage.
An ended episode goes on in an absorbing state, in which `1 / (1 - gamma)` moments of it count:
otherwise no policy that ever ends could be stationary, and all weight would go to loops.
Departures: the discriminator is trained for a fixed, short time instead of with a gradient penalty,
`nu` has weight decay instead of one, and policy and `nu` share one Adam.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sdil.algorithms.learner import check
from sdil.algorithms.weighing import WeighedData, WeighingLearner, train_discriminator
from sdil.demonstrations import Demonstrations
from sdil.judges.step_networks import AdvantageScorer
from sdil.limits import Count, Discount, Weight
from sdil.networks.policies import PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class DemoDICE(WeighingLearner):
    """Behaviour cloning weighted by corrected stationary distributions."""

    discriminator_updates: Count = 1_000
    """Updates of the discriminator."""
    gamma: Discount = 0.99
    """Discount."""
    alpha: Weight = 0.0
    """How strongly to stay near all demonstrations, as in the published configuration."""

    name: ClassVar[str] = "demodice"
    reference: ClassVar[str] = "Kim et al., ICLR 2022"

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> PlainPolicy:
        """Train the discriminator, then value and policy together. `env` is not used."""
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        windows = data.windows
        with seeded(seed) as generator:
            network = data.network()
            scorer = AdvantageScorer(
                demos.spaces,
                hidden=self.hidden,
                layers=self.layers,
                gamma=self.gamma,
                alpha=self.alpha,
            )
        for part in (scorer.logit, scorer.nu):
            part.scale_as(network)
        stages = Stages(self, generator, on_epoch, resume)
        train_discriminator(stages, scorer.logit, data, generator, self.discriminator_updates)
        scorer.logit.requires_grad_(False)
        starts = torch.where(windows.times == 0)[0]
        share_of_ends, reward_of_end = _ends(data, self.gamma)

        def loss(index: Tensor) -> dict[str, Tensor]:
            log_weight = scorer.log_weight(windows, index)
            of_end = scorer.log_weight_of_end(reward_of_end)
            drawn = torch.randint(len(starts), (len(index),), generator=generator)
            first = scorer.nu(windows.at(starts[drawn]).state)
            weights = log_weight.detach().softmax(0) * len(index)  # of mean 1
            return {
                "value": value_loss(
                    first, log_weight, of_end, share_of_ends, self.gamma, self.alpha
                ),
                "imitation": (weights * data.nll(network, index)).mean(),
            }

        stages.converge(
            "clone",
            {"network": network, "scorer": scorer},
            loss=loss,
            n_samples=len(windows),
            **data.until(network),
        )
        return self.policy(data, network, self.judge(data, network, scorer, seed))


def value_loss(
    first: Tensor,
    log_weight: Tensor,
    log_weight_of_end: Tensor,
    share_of_ends: float,
    gamma: float,
    alpha: float,
) -> Tensor:
    """Eq. 13: `(1 - gamma) E[nu(s_0)] + (1 + alpha) log E[exp(A / (1 + alpha))]`.

    The expectation is over recorded steps (B,) and, with their share, over moments after an end.
    """
    of_steps = log_weight.logsumexp(0) - math.log(len(log_weight)) + math.log1p(-share_of_ends)
    mean_exp = of_steps
    if share_of_ends > 0:
        mean_exp = torch.logaddexp(of_steps, log_weight_of_end + math.log(share_of_ends))
    return (1 - gamma) * first.mean() + (1 + alpha) * mean_exp


def _ends(data: WeighedData, gamma: float) -> tuple[float, float]:
    """The share of moments after an end among all, and its log-ratio of clean to all."""

    def share(ended: Tensor) -> float:
        moments = int(ended.sum()) / (1 - gamma)
        return moments / (moments + len(ended))

    of_clean, of_all = share(data.windows.ended[: data.n_clean]), share(data.windows.ended)
    return of_all, math.log(of_clean / of_all) if of_clean > 0 else 0.0
