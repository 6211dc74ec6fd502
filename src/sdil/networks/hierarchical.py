"""The hierarchical policy: an encoder and `g` choose a skill, `pi_low` acts with it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.cores import computing_on
from sdil.demonstrations import pack_given
from sdil.errors import InputError
from sdil.heads import Distribution, counts_actions, make_head
from sdil.judging import FittedJudge
from sdil.networks.encoders import SkillEncoder
from sdil.networks.skills import Matching, SkillMatching, SkillPolicy
from sdil.policy import Policy
from sdil.scores import StepScores
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectories, Trajectory
from sdil.windows import STEPS_AT_ONCE, Window, Windows

Predicts = Literal["mixture", "likeliest", "mean"]
"""How skills decide on an action."""


@dataclass(frozen=True)
class SkillArchitecture:
    """The size of a hierarchical policy."""

    n_skills: int
    skill_size: int
    look_back: int
    hidden: int
    layers: int
    next_state: bool
    """Whether the discovery encoder sees `s_{t+1}`."""
    history: bool = False
    """Whether `pi_low` sees the embedding of the window, too, when it acts."""
    matching: Matching = "inverse"
    """How `g` makes probabilities of distances."""
    chunk: int = 1
    """Actions that are predicted at once: that of now and those that follow."""
    act_on: int = 1
    """As many of them are done before it looks again."""


class SkillModel(nn.Module):
    """An encoder (`f_bi` or `f_uni`), `g` and `pi_low`, and `pi_ahead` where several actions are
    predicted at once."""

    def __init__(
        self,
        n_inputs: int,
        action: gym.Space[Any],
        architecture: SkillArchitecture,
        *,
        sees_next: bool,
    ) -> None:
        """`n_inputs` is the number of entries of an observation that are looked at, `action` the
        space of actions."""
        super().__init__()
        a = architecture
        self.head = make_head(action)
        self.encoder = SkillEncoder(
            n_inputs,
            self.head,
            a.look_back,
            sees_next=sees_next,
            hidden=a.hidden,
            layers=a.layers,
            skill_size=a.skill_size,
        )
        self.g = SkillMatching(a.n_skills, a.skill_size, a.matching)
        self.pi_low = SkillPolicy(n_inputs, a.skill_size, self.head, a.hidden, a.layers)
        self.of_embedding = nn.Parameter(torch.zeros(a.hidden, a.skill_size)) if a.history else None
        """What `pi_low` sees of `z'_t` beside the skill that it stands for: at first nothing."""
        self.pi_ahead = None
        """Like `pi_low`, of the actions that follow the present one."""
        if a.chunk > 1:
            sizes = n_inputs, a.skill_size, self.head, a.hidden, a.layers
            self.pi_ahead = SkillPolicy(*sizes, actions=a.chunk - 1)

    @property
    def low_policies(self) -> tuple[SkillPolicy, ...]:
        """`pi_low`, and `pi_ahead` where it is there."""
        return (self.pi_low,) if self.pi_ahead is None else (self.pi_low, self.pi_ahead)

    def lean_on(self, windows: Windows) -> None:
        """Find in recorded steps which actions follow which states; scales are known already."""
        for low in self.low_policies:
            if low.leaning is not None:
                low.leaning.fit(windows, low.standardise, self.head)

    def soften(self, temperature: float) -> None:
        """Make it less sure of the same, for good."""
        own = counts_actions(self.head)  # of real numbers the head itself is softened, once
        for low in self.low_policies if own else self.low_policies[:1]:
            low.soften(temperature)

    def seen_of(self, embeddings: Tensor) -> Tensor | None:
        """What is added to the first layer of `pi_low`. (B, hidden)"""
        return None if self.of_embedding is None else F.linear(embeddings, self.of_embedding)

    def log_probs(self, window: Window, following: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """How probable each skill is. (B, K)"""
        return self.g.log_probs(self.encoder(window, following))

    def selection(self, windows: Windows, index: Tensor) -> Tensor:
        """The same for steps of recorded trajectories, whose next state is known. (B, K)"""
        following = windows.next_states_at(index) if self.encoder.sees_next else None
        return self.log_probs(windows.at(index), following).exp()

    @torch.no_grad()
    def selection_of_all(self, windows: Windows) -> Tensor:
        """The same of all steps. (N, K)"""
        return torch.cat([self.selection(windows, part) for part in windows.parts()])

    def outputs(self, window: Window, predicts: Predicts) -> Tensor:
        """What its head takes: of counted actions logits. (B, head.size or more)

        - mixture: by all skills, each as probable as it is: `log sum_k p(z^k) pi_low(a | s, z^k)`;
        - likeliest: under the most probable skill;
        - mean: under the mean of their prototypes.
        """
        return self._by_skills(self.pi_low, window, self.encoder(window), predicts)

    def plan(self, window: Window, predicts: Predicts) -> Tensor:
        """Of the actions that follow, too, each by itself. (B, chunk, head.size or more)"""
        embeddings = self.encoder(window)
        now = self._by_skills(self.pi_low, window, embeddings, predicts)[:, None]
        if self.pi_ahead is None:
            return now
        return torch.cat([now, self._by_skills(self.pi_ahead, window, embeddings, predicts)], 1)

    def _by_skills(
        self, low: SkillPolicy, window: Window, embeddings: Tensor, predicts: Predicts
    ) -> Tensor:
        """What `low` says; `embeddings` are z'_t. (B, d_z)"""
        log_probs, seen = self.g.log_probs(embeddings), self.seen_of(embeddings)
        if predicts == "likeliest":
            return low(window.state, self.g.prototypes[log_probs.argmax(1)], seen)
        if predicts == "mean":
            return low(window.state, log_probs.exp() @ self.g.prototypes, seen)
        each = low.for_every_skill(window.state, self.g.prototypes, seen)  # (B, K, ...)
        if each.dim() == 4:  # of several actions (B, K, actions, head.size)
            each = each.transpose(1, 2)
            log_probs = log_probs[:, None].expand(-1, each.shape[1], -1)
        return self.head.mix(log_probs, each)


