"""Behaviour cloning weighted by a judge's step score: what the score is worth without skills.

Not from a paper. It uses noisy steps exactly as SDIL's phase 2 does, by trust that follows the data
(`trust.py`) or with the same `noisy_share` (`judged.py`), and trains BC's network on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from sdil.algorithms.judged import UNUSED, draw_after, draw_share, given_or_own
from sdil.algorithms.learner import check
from sdil.algorithms.trust import NOTHING, Trust, find_trust, trust_all
from sdil.algorithms.weighing import WeighedData, WeighingLearner
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.judging import FittedJudge
from sdil.limits import Share
from sdil.moved import refuse_moved
from sdil.networks.policies import PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded


@dataclass(frozen=True)
class ScoredBC(WeighingLearner):
    """Behaviour cloning of the clean steps and of noisy ones by their score."""

    noisy_share: Share | Literal["auto"] = "auto"
    """How much it leans on noisy steps. auto: as far as they help to predict clean groups that were
    left out; a number: this share of each batch is drawn from them by their score."""

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
        if len(demos.noisy):
            asked = judge, demos, valid, seed, on_epoch, resume
            judge, on_epoch, resume = given_or_own(*asked)
        elif judge is not None:
            raise InputError(UNUSED)
        trust = self._find_trust(demos, judge, valid, seed)
        alone = trust is not None and trust.way == NOTHING
        plain = alone or (trust is not None and trust.way.pools)  # what BC does
        used = demos.clean_only() if alone else demos
        data = WeighedData(used, valid, self, seed, lengths=None if trust is None else {})
        with seeded(seed) as generator:
            network = data.network()
        draw = None
        if judge is not None and not plain:
            draw_after(judge, seed, generator)
            draw = (
                draw_share(float(self.noisy_share), judge, demos, generator)
                if trust is None
                else trust.draw(data.n_clean, generator)
            )

        def loss(index: Tensor) -> dict[str, Tensor]:
            batch = index if draw is None else draw(len(index))
            return {"imitation": data.nll(network, batch).mean()}

        Stages(self, generator, on_epoch, resume).converge(
            "clone",
            {"network": network},
            loss=loss,
            n_samples=len(data.windows),
            **data.until(network, trust=trust),
        )
        return self.policy(data, network, judge, trust=trust)

    def _find_trust(
        self,
        demos: Demonstrations,
        judge: FittedJudge | None,
        valid: Demonstrations | None,
        seed: int,
    ) -> Trust | None:
        """How far noisy steps are trusted; None where the user says it."""
        if self.noisy_share != "auto":
            return None
        if judge is None:
            return trust_all(demos, valid, self, seed=seed)
        return find_trust(demos, judge, valid, self, seed=seed)
