"""Tables: CSV, Parquet, a DuckDB file or a PostgreSQL server, read with DuckDB; a row is a step.

A column numbers the episodes and one orders the steps; rows that are not in that order are sorted
on opening, beyond memory if need be. Where there are several files and no column for it, each file
is an episode. A last row without an action is no step, but where the episode ended (`table_ends`).
"""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.formats.recognise import is_server, without_password
from sdil.formats.sql import quoted_name, quoted_text
from sdil.formats.table_columns import EPISODES, TIMES, Column, find_column, is_done
from sdil.formats.table_episodes import FILE, ROW, Opened
from sdil.formats.table_places import LARGE, clear_sql, load_rows, place_of
from sdil.formats.table_source import TableSource, tell

_PLACE = "sdil_place"


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
        opened = _order(connection, shown, where, table, episode, time, viewed)
        beside = (opened.by, opened.time)
        named = [n for n, c in opened.columns.items() if n not in beside and is_done(c)]
        return tell(opened, named)
    except BaseException:
        connection.close()
        finalizer()
        raise


def _order(
    connection: Any,
    location: str,
    where: str,
    table: str | None,
    episode: str | None,
    time: str | None,
    viewed: bool,
) -> Opened:
    """Find the columns that number episodes and steps, and bring the rows in that order."""
    with clear_sql(where):
        kinds = {str(r[0]): str(r[1]) for r in connection.execute("DESCRIBE rows").fetchall()}
        names = [n for n in kinds if n not in (FILE, ROW)]
        # DuckDB calls the second of a name so: ours, where the table has one like it
        taken = {n.lower() for n in names} & {f"{FILE}_1", f"{ROW}_1", _PLACE}
        if taken:
            wrong = min(taken).removesuffix("_1")
            raise InputError(f"{where}: a column is called {wrong}, which is needed; rename it")
        by = find_column(names, episode, EPISODES, where, "--episode")
        order = find_column([n for n in names if n != by], time, TIMES, where, "--time")
        if by is None and _count(connection, f"SELECT count(DISTINCT {FILE}) FROM rows") > 1:
            by = FILE
        if by is None:
            raise InputError(
                f"{where}: which column numbers the episodes? Name it with --episode. There are "
                f"{', '.join(names[:20])}"
            )
        _refuse_empty(connection, by, order, where)
        place, whole = _sort(connection, by, order, viewed)
        columns = [_column(connection, n, kinds[n], where) for n in names]
    known = {column.name: column for column in columns}
    return Opened(connection, location, where, known, by, order, place, whole, table)


def _refuse_empty(connection: Any, by: str, order: str | None, where: str) -> None:
    if not _count(connection, "SELECT count(*) FROM rows"):
        raise InputError(f"{where}: the table is empty")
    for name in (by, order):
        if name is not None:
            query = f"SELECT min({ROW}) FROM rows WHERE {quoted_name(name)} IS NULL"
            row = connection.execute(query).fetchone()[0]
            if row is not None:
                raise InputError(f"{where}: row {row}, column {name}: it is empty")


def _sort(connection: Any, by: str, order: str | None, viewed: bool) -> tuple[str, bool]:
    """Make `steps`: rows in the order of episodes, as they first appear, and of time.

    The column that numbers them so, and whether `steps` is a view.
    """
    key, at = quoted_name(by), quoted_name(order) if order else ROW
    # OVER (): in the order in which they lie, which DuckDB keeps
    unsorted = connection.execute(
        f"SELECT count(*) FILTER (fresh), count(DISTINCT {key}), coalesce(bool_or(back), false) "
        f"FROM (SELECT {key}, lag({key}) OVER () IS DISTINCT FROM {key} AS fresh, "
        f"lag({key}) OVER () = {key} AND lag({at}) OVER () > {at} AS back FROM rows)"
    ).fetchone()
    if unsorted[0] == unsorted[1] and not unsorted[2]:
        connection.execute(f"ALTER {'VIEW' if viewed else 'TABLE'} rows RENAME TO steps")
        return ROW, viewed
    connection.execute(
        f"CREATE TABLE steps AS SELECT rows.*, row_number() OVER (ORDER BY sdil_begins_at, {at}, "
        f"{ROW}) AS {_PLACE} FROM rows JOIN (SELECT {key} AS sdil_by_key, min({ROW}) AS "
        f"sdil_begins_at FROM rows GROUP BY {key}) ON {key} = sdil_by_key ORDER BY {_PLACE}"
    )
    connection.execute(f"DROP {'VIEW' if viewed else 'TABLE'} rows")
    return _PLACE, False


def _column(connection: Any, name: str, kind: str, where: str) -> Column:
    column = Column(name, kind)
    if not column.is_list:
        return column
    key = quoted_name(name)
    low, high = connection.execute(
        f"SELECT min(len({key})), max(len({key})) FROM steps WHERE len({key}) > 0"
    ).fetchone()
    if low is None or low != high:  # lists of several lengths are no feature
        return column
    return Column(name, kind, int(low))


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
