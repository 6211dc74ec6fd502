"""A folder of demonstrations on disk: two Minari data sets and what Minari has no place for.

    demos/fourrooms/
      clean-v0/data/, noisy-v0/data/   Minari data sets (HDF5): `MinariDataset(".../data")`, or
                                       `minari.load_dataset("clean-v0")` with this folder as root
      sdil.json                        spaces, task, environment, ids, groups, what is absent
      truth.npz                        where known: which steps were good. No learner reads it.

Where an episode has no rewards, Minari sees NaN; where it has no final observation, Minari sees
the last one twice. `sdil.json` says which episodes these are, so saving and loading are inverse.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from sdil.demonstrations import Demonstrations, check_values
from sdil.errors import InputError
from sdil.files import new_folder, read_json, write_json
from sdil.spaces import Array, Spaces, element_shape
from sdil.trajectories import Trajectories

FORMAT_VERSION = 1
_ABOUT = "sdil.json"
_SETS = ("clean", "noisy")


@dataclass(frozen=True)
class Truth:
    """What a task knows of its own demonstrations, step by step; for evaluation only."""

    clean_good: list[Array]
    """Per clean trajectory (T,): was the step good? The task says what that means: that it brought
    the agent closer to the goal or, in sepsis, that it lost less than 0.01 of the best value."""
    noisy_good: list[Array]
    """Per noisy trajectory (T,): likewise."""
    noisy_segment: list[Array] | None = None
    """Per noisy trajectory (T,): index into `segment_names`, where segments are known."""
    segment_names: tuple[str, ...] = ()
    """What the segment numbers stand for."""


def save_demonstrations(
    demos: Demonstrations,
    folder: str | Path,
    *,
    task: str | None = None,
    environment: str | None = None,
    truth: Truth | None = None,
    origin: dict[str, Any] | None = None,
    overwrite: bool = False,
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Write demonstrations to a new folder, whole or not at all.

    `task` and `environment` (a Gymnasium id) say where they come from, `origin` is free text for
    people (who collected, how, with which seed); `truth` is stored apart. `write_more` is given
    the folder before it takes its name, to write further files into it.
    """
    for name, trajectories in zip(_SETS, (demos.clean, demos.noisy), strict=True):
        if truth is not None:
            _check_truth(trajectories, getattr(truth, f"{name}_good"), f"{name}_good")
    # Minari sums up file sizes by absolute paths only
    if truth is not None and truth.noisy_segment is not None:
        _check_truth(demos.noisy, truth.noisy_segment, "noisy_segment")
    with new_folder(Path(folder).absolute(), overwrite=overwrite, marker=_ABOUT) as temporary:
        about: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "task": task,
            "environment": environment,
            "origin": origin or {},
            "spaces": demos.spaces.to_json(),
        }
        for name, trajectories in zip(_SETS, (demos.clean, demos.noisy), strict=True):
            _write_minari(trajectories, demos.spaces, temporary / f"{name}-v0", f"{name}-v0")
            about[name] = {
                "episodes": len(trajectories),
                "steps": trajectories.n_steps,
                "ids": list(trajectories.ids),
                "groups": list(trajectories.groups),
                "without_rewards": np.flatnonzero(~trajectories.has_rewards).tolist(),
                "without_final_observation": np.flatnonzero(~trajectories.has_final).tolist(),
            }
        if truth is not None:
            arrays = {
                "clean_good": _join(truth.clean_good, bool),
                "noisy_good": _join(truth.noisy_good, bool),
            }
            if truth.noisy_segment is not None:
                arrays["noisy_segment"] = _join(truth.noisy_segment, np.int8)
                arrays["segment_names"] = np.array(truth.segment_names)
            np.savez_compressed(temporary / "truth.npz", allow_pickle=False, **arrays)
        if write_more is not None:
            write_more(temporary)
        write_json(temporary / _ABOUT, about)


def annotate_episodes(folder: Path, name: str, notes: Sequence[dict[str, Any]]) -> None:
    """Add to what Minari says of each episode of a set (its metadata); values are plain."""
    _open_minari(folder / f"{name}-v0").update_episode_metadata(notes)


def load_demonstrations(folder: str | Path) -> Demonstrations:
    """Read demonstrations that `save_demonstrations` wrote; every value is checked again."""
    folder = Path(folder)
    about = describe(folder)
    try:
        spaces = Spaces.from_json(about["spaces"])
        notes = [about[name] for name in _SETS]
        for name, note in zip(_SETS, notes, strict=True):
            if not len(note["ids"]) == len(note["groups"]) == note["episodes"]:
                raise ValueError(f"ids or groups of the {name} set do not fit its episodes")
            note["without_rewards"]  # a KeyError here names what is missing
        flat = _Flat(
            steps=sum(n["steps"] for n in notes),
            rows=sum(
                n["steps"] + n["episodes"] - len(n["without_final_observation"]) for n in notes
            ),
            spaces=spaces,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / _ABOUT}: damaged ({error!r})") from None
    for name, note in zip(_SETS, notes, strict=True):
        _read_minari(folder / f"{name}-v0", note, flat)
    packed = flat.finish(
        [i for n in notes for i in n["ids"]], [g for n in notes for g in n["groups"]]
    )
    n_clean = notes[0]["episodes"]
    if n_clean == 0:
        raise InputError(f"{folder}: the clean set is empty")
    try:
        check_values(packed[:n_clean], spaces, "clean")
        check_values(packed[n_clean:], spaces, "noisy")
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    return Demonstrations(packed[:n_clean], packed[n_clean:], spaces)


