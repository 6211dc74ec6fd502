"""One Minari data set (HDF5) to and from trajectories.

`write_dataset` returns `Notes`, what Minari has no place for; `read_datasets` takes them again.
Where an episode has no rewards, Minari sees NaN; where it has no final observation, Minari sees
the last one twice. The notes say which episodes these are, so writing and reading are inverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from reprlib import repr as short
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import json_text
from sdil.formats.episodes import FILE, PLACES, read_at, write_episodes
from sdil.formats.mapped import Laid, is_mapped, write_mapped
from sdil.observations import observation_shape, observation_type, pack_observations
from sdil.spaces import Array, Spaces, element_shape, element_type, stored_space
from sdil.trajectories import Trajectories


@dataclass(frozen=True)
class Notes:
    """What Minari has no place for, and how much there should be."""

    episodes: int
    steps: int
    ids: list[str]
    groups: list[str | None]
    without_rewards: list[int]
    """Positions of the episodes whose rewards are unknown."""
    without_final_observation: list[int]
    """Positions of the episodes whose last observation is unknown."""

    def __post_init__(self) -> None:
        """Raise where a file cannot be right, or would not be read again."""
        for name in ("episodes", "steps"):
            if not _is_position(getattr(self, name)):
                raise InputError(f"`{name}` is {short(getattr(self, name))}, not a whole number")
        for name in ("ids", "groups", "without_rewards", "without_final_observation"):
            if not isinstance(getattr(self, name), list):
                raise InputError(f"`{name}` is {short(getattr(self, name))}, not a list")
        if not len(self.ids) == len(self.groups) == self.episodes:
            raise InputError("ids or groups do not fit the episodes")
        for i, (name, group) in enumerate(zip(self.ids, self.groups, strict=True)):
            if not (name and _is_text(name)):
                raise InputError(f"the id of episode {i} is {short(name)}, not a text")
            if not (group is None or _is_text(group)):
                raise InputError(f"the group of episode {name!r} is {short(group)}, not a text")
        if len(set(self.ids)) < self.episodes:
            twice = next(name for i, name in enumerate(self.ids) if name in self.ids[:i])
            raise InputError(f"two episodes are called {twice!r}; ids must be unique")
        for position in (*self.without_rewards, *self.without_final_observation):
            if not (_is_position(position) and position < self.episodes):
                raise InputError(
                    f"something is absent from episode {short(position)}, which is not there"
                )

    @staticmethod
    def of(trajectories: Trajectories) -> Notes:
        """What to note of these trajectories."""
        return Notes(
            episodes=len(trajectories),
            steps=trajectories.n_steps,
            ids=list(trajectories.ids),
            groups=list(trajectories.groups),
            without_rewards=np.flatnonzero(~trajectories.has_rewards).tolist(),
            without_final_observation=np.flatnonzero(~trajectories.has_final).tolist(),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a JSON file."""
        return {field.name: getattr(self, field.name) for field in fields(Notes)}

    @staticmethod
    def from_json(noted: Mapping[str, Any]) -> Notes:
        """The inverse of `to_json`; InputError where something is missing or wrong."""
        for field in fields(Notes):
            if field.name not in noted:
                raise InputError(f"`{field.name}` is missing")
        return Notes(**{field.name: noted[field.name] for field in fields(Notes)})

    @property
    def rows(self) -> int:
        """How many observations there should be, the unknown ones not counted."""
        return self.steps + self.episodes - len(set(self.without_final_observation))


def write_dataset(
    trajectories: Trajectories,
    spaces: Spaces,
    folder: Path,
    laid: Laid | None = None,
    known: dict[str, int | None] | None = None,
) -> Notes:
    """Write trajectories as a Minari data set called like its new folder (`NAME-v0`).

    With `laid`, to be mapped: what was laid so far, to which this one is added. Into `known` goes
    the CRC-32 of the file, where it was summed up on the way.
    """
    from minari import MinariDataset, __version__
    from minari.dataset.minari_storage import MinariStorage

    notes = Notes.of(trajectories)
    folder = folder.absolute()  # Minari sums up file sizes by absolute paths only
    (folder / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        folder / "data",
        observation_space=spaces.observation,
        action_space=stored_space(spaces.action),
        data_format="hdf5",
        jpeg_encoding=False,  # lossy
    )
    storage.update_metadata({"dataset_id": folder.name, "minari_version": __version__})
    if len(trajectories):
        if laid is None and is_mapped(spaces, 0):
            laid = {}
        if laid is None:
            places, summed = write_episodes(trajectories, spaces, folder / FILE)
            if known is not None:
                known[f"{folder.name}/{FILE.as_posix()}"] = summed
        else:
            places = write_mapped(trajectories, spaces, folder / FILE, laid)
        np.save(folder / PLACES, places)
        storage.update_metadata({"total_steps": notes.steps, "total_episodes": notes.episodes})
        storage.update_metadata({"dataset_size": storage.get_size()})
    MinariDataset(folder / "data")  # Minari itself must be able to open what we wrote
    return notes


