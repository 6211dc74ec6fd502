"""A temporal distance: how many steps lie between two states, by the shortest ways that were seen.

Learned from clean and noisy demonstrations alike: a noisy one is a good demonstration of how to
reach what it reached. The signals "progress" and "efficiency" measure with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sdil.judges.material import EPOCH, Material, Pools
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.spaces import Array
from sdil.training import Stages
from sdil.windows import Windows

FAR, NEAR = 0, 1  # what it gives: in lengths of a clean demonstration, and in `NEAR_STEPS`
NEAR_STEPS = 16
_EXPECTILE = 0.1  # low: the shortest of the ways that were seen counts
_LEAVE_OUT = 3
_CLEAN_SHARE = 4  # every so many-th pair is of clean demonstrations


def learn_distance(
    networks: Ensemble,
    material: Material,
    standardise: Standardise,
    final: int,
    stages: Stages,
    generator: torch.Generator,
    *,
    batch_size: int,
    updates: int,
) -> None:
    """Low-expectile regression on (state, later state of the same episode) -> steps between.

    Those that leave out folds, then `final` that see all. Half of the pairs are near one another.
    """
    windows = material.windows
    ahead = states_ahead(windows)
    begun = torch.where(ahead[: material.n_train] > 0)[0].numpy()
    pools = _pools(material, begun, final)
    each = max(1, batch_size // 2)
    sizes = [each // _CLEAN_SHARE, each - each // _CLEAN_SHARE]
    states = standardise(windows.observations)
    shape = (len(networks), each)

    def loss(_: Tensor) -> dict[str, Tensor]:
        drawn = [p.draw(size, generator) for p, size in zip(pools, sizes, strict=True)]
        step = torch.cat(drawn, 1).flatten()
        far = ahead.index_select(0, step)
        luck = torch.rand(2, len(step), generator=generator)
        reach = torch.where(luck[0] < 0.5, far.clamp(max=NEAR_STEPS), far)
        steps = 1 + (luck[1] * reach).long().minimum(reach - 1)
        rows = windows.rows.index_select(0, step)
        pair = torch.cat([states.index_select(0, rows), states.index_select(0, rows + steps)], 1)
        found = networks(pair.view(*shape, -1))  # (members, B, 2)
        between = steps.view(shape)
        excess = torch.stack([between / material.unit, between / NEAR_STEPS], 2) - found
        terms = torch.where(excess < 0, 1 - _EXPECTILE, _EXPECTILE) * excess.square()
        near = between <= NEAR_STEPS
        return {"distance": (terms[..., FAR] + near * terms[..., NEAR]).mean()}

    stages.converge(
        "measure distances",
        {"distance": networks},
        loss=loss,
        valid_loss=None,
        n_samples=EPOCH * batch_size,
        updates=updates,
        without_decay=("distance",),
    )


def states_ahead(windows: Windows) -> Tensor:
    """How many later states of its own episode each step has. (N,)"""
    first = torch.where(windows.times == 0)[0]
    last = torch.cat([first[1:], torch.tensor([len(windows)])]) - 1
    of_step = (windows.times == 0).cumsum(0) - 1
    return last[of_step] - torch.arange(len(windows)) + windows.has_next[last][of_step].long()


def _pools(material: Material, begun: Array, final: int) -> list[Pools]:
    """Of clean steps, and of all."""
    clean = begun[begun < material.n_clean]
    folds = coarse(material.n_folds)
    left_out = material.fold[clean] % max(folds, 1)
    enough = len(clean) and all((left_out != k).any() for k in range(folds))
    some = (clean if enough else begun, begun)
    return [material.learners(among, final, folds=folds) for among in some]


def coarse(folds: int) -> int:
    """Networks of distances that leave out folds; each leaves out several: they learn slowly."""
    return min(folds, _LEAVE_OUT)
