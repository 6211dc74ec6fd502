"""What a network need not learn of actions that say where something should be: where it is now.

Means of such entries are told from the line that `sdil.relative` finds: the network adds what is
left. It still predicts the action as it was recorded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from sdil.heads import ActionHead, Real
from sdil.networks.encoders import Standardise
from sdil.relative import Relative
from sdil.windows import Windows


class Leaning(nn.Module):
    """The line of each of D entries, from a standardised state to units of the data."""

    entry: Tensor
    slope: Tensor
    offset: Tensor

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.register_buffer("entry", torch.zeros(entries, dtype=torch.int64))
        self.register_buffer("slope", torch.zeros(entries))
        self.register_buffer("offset", torch.zeros(entries))

    @staticmethod
    def of(head: ActionHead) -> Leaning | None:
        """None where actions are no vectors of real numbers."""
        return Leaning(head.encoded) if isinstance(head, Real) else None

    def fit(self, windows: Windows, standardise: Standardise, head: ActionHead) -> None:
        """Find the lines in recorded steps; the head knows the units already."""
        found = Relative.find(windows)
        if found is None:
            return
        assert isinstance(head, Real)
        mean, scale = standardise.mean.double(), standardise.scale.double()
        self.entry.copy_(found.entry)
        self.slope.copy_(found.slope / scale[found.entry] / head.spread)
        line = found.slope * mean[found.entry] + found.offset
        self.offset.copy_((line - head.mean) / head.spread)
        head.follow(found.left)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in self.named_buffers():  # of before: nothing followed anything
            state.setdefault(prefix + name, torch.zeros_like(buffer))
        super()._load_from_state_dict(state, prefix, *args)

    def forward(self, outputs: Tensor, standardised: Tensor, head: ActionHead) -> Tensor:
        """Outputs (..., size) that lean on states (..., I)."""
        assert isinstance(head, Real)
        if not head.leans:
            return outputs
        return head.lean(outputs, standardised[..., self.entry] * self.slope + self.offset)
