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
from sdil.trajectories import Trajectories, Trajectory

PLACES = "places.npy"
"""(E, 5) integers: of each episode its length, and at which byte of the file its observations,
actions, rewards and terminations begin."""
FILE = Path("data", "main_data.hdf5")


def write_episodes(trajectories: Trajectories, file: Path) -> Array:
    """Write all episodes into a new HDF5 file as Minari does; their places."""
    import h5py

    with h5py.File(file, "w", track_order=True, libver="latest") as storage:
        for i, t in enumerate(trajectories):
            write_episode(storage, i, t)
        return find_places(storage, len(trajectories))


def write_episode(file: Any, at: int, t: Trajectory) -> None:
    """Write an episode in Minari's layout; arrays as one piece, which is quick to write and read.

    What Minari has no place for it sees as `sdil.formats.minari` says: NaN for unknown rewards, the
    last observation twice where the final one is unknown.
    """
    from h5py import h5a, h5d, h5g, h5s, h5t

    steps, seen = len(t), t.observations
    if not t.has_final_observation:
        seen = np.concatenate([seen, seen[-1:]])
    ends = np.zeros(steps, bool)
    ends[-1] = True
    arrays = {
        "observations": seen,
        "actions": t.actions,
        "rewards": np.full(steps, np.nan) if t.rewards is None else t.rewards,
        "terminations": ends & t.terminated,
        "truncations": ends & (not t.terminated),
    }
    group = h5g.create(file.id, f"episode_{at}".encode())
    for name, array in arrays.items():  # h5py's lower half: twice as quick for small arrays
        values = np.ascontiguousarray(array)
        kind, shape = h5t.py_create(values.dtype, logical=True), h5s.create_simple(values.shape)
        h5d.create(group, name.encode(), kind, shape).write(h5s.ALL, h5s.ALL, values)
    scalar = h5s.create(h5s.SCALAR)
    for name, number in (("id", at), ("total_steps", steps)):  # the last: now it is whole
        h5a.create(group, name.encode(), h5t.NATIVE_INT64, scalar).write(np.array(number, np.int64))


def find_places(file: Any, episodes: int) -> Array:
    """Where the first so many episodes of an opened file lie; -1 for what takes no room."""
    names = ("observations", "actions", "rewards", "terminations")
    places = np.zeros((episodes, 5), np.int64)
    for i in range(episodes):
        group = file[f"episode_{i}"]
        begin = [group[name].id.get_offset() for name in names]
        places[i] = len(group["terminations"]), *(-1 if at is None else at for at in begin)
    return places


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
        raw = np.asarray(np.memmap(file, np.uint8, "r"))  # whose own parts are slow to make
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
