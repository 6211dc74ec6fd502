"""Integrity: does the next state follow from the action, as it does elsewhere in the data?

A third answer, never part of how good a step is. It finds actions that were tampered with, lag
between action and state, and dropped frames. By a network that guesses the action from the state
before and the state after it: a step is sound where the recorded action is as likely as any.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.judges.material import EPOCH, Pools
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.training import Stages
from sdil.windows import STEPS_AT_ONCE, Windows


class Integrity(nn.Module):
    """`p(a | s, s')`."""

    def __init__(self, networks: Ensemble) -> None:
        super().__init__()
        self.networks = networks

    def forward(self, windows: Windows, index: Tensor, standardise: Standardise) -> Tensor:
        """The likelihood of the action over that of the likeliest; NaN where s' is unknown. (B,)"""
        sound = torch.full((len(index),), torch.nan, dtype=torch.float64)
        known = torch.where(windows.has_next[index])[0]
        for part in known.split(STEPS_AT_ONCE):
            log_p = self.networks(_change(windows, index[part], standardise)).softmax(2).mean(0)
            actions = windows.actions_at(index[part]).long()[:, None]
            sound[part] = (log_p.gather(1, actions)[:, 0] / log_p.max(1).values).double()
        return sound


def learn_integrity(
    integrity: Integrity,
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
        logits = integrity.networks(change).flatten(0, 1)
        return {"inverse": F.cross_entropy(logits, windows.actions_at(flat).long())}

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
