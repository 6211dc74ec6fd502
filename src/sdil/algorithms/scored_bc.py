"""Behaviour cloning weighted by our own step score: what SDIL's score is worth without its skills.

Not from a paper. It uses noisy steps exactly as SDIL's phase 2 does with the same `noisy_share`
(`evidence.py`, the draw by score), and trains BC's network on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import torch
from torch import Tensor

from sdil.algorithms.evidence import chosen_signals, draw_by_score, gather_evidence
from sdil.algorithms.learner import OnEpoch, State, check
from sdil.algorithms.training import Stages, seeded
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.networks.evidence import Evidence
from sdil.networks.judges import EvidenceJudge, JudgingPolicy
from sdil.windows import varying_inputs


@dataclass(frozen=True)
class ScoredBC(WeighingLearner):
    """Behaviour cloning of the clean steps and of noisy ones by their score."""

    noisy_share: float = 0.75
    """Share of each batch drawn from noisy steps by their score."""
    signals: str = "likelihood+progress+value"
    """The kinds of evidence behind the score."""
    good_share: float = 0.5
    """The share of noisy steps assumed to be good; the data cannot tell it."""
    clone_updates: int = 400
    """Updates of the clean clones behind the likelihood."""
    distance_updates: int = 2_000
    """Updates of the temporal distance behind progress."""

    name: ClassVar[str] = "scored-bc"
    reference: ClassVar[str] = "ours"
    noisy_set: ClassVar[str] = "steps drawn by score"

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
        """Judge the noisy steps, then clone. `env` is not used."""
        check(demos, self, seed)
        chosen_signals(self.signals)
        data = WeighedData(demos, valid, self, seed)
        inputs = varying_inputs(data.demos.all)
        with seeded(seed) as generator:
            network = data.network()
        assert isinstance(demos.spaces.action, gym.spaces.Discrete)
        n_actions = int(demos.spaces.action.n)
        stages = Stages(self, generator, on_epoch, resume)
        if data.n_noisy:
            evidence = gather_evidence(
                data.windows.only(inputs),
                data.n_clean,
                data.valid.only(inputs),
                n_actions,
                self,
                stages,
                generator,
            )
            seen = data.windows.only(inputs)
            judged = torch.from_numpy(evidence.judge(seen).optimality)
            likelihood = evidence.likelihood(seen)
            draw = draw_by_score(judged[data.n_clean :], likelihood[data.n_clean :], generator)
        else:
            with torch.random.fork_rng(devices=[]):
                evidence, draw = Evidence((len(inputs), n_actions), members=1, hidden=1), None

        def loss(index: Tensor) -> dict[str, Tensor]:
            if draw is None:
                return {"imitation": data.nll(network, index).mean()}
            n_noisy = round(self.noisy_share * len(index))
            clean = data.draw_clean(len(index) - n_noisy, generator)
            batch = torch.cat([clean, data.n_clean + draw(n_noisy)])
            return {"imitation": data.nll(network, batch).mean()}

        stages.converge(
            "clone",
            {"network": network},
            loss=loss,
            valid_loss=lambda: data.valid_nll(network),
            n_samples=data.n_clean if draw is None else len(data.windows),
        )
        with torch.random.fork_rng(devices=[]):  # its weights are replaced at once
            judge = EvidenceJudge.of(evidence, inputs, demos.spaces)
        return self.policy(data, network, judge)
