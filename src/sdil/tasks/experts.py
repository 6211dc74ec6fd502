"""Who demonstrates: a shortest-path planner, exact and instant, or a trained PPO agent.

Both see a task through its table and say how likely they are to take each action in each state.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import as_file, files
from typing import Literal

import numpy as np
from safetensors.numpy import load_file

from sdil.errors import InputError
from sdil.spaces import Array
from sdil.table import Table

ExpertKind = Literal["planner", "ppo"]

Expert = Callable[[int, np.random.Generator], int]
"""The action an expert takes in a state of the table."""


def planner(closer: Array) -> Expert:
    """The first action in order that leads `closer` (S, A) to where it wants to be."""
    best = np.argmax(closer, 1)  # (S,)
    return lambda state, rng: int(best[state])


def agent(table: Table, name: str) -> Expert:
    """The shipped PPO agent of this name, "<task>-<aim>"."""
    path = files("sdil.tasks") / "weights" / f"{name}.safetensors"
    if not path.is_file():
        raise InputError(f"no trained agent is shipped for {name!r}; use the planner")
    with as_file(path) as file:
        return sampler(table, load_file(file))


def sampler(table: Table, weights: dict[str, Array]) -> Expert:
    """A trained PPO agent, acting at random as it was trained to."""
    known: dict[int, Array] = {}

    def act(state: int, rng: np.random.Generator) -> int:
        if state not in known:
            probs = action_probs(weights, table.observe(np.array([state]))[0])
            known[state] = np.cumsum(probs, dtype=np.float64)  # in float32, a draw could round to 1
        return int(np.searchsorted(known[state], rng.random() * known[state][-1], side="right"))

    return act


def action_probs(weights: dict[str, Array], observation: Array) -> Array:
    """What a shipped agent does: two tanh layers of the scaled observation, and a softmax.

    Takes one observation (d,) or many (n, d), and returns (A,) or (n, A).
    """
    hidden = observation * weights["scale"]
    for layer in ("0", "1"):
        hidden = np.tanh(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    logits = hidden @ weights["out.weight"].T + weights["out.bias"]
    probs: Array = np.exp(logits - logits.max(-1, keepdims=True))
    return probs / probs.sum(-1, keepdims=True)
