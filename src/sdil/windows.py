"""Look-back windows: what a policy sees at step t (paper, section 4.1).

A window is `s_t` and the M (state, action) pairs before it, zero where the episode is younger than
M, with a mask. `cut` is the only code that makes one, for training and for acting alike. It works
by index arithmetic on flat tensors; the data set is never copied.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sdil.fetching import Fetching
from sdil.spaces import Array
from sdil.trajectories import Trajectories

STEPS_AT_ONCE = 16_384
"""How many steps are looked at together where a whole set is gone through."""
STEPS_IN_CACHE = 1_024
"""And where networks score: what they compute on the way stays near the processor."""


@dataclass(frozen=True)
class Window:
    """A batch of B windows of M steps."""

    state: Tensor
    """`s_t`. (B, *observation)"""
    past_states: Tensor
    """`s_{t-M} .. s_{t-1}`, zero where masked. (B, M, *observation)"""
    past_actions: Tensor
    """`a_{t-M} .. a_{t-1}`, zero where masked. (B, M, *action)"""
    mask: Tensor
    """True where the past step exists. (B, M)"""

    def __len__(self) -> int:
        return len(self.state)

    def latest(self, steps: int) -> Window:
        """The same windows, so many steps long."""
        begin = self.mask.shape[1] - steps
        past_states, past_actions = self.past_states[:, begin:], self.past_actions[:, begin:]
        return Window(self.state, past_states, past_actions, self.mask[:, begin:])

    def only(self, inputs: Tensor) -> Window:
        """The same windows with these entries of each observation."""
        past = self.past_states[..., inputs]
        return Window(self.state[:, inputs], past, self.past_actions, self.mask)


def cut(
    observations: Tensor,
    actions: Tensor,
    rows: Tensor,
    steps: Tensor,
    times: Tensor,
    look_back: int,
) -> Window:
    """The windows of the steps whose states lie at `rows` and whose actions lie at `steps`.

    Both index flat tensors, (R, *observation) and (S, *action), in which an episode's entries are
    consecutive; `times` is how many steps of the episode lie before. All three are (B,).
    """
    state = _take(observations, rows)
    n, observation, action = len(rows), state.shape[1:], actions.shape[1:]
    if look_back == 0:
        empty = torch.empty(n, 0, dtype=torch.bool, device=rows.device)
        return Window(
            state, state.new_empty(n, 0, *observation), actions.new_empty(n, 0, *action), empty
        )
    back = torch.arange(look_back, 0, -1, device=rows.device)  # M .. 1
    mask = back <= times[:, None]  # (B, M)
    past_rows = torch.where(mask, rows[:, None] - back, 0).flatten()
    past_steps = torch.where(mask, steps[:, None] - back, 0).flatten()
    # index_select: several times faster than indexing by a matrix
    past_states = _take(observations, past_rows).view(n, look_back, *observation)
    past_actions = actions.index_select(0, past_steps).view(n, look_back, *action)
    return Window(
        state,
        past_states.mul_(_spread(mask, past_states)),
        past_actions.mul_(_spread(mask, past_actions)),
        mask,
    )


class Windows:
    """The windows of all steps of a set of trajectories, numbered 0 .. n_steps - 1."""

    def __init__(
        self, trajectories: Trajectories, look_back: int, inputs: Tensor | None = None
    ) -> None:
        """With `inputs`, only these entries of each observation: a copy, and a smaller one."""
        self.look_back = look_back
        self.observations = as_tensor(trajectories.observations)
        self.fetch = Fetching(trajectories.observations)
        if inputs is not None and len(inputs) < self.observations.shape[1]:
            self.observations = self.observations.index_select(1, inputs)
        self.actions = as_tensor(trajectories.actions)
        self.rows = torch.from_numpy(trajectories.rows())
        self.steps = torch.from_numpy(trajectories.steps())
        self.times = torch.from_numpy(trajectories.times())
        lengths = torch.from_numpy(np.repeat(trajectories.lengths, trajectories.lengths))
        self.left = lengths - 1 - self.times
        """Steps of the same episode that follow. (N,)"""
        last = self.left == 0
        final = torch.from_numpy(np.repeat(trajectories.has_final, trajectories.lengths))
        self.has_next = ~last | final
        terminated = torch.from_numpy(np.repeat(trajectories.terminated, trajectories.lengths))
        self.ended = last & terminated
        """Whether the task itself ended the episode with this step. (N,)"""

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device) -> Windows:
        """The same on a device: itself where it is there. Observations that would take too much of
        a GPU's memory stay where they are, and a batch of them is brought when it is asked for."""
        if self.rows.device.type == device.type:
            return self
        some = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and name != "observations":
                setattr(some, name, value.to(device))
        if device.type == "cpu" or _fits(self.observations, device):
            some.observations = self.observations.to(device)
        return some

    def only(self, inputs: Tensor) -> Windows:
        """The same steps with these entries of each observation."""
        some = copy(self)
        some.observations = self.observations.index_select(1, inputs)
        return some

    def parts(self) -> tuple[Tensor, ...]:
        """The numbers of all steps, some thousands at a time: what fits into memory."""
        return torch.arange(len(self), device=self.rows.device).split(STEPS_AT_ONCE)

    def at(self, index: Tensor) -> Window:
        """The windows of these steps."""
        rows = self.rows.index_select(0, index)
        self._fetch(rows, self.look_back)
        if self.look_back == 0:  # then steps and times are not looked at
            return cut(self.observations, self.actions, rows, rows, rows, 0)
        steps = self.steps.index_select(0, index)
        times = self.times.index_select(0, index)
        return cut(self.observations, self.actions, rows, steps, times, self.look_back)

    def _fetch(self, rows: Tensor, before: int = 0) -> None:
        """Ask for rows that lie in a file; those on a device do not."""
        if self.fetch.lies_in_file and self.observations.device.type == "cpu":
            self.fetch(rows.cpu().numpy(), before)

    def actions_at(self, index: Tensor) -> Tensor:
        """The actions taken at these steps. (B, *action)"""
        return self.actions.index_select(0, self.steps.index_select(0, index))

    def actions_ahead(self, index: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The actions of these steps and of those that follow, `count` altogether (B, count,
        *action), and which of them exist: after an episode's end none does. (B, count)"""
        ahead = torch.arange(count, device=self.rows.device)
        exists = ahead <= self.left.index_select(0, index)[:, None]
        steps = self.steps.index_select(0, index)[:, None] + torch.where(exists, ahead, 0)
        found = self.actions.index_select(0, steps.flatten())
        return found.view(*exists.shape, *self.actions.shape[1:]), exists

    def next_states_at(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """`s_{t+1}`, zero where the data ends at `s_t`, and where it exists. For discovery only."""
        exists = self.has_next.index_select(0, index)
        rows = torch.where(exists, self.rows.index_select(0, index) + 1, 0)
        self._fetch(rows)
        states = _take(self.observations, rows)
        return states.mul_(_spread(exists, states)), exists


def varying_inputs(trajectories: Trajectories) -> Tensor:
    """Which entries of a vector observation are not the same throughout; all where none differ."""
    observations, rows = as_tensor(trajectories.observations), as_tensor(trajectories.rows())
    first = observations[rows[0]]
    varies = torch.zeros(len(first), dtype=torch.bool)
    for part in rows.split(STEPS_AT_ONCE):
        varies |= (observations.index_select(0, part) != first).any(0)
    return torch.where(varies if varies.any() else ~varies)[0]


class DistinctStates:
    """Distinct states by their bytes (-0.0 is 0.0), numbered as they first appear."""

    def __init__(self, states: Array) -> None:
        self._numbers: dict[bytes, int] = {}
        rows = np.ascontiguousarray(states + 0)
        found = [self._numbers.setdefault(row.tobytes(), len(self._numbers)) for row in rows]
        self.of_rows = torch.tensor(found, dtype=torch.int64)
        """The number of each state. (B,)"""
        self.first = torch.from_numpy(np.unique(found, return_index=True)[1])
        """Where each number first appears. (U,)"""

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, states: Array) -> Array:
        """The numbers of other states, -1 for unknown ones. (B,)"""
        rows = np.ascontiguousarray(states + 0)
        return np.array([self._numbers.get(row.tobytes(), -1) for row in rows], np.int64)


def steps_at_once(number: torch.dtype) -> int:
    """How many steps networks of this precision look at together. Those that learn keep to what
    they ever did: at the ends of blocks sums may round differently, and equal runs stay equal."""
    return STEPS_IN_CACHE if number == torch.float64 else STEPS_AT_ONCE


def as_tensor(array: Array) -> Tensor:
    """A tensor over the same memory. Our arrays are read-only, and nobody writes to the tensor."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def _take(observations: Tensor, rows: Tensor) -> Tensor:
    """These rows, on the device of their numbers, wherever the observations are."""
    if observations.device == rows.device:
        return observations.index_select(0, rows)
    found = observations.index_select(0, rows.to(observations.device))
    return found.pin_memory().to(rows.device, non_blocking=True)


def _fits(observations: Tensor, device: torch.device) -> bool:
    """Whether they leave half of what is free on a GPU to others."""
    free, _ = torch.cuda.mem_get_info(device)
    return observations.nbytes <= free / 2


def _spread(mask: Tensor, values: Tensor) -> Tensor:
    """The mask with axes added behind, so that it multiplies `values`."""
    return mask.view(*mask.shape, *[1] * (values.ndim - mask.ndim)).to(values.dtype)
