"""SDIL: skill disentanglement for imitation learning from suboptimal demonstrations (KDD 2023).

Algorithm 1 of the paper: phase 1 discovers skills on clean and noisy demonstrations (Algorithm 2,
in `discovery.py`); phase 2 reuses them on the clean ones, first learning to select (section 4.3,
step 1), then refining everything (step 2). Departures; the first two are fields, and `SDIL.paper()`
has the paper's forms but for the bound of `L_adv` (docs/sdil.md lists what else it keeps):

- `L_KD` is the negative log-likelihood of the teacher's skill; the paper's `-p` has no gradient
  where it is needed most.
- `L_adv` is the unlikelihood `-log(1 - p)`; the paper's `log p` has no lower bound, and even in
  `SDIL.paper()` it stops pushing once p is under 0.05.
- Training runs to convergence counted in updates: ten clean trajectories are a single batch.
- Of the paper's score, see `optimality.py`; of pairs and the meaning of epsilon, see `pairs.py`.
- Steps are judged by several signals before discovery begins (`evidence.py`). The paper's score by
  skills is `score="pu"`. With `noisy_share`, phase 2 also imitates noisy steps by their score.
- Back in a state that it has just been in, the policy does what it has tried least there
  (`memory`): otherwise a greedy policy, once in a circle, stays there for ever. In recorded states
  it listens to what planning says of each action (`value_weight`).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import gymnasium as gym
import torch
from torch import Tensor

from sdil.algorithms.discovery import Discovery, TrainingSteps
from sdil.algorithms.evidence import chosen_signals, gather_evidence, separates
from sdil.algorithms.learner import OnEpoch, State, check, hold_out
from sdil.algorithms.pairs import FilterForm
from sdil.algorithms.reuse import Reuse
from sdil.algorithms.training import (
    Stages,
    below,
    nest,
    seeded,
    with_more,
)
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.networks.evidence import Evidence
from sdil.networks.hierarchical import (
    HierarchicalPolicy,
    SkillArchitecture,
    SkillModel,
    tries,
)
from sdil.networks.skills import Compatibility
from sdil.windows import Windows

JUDGE, DISCOVER, SELECT, REFINE = range(4)
_STEPS_AT_ONCE = 2_048


@dataclass(frozen=True)
class SDIL:
    """Skill disentanglement for imitation learning."""

    n_skills: int = 8
    """K, the number of skills."""
    skill_size: int = 16
    """d_z, the size of a skill embedding."""
    look_back: int = 5
    """M, past (state, action) pairs that choose the skill."""
    hidden: int = 64
    """Width of the hidden layers."""
    layers: int = 2
    """Number of hidden layers."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    weight_decay: float = 5e-4
    """L2 penalty on the weights, those of T apart."""
    batch_size: int = 256
    """Steps per update."""
    temperature: float = 1.0
    """Of the Gumbel-softmax that selects skills in training."""

    score: Literal["signals", "pu"] = "signals"
    """How steps are judged: signals, by several kinds of evidence; pu, the paper's, by skills."""
    signals: str = "likelihood+progress+value"
    """The kinds of evidence."""
    good_share: float = 0.5
    """The share of noisy steps assumed to be good; the data cannot tell it."""
    clone_updates: int = 400
    """Updates of the clean clones behind the likelihood."""
    distance_updates: int = 2_000
    """Updates of the temporal distance behind progress."""

    mi_weight: float = 1.0
    """lambda, the weight of the contrastive loss L_mi; 0 leaves it out."""
    usage_weight: float = 3.0
    """Weight of the entropy that keeps skills alive; 0 as in the paper."""
    next_state: bool = True
    """Whether discovery sees the next state; False is the paper's SDIL*."""
    epsilon: float = 0.1
    """A step is good above it, bad below minus it, otherwise unknown."""
    positive_filter: FilterForm = "opposed"
    """Positives dropped: opposed, one good and one bad; difference, scores that differ by more."""
    zeta_step: float = 0.05
    """Growth per epoch of the share of batches paired by embeddings; 0 is the paper's "w/o DEC"."""
    n_clusters: int = 8
    """Clusters of input states that pair the other batches."""
    positives: int = 3
    """Positive partners per step, beside itself."""
    negatives: int = 6
    """Negative partners per step."""
    nearest: float = 1 / 16
    """Share of the batch that counts as near."""
    farthest: float = 1 / 2
    """Share of the batch that counts as far."""
    pu_interval: int = 10
    """N_PU, epochs between estimates of optimality."""
    delta: float = 0.01
    """Keeps the preference score from a division by zero."""
    clip_preference: bool = True
    """Whether the preference score is clipped to [-1, 1]; not in the paper."""
    clean_share: float = 0.25
    """Share of each discovery batch drawn from the clean set; 0 draws from both as they come."""
    discovery_epochs: int = 15
    """Epochs of phase 1."""
    discovery_min_updates: int = 500
    """Updates of phase 1 at the least."""

    noisy_share: float = 0.0
    """Share of each batch of select and refine drawn from noisy steps by their score; 0 as in
    the paper."""
    distillation: Literal["log", "prob"] = "log"
    """L_KD: log, -log p of the teacher's skill; prob, the paper's -p."""
    adv_weight: float = 0.0
    """Weight of L_adv, which pushes away from bad noisy steps."""
    adv_form: Literal["unlikelihood", "log"] = "unlikelihood"
    """L_adv: -log(1 - p), or the paper's log p."""
    negative_below: float = -0.25
    """Noisy steps scored below it are the bad ones."""
    negative_share: float = 0.2
    """At most this share of the noisy steps, the lowest, are bad ones."""
    min_updates: int = 400
    """Updates of select and of refine at the least; weights of fewer are never kept."""
    patience: int = 200
    """Updates without a better clean validation likelihood after which each ends."""
    max_updates: int = 4_000
    """Updates of select and of refine at the most."""

    memory: int = 30
    """Steps for which the policy remembers what it did in a state: back there, it does what it has
    tried least. 0: never; nor where states never come again, or clean demonstrations repeat."""
    value_weight: float = 2.0
    """When acting in a state that was recorded with several actions: weight of what their value
    signal says for each, added to its log-probability. 0 as in the paper; and where that signal
    is not heard."""

    name: ClassVar[str] = "sdil"
    reference: ClassVar[str] = "Zhao et al., KDD 2023"
    noisy_set: ClassVar[str] = "skills, scored"
    environment: ClassVar[str] = "never"
    judges_steps: ClassVar[bool] = True

    @classmethod
    def paper(cls) -> SDIL:
        """The paper's values and forms, with the sign of T and the bound of L_adv corrected."""
        return cls(
            score="pu",
            noisy_share=0.0,
            memory=0,
            value_weight=0.0,
            usage_weight=0.0,
            positive_filter="difference",
            clip_preference=False,
            clean_share=0.0,
            distillation="prob",
            adv_weight=1.0,
            adv_form="log",
        )

    @classmethod
    def presets(cls) -> dict[str, SDIL]:
        """Named configurations for the command line."""
        return {"paper": cls.paper()}

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> HierarchicalPolicy:
        """Algorithm 1. `env` is not used."""
        check(demos, self, seed)
        chosen_signals(self.signals)
        if self.memory < 0 or not 0 <= self.value_weight < math.inf:
            raise InputError("memory and value_weight are 0 or more; 0 switches them off")
        train, held_out = hold_out(demos, valid, seed=seed)
        steps = TrainingSteps(train, self, seed)
        valid_windows = Windows(held_out, self.look_back, steps.inputs)
        architecture = SkillArchitecture(
            self.n_skills,
            self.skill_size,
            self.look_back,
            self.hidden,
            self.layers,
            self.next_state,
        )
        assert isinstance(demos.spaces.action, gym.spaces.Discrete)
        sizes = len(steps.inputs), int(demos.spaces.action.n)
        with seeded(seed) as generator:  # line 1: random initial parameters
            discovered = SkillModel(*sizes, architecture, sees_next=self.next_state)
            model = SkillModel(*sizes, architecture, sees_next=False)  # f_uni, g, pi_low
            T = Compatibility(*sizes, self.skill_size, self.hidden)
        discovered.encoder.features.standardise.fit(steps.windows)
        statistics = discovered.encoder.features.standardise.state_dict()
        for part in (discovered.pi_low, model.encoder.features, model.pi_low):
            part.standardise.load_state_dict(statistics)
        begun = JUDGE if resume is None else int(resume["phase"])
        found: State = {}  # by earlier phases

        def listen(phase: int) -> OnEpoch | None:
            return with_more(on_epoch, lambda: {"phase": torch.tensor(phase), **found})

        def own_of(phase: int) -> State | None:
            return None if resume is None or begun != phase else below(resume, "own")

        # Not in the paper: judge every noisy step before anything is learned from it.
        evidence: Evidence | None = None
        if self.score == "signals" and len(steps.noisy):
            if begun == JUDGE:
                stages = Stages(self, generator, listen(JUDGE), own_of(JUDGE))
                evidence = gather_evidence(
                    steps.windows,
                    len(steps.clean),
                    valid_windows,
                    sizes[1],
                    self,
                    stages,
                    generator,
                )
            else:
                assert resume is not None
                with torch.random.fork_rng(devices=[]):  # its weights are replaced at once
                    evidence = Evidence.of_tensors(below(resume, "evidence"))
            found |= nest("evidence", evidence.state_dict())

        # Lines 2-7: phase 1, discover f_bi, g and pi_low, with PU estimates on the way.
        judged = None if evidence is None else _judge(evidence, steps)
        discovery = Discovery(steps, discovered, T, self, generator, judged)
        if begun <= DISCOVER:
            discovery.run(listen(DISCOVER), own_of(DISCOVER))
        else:
            assert resume is not None
            discovered.load_state_dict(below(resume, "discovered"))
            discovery.load_result(below(resume, "result"))
        self._warn_of_collapse(discovery, len(steps.noisy) > 0)
        discovered.requires_grad_(False)
        found |= nest("discovered", discovered.state_dict())
        found |= nest("result", discovery.result())
        model.g.load_state_dict(discovered.g.state_dict())
        model.pi_low.load_state_dict(discovered.pi_low.state_dict())

        # Lines 8-14: phase 2, select and refine (`reuse.py`).
        asked = evidence if self.noisy_share > 0 else None
        likelihood = None if asked is None else asked.likelihood(steps.windows)
        reuse = Reuse(model, discovery, valid_windows, likelihood, self, generator)
        found["bad_steps"] = reuse.bad
        if begun <= SELECT:
            reuse.select(listen(SELECT), own_of(SELECT))
        reuse.refine(listen(REFINE), own_of(REFINE))
        return HierarchicalPolicy(
            demos.spaces,
            architecture,
            acting=model,
            discovery=discovered,
            inputs=steps.inputs,
            skill_optimality=discovery.skill_optimality,
            evidence=evidence,
            memory=self._memory(train),
            value_weight=self._value_weight(evidence, steps, valid_windows),
            learner=self.name,
            hyperparameters=asdict(self),
        )

    def _memory(self, train: Demonstrations) -> int:
        """`memory`, where demonstrations come back to states and clean ones do not repeat there."""
        if not self.memory:
            return 0
        assert isinstance(train.spaces.action, gym.spaces.Discrete)
        windows = Windows(train.all, self.memory)
        back, again = [], []
        for index in torch.arange(len(windows)).split(_STEPS_AT_ONCE):
            tried = tries(windows.at(index), int(train.spaces.action.n))
            taken = windows.actions_at(index).long()[:, None]
            back.append(tried.any(1))
            again.append(tried.gather(1, taken)[:, 0] > 0)
        came_back, repeated = torch.cat(back), torch.cat(again)[: train.clean.n_steps].sum()
        half = came_back[: train.clean.n_steps].sum() / 2
        return self.memory if came_back.any() and repeated <= half else 0

    def _value_weight(
        self, evidence: Evidence | None, steps: TrainingSteps, held_out: Windows
    ) -> float:
        """`value_weight`, where the value is heard: it rates clean steps above noisy ones."""
        if evidence is None or not self.value_weight:
            return 0.0
        noisy = evidence.value(steps.windows)[steps.noisy].numpy()
        heard = separates(evidence.value(held_out).numpy(), noisy)
        return self.value_weight if heard else 0.0

    def _warn_of_collapse(self, discovery: Discovery, has_noisy: bool) -> None:
        """Say what went wrong, and what to change."""
        if discovery.perplexity < self.n_skills / 2:
            warnings.warn(
                f"discovery failed: only {discovery.perplexity:.1f} of {self.n_skills} skills are "
                "in use. Raise usage_weight, lower n_skills, or give more data.",
                stacklevel=3,
            )
        if has_noisy and self.mi_weight > 0 and discovery.mixed_pairs_survived == 0.0:
            warnings.warn(
                "no clean step was paired with a noisy one at the end of discovery, so the noisy "
                'set taught the clean skills nothing. Use positive_filter="opposed", or raise '
                "epsilon.",
                stacklevel=3,
            )


def _judge(evidence: Evidence, steps: TrainingSteps) -> Tensor:
    """The score of each training step, clean ones 1. (N,)"""
    optimality = torch.from_numpy(evidence.judge(steps.windows).optimality).float()
    return torch.where(steps.is_clean, 1.0, optimality)
