"""CAIL: confidence-aware imitation learning (Zhang et al., NeurIPS 2021).

Every noisy step has a confidence; the policy imitates steps with it as weight, and an outer loop
moves the confidences so that one step of that imitation makes clean demonstrations more likely.
Departures: the confidence is a network of (s, a), so that new steps have one too; the outer loss is
the likelihood of the clean set, where the published one ranks trajectories by known returns; clean
steps have confidence 1.
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
from sdil.judges.step_networks import PairScorer
from sdil.limits import Positive
from sdil.networks.policies import PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class CAIL(WeighingLearner):
    """Behaviour cloning with confidences learned in an outer loop."""

    inner_rate: Positive = 0.1
    """Step size of the one step that the outer loop looks through."""

    name: ClassVar[str] = "cail"
    reference: ClassVar[str] = "variant of Zhang et al., NeurIPS 2021"

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
        """Train policy and confidences in turn. `env` is not used."""
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        windows = data.windows
        with seeded(seed) as generator:
            network = data.network()
            scorer = PairScorer(demos.spaces, hidden=self.hidden, layers=self.layers)
        scorer.logit.scale_as(network)

        def nll(weights: dict[str, Tensor], index: Tensor) -> Tensor:
            outputs = torch.func.functional_call(network, weights, (windows.at(index),))
            return network.head.nll(outputs, windows.actions_at(index))

        def loss(index: Tensor) -> dict[str, Tensor]:
            if not data.n_noisy:
                return {"imitation": data.nll(network, index).mean()}
            confidence = scorer.logit(windows.at(index).state, windows.actions_at(index)).sigmoid()
            confidence = torch.where(index < data.n_clean, 1.0, confidence)
            # the outer loop: a step of imitation, as a function of the confidences
            now = {k: v.detach().requires_grad_() for k, v in network.named_parameters()}
            inner = weighted_nll(nll(now, index), confidence)
            slopes = torch.autograd.grad(inner, list(now.values()), create_graph=True)
            after = {
                k: v.detach() - self.inner_rate * slope
                for (k, v), slope in zip(now.items(), slopes, strict=True)
            }
            outer = nll(after, data.draw_clean(len(index), generator)).mean()
            return {
                "outer": outer,
                "imitation": weighted_nll(data.nll(network, index), confidence.detach()),
            }

        Stages(self, generator, on_epoch, resume).converge(
            "clone",
            {"network": network, "confidence": scorer},
            loss=loss,
            n_samples=len(windows),
            **data.until(network),
            without_decay=("confidence",),  # its gradient is so small that decay would drown it
        )
        return self.policy(data, network, self.judge(data, network, scorer, seed))
