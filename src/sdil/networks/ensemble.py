"""Several small networks of one shape, run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MEMBERS = 3
LEAK = 0.1  # slope of the hidden layers under 0


class Ensemble(nn.Module):
    """Networks with two hidden layers each."""

    def __init__(self, members: int, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        sizes = (inputs, hidden, hidden, outputs)
        self.weights = nn.ParameterList(
            (2 * torch.rand(members, a, b) - 1) / a**0.5 for a, b in pairwise(sizes)
        )
        self.biases = nn.ParameterList(torch.zeros(members, 1, b) for b in sizes[1:])

    def __len__(self) -> int:
        return len(self.weights[0])

    def forward(self, inputs: Tensor) -> Tensor:
        """(members, B, inputs), or the same (B, inputs) for all, to (members, B, outputs)."""
        every = inputs.expand(len(self), -1, -1)
        return self.after_first(torch.baddbmm(self.biases[0], every, self.weights[0]))

    def after_first(self, hidden: Tensor) -> Tensor:
        """The rest, from what the first layer gives. (members, B, hidden)"""
        for weights, biases in zip(list(self.weights)[1:], list(self.biases)[1:], strict=True):
            hidden = torch.baddbmm(biases, F.leaky_relu(hidden, LEAK), weights)
        return hidden

    def only(self, members: Sequence[int]) -> Ensemble:
        """A copy of some of them."""
        chosen = list(members)
        some = Ensemble.of_tensors(self.state_dict())
        for parameters in (some.weights, some.biases):
            for i, parameter in enumerate(list(parameters)):
                parameters[i] = nn.Parameter(parameter.detach()[chosen].clone())
        return some

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Ensemble:
        """The inverse of `state_dict`."""
        members, inputs, hidden = tensors["weights.0"].shape
        with torch.random.fork_rng(devices=[]):  # its weights are replaced at once
            ensemble = Ensemble(members, inputs, hidden, tensors["weights.2"].shape[2])
        ensemble.load_state_dict(tensors)
        return ensemble
