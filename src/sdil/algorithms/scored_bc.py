"""Behaviour cloning weighted by a judge's step score: what the score is worth without skills.

Not from a paper. It uses noisy steps exactly as SDIL's phase 2 does with the same `noisy_share`
(`judged.py`, the draw by score), and trains BC's network on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from sdil.algorithms.judged import UNUSED, draw_after, draw_by_score, given_or_own
from sdil.algorithms.learner import check
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.judging import FittedJudge
from sdil.limits import Share
from sdil.moved import refuse_moved
from sdil.networks.policies import PlainPolicy
from sdil.training import OnEpoch, Stages, State, seeded


@dataclass(frozen=True)
class ScoredBC(WeighingLearner):
    """Behaviour cloning of the clean steps and of noisy ones by their score."""

    noisy_share: Share = 0.75
    """Share of each batch drawn from noisy steps by their score."""

    name: ClassVar[str] = "scored-bc"
    reference: ClassVar[str] = "ours"
    noisy_set: ClassVar[str] = "steps drawn by score"
    takes_judge: ClassVar[bool] = True

    def __new__(cls, *_: Any, **given: Any) -> ScoredBC:
        """Refuse fields that have another place now, by name."""
        refuse_moved(cls.name, given)
        return super().__new__(cls)

    def fit(
        self,
        demos: Demonstrations,
        *,
        judge: FittedJudge | None = None,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> PlainPolicy:
        """Judge the noisy steps, by `judge` or our own, then clone. `env` is not used."""
        check(demos, self, seed)
        data = WeighedData(demos, valid, self, seed)
        if data.n_noisy:
            asked = judge, demos, valid, seed, on_epoch, resume
            judge, on_epoch, resume = given_or_own(*asked)
        elif judge is not None:
            raise InputError(UNUSED)
        with seeded(seed) as generator:
            network = data.network()
        draw_after(judge, seed, generator)
        draw = None
        if judge is not None:
            noisy = slice(data.n_clean, None)
            likelihood = judge.likelihood(data.demos.all)
            also = None if likelihood is None else likelihood[noisy]
            draw = draw_by_score(judge.optimality(data.demos.all)[noisy], also, generator)

        def loss(index: Tensor) -> dict[str, Tensor]:
            if draw is None:
                return {"imitation": data.nll(network, index).mean()}
            n_noisy = round(self.noisy_share * len(index))
            clean = data.draw_clean(len(index) - n_noisy, generator)
            batch = torch.cat([clean, data.n_clean + draw(n_noisy)])
            return {"imitation": data.nll(network, batch).mean()}

        Stages(self, generator, on_epoch, resume).converge(
            "clone",
            {"network": network},
            loss=loss,
            valid_loss=lambda: data.valid_nll(network),
            n_samples=data.n_clean if draw is None else len(data.windows),
        )
        return self.policy(data, network, judge)
