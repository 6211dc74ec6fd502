"""The signal "efficiency": does a step bring us nearer to where the same episode is a little later?

By the temporal distance of `distance.py`; it needs no goal and no end. It sees hesitation, detours
and slow people, and is blind to wrong aims: whoever goes straight to the wrong place is efficient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sdil.judges.distance import NEAR, NEAR_STEPS
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.windows import Windows, steps_at_once

_LATER = (4, 8, 16)  # steps


def efficiency(
    windows: Windows, index: Tensor, ahead: Tensor, distance: Ensemble, standardise: Standardise
) -> Tensor:
    """Steps gained by a step on the way to where its episode is later, the mean over some moments.

    NaN where fewer than two later states are known; `ahead` (B,) says how many are. (B,)
    """
    gained = torch.full((len(index),), torch.nan, dtype=torch.float64)
    known = torch.where(ahead >= 2)[0]
    number = distance.weights[0].dtype

    def seen(rows: Tensor) -> Tensor:
        return standardise(windows.observations[rows]).to(number)

    for part in known.split(steps_at_once(standardise.mean.dtype)):
        rows = windows.rows[index[part]]
        total = torch.zeros(len(part), dtype=torch.float64)
        here, there = seen(rows), seen(rows + 1)
        for later in _LATER:
            goal = seen(rows + ahead[part].clamp(max=later))
            before, after = (distance(torch.cat([at, goal], 1))[..., NEAR] for at in (here, there))
            total += (before - after).mean(0)
        gained[part] = total * NEAR_STEPS / len(_LATER)
    return gained
