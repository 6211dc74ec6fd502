"""ISW-BC: importance-sampling-weighted behaviour cloning (Li et al., NeurIPS 2023).

A discriminator c tells clean steps from all steps; `c / (1 - c)` is then the ratio of their
densities, and all steps are imitated with it as weight, those below `threshold` not at all.
The discriminator has a gradient penalty, as in the paper, and is trained for a fixed time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sdil.algorithms.learner import check
from sdil.algorithms.weighing import WeighedData, WeighingLearner, train_discriminator
from sdil.demonstrations import Demonstrations
from sdil.judges.step_networks import PairScorer
from sdil.judging import FittedJudge
from sdil.limits import Count, Positive, Weight
from sdil.networks.policies import PlainNetwork, PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class ISWBC(WeighingLearner):
    """Behaviour cloning weighted by a ratio of densities."""

    discriminator_updates: Count = 1_000
    """Updates of the discriminator."""
    gradient_penalty: Weight = 10.0
    """Weight of the penalty on the discriminator's gradient; 0 leaves it out."""
    threshold: Weight = 0.0
    """Steps of a smaller weight are left out."""
    largest: Positive = 100.0
    """Weights are clipped here."""

    name: ClassVar[str] = "isw-bc"
    reference: ClassVar[str] = "Li et al., NeurIPS 2023"

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
        """Train the discriminator, then the policy. `env` is not used."""
        data, network, scorer, stages = self._discriminate(demos, valid, seed, on_epoch, resume)
        weights = self._weights(scorer, data)

        def loss(index: Tensor) -> dict[str, Tensor]:
            return {"imitation": weighted_nll(data.nll(network, index), weights[index])}

        stages.converge(
            "clone",
            {"network": network},
            loss=loss,
            n_samples=len(data.windows),
            **data.until(network),
        )
        return self.policy(data, network, self.judge(data, network, scorer, seed))

    def fit_judge(
        self,
        demos: Demonstrations,
        valid: Demonstrations | None,
        seed: int,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> FittedJudge | None:
        data, network, scorer, _ = self._discriminate(demos, valid, seed, on_epoch, resume)
        return self.judge(data, network, scorer, seed)

    def _discriminate(
        self,
        demos: Demonstrations,
        valid: Demonstrations | None,
        seed: int,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> tuple[WeighedData, PlainNetwork, PairScorer, Stages]:
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        with seeded(seed) as generator:
            network = data.network()
            scorer = PairScorer(demos.spaces, hidden=self.hidden, layers=self.layers)
        scorer.logit.scale_as(network)
        stages = Stages(self, generator, on_epoch, resume)
        train_discriminator(
            stages,
            scorer.logit,
            data,
            generator,
            self.discriminator_updates,
            penalty=self.gradient_penalty,
        )
        return data, network, scorer, stages

    @torch.no_grad()
    def _weights(self, scorer: PairScorer, data: WeighedData) -> Tensor:
        """`c / (1 - c)` of each training step. (N,)"""
        parts = data.windows.parts()
        logits = [scorer.logit(data.windows.at(i).state, data.windows.actions_at(i)) for i in parts]
        weights = torch.cat(logits).exp().clamp(max=self.largest)
        return torch.where(weights >= self.threshold, weights, 0.0)


def weighted_nll(nll: Tensor, weights: Tensor) -> Tensor:
    """Eq. 5: `E_all[w (-log pi)]`."""
    return (weights * nll).mean()
