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
from sdil.algorithms.learner import OnEpoch, State, check
from sdil.algorithms.training import Stages, seeded
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.networks.judges import JudgingPolicy, LikelihoodJudge


@dataclass(frozen=True)
class WeightedBC(WeighingLearner):
    """Behaviour cloning weighted by the likelihood under a clean clone."""

    power: float = 1.0
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
    ) -> JudgingPolicy:
        """Clone the clean set, then all steps by their weight. `env` is not used."""
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        with seeded(seed) as generator:
            network = data.network()
            judge = LikelihoodJudge(
                demos.spaces, look_back=self.look_back, hidden=self.hidden, layers=self.layers
            )
        judge.clean.features.load_state_dict(network.features.state_dict())
        stages = Stages(self, generator, on_epoch, resume)
        stages.converge(
            "clone clean",
            {"clean": judge.clean},
            loss=lambda index: {"imitation": data.nll(judge.clean, index).mean()},
            valid_loss=lambda: data.valid_nll(judge.clean),
            n_samples=data.n_clean,
        )
        weights = self._weights(judge, data)
        stages.converge(
            "clone",
            {"network": network},
            loss=lambda index: {
                "imitation": weighted_nll(data.nll(network, index), weights[index])
            },
            valid_loss=lambda: data.valid_nll(network),
            n_samples=len(data.windows),
        )
        return self.policy(data, network, judge)

    @torch.no_grad()
    def _weights(self, judge: LikelihoodJudge, data: WeighedData) -> Tensor:
        """The weight of each training step. (N,)"""
        steps = torch.arange(len(data.windows))
        likelihood = torch.cat(
            [
                judge.probability(data.windows.at(i), data.windows.actions_at(i))
                for i in steps.split(8_192)
            ]
        )
        return torch.where(steps < data.n_clean, 1.0, likelihood**self.power)
