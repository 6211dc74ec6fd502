"""Skills: the matching module `g`, the skill-conditioned policy `pi_low`, and the estimator `T`."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.heads import ActionHead
from sdil.networks.encoders import Standardise, mlp
from sdil.networks.leaning import Leaning

Matching = Literal["inverse", "softmax"]
"""What the probability of a skill is proportional to: the inverse of its distance, or the
exponential of that."""

_SLOPE = 0.1  # of LeakyReLU below zero


class SkillMatching(nn.Module):
    """`g`: K prototypes, and how probable it is that an embedding stands for each of them."""

    def __init__(self, n_skills: int, skill_size: int, form: Matching = "inverse") -> None:
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(n_skills, skill_size))
        self._form = form

    def log_probs(self, embeddings: Tensor) -> Tensor:
        """Eq. 1: `p(z_t = z^k)` proportional to `1 / D(z'_t, z^k)`, as logarithms; in the form
        "softmax" to the exponential of that. (B, K)

        D is `sqrt(d^2 + 1e-4)`: the inverse distance is singular where an embedding meets a
        prototype.
        """
        square = (embeddings[:, None] - self.prototypes).square().sum(2)  # d^2 (B, K)
        if self._form == "softmax":
            return (square + 1e-4).rsqrt().log_softmax(1)
        return (-0.5 * torch.log(square + 1e-4)).log_softmax(1)


def select(
    log_probs: Tensor,
    gumbel: Tensor,
    temperature: float,
    form: Literal["gumbel", "soft"] = "gumbel",
) -> Tensor:
    """Eq. 2: a hard choice with a soft gradient (straight-through Gumbel-softmax). (B, K)

    `gumbel` is noise from Gumbel(0, 1), of the same shape. The form "soft" is not made hard: every
    skill has a share, which the noise moves.
    """
    soft = ((log_probs + gumbel) / temperature).softmax(1)
    if form == "soft":
        return soft
    hard = torch.zeros_like(soft).scatter(1, soft.argmax(1, keepdim=True), 1.0)
    return hard - soft.detach() + soft


class SkillPolicy(nn.Module):
    """`pi_low`: what its head takes (of counted actions logits) from the current state and a skill;
    from the history only where that is asked for."""

    def __init__(
        self,
        observation_size: int,
        skill_size: int,
        head: ActionHead,
        hidden: int,
        layers: int,
        *,
        actions: int | None = None,
    ) -> None:
        """`head` is the model's own. With a number of `actions` it tells so many at once, and its
        outputs have an axis more for them, the last but one."""
        super().__init__()
        self.standardise = Standardise(observation_size)
        self.of_state, self.of_skill = _split_layer(observation_size, skill_size, hidden)
        self.body = mlp(hidden, hidden, layers - 1, (actions or 1) * head.size)
        self._head, self._actions = (head,), actions
        self.leaning = Leaning.of(head)

    def forward(self, states: Tensor, skills: Tensor, seen: Tensor | None = None) -> Tensor:
        """What else is `seen` is added to the first layer. (B, hidden)"""
        return self.act(self.standardise(states), skills, seen)

    def act(self, standardised: Tensor, skills: Tensor, seen: Tensor | None = None) -> Tensor:
        """The same for states that are standardised already."""
        first = self.of_state(standardised) + self.of_skill(skills)
        return self._rest(first if seen is None else first + seen, standardised)

    def for_every_skill(
        self, states: Tensor, prototypes: Tensor, seen: Tensor | None = None
    ) -> Tensor:
        """The same under each of the K skills. (B, K, head.size)"""
        standardised = self.standardise(states)
        of_state = self.of_state(standardised)  # (B, hidden)
        of_state = of_state if seen is None else of_state + seen
        return self._rest(of_state[:, None] + self.of_skill(prototypes), standardised[:, None])

    def soften(self, temperature: float) -> None:
        """Make it less sure of the same, for good."""
        self._head[0].soften(self.body, temperature)

    def _rest(self, first: Tensor, standardised: Tensor) -> Tensor:
        outputs: Tensor = self.body(F.leaky_relu(first, _SLOPE))  # (..., head.size)
        if self._actions is not None:
            outputs = outputs.unflatten(-1, (self._actions, -1))
            standardised = standardised[..., None, :]
        if self.leaning is None:
            return outputs
        return self.leaning(outputs, standardised, self._head[0])


class Compatibility(nn.Module):
    """`T`: how well a skill goes with a state and an action; a real number."""

    def __init__(self, step_size: int, skill_size: int, hidden: int) -> None:
        super().__init__()
        self.of_step, self.of_skill = _split_layer(step_size, skill_size, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(
        self, steps: Tensor, chosen: Tensor, prototypes: Tensor, partners: Tensor
    ) -> Tensor:
        """T for each step and the skills that its `partners` (B, P) have `chosen`. (B, P)

        `steps` are standardised states beside encoded actions (B, I + A), `chosen` is one-hot
        (B, K). The hidden layer is a sum of a part of (s, a) and one of the skill.
        """
        of_step = self.of_step(steps)[:, None]  # (B, 1, hidden)
        of_skill = chosen @ self.of_skill(prototypes)  # of each step's own (B, hidden)
        theirs = of_skill.index_select(0, partners.flatten()).view(*partners.shape, -1)
        return self.out(F.leaky_relu_(of_step + theirs, _SLOPE)).squeeze(2)  # (B, P)


def _split_layer(one: int, other: int, outputs: int) -> tuple[nn.Linear, nn.Linear]:
    """A linear layer on two inputs side by side, as a layer on each; their outputs are added."""
    whole = nn.Linear(one + other, outputs)
    first, second = nn.Linear(one, outputs), nn.Linear(other, outputs, bias=False)
    with torch.no_grad():  # drawn as the one layer that it is
        first.weight.copy_(whole.weight[:, :one])
        second.weight.copy_(whole.weight[:, one:])
        first.bias.copy_(whole.bias)
    return first, second