def load_truth(folder: str | Path) -> Truth | None:
    """What is known of the quality of each step, or None; the only reader of `truth.npz`."""
    folder = Path(folder)
    about = describe(folder)
    path = folder / "truth.npz"
    if not path.exists():
        return None
    cuts = {name: np.cumsum(_lengths(folder / f"{name}-v0", about[name]))[:-1] for name in _SETS}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            segments = arrays.get("noisy_segment")
            sizes = {"clean": arrays["clean_good"], "noisy": arrays["noisy_good"]}
            for name, values in sizes.items():
                if len(values) != about[name]["steps"]:
                    raise ValueError(f"{len(values)} labels for {about[name]['steps']} steps")
            noisy = about["noisy"]["episodes"] > 0
            return Truth(
                clean_good=np.split(sizes["clean"], cuts["clean"]),
                noisy_good=np.split(sizes["noisy"], cuts["noisy"]) if noisy else [],
                noisy_segment=(
                    None if segments is None else np.split(segments, cuts["noisy"]) if noisy else []
                ),
                segment_names=(
                    () if segments is None else tuple(str(s) for s in arrays["segment_names"])
                ),
            )
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def describe(folder: str | Path) -> dict[str, Any]:
    """The contents of `sdil.json`: task, environment, origin and what each set holds."""
    folder = Path(folder)
    if not folder.exists():
        raise InputError(
            f"{folder} does not exist; `sdil collect` makes a folder of demonstrations"
        )
    about = read_json(folder / _ABOUT, what="a folder of demonstrations")
    version = about.get("format") if isinstance(about, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder / _ABOUT}: format {version!r} is not the one this version reads "
            f"({FORMAT_VERSION}); upgrade sdil or collect again"
        )
    return about


def _write_minari(trajectories: Trajectories, spaces: Spaces, folder: Path, name: str) -> None:
    from minari import MinariDataset, __version__
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    (folder / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        folder / "data",
        observation_space=spaces.observation,
        action_space=spaces.action,
        data_format="hdf5",
        jpeg_encoding=False,  # lossy
    )
    storage.update_metadata({"dataset_id": name, "minari_version": __version__})

    def buffers() -> Any:
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


def _read_minari(folder: Path, note: dict[str, Any], flat: _Flat) -> None:
    no_rewards, no_final = set(note["without_rewards"]), set(note["without_final_observation"])
    storage = _open_minari(folder)
    if storage.total_episodes != note["episodes"] or storage.total_steps != note["steps"]:
        raise InputError(
            f"{folder} holds {storage.total_episodes} episodes and {storage.total_steps} steps, "
            f"but sdil.json says {note['episodes']} and {note['steps']}: it was changed afterwards"
        )
    if not note["episodes"]:
        return
    at = -1
    try:
        for at, episode in enumerate(storage.get_episodes(range(note["episodes"]))):
            flat.add(episode, has_final=at not in no_final, has_rewards=at not in no_rewards)
    except (OSError, KeyError, ValueError, IndexError, AssertionError) as error:
        broken = note["ids"][min(at + 1, len(note["ids"]) - 1)]
        raise InputError(
            f"{folder / 'data' / 'main_data.hdf5'}: damaged or truncated near episode "
            f"{broken!r} ({error})"
        ) from None


def _lengths(folder: Path, note: dict[str, Any]) -> list[int]:
    if not note["episodes"]:
        return []
    try:
        metadata = _open_minari(folder).get_episode_metadata(range(note["episodes"]))
        return [int(m["total_steps"]) for m in metadata]
    except (OSError, KeyError) as error:
        raise InputError(f"{folder}: damaged or truncated ({error})") from None


def _open_minari(folder: Path) -> Any:
    from minari.dataset.minari_storage import MinariStorage

    try:
        return MinariStorage.read(folder / "data")
    except (OSError, KeyError, ValueError, AssertionError) as error:
        raise InputError(f"{folder}: Minari cannot open this data set ({error})") from None


def _check_truth(trajectories: Trajectories, labels: list[Array], name: str) -> None:
    if [len(a) for a in labels] != trajectories.lengths.tolist():
        raise InputError(f"truth: {name} does not fit the trajectories step by step")


def _join(arrays: list[Array], dtype: Any) -> Array:
    return np.concatenate([np.asarray(a, dtype) for a in arrays]) if arrays else np.empty(0, dtype)
