"""Tables: CSV, Parquet, a DuckDB file or a PostgreSQL server, read with DuckDB; a row is a step.

A column numbers the episodes and one orders the steps; rows that are not in that order are sorted
on opening, beyond memory if need be. Where there are several files and no column for it, each file
is an episode.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.recognise import is_server, without_password
from sdil.formats.source import Episode, Feature, Recorded
from sdil.formats.sql import quoted_name, quoted_text
from sdil.formats.table_columns import (
    EPISODES,
    REWARDS,
    TASKS,
    TERMINATIONS,
    TIMES,
    Column,
    find_column,
    find_group,
    find_named,
    is_seen_or_done,
    make_features,
)
from sdil.formats.table_places import LARGE, clear_sql, load_rows, place_of
from sdil.spaces import Array

_BLOCK = 65_536  # rows that are fetched at once
_FILE = "sdil_file"
_ROW = "sdil_row"
_PLACE = "sdil_place"
_MOST_TOLD = 5
ONE_FILE_EACH = "one file each"
"""What is said in the place of the column of episodes where there is none."""


@dataclass(frozen=True)
class TableSource:
    """An opened table, its rows in order."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    odd: tuple[str, ...]
    """Gaps and duplicates of time."""
    _connection: Any
    _edges: Array
    _columns: Mapping[str, Column]
    _time: str | None
    _repeated: Mapping[str, str]
    """What is wrong with the time of an episode, by its name."""
    _place: str
    """The column that numbers the rows in order, from 1."""
    _whole: bool
    """Whether a column is fetched whole: a file that is read where it lies would be read again."""
    table: str | None = None
    """Which of a database was asked for."""
    _block: dict[str, Any] = field(default_factory=dict, repr=False)
    format: str = "table"

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These columns of one episode; whole-number times are its frames."""
        episode = self.episodes[index]
        if episode.id in self._repeated:
            raise InputError(self._repeated[episode.id])
        reward, ended = self._reward_and_end
        extra = [n for n in (reward, ended, self._time) if n is not None]
        values = self._rows(index, [*features, *extra])
        rewards = None
        if reward is not None and self._columns[reward].number:
            rewards = self._checked(values, reward, episode.id)
        last = ended is not None and bool(self._checked(values, ended, episode.id)[-1])
        frames = None
        if self._time is not None and (self._columns[self._time].number or "f")[0] in "iu":
            frames = self._checked(values, self._time, episode.id).astype(np.int64)
        plain = self._block["plain"]  # the others are looked at, episode by episode
        found = {
            n: values[n] if n in plain else self._checked(values, n, episode.id) for n in features
        }
        return Recorded(found, last, rewards, frames)

    @property
    def episode_is_file(self) -> bool:
        """Whether no column numbers the episodes, but each file is one."""
        return self.about["episode_column"] == ONE_FILE_EACH

    def rows_of(self, index: int) -> Array:
        """Where each row of an episode stands in the table as it is stored, from 1. (T,)"""
        return np.asarray(self._rows(index, [])[_ROW])

    @cached_property
    def _reward_and_end(self) -> tuple[str | None, str | None]:
        names = list(self._columns)
        return find_named(names, REWARDS), find_named(names, TERMINATIONS)

    def _rows(self, index: int, names: Sequence[str]) -> Mapping[str, Array]:
        first, last = int(self._edges[index]), int(self._edges[index + 1])
        wanted = list(dict.fromkeys([*names, _ROW]))
        held = self._block
        if not (
            held
            and held["first"] <= first
            and last <= held["last"]
            and set(wanted) <= set(held["values"])
        ):
            begin, stop = first, max(last, min(int(self._edges[-1]), first + _BLOCK))
            columns = ", ".join(_fetched(self._columns.get(n), n) for n in wanted)
            query = f"SELECT {columns} FROM steps"  # as they were put in
            if self._whole:
                begin, stop = 0, int(self._edges[-1])
            else:
                query += f" WHERE {self._place} > {begin} AND {self._place} <= {stop}"
            with clear_sql(f"{self.location}: episode {self.episodes[index].id}"):
                got = self._connection.execute(query).fetchnumpy()
            held.clear()
            plain = {
                n
                for n, column in self._columns.items()
                if n in got and not (column.is_list or isinstance(got[n], np.ma.MaskedArray))
            }
            held.update(first=begin, last=stop, values=got, plain=plain)
        within = slice(first - held["first"], last - held["first"])
        return {n: held["values"][n][within] for n in wanted}

    def _checked(self, values: Mapping[str, Array], name: str, episode: str) -> Array:
        """A column without gaps in it, as numbers."""
        array = values[name]
        if isinstance(array, np.ma.MaskedArray):
            if np.ma.getmaskarray(array).any():
                at = int(np.argmax(np.ma.getmaskarray(array)))
                raise InputError(
                    f"{self.location}: episode {episode!r}, row {int(values[_ROW][at])}, "
                    f"column {name}: it is empty; leave the column out, or fill it"
                )
            array = np.asarray(array.data)
        column = self._columns[name]
        if column.is_list:
            return _stacked(array, column, values[_ROW], f"{self.location}: episode {episode!r}")
        return array


def open_table(
    location: str | Path,
    table: str | None = None,
    episode: str | None = None,
    time: str | None = None,
) -> TableSource:
    """Open a table by path or address; `table` is one of a database, the others are columns."""
    import duckdb

    where = place_of(str(location))
    scratch = Path(tempfile.mkdtemp(prefix="sdil-table-"))
    large = _size(str(location)) > LARGE  # then a sorted copy is kept on disk
    connection = duckdb.connect(str(scratch / "steps.duckdb") if large else ":memory:")
    finalizer = weakref.finalize(connection, _remove, scratch)
    try:
        connection.execute(f"SET temp_directory = {quoted_text(scratch / 'spill')}")
        connection.execute("SET autoinstall_known_extensions = false")
        # rows come as they were put in, so that a block of them need not be sorted again
        connection.execute("SET preserve_insertion_order = true")
        viewed = load_rows(connection, str(location), table, scratch)
        shown = without_password(str(location)) if is_server(str(location)) else str(location)
        opened = _describe(connection, shown, where, episode, time, viewed)
        return replace(opened, table=table)
    except BaseException:
        connection.close()
        finalizer()
        raise


def _describe(
    connection: Any, location: str, where: str, episode: str | None, time: str | None, viewed: bool
) -> TableSource:
    with clear_sql(where):
        kinds = {str(r[0]): str(r[1]) for r in connection.execute("DESCRIBE rows").fetchall()}
        names = [n for n in kinds if n not in (_FILE, _ROW)]
        # DuckDB calls the second of a name so: ours, where the table has one like it
        taken = {n.lower() for n in names} & {f"{_FILE}_1", f"{_ROW}_1", _PLACE}
        if taken:
            wrong = min(taken).removesuffix("_1")
            raise InputError(f"{where}: a column is called {wrong}, which is needed; rename it")
        by = find_column(names, episode, EPISODES, where, "--episode")
        order = find_column([n for n in names if n != by], time, TIMES, where, "--time")
        if by is None and _count(connection, f"SELECT count(DISTINCT {_FILE}) FROM rows") > 1:
            by = _FILE
        if by is None:
            raise InputError(
                f"{where}: which column numbers the episodes? Name it with --episode. There are "
                f"{', '.join(names[:20])}"
            )
        _refuse_empty(connection, by, order, where)
        place, whole = _sort(connection, by, order, viewed)
        columns = [_column(connection, n, kinds[n], where) for n in names]
        edges, episodes, constant = _episodes(connection, by, order, place, columns)
        odd, repeated = _times(connection, order, edges, episodes, where)
        features = make_features(columns, (by, order), constant)
    about = {"episode_column": by if by != _FILE else ONE_FILE_EACH, "time_column": order}
    return TableSource(
        location,
        features,
        episodes,
        about,
        tuple(odd),
        connection,
        edges,
        {c.name: c for c in columns},
        order,
        repeated,
        place,
        whole,
    )


def _refuse_empty(connection: Any, by: str, order: str | None, where: str) -> None:
    if not _count(connection, "SELECT count(*) FROM rows"):
        raise InputError(f"{where}: the table is empty")
    for name in (by, order):
        if name is not None:
            query = f"SELECT min({_ROW}) FROM rows WHERE {quoted_name(name)} IS NULL"
            row = connection.execute(query).fetchone()[0]
            if row is not None:
                raise InputError(f"{where}: row {row}, column {name}: it is empty")


def _sort(connection: Any, by: str, order: str | None, viewed: bool) -> tuple[str, bool]:
    """Make `steps`: rows in the order of episodes, as they first appear, and of time.

    The column that numbers them so, and whether `steps` is a view.
    """
    key, at = quoted_name(by), quoted_name(order) if order else _ROW
    # OVER (): in the order in which they lie, which DuckDB keeps
    unsorted = connection.execute(
        f"SELECT count(*) FILTER (fresh), count(DISTINCT {key}), coalesce(bool_or(back), false) "
        f"FROM (SELECT {key}, lag({key}) OVER () IS DISTINCT FROM {key} AS fresh, "
        f"lag({key}) OVER () = {key} AND lag({at}) OVER () > {at} AS back FROM rows)"
    ).fetchone()
    if unsorted[0] == unsorted[1] and not unsorted[2]:
        connection.execute(f"ALTER {'VIEW' if viewed else 'TABLE'} rows RENAME TO steps")
        return _ROW, viewed
    connection.execute(
        f"CREATE TABLE steps AS SELECT rows.*, row_number() OVER (ORDER BY sdil_begins_at, {at}, "
        f"{_ROW}) AS {_PLACE} FROM rows JOIN (SELECT {key} AS sdil_by_key, min({_ROW}) AS "
        f"sdil_begins_at FROM rows GROUP BY {key}) ON {key} = sdil_by_key ORDER BY {_PLACE}"
    )
    connection.execute(f"DROP {'VIEW' if viewed else 'TABLE'} rows")
    return _PLACE, False


def _column(connection: Any, name: str, kind: str, where: str) -> Column:
    column = Column(name, kind)
    if not column.is_list:
        return column
    key = quoted_name(name)
    low, high = connection.execute(f"SELECT min(len({key})), max(len({key})) FROM steps").fetchone()
    if low is None or low != high:  # lists of several lengths are no feature
        return column
    return Column(name, kind, int(low))


def _episodes(
    connection: Any, by: str, order: str | None, place: str, columns: Sequence[Column]
) -> tuple[Array, tuple[Episode, ...], dict[str, bool]]:
    """Where each episode begins, what is known of each, and which columns never change in one."""
    key = quoted_name(by)
    plain = [
        c.name
        for c in columns
        if not (c.is_list or c.name in (by, order) or is_seen_or_done(c.name))
    ]
    asked = "".join(
        f", min({quoted_name(n)}), min({quoted_name(n)}) IS NOT DISTINCT FROM "
        f"max({quoted_name(n)}) AND count({quoted_name(n)}) IN (0, count(*))"
        for n in plain
    )
    rows = connection.execute(
        f"SELECT {key}, count(*), min({place}) - 1{asked} FROM steps GROUP BY {key} "
        f"ORDER BY min({place})"
    ).fetchall()
    edges = np.array([r[2] for r in rows] + [sum(r[1] for r in rows)], np.int64)
    several = any(r[1] > 1 for r in rows)
    constant = {n: several and all(r[4 + 2 * i] for r in rows) for i, n in enumerate(plain)}
    known = [n for n in plain if constant[n] or not several]
    group, task = find_group(known), find_named(known, TASKS)
    found = []
    for row in rows:
        values = {n: row[3 + 2 * i] for i, n in enumerate(plain) if n in known}
        found.append(
            Episode(
                str(row[0]),
                int(row[1]),
                None if group is None or values[group] is None else str(values[group]),
                None if task is None or values[task] is None else str(values[task]),
                columns=values,
            )
        )
    ids = [e.id for e in found]
    if len(set(ids)) < len(ids):
        raise InputError(f"two episodes are called {next(i for i in ids if ids.count(i) > 1)!r}")
    return edges, tuple(found), constant


def _times(
    connection: Any, order: str | None, edges: Array, episodes: Sequence[Episode], where: str
) -> tuple[list[str], dict[str, str]]:
    """Gaps and duplicates of time: a sentence for each, and what refuses an episode."""
    if order is None:
        return [], {}
    query = f"SELECT {quoted_name(order)} AS t, {_ROW} AS r FROM steps"  # as they were put in
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


def _fetched(column: Column | None, name: str) -> str:
    """How a column is asked for: decimals as floats."""
    key = quoted_name(name)
    decimal = column is not None and column.kind.startswith("DECIMAL")
    return f"{key}::DOUBLE AS {key}" if decimal else key


def _stacked(lists: Array, column: Column, rows: Array, where: str) -> Array:
    number = np.dtype(column.number or "float64")
    out = np.empty((len(lists), column.size or 0), number)
    for i, values in enumerate(lists):
        if values is None or np.ma.is_masked(values):
            raise InputError(f"{where}, row {int(rows[i])}, column {column.name}: it is empty")
        out[i] = values
    return out


def _count(connection: Any, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _size(location: str) -> int:
    path = Path(location)
    if path.is_dir():
        return sum(p.stat().st_size for p in path.iterdir() if p.is_file())
    return path.stat().st_size if path.exists() else 0


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
