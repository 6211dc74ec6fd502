"""SDIL: skill disentanglement for imitation learning from suboptimal demonstrations (KDD 2023).

Algorithm 1 of the paper: phase 1 discovers skills on clean and noisy demonstrations (Algorithm 2,
in `skills/discovery.py`); phase 2 reuses them on the clean ones, first learning to select (section
4.3, step 1), then refining everything (step 2). Departures; most are fields, and `SDIL.paper()` has
the paper's forms but for the bound of `L_adv`, `SDIL.released()` those of the authors' public code
(docs/sdil.md lists what else):

- `L_KD` is the negative log-likelihood of the teacher's skill; the paper's `-p` has no gradient
  where it is needed most.
- `L_adv` is the unlikelihood `-log(1 - p)`; the paper's `log p` has no lower bound, and even in
  `SDIL.paper()` it stops pushing once p is under 0.05.
- Training runs to convergence counted in updates: ten clean trajectories are a single batch.
- Of the paper's score, see `skills/optimality.py`; of pairs and the meaning of epsilon, see
  `skills/pairs.py`.
- Steps are judged before discovery begins, by a judge that is given or by our own
  (`judges/evidence.py`). The paper's score by skills is `score="pu"`. Phase 2 also imitates noisy
  steps, as far as that helps to predict clean groups which were left out (`trust.py`).
- Skills are discovered on the noisy steps that phase 2 trusts, as far as it does: `pi_low` starts
  phase 2 from what it did in discovery, and where good steps are few they do not outweigh the bad
  ones that it had learned.
- Without validation demonstrations nothing is held out: how long phase 2 trains is told across
  folds too.
- Where looking back helps to predict clean groups, `pi_low` also sees the embedding that a skill
  stands for (`low_level`); in the paper the past reaches it through the skill alone.
- Actions are predicted by all skills, each as probable as it is, not by the likeliest alone.
- With `chunk`, off by default, `pi_ahead` says what follows, and learns while all is refined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from sdil.acting import suit
from sdil.algorithms.judged import UNUSED, draw_after, draw_by_weight, draw_share, given_or_own
from sdil.algorithms.learner import check, check_chunk
from sdil.algorithms.reuse import Reuse
from sdil.algorithms.trust import NOTHING, Trust, find_trust, trust_all
from sdil.cores import wanted_device
from sdil.demonstrations import Demonstrations, hold_out
from sdil.errors import InputError
from sdil.judges.pu import SkillJudge
from sdil.judging import FittedJudge
from sdil.limits import Count, CountOrNone, Score, Share, Weight
from sdil.moved import refuse_moved
from sdil.networks.hierarchical import HierarchicalPolicy, SkillModel
from sdil.skills.discovery import Discovery
from sdil.skills.fields import DiscoveryFields
from sdil.skills.steps import TrainingSteps, first_models
from sdil.states import State, below, nest, on_cpu
from sdil.training import OnEpoch, seeded, with_more
from sdil.windows import Windows

DISCOVER, SELECT, REFINE = range(3)


@dataclass(frozen=True)
class SDIL(DiscoveryFields):
    """Skill disentanglement for imitation learning."""

    score: Literal["judge", "pu"] = "judge"
    """How noisy steps are judged: judge, by the one that is given or our own (`sdil.Judge()`); pu,
    as in the paper, by skills."""
    noisy_share: Share | Literal["auto"] = "auto"
    """How much select and refine lean on noisy steps. auto: as far as they help to predict clean
    groups that were left out; a number: this share of each batch is drawn from them by their score;
    0 as in the paper."""
    discovers_from: Literal["trusted", "all"] = "trusted"
    """Which noisy steps skills are discovered on: trusted, those that phase 2 leans on, as far as
    it does; all, each alike, as in the paper."""
    imitate_above: Score = 1.0
    """Where skills judge, noisy steps scored above it are imitated too, by their score, and weigh
    as if both sets were of one size, as in the authors' code and data; at 1 none are, as in the
    paper."""
    predicts: Literal["mixture", "likeliest", "mean"] = "mixture"
    """Who decides on an action: mixture, all skills, each as probable as it is; likeliest, the most
    probable skill alone, as in the paper; mean, the mean of the skills, about which the authors'
    code draws."""
    low_level: Literal["auto", "skill", "history"] = "auto"
    """What pi_low sees beside the state when it acts: skill, the skill alone, as in the paper;
    history, also the embedding of the window that the skill stands for; auto, history where actions
    are listed and looking back helps to predict clean groups that were left out."""
    distillation: Literal["log", "prob"] = "log"
    """L_KD: log, -log p of the teacher's skill; prob, the paper's -p."""
    distillation_weight: Weight = 1.0
    """Weight of L_KD."""
    distils: Literal["select", "always"] = "select"
    """When f_uni learns to choose as f_bi does: select, before all is refined, as in the paper;
    always, then too, as in the authors' code."""
    adv_weight: Weight = 0.0
    """Weight of L_adv, which pushes away from bad noisy steps."""
    adv_form: Literal["unlikelihood", "log", "prob"] = "unlikelihood"
    """L_adv: -log(1 - p), the paper's log p, or p as in the authors' code."""
    negative_below: Score = -0.25
    """Noisy steps scored below it are the bad ones."""
    negative_share: Share = 0.2
    """At most this share of the noisy steps, the lowest, are bad ones."""
    min_updates: CountOrNone = 400
    """Updates of select and of refine at the least; weights of fewer are never kept."""
    patience: Count = 200
    """Updates without a better clean validation likelihood after which each ends."""
    max_updates: Count = 4_000
    """Updates of select and of refine at the most."""
    chunk: Count = 1
    """Actions that are predicted at once: that of now and those that follow in the episode."""
    act_on: Count = 1
    """As many of these are done before the policy looks again; at most `chunk`."""
    acting: Literal["suited", "greedy"] = "suited"
    """How its policy acts by default: suited, by the rules that its demonstrations and its judge
    speak for (`acting.py`); greedy, as in the paper."""

    name: ClassVar[str] = "sdil"
    reference: ClassVar[str] = "Zhao et al., KDD 2023"
    noisy_set: ClassVar[str] = "skills, scored"
    environment: ClassVar[str] = "never"
    judges_steps: ClassVar[bool] = True
    takes_judge: ClassVar[bool] = True
    takes_truth: ClassVar[bool] = False
    real_actions: ClassVar[bool] = True

    def __new__(cls, *_: Any, **given: Any) -> SDIL:
        """Refuse fields that have another place now, by name."""
        refuse_moved(cls.name, given)
        return super().__new__(cls)

    @classmethod
    def paper(cls) -> SDIL:
        """The text's values and forms, with the sign of T and the bound of L_adv corrected."""
        return cls(
            score="pu",
            acting="greedy",
            noisy_share=0.0,
            discovers_from="all",
            predicts="likeliest",
            low_level="skill",
            discovery_epochs=70,
            discovery_min_updates=2_000,
            usage_weight=0.0,
            positive_filter="difference",
            clip_preference=False,
            clean_share=0.0,
            distillation="prob",
            adv_weight=1.0,
            adv_form="log",
        )

    @classmethod
    def released(cls) -> SDIL:
        """As the authors' public code does it, where that differs from the text; without its
        selection by the environment's reward."""
        return replace(
            cls.paper(),
            clean_share=0.5,  # both sets are of one size there
            selection="soft",
            matching="softmax",
            predicts="mean",
            clusters="sets",
            positive_filter="opposed",
            epsilon=1.0,  # drops none
            zeta_step=0.02,
            pu_interval=25,
            scored="released",
            imitate_above=0.25,
            distillation="log",
            distillation_weight=0.03125,  # means beside a loss that is summed over 32 steps
            distils="always",
            adv_weight=0.03125,
            adv_form="prob",
            negative_share=1.0,
        )

    @classmethod
    def presets(cls) -> dict[str, SDIL]:
        """Named configurations for the command line."""
        return {
            "paper": cls.paper(),
            "paper-without-adv": replace(cls.paper(), adv_weight=0.0),
            "released": cls.released(),
            "stretches": cls(skills_from="stretches"),
        }

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
    ) -> HierarchicalPolicy:
        """Algorithm 1. Noisy steps are judged by `judge`, or by our own. `env` is not used."""
        check(demos, self, seed)
        check_chunk(self)
        # Not in the paper: judge every noisy step before anything is learned from it.
        if self.score == "judge" and len(demos.noisy):
            asked = judge, demos, valid, seed, on_epoch, resume
            judge, on_epoch, resume = given_or_own(*asked)
        elif judge is not None:
            raise InputError(UNUSED)
        trust = self._find_trust(demos, judge, valid, seed)
        leans = judge is not None and self.noisy_share == "auto"
        if leans and trust.way == NOTHING:  # nothing to learn there: all is as without it
            demos = demos.clean_only()
        steps = TrainingSteps(demos, self, seed)
        with seeded(seed) as generator:  # line 1: random initial parameters
            # f_bi, g, pi_low; f_uni, g, pi_low
            sees = self._sees_history(trust)
            discovered, model, T = first_models(steps, self, history=sees, chunk=self.chunk)
        device = wanted_device()
        steps = steps.to(device)
        for module in (discovered, model, T):
            module.to(device)
        if len(demos.noisy):
            draw_after(judge, seed, generator)
        phases = Phases(on_epoch, resume)

        # Lines 2-7: phase 1, discover f_bi, g and pi_low, with PU estimates on the way.
        scores = None
        if judge is not None and len(demos.noisy):
            scores = steps.with_clean_ones(judge.optimality(demos.all))
        short = trust.updates is not None and trust.updates < min(
            self.min_updates, self.max_updates
        )
        at_most = trust.updates if short else None  # more would know the training set by heart
        draw_noisy = None
        if leans and trust.way.exponent and self.discovers_from == "trusted":
            draw_noisy = trust.draw_noisy(generator)
        discovery = Discovery(steps, discovered, T, self, generator, scores, at_most, draw_noisy)
        if phases.begun == DISCOVER:
            discovery.run(*phases.of(DISCOVER))
        else:
            discovered.load_state_dict(phases.found_before("discovered"))
            discovery.load_result(phases.found_before("result"))
        discovery.warn_of_collapse()
        found = on_cpu(discovered.requires_grad_(False).state_dict())
        phases.found |= nest("discovered", found)
        phases.found |= nest("result", discovery.result())
        model.g.load_state_dict(discovered.g.state_dict())
        model.pi_low.load_state_dict(discovered.pi_low.state_dict())

        # Lines 8-14: phase 2, select and refine (`reuse.py`).
        draw = self._draw(trust, demos, judge, generator)
        if self.imitate_above < 1 and judge is None and discovery.scores is not None:
            scores = discovery.scores[steps.noisy].cpu()
            weights = torch.where(scores > self.imitate_above, scores, 0.0)
            weights *= len(steps.clean) / len(weights)
            draw = draw_by_weight(weights, len(steps.clean), generator)
        held = None
        if valid is not None or trust.updates is None:
            held = Windows(hold_out(demos, valid, seed=seed)[1], self.look_back, steps.inputs)
            held = held.to(device)
        reuse = Reuse(model, discovery, held, trust.updates, draw, self, generator)
        if phases.begun <= SELECT:
            reuse.select(*phases.of(SELECT))
        reuse.refine(*phases.of(REFINE))
        model.soften(trust.temperature if held is None else reuse.temperature(held))
        for module in (model, discovery.model):
            module.cpu()
        policy = self._policy(demos, model, discovery, judge, seed)
        policy.trusted = trust.sentence if leans else ""
        return policy

    def _find_trust(
        self,
        demos: Demonstrations,
        judge: FittedJudge | None,
        valid: Demonstrations | None,
        seed: int,
    ) -> Trust:
        """How far noisy steps are trusted, and how long phase 2 trains."""
        always = self.low_level == "history"
        if judge is None or self.noisy_share == 0:
            return trust_all(demos.clean_only(), valid, self, seed=seed, always=always)
        return find_trust(demos, judge, valid, self, seed=seed, always=always)

    def _sees_history(self, trust: Trust) -> bool:
        return self.low_level == "history" or (
            self.low_level == "auto" and trust.looking_back_helps
        )

    def _draw(
        self,
        trust: Trust,
        demos: Demonstrations,
        judge: FittedJudge | None,
        generator: torch.Generator,
    ) -> Callable[[int], Tensor] | None:
        """What to draw the steps with that phase 2 imitates; None: they are the clean ones."""
        if judge is None or self.noisy_share == 0 or not len(demos.noisy):
            return None
        if self.noisy_share == "auto":
            return trust.draw(demos.clean.n_steps, generator)
        return draw_share(self.noisy_share, judge, demos, generator)

    def _policy(
        self,
        demos: Demonstrations,
        model: SkillModel,
        discovery: Discovery,
        judge: FittedJudge | None,
        seed: int,
    ) -> HierarchicalPolicy:
        if judge is None and len(demos.noisy):  # the paper's: skills judge
            judge = SkillJudge(
                demos.spaces,
                self.architecture,
                discovery.model,
                discovery.steps.inputs,
                discovery.skill_optimality,
                lasting=discovery.steps.lasting,
                seed=seed,
            )
        policy = HierarchicalPolicy(
            demos.spaces,
            replace(
                self.architecture,
                history=model.of_embedding is not None,
                chunk=self.chunk,
                act_on=self.act_on,
            ),
            acting=model,
            discovery=discovery.model,
            inputs=discovery.steps.inputs,
            skill_optimality=discovery.skill_optimality,
            lasting=discovery.steps.lasting,
            predicts=self.predicts,
            judge=judge,
            learner=self.name,
            hyperparameters=asdict(self),
        )
        return suit(policy, demos, greedy=self.acting == "greedy")


class Phases:
    """Where training is, and what earlier phases have found: all that a checkpoint needs."""

    def __init__(self, on_epoch: OnEpoch | None, resume: State | None) -> None:
        self._on_epoch, self._resume = on_epoch, resume
        self.begun = DISCOVER if resume is None else int(resume["phase"])
        """The phase that an interruption was in."""
        self.found: State = {}
        """By the phases before."""

    def of(self, phase: int) -> tuple[OnEpoch | None, State | None]:
        """The listener of a phase, and what it resumes from."""
        found = {"phase": torch.tensor(phase), **self.found}
        interrupted = self._resume is not None and self.begun == phase
        own = below(self._resume, "own") if interrupted and self._resume is not None else None
        return with_more(self._on_epoch, lambda: found), own

    def found_before(self, what: str) -> State:
        """What an earlier phase had found before the interruption."""
        assert self._resume is not None
        return below(self._resume, what)
