"""The paper's judge: optimality by positive-unlabelled learning over skills (section 4.2.2).

Skills are discovered on clean and noisy demonstrations (Algorithm 2); those that clean ones prefer
and that predict actions well are good, and a step is as good as the skills it selects. SDIL with
`score="pu"` trains a policy with the very same skills; this is the judge alone.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sdil.cores import wanted_device
from sdil.demonstrations import Demonstrations, hold_out
from sdil.errors import InputError
from sdil.judging import NONE_LEFT, FittedJudge, Signal, check_judge
from sdil.networks.hierarchical import SkillArchitecture, SkillModel
from sdil.scores import JudgedSteps
from sdil.skills.discovery import Discovery
from sdil.skills.fields import DiscoveryFields
from sdil.skills.optimality import step_scores
from sdil.skills.steps import TrainingSteps, first_models
from sdil.spaces import Spaces
from sdil.states import State
from sdil.training import OnEpoch, seeded
from sdil.trajectories import Trajectories
from sdil.windows import Windows


@dataclass(frozen=True)
class PU(DiscoveryFields):
    """The paper's judge: a step is as good as the skills it selects."""

    name: ClassVar[str] = "pu"
    reference: ClassVar[str] = "Zhao et al., KDD 2023"
    real_actions: ClassVar[bool] = True

    @classmethod
    def paper(cls) -> PU:
        """The paper's values and forms, as in `SDIL.paper()`."""
        return cls(
            usage_weight=0.0,
            positive_filter="difference",
            clip_preference=False,
            clean_share=0.0,
        )

    @classmethod
    def presets(cls) -> dict[str, PU]:
        """Named configurations for the command line."""
        return {"paper": cls.paper()}

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> SkillJudge:
        """Discover skills and score them; the clean validation set is only left out."""
        check_judge(demos, self, seed)
        train, _ = hold_out(demos, valid, seed=seed)
        if not len(train.noisy):
            raise InputError(NONE_LEFT)
        steps = TrainingSteps(train, self, seed)
        with seeded(seed) as generator:
            discovered, _, T = first_models(steps, self)
        steps = steps.to(wanted_device())
        for module in (discovered, T):
            module.to(wanted_device())
        discovery = Discovery(steps, discovered, T, self, generator)
        discovery.run(on_epoch, resume)
        discovery.warn_of_collapse()
        return SkillJudge(
            demos.spaces,
            self.architecture,
            discovered.cpu(),
            steps.inputs,
            discovery.skill_optimality,
            lasting=steps.lasting,
            hyperparameters=asdict(self),
            seed=seed,
        )


class SkillJudge(FittedJudge):
    """Skills as discovery left them, and how good each is."""

    kind = "skills"

    def __init__(
        self,
        spaces: Spaces,
        architecture: SkillArchitecture,
        model: SkillModel,
        inputs: Tensor,
        skill_optimality: Tensor,
        *,
        lasting: Tensor | None = None,
        hyperparameters: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.spaces, self.name, self.seed = spaces, PU.name, seed
        self.hyperparameters = hyperparameters or {}
        self.skill_optimality = skill_optimality
        """`s_k^op` of each skill. (K,)"""
        self._architecture, self._model, self._inputs = architecture, model, inputs
        self._lasting = lasting
        self._double = deepcopy(model).double().requires_grad_(False)

    @property
    def signals(self) -> tuple[Signal, ...]:
        return (Signal("skills", True, "a step is as good as the skills it selects"),)

    def judge(self, packed: Trajectories) -> JudgedSteps:
        windows = Windows(packed, self._architecture.look_back, self._inputs)
        if self._lasting is not None:
            windows = windows.until_change(self._lasting)
        probs = self._double.selection_of_all(windows)
        scores = step_scores(probs, self.skill_optimality.double())
        return JudgedSteps(scores.numpy(), skill_probs=probs.numpy())

    def tensors(self) -> dict[str, Tensor]:
        own = {"inputs": self._inputs, "skill_optimality": self.skill_optimality}
        if self._lasting is not None:
            own["lasting"] = self._lasting
        return {**nn.ModuleDict({"model": self._model}).state_dict(), **own}

    def configuration(self) -> dict[str, Any]:
        return asdict(self._architecture)

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> SkillJudge:
        architecture, own = SkillArchitecture(**configuration), dict(tensors)
        inputs, skill_optimality = own.pop("inputs"), own.pop("skill_optimality")
        lasting = own.pop("lasting", None)
        with torch.random.fork_rng(devices=[]):  # its weights are replaced at once
            model = SkillModel(
                len(inputs), spaces.action, architecture, sees_next=architecture.next_state
            )
        nn.ModuleDict({"model": model}).load_state_dict(own)
        return cls(spaces, architecture, model, inputs, skill_optimality, lasting=lasting)
