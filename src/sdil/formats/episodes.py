"""Episodes of a Minari data set in HDF5, laid out so that a million steps are read at once.

Minari finds what it expects: a group for each episode, five data sets in it. Each of these lies in
the file in one piece, and `places.npy` beside it says where, so that we read without opening them:
some hundred thousand objects. Whoever reads that way must know that the file is what was written.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sdil.spaces import Array, Spaces, element_shape
from sdil.trajectories import Trajectories

PLACES = "places.npy"
"""(E, 5) integers: of each episode its length, and at which byte of the file its observations,
actions, rewards and terminations begin."""
FILE = Path("data", "main_data.hdf5")


def write_episodes(trajectories: Trajectories, file: Path) -> Array:
    """Write all episodes into a new HDF5 file as Minari does; their places."""
    import h5py

    places = np.zeros((len(trajectories), 5), np.int64)
    with h5py.File(file, "w", track_order=True, libver="latest") as storage:
        for i, t in enumerate(trajectories):
            ends = np.arange(len(t)) == len(t) - 1
            seen = t.observations
            if not t.has_final_observation:  # Minari asks for one more: the last one twice
                seen = seen[[*range(len(t)), -1]]
            group = storage.create_group(f"episode_{i}")
            group.attrs["id"], group.attrs["total_steps"] = i, len(t)
            written = [
                _write(group, "observations", seen),
                _write(group, "actions", t.actions),
                _write(
                    group, "rewards", np.full(len(t), np.nan) if t.rewards is None else t.rewards
                ),
                _write(group, "terminations", ends & t.terminated),
            ]
            _write(group, "truncations", ends & (not t.terminated))
            places[i] = len(t), *written
    return places


def _write(group: Any, name: str, values: Array) -> int:
    """Where it lies; -1 where it takes no room."""
    offset = group.create_dataset(name, data=values).id.get_offset()
    return -1 if offset is None else int(offset)


def read_places(content: bytes, episodes: int) -> Array | None:
    """What `places.npy` says, or None where it cannot be right."""
    try:
        places = np.load(BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return None
    fits = places.shape == (episodes, 5) and places.dtype == np.int64
    return places if fits and (places[:, 0] > 0).all() else None


def read_at(
    file: Path,
    places: Array,
    spaces: Spaces,
    *,
    has_final: Array,
    observations: Array,
    actions: Array,
    rewards: Array,
) -> Array | None:
    """Fill flat arrays from what lies at these places; whether each episode was ended by its task.

    None where the file is too short for them, or the arrays are: then they hold anything.
    """
    try:
        raw = np.memmap(file, np.uint8, "r")
    except (OSError, ValueError):  # missing, or empty
        return None
    length, *begin = places.T
    rows = length + has_final
    wanted = (
        (observations, rows, spaces.observation.dtype, element_shape(spaces.observation)),
        (actions, length, spaces.action.dtype, element_shape(spaces.action)),
        (rewards, length, np.dtype(np.float64), ()),
    )
    for (flat, counts, number, shape), first in zip(wanted, begin, strict=False):
        if number is None or flat.dtype != number or len(flat) != counts.sum():
            return None
        size = number.itemsize * int(np.prod(shape, dtype=np.int64))
        if not _copy(raw, first, counts * size, flat):
            return None
    last = begin[3] + length - 1
    if not ((last >= 0) & (last < len(raw))).all():
        return None
    return np.asarray(raw[last] != 0)


def _copy(raw: Array, first: Array, sizes: Array, flat: Array) -> bool:
    """Bytes from their places to one another's side; False where they are not all there."""
    if not ((first >= 0) & (first + sizes <= len(raw)) | (sizes == 0)).all():
        return False
    to = flat.reshape(-1).view(np.uint8)
    stop = np.cumsum(sizes)
    for source, size, end in zip(first.tolist(), sizes.tolist(), stop.tolist(), strict=True):
        to[end - size : end] = raw[source : source + size]
    return True
