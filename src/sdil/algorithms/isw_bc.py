"""ISW-BC: importance-sampling-weighted behaviour cloning (Li et al., NeurIPS 2023).

A discriminator c tells clean steps from all steps; `c / (1 - c)` is then the ratio of their
densities, and all steps are imitated with it as weight, those below `threshold` not at all.
Departures: the discriminator is trained for a fixed, short time instead of with a gradient penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sdil.algorithms.learner import OnEpoch, State, check
from sdil.algorithms.training import Stages, seeded
from sdil.algorithms.weighing import WeighedData, WeighingLearner, train_discriminator
from sdil.demonstrations import Demonstrations
from sdil.networks.judges import JudgingPolicy, PairJudge


@dataclass(frozen=True)
class ISWBC(WeighingLearner):
    """Behaviour cloning weighted by a ratio of densities."""

    discriminator_updates: int = 1_000
    """Updates of the discriminator."""
    threshold: float = 0.0
    """Steps of a smaller weight are left out."""
    largest: float = 100.0
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
    ) -> JudgingPolicy:
        """Train the discriminator, then the policy. `env` is not used."""
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        with seeded(seed) as generator:
            network = data.network()
            judge = PairJudge(demos.spaces, hidden=self.hidden, layers=self.layers)
        judge.logit.standardise.load_state_dict(network.features.standardise.state_dict())
        stages = Stages(self, generator, on_epoch, resume)
        train_discriminator(stages, judge.logit, data, generator, self.discriminator_updates)
        weights = self._weights(judge, data)

        def loss(index: Tensor) -> dict[str, Tensor]:
            return {"imitation": weighted_nll(data.nll(network, index), weights[index])}

        stages.converge(
            "clone",
            {"network": network},
            loss=loss,
            valid_loss=lambda: data.valid_nll(network),
            n_samples=len(data.windows),
        )
        return self.policy(data, network, judge)

    @torch.no_grad()
    def _weights(self, judge: PairJudge, data: WeighedData) -> Tensor:
        """`c / (1 - c)` of each training step. (N,)"""
        parts = torch.arange(len(data.windows)).split(8_192)
        logits = [judge.logit(data.windows.at(i).state, data.windows.actions_at(i)) for i in parts]
        weights = torch.cat(logits).exp().clamp(max=self.largest)
        return torch.where(weights >= self.threshold, weights, 0.0)


def weighted_nll(nll: Tensor, weights: Tensor) -> Tensor:
    """Eq. 5: `E_all[w (-log pi)]`."""
    return (weights * nll).mean()
