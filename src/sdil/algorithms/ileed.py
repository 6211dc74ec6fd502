"""ILEED: imitation learning by estimating expertise of demonstrators (Beliaev et al., ICML 2022).

A demonstrator of expertise rho acts like the policy with probability rho and at random otherwise;
`rho = sigmoid(f(s) . omega)`, an `omega` per demonstrator, is learned with the policy by maximum
likelihood. Departures: every noisy demonstration is a demonstrator of its own; clean ones are
trusted, rho = 1 (the published method knows no clean set); f has a bias output; training ends by
clean validation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sdil.algorithms.learner import check
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.judges.step_networks import ExpertiseScorer, mixture_likelihood
from sdil.limits import Count
from sdil.networks.policies import PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class ILEED(WeighingLearner):
    """Joint estimate of a policy and of each demonstration's expertise."""

    expertise_size: Count = 4
    """Numbers that describe the expertise of a demonstration."""

    name: ClassVar[str] = "ileed"
    reference: ClassVar[str] = "Beliaev et al., ICML 2022"

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
        """Maximise the likelihood of all demonstrations. `env` is not used."""
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        n_noisy = len(data.demos.noisy)
        lengths = torch.as_tensor(data.demos.noisy.lengths.copy())
        demonstrator = torch.arange(n_noisy).repeat_interleave(lengths)
        with seeded(seed) as generator:
            network = data.network()
            scorer = ExpertiseScorer(
                demos.spaces, hidden=self.hidden, layers=self.layers, size=self.expertise_size
            )
            omega = nn.Embedding(max(1, n_noisy), self.expertise_size)
        scorer.embedding.scale_as(network)

        uniform = math.exp(network.head.log_uniform)

        def loss(index: Tensor) -> dict[str, Tensor]:
            nll = data.nll(network, index)
            noisy = index >= data.n_clean
            if not data.n_noisy:
                return {"imitation": nll.mean()}
            who = demonstrator[(index - data.n_clean).clamp(min=0)]
            logit = scorer.expertise(data.windows.at(index).state, omega(who))
            mixed = -mixture_likelihood(logit, (-nll).exp(), uniform).log()
            return {"imitation": torch.where(noisy, mixed, nll).mean()}

        Stages(self, generator, on_epoch, resume).converge(
            "clone",
            {"network": network, "expertise": scorer, "omega": omega},
            loss=loss,
            n_samples=len(data.windows),
            **data.until(network),
        )
        return self.policy(data, network, self.judge(data, network, scorer, seed))
