"""The column of a table that orders the steps: where it stands still, and where it jumps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sdil.formats.source import Episode
from sdil.formats.sql import quoted_name
from sdil.spaces import Array

_MOST_TOLD = 5


def find_odd_times(
    connection: Any, order: str | None, edges: Array, episodes: Sequence[Episode], where: str
) -> tuple[list[str], dict[str, str]]:
    """Gaps and duplicates of time: a sentence for each, and what refuses an episode."""
    if order is None:
        return [], {}
    query = f"SELECT {quoted_name(order)} AS t, sdil_row AS r FROM steps"  # as they were put in
    got = connection.execute(query).fetchnumpy()
    times, rows = np.asarray(got["t"]), got["r"]
    within = np.ones(max(0, len(times) - 1), bool)  # of one episode, as the row before
    within[edges[1:-1] - 1] = False

    def name_of(row: int) -> str:
        return episodes[int(np.searchsorted(edges, row, side="right")) - 1].id

    repeated: dict[str, str] = {}
    for i in np.flatnonzero(within & (times[1:] == times[:-1])).tolist():
        repeated.setdefault(
            name_of(i),
            f"{where}: episode {name_of(i)!r}: rows {rows[i]} and {rows[i + 1]} have the same "
            f"{order} ({times[i]}); remove one, or name another column with --time",
        )
    odd = list(repeated.values())
    if times.dtype.kind in "iuf" and within.any():
        passed = np.diff(times.astype(np.float64))
        forward = passed[within & (passed > 0)]
        usual = float(np.median(forward)) if len(forward) else np.inf
        gaps = np.flatnonzero(within & (passed > 1.5 * usual)).tolist()
        odd += [
            f"{where}: episode {name_of(i)!r}, row {rows[i + 1]}: {order} jumps from {times[i]} to "
            f"{times[i + 1]}"
            for i in gaps[:_MOST_TOLD]
        ]
        if len(gaps) > _MOST_TOLD:
            odd.append(f"{where}: {len(gaps) - _MOST_TOLD} more jumps of {order}")
    return odd, repeated
