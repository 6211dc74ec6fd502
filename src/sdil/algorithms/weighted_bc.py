"""Weighted behaviour cloning: noisy steps weigh as much as a clean policy finds them likely.

The plainest use of doubtful data: clone the clean set, then clone everything, a noisy step with
weight `p_clean(a | s) ** power` and a clean one with 1. (The idea is common; see e.g. Sasaki and
Yamashina, ICLR 2021, who iterate it.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sdil.algorithms.isw_bc import weighted_nll
from sdil.algorithms.learner import check
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.judges.step_networks import LikelihoodScorer
from sdil.judging import FittedJudge
from sdil.limits import Weight
from sdil.networks.policies import PlainNetwork, PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class WeightedBC(WeighingLearner):
    """Behaviour cloning weighted by the likelihood under a clean clone."""

    power: Weight = 1.0
    """Likelihoods are raised to it: 0 trusts every step, a large one only the likeliest."""

    name: ClassVar[str] = "weighted-bc"
    reference: ClassVar[str] = "after Sasaki, ICLR 2021"

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
        """Clone the clean set, then all steps by their weight. `env` is not used."""
        data, network, scorer, stages = self._clone_clean(demos, valid, seed, on_epoch, resume)
        weights = self._weights(scorer, data)
        stages.converge(
            "clone",
            {"network": network},
            loss=lambda index: {
                "imitation": weighted_nll(data.nll(network, index), weights[index])
            },
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
        data, network, scorer, _ = self._clone_clean(demos, valid, seed, on_epoch, resume)
        return self.judge(data, network, scorer, seed)

    def _clone_clean(
        self,
        demos: Demonstrations,
        valid: Demonstrations | None,
        seed: int,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> tuple[WeighedData, PlainNetwork, LikelihoodScorer, Stages]:
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        with seeded(seed) as generator:
            network = data.network()
            scorer = LikelihoodScorer(
                demos.spaces, look_back=self.look_back, hidden=self.hidden, layers=self.layers
            )
        scorer.clean.features.load_state_dict(network.features.state_dict())
        scorer.clean.head.load_state_dict(network.head.state_dict())
        stages = Stages(self, generator, on_epoch, resume)
        stages.converge(
            "clone clean",
            {"clean": scorer.clean},
            loss=lambda index: {"imitation": data.nll(scorer.clean, index).mean()},
            n_samples=data.n_clean,
            **data.until(scorer.clean, "clone clean"),
        )
        return data, network, scorer, stages

    @torch.no_grad()
    def _weights(self, scorer: LikelihoodScorer, data: WeighedData) -> Tensor:
        """The weight of each training step. (N,)"""
        steps = torch.arange(len(data.windows))
        likelihood = torch.cat(
            [
                scorer.probability(data.windows.at(i), data.windows.actions_at(i))
                for i in data.windows.parts()
            ]
        )
        return torch.where(steps < data.n_clean, 1.0, likelihood**self.power)
