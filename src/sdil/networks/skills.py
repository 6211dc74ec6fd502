"""Skills: the matching module `g`, the skill-conditioned policy `pi_low`, and the estimator `T`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.networks.encoders import Standardise, mlp


class SkillMatching(nn.Module):
    """`g`: K prototypes, and how probable it is that an embedding stands for each of them."""

    def __init__(self, n_skills: int, skill_size: int) -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(n_skills, skill_size))

    def log_probs(self, embeddings: Tensor) -> Tensor:
        """Eq. 1: `p(z_t = z^k)` proportional to `1 / D(z'_t, z^k)`, as logarithms. (B, K)

        D is `sqrt(d^2 + 1e-4)`: the inverse distance is singular where an embedding meets a
        prototype.
        """
        square = (
            embeddings.square().sum(1, keepdim=True)
            + self.prototypes.square().sum(1)
            - 2.0 * embeddings @ self.prototypes.T
        ).clamp(min=0.0)
        return (-0.5 * torch.log(square + 1e-4)).log_softmax(1)


def select(log_probs: Tensor, gumbel: Tensor, temperature: float) -> Tensor:
    """Eq. 2: a hard choice with a soft gradient (straight-through Gumbel-softmax). (B, K)

    `gumbel` is noise from Gumbel(0, 1), of the same shape.
    """
    soft = ((log_probs + gumbel) / temperature).softmax(1)
    hard = F.one_hot(soft.argmax(1), soft.shape[1]).to(soft.dtype)
    return hard - soft.detach() + soft


class SkillPolicy(nn.Module):
    """`pi_low`: action logits from the current state and a skill, never from the history."""

    def __init__(
        self, observation_size: int, skill_size: int, n_actions: int, hidden: int, layers: int
    ) -> None:
        super().__init__()
        self.standardise = Standardise(observation_size)
        self.body = mlp(observation_size + skill_size, hidden, layers, n_actions)

    def forward(self, states: Tensor, skills: Tensor) -> Tensor:
        return self.body(torch.cat([self.standardise(states), skills], 1))  # (B, n_actions)

    def for_every_skill(self, states: Tensor, prototypes: Tensor) -> Tensor:
        """The logits under each of the K skills. (B, K, n_actions)"""
        n, k = len(states), len(prototypes)
        repeated = states.repeat_interleave(k, 0)  # (B * K, observation)
        return self.forward(repeated, prototypes.repeat(n, 1)).view(n, k, -1)


class Compatibility(nn.Module):
    """`T`: how well a skill goes with a state and an action; a real number."""

    def __init__(self, observation_size: int, n_actions: int, skill_size: int, hidden: int) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.standardise = Standardise(observation_size)
        self.of_step = nn.Linear(observation_size + n_actions, hidden)
        self.of_skill = nn.Linear(skill_size, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)

    def forward(
        self, states: Tensor, actions: Tensor, chosen: Tensor, prototypes: Tensor, partners: Tensor
    ) -> Tensor:
        """T for each step and the skills that its `partners` (B, P) have `chosen` (B, K). (B, P)

        The hidden layer is a sum of a part of (s, a), computed once, and a small one of the skill,
        computed once per prototype.
        """
        one_hot = F.one_hot(actions, self.n_actions).to(chosen.dtype)
        of_step = self.of_step(torch.cat([self.standardise(states), one_hot], 1))  # (B, hidden)
        theirs = chosen.index_select(0, partners.flatten()).view(*partners.shape, -1)  # (B, P, K)
        hidden = of_step[:, None] + theirs @ self.of_skill(prototypes)  # (B, P, hidden)
        return self.out(F.leaky_relu(hidden, 0.1))[..., 0]
