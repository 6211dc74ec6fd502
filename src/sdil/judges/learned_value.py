"""The signal "value" where states never come again: a learned value in place of the graph.

How soon one is where clean demonstrations end, by the better of the ways that were recorded: a
network learns the discounted value of states from all demonstrations, with a high expectile over
what came next. It is 1 where a clean demonstration ended, and where a noisy one ended in a state
that looks like those; 0 where a task ended a noisy one elsewhere. The signal is what a step gains.
Silent where no clean demonstration ended.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.judges.distance import coarse
from sdil.judges.material import EPOCH, Material
from sdil.judges.progress import smooth_gains
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.spaces import Array
from sdil.training import Stages
from sdil.windows import STEPS_AT_ONCE, Windows

_EXPECTILE = 0.8  # high: the better of the ways that were seen counts
_STEPS = 8  # at most so many are looked ahead at once
_BEGUN = -3.0  # the logit of a state that nothing is known of: far from an end
_SPREAD = 0.1  # the least spread of clean ends that counts, in that of all states
_ALIKE = 0.9  # share of clean ends that look like the others


class LearnedValue(nn.Module):
    """The value of states."""

    def __init__(self, networks: Ensemble) -> None:
        super().__init__()
        self.networks = networks

    def log_value(self, states: Tensor) -> Tensor:
        """Of standardised states, the mean over networks. (B,)"""
        return F.logsigmoid(self.networks(states)[..., 0] + _BEGUN).mean(0)

    def forward(self, windows: Windows, index: Tensor, standardise: Standardise) -> Tensor:
        """What each step gains, over a few steps around it; NaN where the state after it is not
        known. `index` holds whole episodes. (B,)"""
        exists, rows = windows.has_next[index], windows.rows[index]
        gained = torch.zeros(len(index), dtype=torch.float64)
        for part in torch.where(exists)[0].split(STEPS_AT_ONCE):
            here, there = (
                self.log_value(standardise(windows.observations[rows[part] + later]))
                for later in (0, 1)
            )
            gained[part] = (there - here).double()
        return smooth_gains(gained, exists, windows.times[index])

    def only(self, members: list[int]) -> LearnedValue:
        return LearnedValue(self.networks.only(members))


def find_ends(material: Material, standardise: Standardise) -> tuple[Array, Array]:
    """Steps that lead to where clean demonstrations end, and steps with which a noisy one ended
    elsewhere. (N,) booleans each"""
    windows = material.windows
    is_clean = np.arange(len(windows)) < material.n_clean
    known = windows.has_next.numpy()
    ended = windows.ended.numpy() & known
    last = np.append(windows.times.numpy()[1:] == 0, True) & known
    clean = np.flatnonzero(ended & is_clean)
    reached = ended & is_clean
    if not len(clean):
        return reached, np.zeros(len(windows), bool)
    following = standardise(windows.next_states_at(torch.arange(len(windows)))[0])
    ends = following[clean]
    scaled = ends / ends.std(0, correction=0).clamp(min=_SPREAD)
    noisy = np.flatnonzero(last & ~is_clean)
    apart = torch.cdist(scaled, scaled).fill_diagonal_(torch.inf).min(1).values
    if len(clean) > 1 and len(noisy):
        others = following[noisy] / ends.std(0, correction=0).clamp(min=_SPREAD)
        near = torch.cdist(others, scaled).min(1).values
        reached[noisy[(near <= apart.quantile(_ALIKE)).numpy()]] = True
    return reached, ended & ~is_clean & ~reached


def learn_value(
    networks: Ensemble,
    material: Material,
    standardise: Standardise,
    final: int,
    stages: Stages,
    generator: torch.Generator,
    *,
    batch_size: int,
    updates: int,
) -> bool:
    """Those that leave out folds, then `final` that see all; False where nothing ended."""
    windows = material.windows
    reached, elsewhere = find_ends(material, standardise)
    among = np.flatnonzero(windows.has_next.numpy()[: material.n_train])
    pools = material.learners(among, final, folds=coarse(material.n_folds))
    if not pools.each_has(torch.from_numpy(reached)):
        return False
    last = torch.from_numpy(_last_of_episode(windows.times.numpy()))
    states = standardise(windows.observations)
    one, nothing = torch.from_numpy(reached), torch.from_numpy(elsewhere)

    def loss(_: Tensor) -> dict[str, Tensor]:
        drawn = pools.draw(batch_size, generator)  # (members, B)
        step = drawn.flatten()
        far = torch.randint(_STEPS, (len(step),), generator=generator)
        to = torch.minimum(step + far, last[step])  # the last step that is taken
        to = torch.where(windows.has_next[to], to, step)
        with torch.no_grad():
            there = states.index_select(0, windows.rows[to] + 1).view(*drawn.shape, -1)
            value = torch.sigmoid(networks(there)[..., 0] + _BEGUN).flatten()
            value = torch.where(one[to], 1.0, torch.where(nothing[to], 0.0, value))
            wanted = value * torch.exp(-(to - step + 1) / material.unit)
        here = states.index_select(0, windows.rows[step]).view(*drawn.shape, -1)
        found = torch.sigmoid(networks(here)[..., 0] + _BEGUN).flatten()
        excess = wanted - found
        weight = torch.where(excess > 0, _EXPECTILE, 1 - _EXPECTILE)
        return {"value": (weight * excess.square()).mean()}

    stages.converge(
        "value states",
        {"value": networks},
        loss=loss,
        valid_loss=None,
        n_samples=EPOCH * batch_size,
        updates=updates,
        without_decay=("value",),
    )
    return True


def _last_of_episode(times: Array) -> Array:
    """The number of the last step of each step's episode. (N,)"""
    first = np.flatnonzero(times == 0)
    lengths = np.diff(np.append(first, len(times)))
    return np.repeat(first + lengths - 1, lengths)
