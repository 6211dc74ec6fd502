"""What an action can be expected to bring: of signals that look at what came of a step.

Progress, efficiency and doing are told from where a step led. That is one draw, and it says nothing
of other actions. A small network learns what they are to be expected to be in a state for each
action, from all demonstrations. The step output listens to that: was the action right *here*?
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sdil.heads import ActionHead, counts_actions
from sdil.judges.material import EPOCH, Pools
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.training import Stages
from sdil.windows import Windows

_FARTHEST = 4.0  # standard deviations: outliers count no more


class Expected(nn.Module):
    """What S outcomes are expected to be, in their standard deviations."""

    def __init__(self, networks: Ensemble, n_outcomes: int) -> None:
        super().__init__()
        self.networks = networks
        self.n_outcomes = n_outcomes

    def forward(self, states: Tensor) -> Tensor:
        """Standardised states to outcomes of each action, the mean over networks. (B, S, A)"""
        return self.networks(states).mean(0).view(len(states), self.n_outcomes, -1)

    def of(self, states: Tensor, actions: Tensor) -> Tensor:
        """The same of encoded actions (B, D, encoded), which the networks see. (B, S, D)"""
        states = states[:, None].expand(-1, actions.shape[1], -1)
        seen = torch.cat([states, actions], 2).flatten(0, 1)
        found = self.networks(seen).mean(0).view(*actions.shape[:2], self.n_outcomes)
        return found.movedim(2, 1)

    def only(self, members: list[int]) -> Expected:
        return Expected(self.networks.only(members), self.n_outcomes)


def learn_expected(
    expected: Expected,
    head: ActionHead,
    outcomes: Tensor,
    windows: Windows,
    standardise: Standardise,
    pools: Pools,
    stages: Stages,
    generator: torch.Generator,
    *,
    batch_size: int,
    updates: int,
) -> None:
    """Regression on `outcomes` (members, N, S), as each network should see them; NaN: unknown."""
    known = ~outcomes.isnan()
    count = known.sum(1, keepdim=True).clamp(min=1)
    filled = outcomes.nan_to_num(0.0)
    mean = filled.sum(1, keepdim=True) / count
    centred = (filled - mean) * known
    spread = (centred.square().sum(1, keepdim=True) / count).sqrt().clamp(min=1e-9)
    targets = (centred / spread).clamp(-_FARTHEST, _FARTHEST).float()
    members = torch.arange(len(outcomes))[:, None]

    def loss(_: Tensor) -> dict[str, Tensor]:
        drawn = pools.draw(batch_size, generator)  # (members, B)
        flat = drawn.flatten()
        states = standardise(windows.observations[windows.rows[flat]])
        actions = windows.actions_at(flat)
        if counts_actions(head):
            found = expected.networks(states.view(*drawn.shape, -1))
            each = found.view(*drawn.shape, expected.n_outcomes, -1)
            which = actions.long().view(*drawn.shape, 1, 1)
            taken = each.gather(3, which.expand(-1, -1, expected.n_outcomes, 1))[..., 0]
        else:
            seen = torch.cat([states, head.encode(actions)], 1)
            taken = expected.networks(seen.view(*drawn.shape, -1))
        error = (taken - targets[members, drawn]).square() * known[members, drawn]
        return {"outcome": error.mean()}

    stages.converge(
        "expect outcomes",
        {"expected": expected.networks},
        loss=loss,
        valid_loss=None,
        n_samples=EPOCH * batch_size,
        updates=updates,
    )
