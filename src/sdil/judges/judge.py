"""Our judge. How it comes by its evidence is in `gathering.py`, what that says in `evidence.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Literal

from sdil.demonstrations import Demonstrations
from sdil.heads import make_head
from sdil.judges.fitted import EvidenceJudge
from sdil.judges.gathering import Gathering
from sdil.judges.material import Material
from sdil.judging import check_judge
from sdil.labels import Label, check_labels, episodes_of
from sdil.limits import Count, PartialShare, Positive, Some, Weight
from sdil.states import State
from sdil.training import OnEpoch, Stages, generator_of


@dataclass(frozen=True)
class Judge:
    """Judges steps and episodes by evidence that clean groups speak for."""

    signals: Annotated[
        str,
        Some(
            *("likelihood", "consensus", "progress", "value", "efficiency", "doing", "typical"),
            *("pace", "steps"),
        ),
    ] = "likelihood+consensus+progress+value+efficiency+doing+typical+pace+steps"
    """The kinds of evidence that are asked."""
    good_share: PartialShare | Literal["auto"] = "auto"
    """The share of noisy steps that are good; auto: estimated, with an interval."""
    clone_updates: Count = 400
    """Updates of the clones behind likelihood, consensus and typical."""
    distance_updates: Count = 3_000
    """Updates of the distance behind progress and efficiency; a learned value has a third."""
    outcome_updates: Count = 400
    """Updates of what actions are expected to bring, and of integrity."""
    hidden: Count = 64
    """Width of the hidden layers."""
    learning_rate: Positive = 1e-3
    """Adam's step size."""
    weight_decay: Weight = 5e-4
    """L2 penalty on the weights."""
    batch_size: Count = 256
    """Steps per update."""

    name: ClassVar[str] = "evidence"
    reference: ClassVar[str] = "ours"
    real_actions: ClassVar[bool] = True

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
        labels: Sequence[Label] = (),
    ) -> EvidenceJudge:
        """Learn the signals, decide which are heard, and weigh them; by what people say of steps
        too, where there are `labels`."""
        check_labels(labels, episodes_of(demos))
        check_judge(demos, self, seed)
        material = Material.of(demos, valid, seed=seed)
        generator = generator_of(seed)
        stages = Stages(self, generator, on_epoch, resume)
        head = make_head(demos.spaces.action)
        gathering = Gathering(self, material, head, stages, generator, seed)
        evidence, odd = gathering.run()
        fitted = EvidenceJudge(
            demos.spaces,
            evidence,
            material.inputs,
            relative=material.relative,
            odd=odd,
            cross_judged=gathering.cross_judged(demos),
            gathered=gathering.gathered(demos),
            random_state=generator.get_state(),
            hyperparameters=asdict(self),
            seed=seed,
        )
        return fitted.tell(labels) if labels else fitted
