"""The signal "typical": how near an action is to what those usually do here whose steps look right.

Of actions that are real numbers alone. Likelihood under a mixture finds an action likely as long as
some of those do so; clones of both sets then keep the bad steps that they were given as a mode of
its own. Here one mean is learned, by the distance itself and not its square, so that the many
decide and the few that are far off hardly move it. How far from it unseen clean steps are, and in
which directions, says how much a distance counts. Where there are several ways the mean of them is
none: it is heard where consensus is and where those who know how long things took agree with it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sdil.heads import ActionHead
from sdil.judges.material import EPOCH, Pools
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.spaces import Array
from sdil.training import Stages
from sdil.windows import Windows

SURE = 4
"""The power of p by which noisy steps are drawn: what is usual must be right."""
_ROUND = 1e-3  # under it distances are as squares are, so that they have a gradient at 0
_LEAST = 1e-3  # of a variance, in the data's own


class Typical(nn.Module):
    """What is usual, and how far clean steps are from it."""

    def __init__(self, networks: Ensemble, size: int) -> None:
        super().__init__()
        self.networks = networks
        self.precision: Tensor
        """Inverse covariance of how far clean steps are from it. (E, E)"""
        self.register_buffer("precision", torch.eye(size))

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor], networks: dict[str, Tensor]) -> Typical:
        """The inverse of `state_dict`; `networks` are the tensors of those."""
        typical = Typical(Ensemble.of_tensors(networks), len(tensors["precision"]))
        typical.load_state_dict(tensors)
        return typical

    def apart(self, states: Tensor, encoded: Tensor) -> Tensor:
        """How far encoded actions (B, D, E) are from what is usual in these states, which are
        standardised. (B, D, E)"""
        return encoded - self.networks(states).mean(0)[:, None]

    def of(self, states: Tensor, encoded: Tensor) -> Tensor:
        """How near to it, by the logarithm of a density with long tails. (B, D)"""
        apart = self.apart(states, encoded)
        square = ((apart @ self.precision) * apart).mean(2)
        return -torch.log1p(square)

    def scale_as(self, apart: Array) -> None:
        """Take how far unseen clean steps are from it. (R, E)"""
        square = torch.from_numpy(apart.T @ apart / len(apart))
        square += _LEAST * torch.eye(len(square), dtype=square.dtype)
        self.precision.copy_(torch.linalg.inv(square))

    def only(self, members: list[int]) -> Typical:
        return Typical(self.networks.only(members), len(self.precision))


def learn_typical(
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
    """Of steps that are drawn from these pools, as many from each."""
    each = max(1, batch_size // len(pools))

    def loss(_: Tensor) -> dict[str, Tensor]:
        drawn = torch.cat([pool.draw(each, generator) for pool in pools], 1)  # (members, B)
        flat = drawn.flatten()
        found = networks(
            standardise(windows.observations[windows.rows[flat]]).view(*drawn.shape, -1)
        )
        wanted = head.encode(windows.actions_at(flat)).view(*drawn.shape, -1)
        square = (found - wanted).square().sum(2)  # (members, B)
        return {"distance": (square + _ROUND).sqrt().mean()}

    stages.converge(
        "learn what is usual",
        {"typical": networks},
        loss=loss,
        valid_loss=None,
        n_samples=EPOCH * batch_size,
        updates=updates,
    )
