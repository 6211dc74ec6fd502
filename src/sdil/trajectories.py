"""One episode, and many of them packed end to end.

`Trajectories` is what every learner reads: flat arrays, and where in them each episode begins.
Indexing gives views, and a subset shares the arrays, so that splitting copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np

from sdil.errors import InputError
from sdil.observations import as_records, observation_shape, observation_type, pack_observations
from sdil.spaces import Array, Spaces, element_shape, element_type


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One episode: the states a demonstrator saw and what it did in them."""

    observations: Array
    """What was seen. (T+1, *observation), or (T, *observation) where the last one is unknown.
    Those of a `Dict` are given as a dictionary of such arrays, nested as the space is, and are kept
    as rows of bytes (`sdil.pack_observations`, `sdil.unpack_observations`)."""
    actions: Array
    """What was done. (T, *action); discrete actions are (T,) integers, real ones (T, 1) or more,
    those of a `Dict` or `Tuple` rows of numbers (`sdil.flatten_actions`)."""
    rewards: Array | None = None
    """What the environment paid. (T,), or None where unknown. Learners never read it."""
    terminated: bool = True
    """True where the task itself ended the episode, False where it was cut off."""
    id: str = ""
    """A name unique within its set; an empty one is replaced by the episode's number."""
    group: str | None = None
    """Patient or operator: what a split keeps together. None: the episode stands alone."""

    def __post_init__(self) -> None:
        name = f"episode {self.id!r}" if self.id else "episode"
        if not isinstance(self.id, str):
            raise InputError(f"{name}: its id must be text, not {type(self.id).__name__}")
        if not isinstance(self.group, str | None):
            raise InputError(
                f"{name}: its group must be text or None, not {type(self.group).__name__}"
            )
        for label in ("observations", "actions", "rewards"):
            value = getattr(self, label)
            if value is None and label == "rewards":
                continue
            if label == "observations" and isinstance(value, Mapping):
                value = as_records(value, name)  # packed as soon as the space is known
            try:
                array = np.asarray(value)
            except ValueError:  # rows of different lengths
                array = np.empty(0, object)
            if array.dtype.kind not in "biuf" and array.dtype.names is None:
                raise InputError(
                    f"{name}: {label} must be a rectangular array of numbers, not {array.dtype}"
                )
            object.__setattr__(self, label, array)
        if self.observations.ndim < 1 or self.actions.ndim < 1:
            raise InputError(f"{name}: observations and actions need a leading time axis")
        steps = len(self.actions)
        if steps == 0:
            raise InputError(f"{name} is empty: it needs at least one action")
        if len(self.observations) not in (steps, steps + 1):
            raise InputError(
                f"{name}: {len(self.observations)} observations do not fit {steps} actions; "
                f"give {steps + 1} (with the final one) or {steps} (without it)"
            )
        if self.rewards is not None and self.rewards.shape != (steps,):
            raise InputError(
                f"{name}: rewards have shape {self.rewards.shape}, but there are {steps} actions"
            )

    def __len__(self) -> int:
        return len(self.actions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        return (
            (self.id, self.group, self.terminated) == (other.id, other.group, other.terminated)
            and _same(self.observations, other.observations)
            and _same(self.actions, other.actions)
            and _same(self.rewards, other.rewards)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    @property
    def has_final_observation(self) -> bool:
        return len(self.observations) == len(self.actions) + 1


class Trajectories(Sequence[Trajectory]):
    """Trajectories packed end to end; indexing gives views, subsets share the arrays.

    `observations` is (R, *observation) and `actions` is (S, *action); trajectory i begins at
    observation row `first_row[i]` and at action `first_step[i]` and has `lengths[i]` actions.
    """

    def __init__(
        self,
        *,
        observations: Array,
        actions: Array,
        rewards: Array,
        first_row: Array,
        first_step: Array,
        lengths: Array,
        has_final: Array,
        has_rewards: Array,
        terminated: Array,
        ids: tuple[str, ...],
        groups: tuple[str | None, ...],
        digests: Array | None = None,
    ) -> None:
        self.observations = _read_only(observations)
        self.actions = _read_only(actions)
        self.rewards = _read_only(rewards)
        self.first_row = _read_only(first_row)
        self.first_step = _read_only(first_step)
        self.lengths = _read_only(lengths)
        self.has_final = _read_only(has_final)
        self.has_rewards = _read_only(has_rewards)
        self.terminated = _read_only(terminated)
        self.ids = ids
        self.groups = groups
        self.digests = digests
        """SHA-256 of the observations of each trajectory, where a file knows them. (N, 32) bytes"""

    @staticmethod
    def pack(trajectories: Iterable[Trajectory], spaces: Spaces) -> Trajectories:
        """Copy trajectories into flat arrays of the spaces' number types; observations that all lie
        in one file stay there."""
        items = list(trajectories)
        lengths = np.array([len(t) for t in items], np.int64)
        rows = np.array([len(t.observations) for t in items], np.int64)
        first_row, first_step = _starts(rows), _starts(lengths)
        observations, mapped = _mapped(items, spaces)
        if observations is None:
            observations = np.empty(
                (int(rows.sum()), *observation_shape(spaces.observation)),
                observation_type(spaces.observation),
            )
            for t, row in zip(items, first_row, strict=True):
                observations[row : row + len(t.observations)] = pack_observations(
                    spaces.observation, t.observations
                )
        else:
            first_row = mapped
        actions = np.empty(
            (int(lengths.sum()), *element_shape(spaces.action)), element_type(spaces.action)
        )
        rewards = np.full(int(lengths.sum()), np.nan)
        for t, step in zip(items, first_step, strict=True):
            actions[step : step + len(t)] = t.actions
            if t.rewards is not None:
                rewards[step : step + len(t)] = t.rewards
        return Trajectories(
            observations=observations,
            actions=actions,
            rewards=rewards,
            first_row=first_row,
            first_step=first_step,
            lengths=lengths,
            has_final=rows == lengths + 1,
            has_rewards=np.array([t.rewards is not None for t in items], bool),
            terminated=np.array([t.terminated for t in items], bool),
            ids=tuple(t.id for t in items),
            groups=tuple(t.group for t in items),
        )

    def subset(self, indices: Sequence[int] | Array) -> Trajectories:
        """The trajectories with these positions, in this order, over the same flat arrays."""
        chosen = np.asarray(indices, np.int64)
        return Trajectories(
            observations=self.observations,
            actions=self.actions,
            rewards=self.rewards,
            first_row=self.first_row[chosen],
            first_step=self.first_step[chosen],
            lengths=self.lengths[chosen],
            has_final=self.has_final[chosen],
            has_rewards=self.has_rewards[chosen],
            terminated=self.terminated[chosen],
            ids=tuple(self.ids[i] for i in chosen),
            groups=tuple(self.groups[i] for i in chosen),
            digests=None if self.digests is None else self.digests[chosen],
        )

    def blocks(self, steps: int) -> list[Trajectories]:
        """Trajectories one after the other, about so many steps at a time, each block over its own
        part of the flat arrays; all of them as one where they lie in another order or apart."""
        rows = self.lengths + self.has_final
        apart = np.diff(self.first_row)  # of a mapped file one row more where the last is unknown
        in_order = (apart == rows[:-1]).all() or (apart == self.lengths[:-1] + 1).all()
        if self.n_steps <= steps or not (in_order and (np.diff(self.first_step) > 0).all()):
            return [self]
        number = (np.cumsum(self.lengths) - 1) // steps  # of the block in which each ends
        edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(self)]
        return [self._part(first, last) for first, last in pairwise(edges)]

    def _part(self, first: int, last: int) -> Trajectories:
        """These consecutive trajectories over their own part of the flat arrays."""
        some = self[first:last]
        row, step = int(some.first_row[0]), int(some.first_step[0])
        end_row = int(some.first_row[-1] + some.lengths[-1] + some.has_final[-1])
        end_step = int(some.first_step[-1] + some.lengths[-1])
        return Trajectories(
            observations=self.observations[row:end_row],
            actions=self.actions[step:end_step],
            rewards=self.rewards[step:end_step],
            first_row=some.first_row - row,
            first_step=some.first_step - step,
            lengths=some.lengths,
            has_final=some.has_final,
            has_rewards=some.has_rewards,
            terminated=some.terminated,
            ids=some.ids,
            groups=some.groups,
            digests=some.digests,
        )

    @property
    def n_steps(self) -> int:
        return int(self.lengths.sum())

    def times(self) -> Array:
        """The time of each step within its own trajectory. (n_steps,)"""
        return np.arange(self.n_steps) - np.repeat(_starts(self.lengths), self.lengths)

    def rows(self) -> Array:
        """For each step, the row of `observations` that holds its state. (n_steps,)"""
        return np.repeat(self.first_row, self.lengths) + self.times()

    def steps(self) -> Array:
        """For each step, its position in `actions` and `rewards`. (n_steps,)"""
        return np.repeat(self.first_step, self.lengths) + self.times()

    def split_steps(self, values: Array) -> list[Array]:
        """Cut an array with one entry per step into one array per trajectory."""
        return np.split(values, np.cumsum(self.lengths)[:-1]) if len(self) else []

    def __len__(self) -> int:
        return len(self.lengths)

    @overload
    def __getitem__(self, key: int) -> Trajectory: ...
    @overload
    def __getitem__(self, key: slice) -> Trajectories: ...
    def __getitem__(self, key: int | slice) -> Trajectory | Trajectories:
        if isinstance(key, slice):
            return self.subset(range(len(self))[key])
        i = range(len(self))[key]
        row, step, length = int(self.first_row[i]), int(self.first_step[i]), int(self.lengths[i])
        return Trajectory(
            observations=self.observations[row : row + length + int(self.has_final[i])],
            actions=self.actions[step : step + length],
            rewards=self.rewards[step : step + length] if self.has_rewards[i] else None,
            terminated=bool(self.terminated[i]),
            id=self.ids[i],
            group=self.groups[i],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectories):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Trajectories({len(self)} episodes, {self.n_steps} steps)"


def _mapped(items: Sequence[Trajectory], spaces: Spaces) -> tuple[Array | None, Array]:
    """The flat array of a file in which all of these observations lie, and at which row of it."""
    nowhere = None, np.zeros(0, np.int64)
    whole = items[0].observations.base if items else None
    if (
        not isinstance(whole, np.ndarray)
        or not isinstance(whole.base, np.memmap)
        or whole.dtype != observation_type(spaces.observation)
        or whole.shape[1:] != observation_shape(spaces.observation)
        or not whole.strides[0]
        or any(t.observations.base is not whole for t in items)
        or any(t.observations.strides != whole.strides for t in items)
        or any(t.observations.shape[1:] != whole.shape[1:] for t in items)
    ):
        return nowhere
    begin = whole.__array_interface__["data"][0]
    offsets = [t.observations.__array_interface__["data"][0] - begin for t in items]
    return whole, np.array(offsets, np.int64) // whole.strides[0]


def _starts(lengths: Array) -> Array:
    return np.cumsum(lengths) - lengths


def _read_only(array: Array) -> Array:
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _same(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and np.array_equal(a, b)
