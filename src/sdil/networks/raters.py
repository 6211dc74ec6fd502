"""What rates an action in a state by one number: the judges and rewards of adversaries."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sdil.heads import ActionHead
from sdil.networks.encoders import mlp


class ActionRater(nn.Module):
    """A number for a state and each action. It sees `s_t`, never the history.

    Actions that can be listed are rated side by side, one output each; others are an input.
    """

    def __init__(self, observation_size: int, head: ActionHead, hidden: int, layers: int) -> None:
        super().__init__()
        inputs = observation_size + (0 if head.listed else head.encoded)
        self.body = mlp(inputs, hidden, layers, head.listed or 1)
        self._head = (head,)  # in a tuple: no part of this, the policy owns it

    def forward(self, states: Tensor, actions: Tensor) -> Tensor:
        """Of these actions (B, *action) in standardised states (B, observation). (B,)"""
        if self._head[0].listed:
            return taken(self.body(states), actions)
        return self.each(states, actions[:, None])[:, 0]

    def each(self, states: Tensor, actions: Tensor) -> Tensor:
        """Of the K actions (B, K, *action) that `consider` names in each state. (B, K)"""
        if self._head[0].listed:
            rated: Tensor = self.body(states)
            return rated
        seen = self._head[0].encode(actions)  # (B, K, encoded)
        there = states[:, None].expand(-1, seen.shape[1], -1)
        found: Tensor = self.body(torch.cat([there, seen.to(states.dtype)], 2))
        return found[..., 0]

    def both(self, states: Tensor, actions: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
        """`forward` of one action and `each` of K others, at once. (B,), (B, K)"""
        if self._head[0].listed:
            every = self.each(states, others)
            return taken(every, actions), every
        rated = self.each(states, torch.cat([actions[:, None], others], 1))
        return rated[:, 0], rated[:, 1:]


def taken(each_action: Tensor, actions: Tensor) -> Tensor:
    """The entries (B,) of (B, A) that belong to these actions."""
    return each_action.gather(1, actions.long()[:, None])[:, 0]
