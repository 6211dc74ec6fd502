"""DemInf: episodes by the mutual information of states and actions (Hejna et al. 2025).

A published judge of whole episodes, beside ours. Good demonstrators are varied in where they are
and sure of what they do there: the mutual information between state and action is high. It is
estimated by nearest neighbours, and an episode is as good as the mean of what its steps add to the
estimate. It needs no clean set. Departures: actions are discrete, so the estimator is that for one
discrete variable (Ross 2014), and states are standardised and projected on their principal
components where the paper trains a variational auto-encoder.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sdil.demonstrations import Demonstrations
from sdil.judges.episodes import over_stretches
from sdil.judging import FittedJudge, Signal, check_judge
from sdil.limits import Count
from sdil.networks.encoders import Standardise
from sdil.scores import JudgedSteps
from sdil.spaces import Array, Spaces
from sdil.states import State
from sdil.training import OnEpoch
from sdil.trajectories import Trajectories
from sdil.windows import Windows, varying_inputs

_AT_ONCE = 1_024  # steps whose neighbours are looked for together


@dataclass(frozen=True)
class DemInf:
    """Episodes by the mutual information of states and actions."""

    neighbours: Count = 5
    """Neighbours with the same action that the estimate looks at."""
    sample: Count = 4_096
    """Steps among which neighbours are looked for, drawn from both sets."""
    components: Count = 8
    """Principal components of the states."""

    name: ClassVar[str] = "deminf"
    reference: ClassVar[str] = "Hejna et al., 2025"

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> DemInfJudge:
        """Draw the steps to look for neighbours in. Nothing is trained."""
        check_judge(demos, self, seed)
        inputs = varying_inputs(demos.all)
        windows = Windows(demos.all, 0, inputs)
        standardise = Standardise(len(inputs))
        standardise.fit(windows)
        drawn = np.sort(np.random.default_rng([seed, 31]).permutation(len(windows))[: self.sample])
        index = torch.from_numpy(drawn)
        states = standardise(windows.at(index).state.float())
        basis = torch.linalg.svd(states - states.mean(0), full_matrices=False).Vh
        judge = DemInfJudge(
            demos.spaces,
            {
                "inputs": inputs,
                "mean": standardise.mean,
                "scale": standardise.scale,
                "basis": basis[: self.components].T.contiguous(),
                "states": states @ basis[: self.components].T,
                "actions": windows.actions_at(index).long(),
                "usual": torch.tensor([0.0, 1.0], dtype=torch.float64),
            },
            neighbours=self.neighbours,
            hyperparameters=asdict(self),
            seed=seed,
        )
        judge.settle(demos.noisy)
        return judge


class DemInfJudge(FittedJudge):
    """Judges by what steps add to the mutual information of a sample."""

    kind = "deminf"

    def __init__(
        self,
        spaces: Spaces,
        tensors: dict[str, Tensor],
        *,
        neighbours: int,
        hyperparameters: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.spaces, self.name, self.seed = spaces, DemInf.name, seed
        self.hyperparameters = hyperparameters or {}
        self._tensors, self._neighbours = tensors, neighbours

    @property
    def signals(self) -> tuple[Signal, ...]:
        why = "what its steps add to the mutual information of states and actions"
        return (Signal("mutual information", True, why, "episode"),)

    def settle(self, noisy: Trajectories) -> None:
        """Take the mean and the spread over noisy stretches for 0 and 1."""
        around = over_stretches(self._adds(noisy), Windows(noisy, 0).times.numpy())
        spread = max(float(around.std()), 1e-9)
        self._tensors["usual"] = torch.tensor([float(around.mean()), spread], dtype=torch.float64)

    def judge(self, packed: Trajectories) -> JudgedSteps:
        mean, spread = self._tensors["usual"].tolist()
        adds = self._adds(packed)
        around = over_stretches(adds, Windows(packed, 0).times.numpy())
        return JudgedSteps(
            optimality=np.tanh((adds - mean) / (2 * spread)),
            quality=np.tanh((around - mean) / (2 * spread)),
        )

    def _adds(self, packed: Trajectories) -> Array:
        """`psi(N) + psi(k) - psi(N_a) - psi(m)` of each step (Ross 2014). (N,)"""
        from scipy.special import digamma

        own = self._tensors
        windows = Windows(packed, 0, own["inputs"])
        known, taken = own["states"].double(), own["actions"]
        parts = []
        for index in torch.arange(len(windows)).split(_AT_ONCE):
            scaled = (windows.at(index).state.double() - own["mean"].double()) * own[
                "scale"
            ].double()
            distance = torch.cdist(scaled @ own["basis"].double(), known)
            actions = windows.actions_at(index).long()
            same = actions[:, None] == taken
            among = same.sum(1)
            k = among.clamp(min=1, max=self._neighbours)
            ranked = distance.masked_fill(~same, torch.inf).sort(1).values
            reach = ranked.gather(1, (k - 1)[:, None])
            within = (distance <= reach).sum(1).clamp(min=1)
            found = digamma(len(known)) + digamma(k.numpy())
            found = found - digamma(among.clamp(min=1).numpy()) - digamma(within.numpy())
            parts.append(np.where(among.numpy() > 0, found, 0.0))
        return np.concatenate(parts)

    def tensors(self) -> dict[str, Tensor]:
        return dict(self._tensors)

    def configuration(self) -> dict[str, Any]:
        return {"neighbours": self._neighbours}

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> DemInfJudge:
        return cls(spaces, tensors, neighbours=int(configuration["neighbours"]))
