"""Integrity: does the next state follow from the action, as it does elsewhere in the data?

A third answer, never part of how good a step is. It finds actions that were tampered with, lag
between action and state, and dropped frames. By a network that guesses the action from the state
before and the state after it: a step is sound where the recorded action is as likely as any.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sdil.heads import ActionHead, counts_actions
from sdil.judges.material import EPOCH, Pools
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.training import Stages
from sdil.windows import Windows, steps_at_once


class Integrity(nn.Module):
    """`p(a | s, s')`."""

    def __init__(self, networks: Ensemble) -> None:
        super().__init__()
        self.networks = networks

    def forward(
        self, windows: Windows, index: Tensor, standardise: Standardise, head: ActionHead
    ) -> Tensor:
        """The likelihood of the action over that of the likeliest, of real numbers how often one
        less likely would do; NaN where s' is unknown. (B,)"""
        sound = torch.full((len(index),), torch.nan, dtype=torch.float64)
        known = torch.where(windows.has_next[index])[0]
        for part in known.split(steps_at_once(standardise.mean.dtype)):
            outputs = self.networks(_change(windows, index[part], standardise))
            actions = windows.actions_at(index[part])
            if counts_actions(head):
                p = outputs.softmax(2).mean(0)
                sound[part] = (
                    p.gather(1, actions.long()[:, None])[:, 0] / p.max(1).values
                ).double()
            else:
                sound[part] = head.plausibility(outputs[0], actions).double()
        return sound


def learn_integrity(
    integrity: Integrity,
    head: ActionHead,
    windows: Windows,
    standardise: Standardise,
    pools: Pools,
    stages: Stages,
    generator: torch.Generator,
    *,
    batch_size: int,
    updates: int,
) -> None:
    """Guess actions from the states before and after them."""

    def loss(_: Tensor) -> dict[str, Tensor]:
        drawn = pools.draw(batch_size, generator)  # (members, B)
        flat = drawn.flatten()
        change = _change(windows, flat, standardise).view(*drawn.shape, -1)
        outputs = integrity.networks(change).flatten(0, 1)
        return {"inverse": head.nll(outputs, windows.actions_at(flat), "mean")}

    stages.converge(
        "invert dynamics",
        {"integrity": integrity.networks},
        loss=loss,
        valid_loss=None,
        n_samples=EPOCH * batch_size,
        updates=updates,
    )


def _change(windows: Windows, index: Tensor, standardise: Standardise) -> Tensor:
    """The state, and how it changed. (B, 2 I)"""
    rows = windows.rows[index]
    before = standardise(windows.observations[rows])
    return torch.cat([before, standardise(windows.observations[rows + 1]) - before], 1)
