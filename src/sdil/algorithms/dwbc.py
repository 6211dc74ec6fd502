"""DWBC: discriminator-weighted offline imitation learning (Xu et al., ICML 2022).

A discriminator `d(s, a, log pi)` and the policy are trained side by side; each sees what the other
knows. `D_e` is the clean set, `D_o` the noisy one. It weighs single (s, a) pairs, not trajectories.
Departures: both networks are ours (two layers of 64) under one Adam, training ends by clean
validation, and without a noisy set only the term of behaviour cloning is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from sdil.algorithms.learner import check
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.judges.step_networks import DiscriminatorScorer
from sdil.limits import Share, Weight
from sdil.networks.policies import PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class DWBC(WeighingLearner):
    """Behaviour cloning weighted by a discriminator."""

    eta: Share = 0.5
    """The share of expert steps assumed in the noisy set."""
    alpha: Weight = 7.5
    """Weight of plain behaviour cloning on the clean set."""
    least: Share = 0.1
    """The discriminator is clipped here from below,"""
    most: Share = 0.9
    """and here from above."""

    name: ClassVar[str] = "dwbc"
    reference: ClassVar[str] = "Xu et al., ICML 2022"

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
        """Train policy and discriminator together. `env` is not used."""
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        with seeded(seed) as generator:
            network = data.network()
            d = DiscriminatorScorer(
                demos.spaces,
                hidden=self.hidden,
                layers=self.layers,
                least=self.least,
                most=self.most,
            )
        d.logit.scale_as(network)

        def judged(index: Tensor) -> tuple[Tensor, Tensor]:
            """`log pi` and d of these steps. (B,) each"""
            log_pi = -data.nll(network, index)
            states = data.windows.at(index).state
            return log_pi, d(states, data.windows.actions_at(index), log_pi.detach())

        def loss(index: Tensor) -> dict[str, Tensor]:
            if not data.n_noisy:
                return {"policy": self.alpha * data.nll(network, index).mean()}
            clean = judged(data.draw_clean(len(index), generator))
            noisy = judged(data.n_clean + index)
            return {
                "discriminator": discriminator_loss(clean[1], noisy[1], self.eta),
                "policy": policy_loss(
                    clean[0], noisy[0], clean[1].detach(), noisy[1].detach(), self.eta, self.alpha
                ),
            }

        Stages(self, generator, on_epoch, resume).converge(
            "clone",
            {"network": network, "d": d},
            loss=loss,
            n_samples=data.n_noisy or data.n_clean,
            **data.until(network),
        )
        return self.policy(data, network, self.judge(data, network, d, seed))


def discriminator_loss(clean: Tensor, noisy: Tensor, eta: float) -> Tensor:
    """Eq. 8: positive-unlabelled, `eta E_e[-log d] + E_o[-log(1 - d)] - eta E_e[-log(1 - d)]`."""
    positive = -clean.log().mean() + (1 - clean).log().mean()
    return eta * positive - (1 - noisy).log().mean()


def policy_loss(
    log_pi_clean: Tensor,
    log_pi_noisy: Tensor,
    clean: Tensor,
    noisy: Tensor,
    eta: float,
    alpha: float,
) -> Tensor:
    """Eq. 13: `alpha E_e[-log pi] - E_e[-log pi eta / (d (1 - d))] + E_o[-log pi / (1 - d)]`.

    `clean` and `noisy` are d of the steps, without gradient.
    """
    of_clean = (alpha - eta / (clean * (1 - clean))) * -log_pi_clean
    return of_clean.mean() + (-log_pi_noisy / (1 - noisy)).mean()
