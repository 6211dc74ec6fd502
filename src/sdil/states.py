"""What a state is made of: tensors by name, one state under a prefix of another.

Checkpoints of training are states, and so is what is saved of policies and judges.
"""

from __future__ import annotations

from torch import Tensor

State = dict[str, Tensor]
"""All that training needs to go on from here: weights, optimiser, random state, counters."""


def on_cpu(state: State) -> State:
    """The same on the CPU, from wherever it was computed."""
    return {key: value.cpu() for key, value in state.items()}


def nest(prefix: str, state: State) -> State:
    """The same entries under `prefix.`."""
    return {f"{prefix}.{key}": value for key, value in state.items()}


def below(state: State, prefix: str) -> State:
    """The entries under `prefix.`, without it."""
    return {k[len(prefix) + 1 :]: v for k, v in state.items() if k.startswith(prefix + ".")}


def not_below(state: State, prefix: str) -> State:
    """The entries that are not under `prefix.`."""
    return {k: v for k, v in state.items() if not k.startswith(prefix + ".")}
