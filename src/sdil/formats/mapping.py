"""Demonstrations whose observations are mapped from the folder that they lie in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.formats.checksums import (
    ABOUT,
    AGAIN,
    CHECKSUMS,
    MAPPED,
    SETS,
    data_folder,
    digest_of_the_rest,
    files_of,
    is_as_written,
    known_places,
)
from sdil.formats.episodes import FILE, read_at
from sdil.formats.mapped import Laid, Rows, read_digests, row_bytes, sum_up_others
from sdil.formats.minari import Notes
from sdil.observations import has_frames, observation_shape, observation_type
from sdil.spaces import Array, Spaces, element_shape, element_type
from sdil.trajectories import Trajectories

_CHECKED_ALWAYS = 2**28  # bytes of mapped rows up to which they are read once when they are loaded


def mapped_to_json(folder: Path, laid: Laid) -> dict[str, Any]:
    """What `sdil.json` says of mapped rows, by set."""
    there = {name: laid.get(data_folder(folder, name).absolute() / FILE) for name in SETS}
    return {name: rows.to_json() for name, rows in there.items() if rows is not None}


def are_frames_checked(about: dict[str, Any]) -> bool:
    """Whether every load compares the frames of a folder with their checksum: where they are few,
    or none are mapped."""
    return sum(int(rows["bytes"]) for rows in about[MAPPED].values()) <= _CHECKED_ALWAYS


def map_demonstrations(
    folder: Path, about: dict[str, Any], notes: dict[str, Notes], spaces: Spaces, *, check: bool
) -> Demonstrations | None:
    """The same, its observations mapped; None where it must be read, to say what is wrong."""
    try:
        laid = {name: Rows.from_json(rows) for name, rows in about[MAPPED].items()}
    except InputError as error:
        raise InputError(f"{folder / ABOUT}: damaged ({error}); {AGAIN}") from None
    small = are_frames_checked(about)
    whole = _map_as_written(folder, about, notes, spaces, laid)
    wrong = whole is None
    for name, rows in laid.items() if check or small else ():
        wrong = wrong or rows.sum_up(folder / files_of(name)[1]) != rows.checksum
    if wrong and not small:  # too large to be read episode by episode
        raise InputError(
            f"{folder}: the data is not what was written (a checksum or a size differs), so a file "
            f"is damaged or was changed; {AGAIN}"
        )
    return None if wrong else whole


def _map_as_written(
    folder: Path,
    about: dict[str, Any],
    notes: dict[str, Notes],
    spaces: Spaces,
    laid: dict[str, Rows],
) -> Demonstrations | None:
    if about[CHECKSUMS].get(ABOUT) != digest_of_the_rest(about):
        return None
    sets = {}
    for name, noted in notes.items():
        place = known_places(folder, about, name, noted)
        digests: Array | None = None
        if noted.episodes:
            file, known = files_of(name)[1:]
            try:
                same = about[CHECKSUMS].get(file) == sum_up_others(folder / file, laid[name])
            except (KeyError, OSError, ValueError):
                return None
            framed = has_frames(spaces.observation)
            if not same or (framed and not is_as_written(folder, about, known, noted)):
                return None
            digests = read_digests(folder / known, noted.episodes) if framed else None
            if framed and digests is None:
                return None
        if place is None:
            return None
        final, rewards = (
            ~np.isin(np.arange(noted.episodes), absent)
            for absent in (noted.without_final_observation, noted.without_rewards)
        )
        sets[data_folder(folder, name)] = _Written(
            place, final, rewards, noted.ids, noted.groups, digests
        )
    together = _map_episodes(sets, spaces, {data_folder(folder, n): r for n, r in laid.items()})
    clean = notes["clean"].episodes
    if together is None or not clean:
        return None
    return Demonstrations(together[:clean], together[clean:], spaces)


@dataclass(frozen=True)
class _Written:
    """What is known of a mapped set."""

    places: Array
    has_final: Array
    has_rewards: Array
    ids: Sequence[str]
    groups: Sequence[str | None]
    digests: Array | None
    """None where vectors are mapped."""


def _map_episodes(
    sets: Mapping[Path, _Written], spaces: Spaces, rows: Mapping[Path, Rows]
) -> Trajectories | None:
    """The episodes of both sets over one map of the last file that holds any, actions and rewards
    in memory; None where they do not lie as they should."""
    length = np.concatenate([w.places[:, 0] for w in sets.values()])
    steps = int(length.sum())
    actions = np.empty((steps, *element_shape(spaces.action)), element_type(spaces.action))
    rewards, ended, step, row = np.empty(steps), [], 0, 0
    size = row_bytes(spaces.observation)
    last: Path | None = None
    for folder, written in sets.items():
        places = written.places
        if not len(places):
            continue
        last = folder
        n = int(places[:, 0].sum())
        first = row + np.cumsum(places[:, 0] + 1) - places[:, 0] - 1
        if (places[:, 1] != rows[folder].begin + size * first).any():
            return None
        row += n + len(places)
        there = read_at(
            folder / FILE,
            places,
            spaces,
            has_final=written.has_final,
            observations=None,
            actions=actions[step : step + n],
            rewards=rewards[step : step + n],
        )
        if there is None or rows[folder].rows != row or rows[folder].bytes != row * size:
            return None
        ended.append(there)
        step += n
    if last is None:
        return None
    mapped = np.memmap(
        last / FILE,
        observation_type(spaces.observation),
        "r",
        rows[last].begin,
        (row, *observation_shape(spaces.observation)),
    )
    digests = [w.digests for w in sets.values() if w.digests is not None]
    return Trajectories(
        observations=np.asarray(mapped),  # parts of a memmap are slow to make
        actions=actions,
        rewards=rewards,
        first_row=np.cumsum(length + 1) - length - 1,
        first_step=np.cumsum(length) - length,
        lengths=length,
        has_final=np.concatenate([w.has_final for w in sets.values()]),
        has_rewards=np.concatenate([w.has_rewards for w in sets.values()]),
        terminated=np.concatenate(ended),
        ids=tuple(i for w in sets.values() for i in w.ids),
        groups=tuple(g for w in sets.values() for g in w.groups),
        digests=np.concatenate(digests) if digests else None,
    )
