"""What discovery is given: the training steps, and the models that it begins with."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from sdil.clustering import fit_clusters
from sdil.demonstrations import Demonstrations
from sdil.heads import make_head
from sdil.networks.hierarchical import SkillModel
from sdil.networks.skills import Compatibility
from sdil.skills.fields import DiscoveryFields
from sdil.skills.stretches import cluster_stretches, lasting_inputs
from sdil.windows import Windows, as_tensor, varying_inputs


class TrainingSteps:
    """All training steps, clean ones first, and what discovery needs to know of each."""

    def __init__(self, demos: Demonstrations, settings: DiscoveryFields, seed: int) -> None:
        self.demos, everything = demos, demos.all
        lengths = as_tensor(everything.lengths)
        self.inputs = varying_inputs(everything)
        """The entries of an observation that are not the same throughout: the others can teach
        nothing, and cost time. (I,)"""
        self.windows = Windows(everything, settings.look_back, self.inputs)
        self.lasting = None if settings.skills_from == "steps" else lasting_inputs(self.windows)
        """Of these entries, those whose changes end a stretch; None: skills are of steps. (L,)"""
        self.actions = self.windows.actions[self.windows.steps]  # (N, *action)
        self.trajectory = torch.arange(len(lengths)).repeat_interleave(lengths)  # (N,)
        self.trajectory_is_clean = torch.arange(len(lengths)) < len(demos.clean)
        self.is_clean = self.trajectory_is_clean[self.trajectory]  # (N,)
        self.clean = torch.arange(demos.clean.n_steps)
        self.noisy = torch.arange(demos.clean.n_steps, len(self.windows))
        self.clusters = torch.zeros(len(self.windows), dtype=torch.int64)
        """k-means cluster of each step's stretch or state; all 0 where nothing is paired. (N,)"""
        if self.lasting is not None:
            self.clusters = cluster_stretches(self.windows, self.lasting, settings.n_skills, seed)
            self.windows = self.windows.until_change(self.lasting)
        elif settings.mi_weight > 0:
            states = self.windows.observations, self.windows.rows
            if settings.clusters == "sets":
                self.clusters = self._clusters_of_sets(settings.n_clusters, seed)
            else:
                self.clusters = fit_clusters(*states, settings.n_clusters, seed).labels(*states)

    def _clusters_of_sets(self, n_clusters: int, seed: int) -> Tensor:
        """Of states and actions, half as many for either set: nothing of one is with anything of
        the other. (N,)"""
        head, half = make_head(self.demos.spaces.action), max(1, n_clusters // 2)
        head.fit(self.actions)
        states, actions = self.windows.observations[self.windows.rows], head.encode(self.actions)
        both = torch.cat([states, actions.to(states.dtype)], 1), torch.arange(len(self.windows))
        return fit_clusters(*both, half, seed).labels(*both) + half * (~self.is_clean).long()

    def with_clean_ones(self, optimality: Tensor) -> Tensor:
        """Scores of all steps (N,), where clean ones have 1."""
        return torch.where(self.is_clean, 1.0, optimality.float().to(self.is_clean.device))

    def to(self, device: torch.device) -> TrainingSteps:
        """The same on a device; `inputs` and `lasting` stay on the CPU, where data sets are."""
        if self.is_clean.device.type == device.type:
            return self
        some = copy(self)
        some.windows = self.windows.to(device)
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and name not in ("inputs", "lasting"):
                setattr(some, name, value.to(device))
        return some


def first_models(
    steps: TrainingSteps, settings: DiscoveryFields, *, history: bool = False, chunk: int = 1
) -> tuple[SkillModel, SkillModel, Compatibility]:
    """`f_bi`, `g`, `pi_low`; then those of phase 2, with `f_uni`; and `T`: all random yet.

    They know the statistics of the training steps. With `history`, `pi_low` of phase 2 sees it;
    with a `chunk` that model predicts so many actions at once.
    """
    sizes = len(steps.inputs), steps.demos.spaces.action
    discovered = SkillModel(*sizes, settings.architecture, sees_next=settings.next_state)
    reusing = replace(settings.architecture, history=history, chunk=chunk)
    model = SkillModel(*sizes, reusing, sees_next=False)
    seen = len(steps.inputs) + model.head.encoded
    T = Compatibility(seen, settings.skill_size, settings.hidden)
    for head in (discovered.head, model.head):
        head.fit(steps.actions)
    discovered.encoder.features.standardise.fit(steps.windows)
    statistics = discovered.encoder.features.standardise.state_dict()
    model.encoder.features.standardise.load_state_dict(statistics)
    for low in (discovered.pi_low, *model.low_policies):
        low.standardise.load_state_dict(statistics)
    for each in (discovered, model):
        each.lean_on(steps.windows)
    return discovered, model, T
