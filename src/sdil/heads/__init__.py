"""What stands between a network and actions: its outputs as a distribution over an action space.

Nobody else asks what kind of action there is. A head says how many outputs a network needs, how
likely they make an action (`log_prob`), what they would do (`mode`, `sample`), and what other
networks see of an action (`encode`).

- `Categorical`, for `Discrete` actions: outputs are logits.
- `Mixture`, for `Box` actions: Gaussians side by side, in units of the data's spread. Their means
  stay within what the data shows, their spread above a floor: a density that may grow without bound
  says more of how often a number was repeated than of what to do. An entry that takes two values
  in the data (a gripper that opens or shuts) is a choice between them, one whose space is a full
  turn (-pi to pi, or 0 to 2 pi) is an angle, and wraps.
- `Regression`, for `Box` actions: one Gaussian of a fixed spread, which is least squares.
- `Composite`, for `MultiDiscrete`, `MultiBinary`, `Dict` and `Tuple`: each way of acting side by
  side is a choice in every counted entry and a Gaussian in every real one.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from sdil.errors import InputError
from sdil.heads.composite import Composite
from sdil.heads.counted import Categorical
from sdil.heads.head import ActionHead, Considered, Distribution, Reduction
from sdil.heads.mixture import MODES, Mixture
from sdil.heads.real import FLOOR, Real
from sdil.heads.regression import Regression

__all__ = [
    "FLOOR",
    "MODES",
    "ActionHead",
    "Categorical",
    "Composite",
    "Considered",
    "Distribution",
    "Mixture",
    "Real",
    "Reduction",
    "Regression",
    "counts_actions",
    "make_head",
]

_COMPOSITE = (
    gym.spaces.MultiDiscrete,
    gym.spaces.MultiBinary,
    gym.spaces.Dict,
    gym.spaces.Tuple,
)


def make_head(
    space: gym.Space[Any],
    *,
    regression: bool = False,
    modes: int = MODES,
    floor: float = FLOOR,
) -> ActionHead:
    """The head for a space of actions; with `regression` real ones are told by least squares,
    otherwise by so many Gaussians, none narrower than `floor` standard deviations."""
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, gym.spaces.Box):
        return Regression(space, floor) if regression else Mixture(space, modes, floor)
    if isinstance(space, _COMPOSITE):
        return Composite(space, modes, regression=regression, floor=floor)
    raise InputError(
        "actions are Discrete, Box, MultiDiscrete, MultiBinary, or a Dict or Tuple of these, "
        f"not {space}"
    )


def counts_actions(head: ActionHead) -> bool:
    """Whether there is a list of actions, each with a probability of its own."""
    return head.listed > 0
