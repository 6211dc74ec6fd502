"""Demonstrations out of other people's data: features, actions and trusted episodes are chosen.

`sdil.read` reads all of it into memory; `importing.py` writes it to a folder one episode at a time.
Both go through a `Reading`, which is what was chosen of a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.formats.cameras import (
    STATE,
    Camera,
    choose_cameras,
    fill,
    observation_space,
    parse_size,
    rows_of,
)
from sdil.formats.origin import Imported, Numbered, Origin, place_of, plain
from sdil.formats.packing import Packing
from sdil.formats.picking import Picked, pick, split_names
from sdil.formats.recognise import Address, open_source, parse_address
from sdil.formats.recorded import check_finite, check_lengths, frames_of, known_sums, rewards_of
from sdil.formats.runs import BYTES, Rowed, Run
from sdil.formats.sets import clean_and_noisy, group_of, of_task
from sdil.formats.source import Source
from sdil.formats.table_source import choose_actions
from sdil.observations import is_packed, pack_observations, packed_type
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectory

_MOST_COUNTED = 4096  # whole-number actions from 0 below this are counted; others are measured


def read(
    source: str | Path | Source,
    *,
    clean: str | Sequence[str | int] | None = None,
    noisy: str | Sequence[str | int] | None = None,
    features: str | Sequence[str] | None = None,
    actions: str | Sequence[str] | None = None,
    every: int | None = None,
    image_size: int | str | None = None,
    task: str | None = None,
    group: str | None = None,
    format: str | None = None,
    table: str | None = None,
    episode: str | None = None,
    time: str | None = None,
) -> Imported:
    """Demonstrations from a data set in any format that is known here; see docs/formats.md.

    `clean` says which episodes are trusted (`sdil.formats.trusted`), `noisy` which are doubtful,
    by default all others. `features` and `actions` name what is seen and done, by default all
    that the source calls so, pictures left out: of cameras that are named, a `Dict` observation is
    made with a part for each and `state` for all vectors, or a picture alone, and `image_size`
    (96, or "HxW") resizes them. `every` keeps each n-th frame, `task` one of several tasks, `group`
    is the column of episodes that a split keeps together. `table`, `episode` and `time` are for
    tables: which one, and its columns for both.
    """
    chosen = {
        "clean": _joined(clean),
        "noisy": _joined(noisy),
        "features": _joined(features),
        "actions": _joined(actions),
        "every": None if every is None else str(every),
        "image_size": None if image_size is None else str(image_size),
        "task": task,
        "group": group,
        "table": table,
        "episode": episode,
        "time": time,
    }
    if isinstance(source, str | Path):
        address = parse_address(source)
        address = Address(address.location, format or address.format, address.choices)
        return open_reading(address.with_choices(**chosen)).read_all()
    given = Address(source.location, source.format, {}).with_choices(**chosen)
    return Reading(choose_actions(source, given.choices), given).read_all()


def open_reading(address: Address) -> Reading:
    """Open the source at an address, with what was chosen of it."""
    options = {k: address.choices[k] for k in ("table", "episode", "time") if k in address.choices}
    source = open_source(_prefixed(address), **options)
    return Reading(choose_actions(source, address.choices), address)


@dataclass(frozen=True)
class Reading:
    """What was chosen of a source; nothing is read before it is asked for."""

    source: Source
    address: Address
    frames: dict[str, Numbered] = field(default_factory=dict, repr=False)
    """The source's own numbers of the episodes that were read and do not count 0, 1, 2, ..."""
    blind: bool = False
    """Leave the pictures out: vectors are quick to look at."""

    @cached_property
    def every(self) -> int:
        text = self.address.choices.get("every", "1")
        if not text.isdecimal() or int(text) < 1:
            raise InputError(f"every n-th frame: n is a whole number from 1, not {text!r}")
        return int(text)

    @cached_property
    def _asked(self) -> tuple[tuple[Camera, ...], list[str] | None]:
        """The cameras that were asked for, and the other names."""
        size = parse_size(self.address.choices.get("image_size"))
        names = split_names(self.address.choices.get("features"))
        cameras, others = choose_cameras(self.source, names, size)
        if size is not None and not cameras:
            pictures = [f.name for f in self.source.features if f.role == "image"]
            raise InputError(
                f"{self.source.location}: a size of pictures was given, but no camera was chosen; "
                + (f"--features names some of {', '.join(pictures)}" if pictures else "it has none")
            )
        return cameras, others

    @property
    def cameras(self) -> tuple[Camera, ...]:
        """What is seen as pictures."""
        return () if self.blind else self._asked[0]

    @cached_property
    def observation(self) -> Picked:
        """What is seen as numbers, side by side."""
        cameras, names = self._asked
        beside = () if names else self.action.features
        return pick(self.source, names, "observation", beside, none_is_fine=bool(cameras))

    @cached_property
    def action(self) -> Picked:
        """What is done."""
        return pick(self.source, split_names(self.address.choices.get("actions")), "action")

    @cached_property
    def candidates(self) -> tuple[int, ...]:
        """The episodes of the task that was chosen, all of them if there is one."""
        return of_task(self.source, self.address.choices.get("task"))

    @cached_property
    def sets(self) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """Positions of the clean and of the noisy episodes, and how they were chosen."""
        return clean_and_noisy(self.source, self.address.choices)

    @cached_property
    def spaces(self) -> Spaces:
        """Boxes without limits that keep every number; Discrete for a column of counted actions."""
        seen = observation_space(
            self.cameras, self.observation.width, _float(self.observation.dtype)
        )
        most = self._most_counted()
        if most is not None:
            return Spaces(seen, gym.spaces.Discrete(most + 1))
        width = self.action.width
        return Spaces(seen, gym.spaces.Box(-np.inf, np.inf, (width,), _float(self.action.dtype)))

    def origin(self) -> Origin:
        """Where the demonstrations come from, as far as they were read."""
        tasks = {e.id: e.task for e in self.source.episodes if e.task is not None}
        clean, noisy, sentence = self.sets
        kept = {self.source.episodes[i].id for i in (*clean, *noisy)}
        return Origin(
            format=self.source.format,
            location=place_of(self.source.location),
            choices=dict(self.address.choices),
            chosen=sentence,
            observation=self.observation.names,
            action=self.action.names,
            observation_units=self.observation.units,
            action_units=self.action.units,
            about=plain(self.source.about),
            frames=dict(self.frames),
            tasks={k: v for k, v in tasks.items() if k in kept}
            if len(set(tasks.values())) > 1
            else {},
        )

    @cached_property
    def _wanted(self) -> list[str]:
        return list(dict.fromkeys(self.observation.features + self.action.features))

    def read_one(self, position: int) -> Trajectory:
        """One episode as it was chosen."""
        return self.read_and_sum(position)[0]

    def read_and_sum(self, position: int) -> tuple[Trajectory, tuple[int | None, int | None]]:
        """The same, and the CRC-32 of its observations and actions where the source knows them."""
        episode = self.source.episodes[position]
        where = f"{self.source.location}: episode {episode.id!r}"
        recorded = self.source.read(position, self._wanted)
        steps, rows = check_lengths(recorded, self.observation, self.action, where)
        if not self.observation.parts and self.cameras:
            rows = steps + 1  # as many as the pictures have
        seen = self.observation.lay(recorded.values, rows, where)
        done = self.action.lay(recorded.values, steps, where)
        check_finite(seen, self.observation, recorded, steps, where)
        check_finite(done, self.action, recorded, steps, where)
        rewards = rewards_of(recorded, steps, where)
        if self.cameras:
            seen = self._with_pictures(position, seen, steps)
        elif self.every > 1:
            seen = seen[self._kept(steps, len(seen) > steps)]
        if self.every > 1:
            at = np.arange(0, steps, self.every)
            done = done[at]
            rewards = None if rewards is None else np.add.reduceat(rewards, at)
        if recorded.frames is not None or self.every > 1:
            numbered = Numbered.of(frames_of(recorded, steps)[:: self.every])
            if numbered != Numbered():
                self.frames[episode.id] = numbered
        if isinstance(self.spaces.action, gym.spaces.Discrete):
            done = done[:, 0].astype(np.int64)
        ended, group = recorded.terminated, group_of(self.source, episode, self.address.choices)
        summed = (
            known_sums(seen, self.observation, recorded.values, recorded.sums),
            known_sums(done, self.action, recorded.values, recorded.sums),
        )
        return Trajectory(seen, done, rewards, ended, episode.id, group), summed

    def read_in_turn(
        self, positions: Sequence[int]
    ) -> Iterator[Run | tuple[Trajectory, tuple[int | None, int | None]]]:
        """Episodes in this order: many at once where they lie side by side in the source, else
        each as `read_and_sum` has it."""
        source = self.source
        alone = (
            not isinstance(source, Rowed)
            or self.every > 1
            or self.cameras
            or isinstance(self.spaces.action, gym.spaces.Discrete)
        )
        at = 0
        while at < len(positions):
            stop = at + 1 if alone else self._end_of_run(positions, at)
            run = None if stop == at + 1 else self._read_run(positions[at], stop - at)
            if run is not None:
                yield run
            else:  # which also says what is wrong, and in which of them
                for position in positions[at:stop]:
                    yield self.read_and_sum(position)
            at = stop

    def _end_of_run(self, positions: Sequence[int], at: int) -> int:
        """The end of a run of neighbours that is not too long."""
        row = self.observation.width * self.observation.dtype.itemsize
        room, stop = BYTES // max(row, 1) - self.source.episodes[positions[at]].steps, at + 1
        while stop < len(positions) and positions[stop] == positions[stop - 1] + 1:
            room -= self.source.episodes[positions[stop]].steps
            if room < 0:
                break
            stop += 1
        return stop

    def _read_run(self, first: int, count: int) -> Run | None:
        """So many episodes from this one on; None where they are not what they should be."""
        assert isinstance(self.source, Rowed)
        episodes = self.source.episodes[first : first + count]
        lengths = [episode.steps for episode in episodes]
        steps = sum(lengths)
        try:
            rows = self.source.read_rows(first, first + count, self._wanted)
            if rows is None:
                return None
            given = rows.recorded
            where = self.source.location
            if check_lengths(given, self.observation, self.action, where) != (steps, steps):
                return None
            seen = self.observation.lay(given.values, steps, where)
            done = self.action.lay(given.values, steps, where)
            rewards = rewards_of(given, steps, where)
        except InputError:
            return None
        if not (np.isfinite(seen).all() and np.isfinite(done).all()):
            return None
        run = Run(
            np.ascontiguousarray(seen),
            np.ascontiguousarray(done),
            None if rewards is None else np.ascontiguousarray(rewards),
            lengths,
            rows.terminated,
            [episode.id for episode in episodes],
            [group_of(self.source, episode, self.address.choices) for episode in episodes],
            (
                known_sums(seen, self.observation, given.values, rows.sums),
                known_sums(done, self.action, given.values, rows.sums),
            ),
        )
        if given.frames is not None:
            for (begin, end), name in zip(run.steps(), run.ids, strict=True):
                numbered = Numbered.of(given.frames[begin:end])
                if numbered != Numbered():
                    self.frames[name] = numbered
        return run

    def _kept(self, steps: int, final: bool) -> Array:
        """The rows of an episode that stay, the one where it ended included."""
        at = np.arange(0, steps, self.every)
        return np.append(at, steps) if final else at

    def _with_pictures(self, position: int, seen: Array, steps: int) -> Array:
        """Vectors (rows, width) and what the cameras saw, as observations are kept."""
        given = rows_of(self.source, position, self.cameras)
        shown = [len(frames) for frames in given.values()] or [steps]
        if min(shown) < steps:
            where = f"{self.source.location}: episode {self.source.episodes[position].id!r}"
            raise InputError(f"{where}: {min(shown)} pictures for {steps} actions")
        at = self._kept(steps, final=min(*shown, len(seen)) > steps)
        space = self.spaces.observation
        rows = np.zeros(len(at), packed_type(space)) if is_packed(space) else None
        alone = np.empty((len(at), *self.cameras[0].shape), np.uint8) if rows is None else None
        for camera in self.cameras:
            out = alone if rows is None else rows[camera.name]
            assert out is not None
            fill(self.source, position, camera, given.get(camera.feature.name), at, out)
        if rows is None:
            assert alone is not None
            return alone
        if self.observation.width:
            rows[STATE] = seen[at]
        return pack_observations(space, rows)

    def read_all(self) -> Imported:
        """All of it, packed; one copy of every number."""
        clean, noisy, _ = self.sets
        lengths = [-(-self.source.episodes[i].steps // self.every) for i in (*clean, *noisy)]
        packed = Packing(lengths, self.spaces, self.source.location)
        for some in self.read_in_turn((*clean, *noisy)):
            for t in some if isinstance(some, Run) else some[:1]:
                packed.add(t)
        every = packed.finish()
        return Imported(every[: len(clean)], every[len(clean) :], self.spaces, self.origin())

    def _most_counted(self) -> int | None:
        """The largest action where actions are counted; one look at the actions alone."""
        if not self.action.is_counted:
            return None
        clean, noisy, _ = self.sets
        (name,) = self.action.features
        (part,) = self.action.parts
        most = 0
        for position in (*clean, *noisy):
            values = self.source.read(position, [name]).values[name]
            if not len(values):
                continue
            flat = values.reshape(len(values), -1)
            flat = flat if part.entries is None else flat[:, list(part.entries)]
            if flat.min() < 0 or flat.max() >= _MOST_COUNTED:
                return None
            most = max(most, int(flat.max()))
        return most


def _joined(value: str | Sequence[str | int] | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return ",".join(map(str, value))


def _prefixed(address: Address) -> str:
    return str(Address(address.location, address.format))


def _float(dtype: np.dtype[Any]) -> type[np.float32] | type[np.float64]:
    return np.float64 if dtype == np.float64 else np.float32