class HierarchicalPolicy(Policy):
    """Acts with `f_uni`; tells skills with the discovery model, frozen as phase 1 left it."""

    kind = "skills"

    def __init__(
        self,
        spaces: Spaces,
        architecture: SkillArchitecture,
        *,
        acting: SkillModel,
        discovery: SkillModel,
        inputs: Tensor,
        skill_optimality: Tensor,
        lasting: Tensor | None = None,
        predicts: Predicts = "mixture",
        judge: FittedJudge | None = None,
        learner: str = "",
        hyperparameters: dict[str, Any] | None = None,
    ) -> None:
        """`predicts` says how skills decide on an action (`SkillModel.outputs`)."""
        self.spaces = spaces
        self.look_back, self.act_on = architecture.look_back, architecture.act_on
        self.predicts = predicts
        self.judge = judge
        self.learner = learner
        self.hyperparameters = hyperparameters or {}
        self.skill_optimality = skill_optimality
        """`s_k^op` of each skill; NaN without noisy data. (K,)"""
        self.inputs = inputs
        """The entries of an observation that are looked at: those that vary in training. (I,)"""
        self.lasting = lasting
        """Of these, those whose changes end a stretch, where skills are of stretches. (L,)"""
        self._architecture = architecture
        self._models = nn.ModuleDict({"acting": acting, "discovery": discovery})
        self._acting = deepcopy(acting).double().requires_grad_(False)
        self._discovery = deepcopy(discovery).double().requires_grad_(False)

    def distribution(self, window: Window) -> Distribution:
        seen = self.seen_window(window).only(self.inputs)
        outputs = self._acting.outputs(seen, self.predicts)
        return Distribution(self._acting.head, outputs)

    def plan(self, window: Window) -> Distribution:
        seen = self.seen_window(window).only(self.inputs)
        outputs = self._acting.plan(seen, self.predicts)
        return Distribution(self._acting.head, outputs[:, : self.act_on])

    def score(
        self, trajectories: Sequence[Trajectory], *, device: str | None = None
    ) -> list[StepScores]:
        """How good each step of any trajectories is, by its judge, and which skill it shows."""
        scores = super().score(trajectories, device=device)
        if not scores or scores[0].skill is not None:  # the paper's judge tells skills itself
            return scores
        packed = pack_given(trajectories, self.spaces)
        with computing_on(device):
            windows = self._windows(packed)
        probs = packed.split_steps(self._discovery.selection_of_all(windows).numpy())
        return [
            replace(s, skill=p.argmax(1), skill_probs=p) for s, p in zip(scores, probs, strict=True)
        ]

    def embeddings(self, trajectories: Sequence[Trajectory], steps: Array) -> Array:
        """`z'_t` of these steps by `f_bi`, counted over all trajectories. (n, d_z)"""
        windows = self._windows(pack_given(trajectories, self.spaces))
        encoder, found = self._discovery.encoder, []
        with torch.no_grad():
            for part in torch.from_numpy(steps).split(STEPS_AT_ONCE):
                following = windows.next_states_at(part) if encoder.sees_next else None
                found.append(encoder(windows.at(part), following))
        return torch.cat(found).numpy()

    def _windows(self, packed: Trajectories) -> Windows:
        """As discovery saw them."""
        windows = Windows(self.seen(packed), self.look_back, self.inputs)
        return windows if self.lasting is None else windows.until_change(self.lasting)

    @property
    def prototypes(self) -> Array:
        """`z^k`, as discovery left them. (K, d_z)"""
        return self._discovery.g.prototypes.detach().numpy().copy()

    def probs_with_skill(self, observations: Array, skills: Array) -> Array:
        """`pi_low(a | s, z^k)`, as discovery left it, with these skills (n,). (n, A)"""
        if not self.spaces.listed:
            raise InputError("actions that are real numbers have no probability each")
        seen = np.ascontiguousarray(self.seen_rows(observations))
        states = torch.from_numpy(seen)[:, self.inputs]
        chosen = self._discovery.g.prototypes[torch.from_numpy(skills)]
        with torch.no_grad():
            probs: Tensor = self._discovery.pi_low(states, chosen).softmax(1)
        return probs.numpy()

    def tensors(self) -> dict[str, Tensor]:
        return {
            **self._models.state_dict(),
            "inputs": self.inputs,
            "skill_optimality": self.skill_optimality,
            **({} if self.lasting is None else {"lasting": self.lasting}),
        }

    def configuration(self) -> dict[str, Any]:
        return {**asdict(self._architecture), "predicts": self.predicts}

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> HierarchicalPolicy:
        sizes_of, own = dict(configuration), dict(tensors)
        predicts: Predicts = sizes_of.pop("predicts")
        architecture = SkillArchitecture(**sizes_of)
        inputs, skill_optimality = own.pop("inputs"), own.pop("skill_optimality")
        lasting = own.pop("lasting", None)
        sizes = len(inputs), spaces.action
        acting = SkillModel(*sizes, architecture, sees_next=False)
        as_found = replace(architecture, history=False, chunk=1)
        discovery = SkillModel(*sizes, as_found, sees_next=architecture.next_state)
        nn.ModuleDict({"acting": acting, "discovery": discovery}).load_state_dict(own)
        return cls(
            spaces,
            architecture,
            acting=acting,
            discovery=discovery,
            inputs=inputs,
            skill_optimality=skill_optimality,
            lasting=lasting,
            predicts=predicts,
        )