def write_metadata(file: Path, dataset_id: str, spaces: Spaces, notes: Notes) -> None:
    """What Minari wants to know of a data set whose HDF5 file it did not write, beside it, in a
    folder that is not in its place yet."""
    from minari import __version__
    from minari.serialization import serialize_space

    size = file.stat().st_size
    about = {
        "total_episodes": notes.episodes,
        "total_steps": notes.steps,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "observation_space": serialize_space(spaces.observation),
        "action_space": serialize_space(spaces.action),
        "dataset_id": dataset_id,
        "minari_version": __version__,
        "dataset_size": round(size / 1e6, 1),
    }
    file.with_name("metadata.json").write_text(json_text(about), "utf-8")


def read_at_once(
    sets: Mapping[Path, tuple[Notes, Array]], spaces: Spaces
) -> list[Trajectories] | None:
    """What `read_datasets` reads, from where it should lie; None where it does not lie there.

    Only of files that are known to be what was written: anything may lie there in others.
    """
    for folder, (notes, _) in sets.items():
        _open_as_noted(folder, notes)
    length = np.concatenate([places[:, 0] for _, places in sets.values()])
    finals = [~_marked(notes.without_final_observation, notes) for notes, _ in sets.values()]
    has_final = np.concatenate(finals)
    rows = length + has_final
    if any(notes.steps != places[:, 0].sum() for notes, places in sets.values()):
        return None
    flat = _Flat(steps=int(length.sum()), rows=int(rows.sum()), spaces=spaces)
    terminated, row, step = [], 0, 0
    for (folder, (notes, places)), final in zip(sets.items(), finals, strict=True):
        if not notes.episodes:
            continue
        n_rows, n_steps = notes.steps + int(final.sum()), notes.steps
        ended = read_at(
            folder / FILE,
            places,
            spaces,
            has_final=final,
            observations=flat.observations[row : row + n_rows],
            actions=flat.actions[step : step + n_steps],
            rewards=flat.rewards[step : step + n_steps],
        )
        if ended is None:
            return None
        terminated.append(ended)
        row, step = row + n_rows, step + n_steps
    together = Trajectories(
        observations=flat.observations,
        actions=flat.actions,
        rewards=flat.rewards,
        first_row=np.cumsum(rows) - rows,
        first_step=np.cumsum(length) - length,
        lengths=length,
        has_final=has_final,
        has_rewards=~np.concatenate([_marked(n.without_rewards, n) for n, _ in sets.values()]),
        terminated=np.concatenate([*terminated, np.zeros(0, bool)]),
        ids=tuple(i for notes, _ in sets.values() for i in notes.ids),
        groups=tuple(g for notes, _ in sets.values() for g in notes.groups),
    )
    return _cut(together, [notes for notes, _ in sets.values()])


def _marked(positions: list[int], notes: Notes) -> Array:
    marked = np.zeros(notes.episodes, bool)
    marked[positions] = True
    return marked


def _cut(together: Trajectories, notes: Sequence[Notes]) -> list[Trajectories]:
    edges = np.cumsum([0, *(each.episodes for each in notes)])
    return [together[first:last] for first, last in pairwise(edges)]


def read_datasets(sets: Mapping[Path, Notes], spaces: Spaces) -> list[Trajectories]:
    """The trajectories of each data set, all of them over one flat array; values are not checked.

    Several at once, since the clean and the noisy set of demonstrations share their arrays.
    """
    opened = {folder: _open_as_noted(folder, notes) for folder, notes in sets.items()}
    steps = sum(notes.steps for notes in sets.values())
    try:
        flat = _Flat(steps=steps, rows=sum(notes.rows for notes in sets.values()), spaces=spaces)
    except (MemoryError, ValueError) as error:
        where = ", ".join(map(str, sets))
        raise InputError(f"{where}: {steps} steps do not fit into memory ({error})") from None
    for folder, notes in sets.items():
        _read_into(flat, opened[folder], folder, notes)
    together = flat.finish(
        [i for notes in sets.values() for i in notes.ids],
        [g for notes in sets.values() for g in notes.groups],
    )
    return _cut(together, list(sets.values()))


def annotate(folder: Path, about_episodes: Sequence[dict[str, Any]]) -> None:
    """Add to what a data set says of each episode (its metadata); values are plain."""
    _open(folder).update_episode_metadata(about_episodes)


def lengths_of(folder: Path) -> list[int]:
    """How many steps each episode of a data set has; no episode is read."""
    storage, episodes = _open(folder), _counts(folder)[0]
    if not episodes:
        return []
    try:
        metadata = storage.get_episode_metadata(range(episodes))
        return [int(m["total_steps"]) for m in metadata]
    except Exception as error:  # HDF5 and Minari have many
        raise InputError(f"{folder}: damaged or truncated ({error})") from None


