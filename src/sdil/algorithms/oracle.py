"""The oracle: behaviour cloning told which noisy steps were good. A limit, not a competitor.

It is handed the truth, which no other learner sees: a task's own judgement of every noisy step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sdil.algorithms.learner import check
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.limits import Share
from sdil.networks.policies import PlainPolicy
from sdil.spaces import Array
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class Oracle(WeighingLearner):
    """The limit: behaviour cloning of the clean steps and the truly good noisy ones."""

    clean_share: Share = 0.25
    """Share of each batch drawn from the clean set, as in SDIL's discovery."""

    name: ClassVar[str] = "oracle"
    reference: ClassVar[str] = "a limit, told the truth"
    noisy_set: ClassVar[str] = "its truly good steps"
    judges_steps: ClassVar[bool] = False
    takes_truth: ClassVar[bool] = True

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
        truth: Sequence[Array] | None = None,
    ) -> PlainPolicy:
        """Clone what is good. `truth` says of each noisy trajectory which steps are. (T,) each"""
        check(demos, self, seed)
        told = _check_truth(demos, truth)

        def fit(some: Demonstrations, **given: Any) -> PlainPolicy:
            return self.fit(some, truth=[told[name] for name in some.noisy.ids], **given)

        data = WeighedData(demos, valid, self, seed, fit=fit)
        steps = torch.arange(data.n_clean)
        share = 0.0
        if data.n_noisy:
            good = np.concatenate([told[name] for name in data.demos.noisy.ids])
            steps = torch.cat([steps, data.n_clean + torch.from_numpy(np.flatnonzero(good))])
            share = self.clean_share
        with seeded(seed) as generator:
            network = data.network()

        def loss(index: Tensor) -> dict[str, Tensor]:
            clean = data.draw_clean(int(share * len(index)), generator)
            batch = torch.cat([clean, steps[index[len(clean) :]]])
            return {"imitation": data.nll(network, batch).mean()}

        Stages(self, generator, on_epoch, resume).converge(
            "clone",
            {"network": network},
            loss=loss,
            n_samples=len(steps),
            **data.until(network),
        )
        return self.policy(data, network, None)


def _check_truth(demos: Demonstrations, truth: Sequence[Array] | None) -> dict[str, Array]:
    """The truth by the name of each noisy trajectory."""
    if truth is None:
        if not len(demos.noisy):
            return {}
        raise InputError(
            "the oracle needs the truth of every noisy step: fit(..., truth=truth.noisy_good), "
            "with `truth` from task.collect or sdil.load_truth"
        )
    if [len(t) for t in truth] != demos.noisy.lengths.tolist():
        raise InputError("the truth does not fit the noisy set: one array of T flags per episode")
    return dict(zip(demos.noisy.ids, truth, strict=True))
