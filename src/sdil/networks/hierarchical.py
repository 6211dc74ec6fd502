"""The hierarchical policy: an encoder and `g` choose a skill, `pi_low` acts with it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.demonstrations import pack_given
from sdil.errors import InputError
from sdil.networks.encoders import SkillEncoder
from sdil.networks.evidence import SIGNALS, Evidence, Judgement, Numbering, worth
from sdil.networks.skills import SkillMatching, SkillPolicy
from sdil.policy import Policy
from sdil.scores import StepScores
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectory
from sdil.windows import Window, Windows

_STEPS_AT_ONCE = 8_192
_AGAIN = 1e-6  # what is left of an action's probability for each time it was tried more often


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


class SkillModel(nn.Module):
    """An encoder (`f_bi` or `f_uni`), `g` and `pi_low`."""

    def __init__(
        self, n_inputs: int, n_actions: int, architecture: SkillArchitecture, *, sees_next: bool
    ) -> None:
        """`n_inputs` is the number of entries of an observation that are looked at."""
        super().__init__()
        a = architecture
        self.encoder = SkillEncoder(
            n_inputs,
            n_actions,
            a.look_back,
            sees_next=sees_next,
            hidden=a.hidden,
            layers=a.layers,
            skill_size=a.skill_size,
        )
        self.g = SkillMatching(a.n_skills, a.skill_size)
        self.pi_low = SkillPolicy(n_inputs, a.skill_size, n_actions, a.hidden, a.layers)

    def log_probs(self, window: Window, following: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """How probable each skill is. (B, K)"""
        return self.g.log_probs(self.encoder(window, following))

    def selection(self, windows: Windows, index: Tensor) -> Tensor:
        """The same for steps of recorded trajectories, whose next state is known. (B, K)"""
        following = windows.next_states_at(index) if self.encoder.sees_next else None
        return self.log_probs(windows.at(index), following).exp()

    def logits(self, window: Window) -> Tensor:
        """Action logits under the most probable skill. (B, n_actions)"""
        skill = self.log_probs(window).argmax(1)
        return self.pi_low(window.state, self.g.prototypes[skill])


class HierarchicalPolicy(Policy):
    """Acts with `f_uni`; judges data with the discovery model, frozen as phase 1 left it.

    In states that were recorded with several actions, it also listens to their value (the signal of
    `networks/evidence.py`). With a memory it does not go round in circles: back in a state it has
    just been in, it does what it has tried least there.
    """

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
        evidence: Evidence | None = None,
        memory: int = 0,
        value_weight: float = 0.0,
        learner: str = "",
        hyperparameters: dict[str, Any] | None = None,
    ) -> None:
        self.spaces = spaces
        self.look_back = max(architecture.look_back, memory)
        self.memory = memory
        """Past steps that it does not care to repeat."""
        self.value_weight = value_weight
        """How much the value of recorded actions counts."""
        self.learner = learner
        self.hyperparameters = hyperparameters or {}
        self.skill_optimality = skill_optimality
        """`s_k^op` of each skill. (K,)"""
        self.inputs = inputs
        """The entries of an observation that are looked at: those that vary in training. (I,)"""
        self.evidence = evidence
        """What judges steps; without it the skills do, as in the paper."""
        self._architecture = architecture
        self._models = nn.ModuleDict({"acting": acting, "discovery": discovery})
        self._acting = deepcopy(acting).double().requires_grad_(False)
        self._discovery = deepcopy(discovery).double().requires_grad_(False)
        self._evidence = None if evidence is None else deepcopy(evidence).double()
        self._advice = None if evidence is None or not value_weight else Advice(evidence)

    def action_probs(self, window: Window) -> Tensor:
        recent = latest(window, self._architecture.look_back).only(self.inputs)
        logits = self._acting.logits(recent)
        if self._advice is not None:
            logits = logits + self.value_weight * self._advice(recent.state)
        probs = logits.softmax(1)
        return prefer_untried(probs, latest(window, self.memory)) if self.memory else probs

    def score(self, trajectories: Sequence[Trajectory]) -> list[StepScores]:
        """How good each step of any trajectories is, and which skill it shows."""
        if self.skill_optimality.isnan().any():
            raise InputError(
                "this policy was trained without noisy demonstrations, so it cannot tell good "
                "steps from bad ones; train it on a clean and a noisy set"
            )
        if not len(trajectories):
            return []
        packed = pack_given(trajectories, self.spaces)
        windows = Windows(packed, self._architecture.look_back, self.inputs)
        with torch.no_grad():
            parts = torch.arange(len(windows)).split(_STEPS_AT_ONCE)
            probs = torch.cat([self._discovery.selection(windows, part) for part in parts])
        judged = (
            Judgement((probs @ self.skill_optimality.double()).numpy())
            if self._evidence is None
            else self._evidence.judge(windows)
        )
        split = packed.split_steps
        return [
            replace(s, skill=p.argmax(1), skill_probs=p)
            for s, p in zip(judged.by_trajectory(split), split(probs.numpy()), strict=True)
        ]

    def embeddings(self, trajectories: Sequence[Trajectory], steps: Array) -> Array:
        """`z'_t` of these steps by `f_bi`, counted over all trajectories. (n, d_z)"""
        packed = pack_given(trajectories, self.spaces)
        windows = Windows(packed, self._architecture.look_back, self.inputs)
        encoder, found = self._discovery.encoder, []
        with torch.no_grad():
            for part in torch.from_numpy(steps).split(_STEPS_AT_ONCE):
                following = windows.next_states_at(part) if encoder.sees_next else None
                found.append(encoder(windows.at(part), following))
        return torch.cat(found).numpy()

    @property
    def prototypes(self) -> Array:
        """`z^k`, as discovery left them. (K, d_z)"""
        return self._discovery.g.prototypes.detach().numpy().copy()

    def probs_with_skill(self, observations: Array, skills: Array) -> Array:
        """`pi_low(a | s, z^k)`, as discovery left it, with these skills (n,). (n, A)"""
        states = torch.from_numpy(np.ascontiguousarray(observations))[:, self.inputs]
        chosen = self._discovery.g.prototypes[torch.from_numpy(skills)]
        with torch.no_grad():
            probs: Tensor = self._discovery.pi_low(states, chosen).softmax(1)
        return probs.numpy()

    def tensors(self) -> dict[str, Tensor]:
        return {
            **self._models.state_dict(),
            **{f"evidence.{k}": v for k, v in self._judging().items()},
            "inputs": self.inputs,
            "skill_optimality": self.skill_optimality,
        }

    def _judging(self) -> dict[str, Tensor]:
        return {} if self.evidence is None else self.evidence.state_dict()

    def configuration(self) -> dict[str, Any]:
        return {
            **asdict(self._architecture),
            "memory": self.memory,
            "value_weight": self.value_weight,
        }

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> HierarchicalPolicy:
        assert isinstance(spaces.action, gym.spaces.Discrete)
        architecture = SkillArchitecture(
            **{field.name: configuration[field.name] for field in fields(SkillArchitecture)}
        )
        own = {k: v for k, v in tensors.items() if not k.startswith("evidence.")}
        judging = {k.removeprefix("evidence."): v for k, v in tensors.items() if k not in own}
        inputs, skill_optimality = own.pop("inputs"), own.pop("skill_optimality")
        sizes = len(inputs), int(spaces.action.n)
        acting = SkillModel(*sizes, architecture, sees_next=False)
        discovery = SkillModel(*sizes, architecture, sees_next=architecture.next_state)
        nn.ModuleDict({"acting": acting, "discovery": discovery}).load_state_dict(own)
        return cls(
            spaces,
            architecture,
            acting=acting,
            discovery=discovery,
            inputs=inputs,
            skill_optimality=skill_optimality,
            evidence=Evidence.of_tensors(judging) if judging else None,
            memory=configuration.get("memory", 0),
            value_weight=configuration.get("value_weight", 0.0),
        )


class Advice:
    """What the value signal says of each action, in states that were recorded with several.

    An action that was not recorded there counts as neither better nor worse than the others.
    """

    def __init__(self, evidence: Evidence) -> None:
        value = SIGNALS.index("value")
        edges, log_odds = evidence.edges[value].numpy(), evidence.log_odds[value].numpy()
        self._known = Numbering(evidence.states.float().numpy())
        nothing = torch.zeros(1, evidence.advantage.shape[1], dtype=torch.float64)
        said = torch.from_numpy(worth(evidence.advantage.nan_to_num(0.0).numpy(), edges, log_odds))
        self._said = torch.cat([said.double(), nothing])  # the last row: a state not recorded

    def __call__(self, states: Tensor) -> Tensor:
        """Log-odds of "good"; 0 where nothing is known. (B, A)"""
        return self._said[torch.from_numpy(self._known.of(states.float().numpy()))]


def prefer_untried(probs: Tensor, window: Window) -> Tensor:
    """`probs` (B, A), moved to the actions that were tried least in the very state of now."""
    tried = tries(window, probs.shape[1])
    moved = probs * _AGAIN ** (tried - tried.amin(1, keepdim=True))
    return moved / moved.sum(1, keepdim=True)


def tries(window: Window, n_actions: int) -> Tensor:
    """How often each action was taken among the past steps in the very state of now. (B, A)"""
    same = (window.past_states == window.state[:, None]).flatten(2).all(2) & window.mask  # (B, M)
    taken = F.one_hot(window.past_actions.long(), n_actions)  # (B, M, A)
    return (taken * same[..., None]).sum(1)


def latest(window: Window, steps: int) -> Window:
    """The same windows, so many steps long."""
    begin = window.mask.shape[1] - steps
    past_states, past_actions = window.past_states[:, begin:], window.past_actions[:, begin:]
    return Window(window.state, past_states, past_actions, window.mask[:, begin:])
