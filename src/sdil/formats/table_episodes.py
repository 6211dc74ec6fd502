"""The episodes of a table, told by SQL: where each begins, and which rows of it are steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.source import Episode
from sdil.formats.sql import quoted_name
from sdil.formats.table_columns import TASKS, Column, find_group, find_named, is_seen_or_done
from sdil.formats.table_ends import is_given
from sdil.spaces import Array

FILE, ROW = "sdil_file", "sdil_row"
"""Columns that are put beside a table's own: the file of a row, and where it stands, from 1."""
_MOST_COUNTED = 4096  # as in `reading.py`


@dataclass(frozen=True)
class Opened:
    """A table whose rows are in order, called `steps`, whatever its columns are for."""

    connection: Any
    location: str
    where: str
    """What errors call it."""
    columns: Mapping[str, Column]
    by: str
    """The column that numbers the episodes."""
    time: str | None
    """The column that orders the steps."""
    place: str
    """The column that numbers the rows in order, from 1."""
    whole: bool
    """Whether a column is fetched whole: a file that is read where it lies would be read again."""
    table: str | None
    """Which of a database was asked for."""


@dataclass(frozen=True)
class Found:
    """The episodes of a table."""

    edges: Array
    """Where each begins, and where the last ends. (E+1,)"""
    episodes: tuple[Episode, ...]
    closing: Array
    """Whether the last row of each is without an action: no step, but where it ended. (E,)"""
    constant: Mapping[str, bool]
    """Which columns are the same within every episode."""
    wrong: Mapping[str, str]
    """What refuses an episode, by its name."""


def find_episodes(opened: Opened, actions: Sequence[Column]) -> Found:
    """The episodes, if these columns are what is done at each step."""
    key, place, acted = quoted_name(opened.by), opened.place, _acted(actions)
    plain = [
        c.name
        for c in opened.columns.values()
        if not (c.is_list or c.name in (opened.by, opened.time) or is_seen_or_done(c.name))
    ]
    only = "" if acted == "true" else f" FILTER (WHERE {acted})"
    asked = "".join(
        f", min({name}){only}, min({name}){only} IS NOT DISTINCT FROM max({name}){only} "
        f"AND count({name}){only} IN (0, count(*){only})"
        for name in map(quoted_name, plain)
    )
    rows = opened.connection.execute(
        f"SELECT {key}, count(*), min({place}) - 1, count(*){only}, "
        f"min({place}) FILTER (WHERE NOT {acted}){asked} FROM steps GROUP BY {key} "
        f"ORDER BY min({place})"
    ).fetchall()
    edges = np.array([r[2] for r in rows] + [sum(r[1] for r in rows)], np.int64)
    # one row is empty, and it is the last: every other has an action
    closing = np.array([0 < r[3] == r[1] - 1 and r[4] == r[2] + r[1] for r in rows], bool)
    several = any(r[3] > 1 for r in rows)
    constant = {n: several and all(r[6 + 2 * i] for r in rows) for i, n in enumerate(plain)}
    known = [n for n in plain if constant[n] or not several]
    group, task = find_group(known), find_named(known, TASKS)
    found = []
    for row, closes in zip(rows, closing.tolist(), strict=True):
        values = {n: row[5 + 2 * i] for i, n in enumerate(plain) if n in known}
        found.append(
            Episode(
                str(row[0]),
                int(row[1]) - closes,
                None if group is None or values[group] is None else str(values[group]),
                None if task is None or values[task] is None else str(values[task]),
                columns=values,
            )
        )
    ids = [e.id for e in found]
    if len(set(ids)) < len(ids):
        raise InputError(f"two episodes are called {next(i for i in ids if ids.count(i) > 1)!r}")
    wrong = {
        str(r[0]): _say_without(opened, actions, str(r[0]), r[4], alone=r[3] == 0)
        for r, closes in zip(rows, closing.tolist(), strict=True)
        if r[3] < r[1] and not closes
    }
    return Found(edges, tuple(found), closing, constant, wrong)


def whole_numbers(opened: Opened, actions: Sequence[Column]) -> list[Column]:
    """The one column of actions, if it is counted: floats that are whole numbers are so where cells
    are empty, which whole numbers have no room for in pandas."""
    if len(actions) != 1 or actions[0].kind not in ("FLOAT", "DOUBLE"):
        return []
    key, given = quoted_name(actions[0].name), is_given(actions[0])
    query = (
        f"SELECT bool_and({key} = floor({key}) AND {key} >= 0 AND {key} < {_MOST_COUNTED}) "
        f"FROM steps WHERE {given}"
    )
    whole = opened.connection.execute(query).fetchone()[0]
    return [replace(actions[0], is_counted=True)] if whole else []


def count_ends(
    opened: Opened, actions: Sequence[Column], following: Sequence[Column], ended: str | None
) -> tuple[int, int]:
    """Of how many episodes columns give the observation after the last step, where no row does; and
    how many the task itself ended."""
    if not following and ended is None:
        return 0, 0
    acted, place = _acted(actions), opened.place
    given = " AND ".join(map(is_given, following)) or "false"
    flag = "false"
    if ended is not None:
        flag = f"coalesce(nullif({quoted_name(ended)}::DOUBLE, 'nan'::DOUBLE) <> 0, false)"
    counts = opened.connection.execute(
        "SELECT count(*) FILTER (WHERE given AND whole), count(*) FILTER (WHERE ended) FROM ("
        f"SELECT arg_max({given}, {place}) AS given, bool_and({acted}) AS whole, "
        f"arg_max({flag}, {place}) OR coalesce(arg_max({flag}, {place}) FILTER (WHERE {acted}), "
        f"false) AS ended FROM steps GROUP BY {quoted_name(opened.by)})"
    ).fetchone()
    return int(counts[0]), int(counts[1])


def count_paid(opened: Opened, actions: Sequence[Column], reward: str | None) -> int:
    """How many rows without an action have a reward that is not 0."""
    if reward is None:
        return 0
    paid = f"{is_given(opened.columns[reward])} AND {quoted_name(reward)} <> 0"
    query = f"SELECT count(*) FROM steps WHERE NOT {_acted(actions)} AND {paid}"
    return int(opened.connection.execute(query).fetchone()[0])


def _acted(actions: Sequence[Column]) -> str:
    """SQL: whether a row has any of an action."""
    return f"({' OR '.join(map(is_given, actions))})" if actions else "true"


def _say_without(
    opened: Opened, actions: Sequence[Column], episode: str, place: int, *, alone: bool
) -> str:
    """What is wrong with an episode of which a row has no action that is not its last, or none."""
    time = quoted_name(opened.time) if opened.time is not None else ROW
    row, step = opened.connection.execute(
        f"SELECT {ROW}, {time} FROM steps WHERE {opened.place} = {place}"
    ).fetchone()
    at = f"row {row}" if opened.time is None else f"step {step} (row {row})"
    names = ", ".join(column.name for column in actions[:4]) + (", ..." if len(actions) > 4 else "")
    where = f"{opened.where}: episode {episode!r}"
    if alone:
        return f"{where}: none of its rows has an action ({names})"
    return (
        f"{where}, {at}: there is no action ({names}), but rows follow; only the last row of an "
        "episode may be without one, which is then its last observation"
    )
