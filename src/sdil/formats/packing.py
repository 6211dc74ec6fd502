"""Episodes that come one after the other, in flat arrays of the size that was promised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.observations import observation_shape, observation_type
from sdil.spaces import Spaces, element_shape
from sdil.trajectories import Trajectories, Trajectory


class Packing:
    """Flat arrays that trajectories are copied into as they come."""

    def __init__(self, lengths: Sequence[int], spaces: Spaces, location: str) -> None:
        steps = sum(lengths)
        seen, done = observation_shape(spaces.observation), element_shape(spaces.action)
        try:
            self.observations = np.empty(
                (steps + len(lengths), *seen), observation_type(spaces.observation)
            )
            self.actions = np.empty((steps, *done), spaces.action.dtype)
            self.rewards = np.full(steps, np.nan)
        except (MemoryError, ValueError) as error:
            raise InputError(
                f"{location}: {steps} steps do not fit into memory ({error}); import it with sdil "
                "import, choose fewer features, or every n-th frame"
            ) from None
        self._row = self._step = 0
        self._notes: list[tuple[Any, ...]] = []
        self._location = location

    def add(self, t: Trajectory) -> None:
        """Copy one more episode."""
        rows, steps = len(t.observations), len(t)
        if self._step + steps > len(self.actions):
            raise InputError(
                f"{self._location}: episode {t.id!r} has more steps ({steps}) than the data set "
                "says"
            )
        self.observations[self._row : self._row + rows] = t.observations
        self.actions[self._step : self._step + steps] = t.actions
        if t.rewards is not None:
            self.rewards[self._step : self._step + steps] = t.rewards
        known = (rows > steps, t.rewards is not None, t.terminated)
        self._notes.append((self._row, self._step, steps, *known, t.id, t.group))
        self._row += rows
        self._step += steps

    def finish(self) -> Trajectories:
        """All of them, over the arrays that they were copied into."""
        row, step, length, final, rewards, ended, ids, groups = zip(*self._notes, strict=True)
        return Trajectories(
            observations=self.observations[: self._row],
            actions=self.actions[: self._step],
            rewards=self.rewards[: self._step],
            first_row=np.array(row, np.int64),
            first_step=np.array(step, np.int64),
            lengths=np.array(length, np.int64),
            has_final=np.array(final, bool),
            has_rewards=np.array(rewards, bool),
            terminated=np.array(ended, bool),
            ids=tuple(ids),
            groups=tuple(groups),
        )
