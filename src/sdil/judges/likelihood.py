"""The signals "likelihood" and "consensus": how likely clones find the action.

The first are clones of the clean set: blind to where no clean demonstration has been, and to good
ways that none of them shows. The second are clones of both sets, noisy steps by their score, that
did not see the episode: they know those ways too. Where one may idle (`doing.py`), both speak only
of steps that act, and say how likely the action is given that one acts: waiting is always likely.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sdil.heads import ActionHead
from sdil.judges.material import EPOCH, Pools
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.training import Stages
from sdil.windows import Windows

_LEAST = 1e-6  # probabilities under it are alike
_NEVER = -30.0  # the logit of an action that idles
WIDTHS = (1.0, 1.5, 2.0, 3.0, 4.0)
"""By which densities may be read wider than they were learned: few demonstrations make clones too
sure. Unseen clean groups choose."""


class Clones(nn.Module):
    """Behaviour cloning, several times over."""

    def __init__(self, networks: Ensemble, idle: Tensor) -> None:
        super().__init__()
        self.networks = networks
        self.idle: Tensor
        self.register_buffer("idle", idle.clone())
        if not len(idle):  # real numbers
            self.width: Tensor
            self.register_buffer("width", torch.ones(()))

    def forward(self, states: Tensor) -> Tensor:
        """`log p(a | s)`, p the mean over the clones, given that one acts; NaN for actions that
        idle. States are standardised. (B, A)"""
        logits = self.networks(states)
        logits[..., self.idle] = _NEVER
        found = logits.softmax(2).mean(0).clamp(min=_LEAST).log()
        found[:, self.idle] = torch.nan
        return found

    def of(self, states: Tensor, actions: Tensor, head: ActionHead) -> Tensor:
        """The same of actions that are real numbers (B, D, *action): their log-density, in units of
        the data, as wide as `width` says. What it would be on average there is not subtracted:
        where clones are unsure, no clean demonstrator has been, and that is evidence too. (B, D)"""
        outputs = self.networks(states).movedim(0, 1)  # (B, members, size)
        even = outputs.new_full(outputs.shape[:2], -math.log(outputs.shape[1]))
        mixed = head.mix(even, outputs)[:, None].expand(-1, actions.shape[1], -1)
        found, least = head.log_prob(mixed, actions, float(self.width)), math.log(_LEAST)
        return torch.where(
            found < least, least - torch.log1p((least - found).clamp(min=0.0)), found
        )


def learn_clones(
    phase: str,
    networks: Ensemble,
    head: ActionHead,
    windows: Windows,
    standardise: Standardise,
    pools: tuple[Pools, ...],
    stages: Stages,
    generator: torch.Generator,
    *,
    batch_size: int,
    updates: int,
) -> None:
    """Clone steps that are drawn from these pools, as many from each."""
    each = max(1, batch_size // len(pools))

    def loss(_: Tensor) -> dict[str, Tensor]:
        drawn = torch.cat([pool.draw(each, generator) for pool in pools], 1)  # (members, B)
        flat = drawn.flatten()
        states = standardise(windows.observations[windows.rows[flat]])
        outputs = networks(states.view(*drawn.shape, -1)).flatten(0, 1)
        return {"imitation": head.nll(outputs, windows.actions_at(flat), "mean")}

    stages.converge(
        phase,
        {"clones": networks},
        loss=loss,
        valid_loss=None,
        n_samples=EPOCH * batch_size,
        updates=updates,
    )
