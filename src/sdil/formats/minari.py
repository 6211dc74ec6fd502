"""One Minari data set (HDF5) to and from trajectories.

`write_dataset` returns `Notes`, what Minari has no place for; `read_datasets` takes them again.
Where an episode has no rewards, Minari sees NaN; where it has no final observation, Minari sees
the last one twice. The notes say which episodes these are, so writing and reading are inverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.spaces import Spaces, element_shape
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
        return asdict(self)

    @staticmethod
    def from_json(noted: Mapping[str, Any]) -> Notes:
        """The inverse of `to_json`; KeyError, TypeError or ValueError where something is wrong."""
        notes = Notes(**{field.name: noted[field.name] for field in fields(Notes)})
        if not len(notes.ids) == len(notes.groups) == notes.episodes:
            raise ValueError("ids or groups do not fit the episodes")
        if not {*notes.without_rewards, *notes.without_final_observation} <= {
            *range(notes.episodes)
        }:
            raise ValueError("something is absent from an episode that is not there")
        return notes

    @property
    def rows(self) -> int:
        """How many observations there should be, the unknown ones not counted."""
        return self.steps + self.episodes - len(set(self.without_final_observation))


def write_dataset(trajectories: Trajectories, spaces: Spaces, folder: Path) -> Notes:
    """Write trajectories as a Minari data set called like its new folder (`NAME-v0`)."""
    from minari import MinariDataset, __version__
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    folder = folder.absolute()  # Minari sums up file sizes by absolute paths only
    (folder / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        folder / "data",
        observation_space=spaces.observation,
        action_space=spaces.action,
        data_format="hdf5",
        jpeg_encoding=False,  # lossy
    )
    storage.update_metadata({"dataset_id": folder.name, "minari_version": __version__})

    def buffers() -> Iterator[Any]:
        for t in trajectories:
            ends = np.arange(len(t)) == len(t) - 1
            final = (
                t.observations if t.has_final_observation else t.observations[[*range(len(t)), -1]]
            )
            yield EpisodeBuffer(
                observations=final,
                actions=t.actions,
                rewards=np.full(len(t), np.nan) if t.rewards is None else t.rewards,
                terminations=ends & t.terminated,
                truncations=ends & (not t.terminated),
            )

    if len(trajectories):
        storage.update_episodes(buffers())
    MinariDataset(folder / "data")  # Minari itself must be able to open what we wrote
    return Notes.of(trajectories)


def read_datasets(sets: Mapping[Path, Notes], spaces: Spaces) -> list[Trajectories]:
    """The trajectories of each data set, all of them over one flat array; values are not checked.

    Several at once, since the clean and the noisy set of demonstrations share their arrays.
    """
    opened = {folder: _open_as_noted(folder, notes) for folder, notes in sets.items()}
    flat = _Flat(
        steps=sum(notes.steps for notes in sets.values()),
        rows=sum(notes.rows for notes in sets.values()),
        spaces=spaces,
    )
    for folder, notes in sets.items():
        _read_into(flat, opened[folder], folder, notes)
    together = flat.finish(
        [i for notes in sets.values() for i in notes.ids],
        [g for notes in sets.values() for g in notes.groups],
    )
    edges = np.cumsum([0, *(notes.episodes for notes in sets.values())])
    return [together[first:last] for first, last in pairwise(edges)]


def annotate(folder: Path, about_episodes: Sequence[dict[str, Any]]) -> None:
    """Add to what a data set says of each episode (its metadata); values are plain."""
    _open(folder).update_episode_metadata(about_episodes)


def lengths_of(folder: Path) -> list[int]:
    """How many steps each episode of a data set has; no episode is read."""
    storage = _open(folder)
    if not storage.total_episodes:
        return []
    try:
        metadata = storage.get_episode_metadata(range(storage.total_episodes))
        return [int(m["total_steps"]) for m in metadata]
    except (OSError, KeyError) as error:
        raise InputError(f"{folder}: damaged or truncated ({error})") from None


class _Flat:
    """Flat arrays of a known size, filled episode by episode as Minari yields them."""

    def __init__(self, *, steps: int, rows: int, spaces: Spaces) -> None:
        self.observations = np.empty(
            (rows, *element_shape(spaces.observation)), spaces.observation.dtype
        )
        self.actions = np.empty((steps, *element_shape(spaces.action)), spaces.action.dtype)
        self.rewards = np.full(steps, np.nan)
        self.first_row: list[int] = []
        self.first_step: list[int] = []
        self.has_final: list[bool] = []
        self.has_rewards: list[bool] = []
        self.terminated: list[bool] = []
        self.row = self.step = 0

    def add(self, episode: dict[str, Any], *, has_final: bool, has_rewards: bool) -> None:
        length = len(episode["actions"])
        rows = length + has_final
        if len(episode["observations"]) != length + 1:
            raise ValueError(f"{len(episode['observations'])} observations for {length} actions")
        self.observations[self.row : self.row + rows] = episode["observations"][:rows]
        self.actions[self.step : self.step + length] = episode["actions"]
        if has_rewards:
            self.rewards[self.step : self.step + length] = episode["rewards"]
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


def _read_into(flat: _Flat, storage: Any, folder: Path, notes: Notes) -> None:
    if not notes.episodes:
        return
    no_rewards, no_final = set(notes.without_rewards), set(notes.without_final_observation)
    at = -1
    try:
        for at, episode in enumerate(storage.get_episodes(range(notes.episodes))):
            flat.add(episode, has_final=at not in no_final, has_rewards=at not in no_rewards)
    except (OSError, KeyError, ValueError, IndexError, AssertionError) as error:
        broken = notes.ids[min(at + 1, len(notes.ids) - 1)]
        raise InputError(
            f"{folder / 'data' / 'main_data.hdf5'}: damaged or truncated near episode "
            f"{broken!r} ({error})"
        ) from None


def _open_as_noted(folder: Path, notes: Notes) -> Any:
    storage = _open(folder)
    held = (storage.total_episodes, storage.total_steps)
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
    except (OSError, KeyError, ValueError, AssertionError) as error:
        raise InputError(f"{folder}: Minari cannot open this data set ({error})") from None