class _Flat:
    """Flat arrays of a noted size, filled episode by episode as Minari yields them.

    They are not touched before they are filled: a size that was noted wrongly takes no memory.
    """

    def __init__(self, *, steps: int, rows: int, spaces: Spaces) -> None:
        self.observations = np.empty(
            (rows, *observation_shape(spaces.observation)), observation_type(spaces.observation)
        )
        self.actions = np.empty((steps, *element_shape(spaces.action)), element_type(spaces.action))
        self.rewards = np.empty(steps)
        self.seen = spaces.observation
        self.first_row: list[int] = []
        self.first_step: list[int] = []
        self.has_final: list[bool] = []
        self.has_rewards: list[bool] = []
        self.terminated: list[bool] = []
        self.row = self.step = 0

    def add(self, episode: dict[str, Any], *, has_final: bool, has_rewards: bool) -> None:
        length = len(episode["actions"])
        rows = length + has_final
        observations = pack_observations(self.seen, episode["observations"])
        if len(observations) != length + 1:
            raise ValueError(f"{len(observations)} observations for {length} actions")
        if len(episode["terminations"]) != length:
            raise ValueError(f"{len(episode['terminations'])} terminations for {length} actions")
        steps = slice(self.step, self.step + length)
        seen = self.observations[self.row : self.row + rows]
        _copy("observations", observations[:rows], seen)
        _copy("actions", episode["actions"], self.actions[steps])
        rewards = episode["rewards"] if has_rewards else np.full(length, np.nan)
        _copy("rewards", rewards, self.rewards[steps])
        self.first_row.append(self.row)
        self.first_step.append(self.step)
        self.has_final.append(has_final)
        self.has_rewards.append(has_rewards)
        self.terminated.append(bool(episode["terminations"][-1]))
        self.row += rows
        self.step += length

    def finish(self, ids: list[str], groups: list[str | None]) -> Trajectories:
        first_step = np.array(self.first_step, np.int64)
        return Trajectories(
            observations=self.observations,
            actions=self.actions,
            rewards=self.rewards,
            first_row=np.array(self.first_row, np.int64),
            first_step=first_step,
            lengths=np.diff(np.append(first_step, self.step)),
            has_final=np.array(self.has_final, bool),
            has_rewards=np.array(self.has_rewards, bool),
            terminated=np.array(self.terminated, bool),
            ids=tuple(ids),
            groups=tuple(groups),
        )


def _copy(what: str, values: Array, part: Array) -> None:
    """Copy into a part of a flat array, unless its shape or its number type cannot hold them."""
    if part.shape != values.shape:
        raise ValueError(f"{what} of shape {values.shape} where {part.shape} was noted")
    with np.errstate(over="ignore", invalid="ignore"):
        part[...] = values
    if values.dtype != part.dtype and not np.array_equal(part, values):
        raise ValueError(f"{what} are stored as {values.dtype}, which {part.dtype} cannot hold")


def _read_into(flat: _Flat, storage: Any, folder: Path, notes: Notes) -> None:
    if not notes.episodes:
        return
    no_rewards, no_final = set(notes.without_rewards), set(notes.without_final_observation)
    before, steps_before = len(flat.terminated), flat.step
    try:
        for at, episode in enumerate(storage.get_episodes(range(notes.episodes))):
            flat.add(episode, has_final=at not in no_final, has_rewards=at not in no_rewards)
        if (read := flat.step - steps_before) != notes.steps:
            raise ValueError(f"{read} steps where {notes.steps} were noted")
    except Exception as error:  # HDF5 and Minari have many
        broken = notes.ids[min(len(flat.terminated) - before, len(notes.ids) - 1)]
        raise InputError(
            f"{folder / 'data' / 'main_data.hdf5'}: damaged or truncated near episode "
            f"{broken!r} ({error})"
        ) from None


def _open_as_noted(folder: Path, notes: Notes) -> Any:
    storage, held = _open(folder), _counts(folder)
    if held != (notes.episodes, notes.steps):
        raise InputError(
            f"{folder} holds {held[0]} episodes and {held[1]} steps, but {notes.episodes} and "
            f"{notes.steps} were noted when it was written: it was changed afterwards"
        )
    return storage


def _open(folder: Path) -> Any:
    from minari.dataset.minari_storage import MinariStorage

    try:
        return MinariStorage.read(folder / "data")
    except Exception as error:  # Gymnasium's spaces and JSON each have their own
        raise InputError(f"{folder}: Minari cannot open this data set ({error})") from None


def _counts(folder: Path) -> tuple[int, int]:
    """How many episodes and steps Minari says that a data set has."""
    from minari.dataset.minari_storage import MinariStorage

    said = MinariStorage.read_raw_metadata(folder / "data")
    episodes, steps = said.get("total_episodes"), said.get("total_steps")
    if not (_is_position(episodes) and _is_position(steps)):
        raise InputError(
            f"{folder / 'data' / 'metadata.json'}: damaged (total_episodes or total_steps is not a "
            "whole number); collect or copy the folder again"
        )
    return episodes, steps


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    """A text that a file can hold: half a surrogate pair has no UTF-8."""
    return isinstance(value, str) and value == value.encode("utf-8", "ignore").decode()
