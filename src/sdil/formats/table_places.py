"""Where tables lie: files, a database file, a server. Their rows become the table `rows`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.formats.hdf5 import first_line
from sdil.formats.recognise import is_server
from sdil.formats.sql import quoted_name, quoted_text

_CSV = (".csv", ".csv.gz", ".tsv")
_PARQUET = (".parquet", ".pq")
_FELT = ("obs", "action", "state")  # how columns begin that hold what was seen or done
_EXTRA = "row_number() OVER () AS sdil_row"
_MOST_VIEWED = 64  # files whose scans are put together in one query
LARGE = 256_000_000
"""Bytes from which a table is not held in memory."""
_POSTGRES_NUMBERS = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DOUBLE",
}


def load_rows(connection: Any, location: str, table: str | None, scratch: Path) -> bool:
    """Make the table `rows`, with `sdil_row` (from 1) and, of files, `sdil_file`.

    Whether it is only a view: Parquet files know their types, and what fits into memory is read
    where it lies, once, instead of being copied into a table first.
    """
    where = place_of(location)
    if is_server(location):
        _copy_from_server(connection, location, table, scratch)
        return False
    path = Path(location)
    files = files_of(path)
    with clear_sql(where):
        if not files or not str(files[0]).lower().endswith((*_CSV, *_PARQUET)):
            _attach(connection, path, table)
            return False
        if table is not None:
            raise InputError(f"{where}: a table is named, but this is a file with one only")
        called = [_called(f, path) for f in files]
        parquet = str(files[0]).lower().endswith(_PARQUET)
        if parquet and _view(connection, files, called):
            return True
        # all of a CSV is looked at for types: a first page of whole numbers proves nothing
        how, options = ("read_parquet", "") if parquet else ("read_csv", ", sample_size = -1")
        if len(files) == 1:  # `union_by_name` looks at all of it once more
            connection.execute(
                f"CREATE TABLE rows AS SELECT *, {quoted_text(called[0])} AS sdil_file, {_EXTRA} "
                f"FROM {how}({_listed(files)}{options})"
            )
            _read_words_as_numbers(connection, where)
            return False
        connection.execute("CREATE TABLE files (place VARCHAR, called VARCHAR)")
        names = list(zip(map(str, files), called, strict=True))
        connection.executemany("INSERT INTO files VALUES (?, ?)", names)
        connection.execute(  # numbered before they are joined, which promises no order
            "CREATE TABLE rows AS SELECT given.* REPLACE (files.called AS sdil_file) FROM "
            f"(SELECT *, {_EXTRA} FROM {how}({_listed(files)}{options}, union_by_name = true, "
            "filename = 'sdil_file')) AS given JOIN files ON given.sdil_file = files.place"
        )
        _read_words_as_numbers(connection, where)
    return False


def _read_words_as_numbers(connection: Any, where: str) -> None:
    """Columns of numbers among which is a word for one, inf or nan, are numbers: DuckDB takes them
    for text, and text is no feature. Whoever checks the numbers will say which is not finite. Other
    words among the numbers of what was seen or done are a fault, not a column to leave out."""
    kinds = connection.execute("DESCRIBE rows").fetchall()
    names = [quoted_name(row[0]) for row in kinds if row[1] == "VARCHAR" and row[0] != "sdil_file"]
    if not names:
        return
    asked = ", ".join(
        f"count(*) FILTER ({n} IS NOT NULL AND TRY_CAST({n} AS DOUBLE) IS NULL), "
        f"count(*) FILTER (isfinite(TRY_CAST({n} AS DOUBLE)))"
        for n in names
    )
    counts = connection.execute(f"SELECT {asked} FROM rows").fetchone()
    for name, words, numbers in zip(names, counts[::2], counts[1::2], strict=True):
        if numbers and not words:
            connection.execute(f"ALTER TABLE rows ALTER {name} TYPE DOUBLE")
        elif numbers > words and name.strip('"').lower().startswith(_FELT):
            row, word = connection.execute(
                f"SELECT sdil_row, {name} FROM rows WHERE {name} IS NOT NULL AND "
                f"TRY_CAST({name} AS DOUBLE) IS NULL ORDER BY sdil_row LIMIT 1"
            ).fetchone()
            raise InputError(
                f"{where}, row {row}, column {name}: {word!r} is no number, as {numbers:,} others "
                "in it are; mend it, or take the column out of the table"
            )


def _view(connection: Any, files: list[Path], called: list[str]) -> bool:
    """Make `rows` a view of Parquet files where all of them fit into memory, no name in them is
    needed here, and there are few; whether it was made."""
    if len(files) > _MOST_VIEWED:
        return False
    every = f"read_parquet({_listed(files)}, union_by_name = true)"
    names = connection.execute(f"DESCRIBE SELECT * FROM {every}").fetchall()
    if {str(row[0]).lower() for row in names} & {"file_row_number", "sdil_row", "sdil_file"}:
        return False
    query = "SELECT num_rows FROM parquet_file_metadata({})"
    rows = [connection.execute(query.format(quoted_text(f))).fetchone()[0] for f in files]
    query = f"SELECT sum(total_uncompressed_size) FROM parquet_metadata({_listed(files)})"
    stored = connection.execute(query).fetchone()[0] or 0
    if max(sum(rows) * len(names) * 8, stored) > LARGE:
        return False
    parts = [
        f"SELECT * EXCLUDE (file_row_number), {quoted_text(name)} AS sdil_file, "
        f"file_row_number + {1 + before - count} AS sdil_row "
        f"FROM read_parquet({quoted_text(file)}, file_row_number = true)"
        for file, name, count, before in zip(files, called, rows, accumulate(rows), strict=True)
    ]
    connection.execute(f"CREATE VIEW rows AS {' UNION ALL BY NAME '.join(parts)}")
    return True


def _called(file: Path, place: Path) -> str:
    """What an episode of its own file is called: the file, with its folders below the place."""
    below = file.relative_to(place) if place.is_dir() else Path(file.name)
    return below.with_name(below.name.partition(".")[0] or below.name).as_posix()


def place_of(location: str) -> str:
    """What errors call it: without the password of a server."""
    if not is_server(location):
        return location
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


@contextmanager
def clear_sql(where: str) -> Iterator[None]:
    """What DuckDB says against a table, in one sentence that names the place."""
    try:
        yield
    except (InputError, KeyboardInterrupt):
        raise
    except Exception as error:  # DuckDB's own, and NumPy's
        said = " ".join(str(error).split())[:300]
        if "not utf-8 encoded" in said:
            raise InputError(
                f"{where}: it is not in UTF-8; write it anew, if it is Latin-1 with: "
                f"iconv -f latin1 -t utf-8 OLD.csv > NEW.csv"
            ) from None
        raise InputError(f"{where}: the table cannot be read ({said})") from None


def files_of(path: Path) -> list[Path]:
    """The CSV or Parquet files of a place; none where it is a database."""
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if str(p).lower().endswith((*_CSV, *_PARQUET)))
    lower = str(path).lower()
    if lower.endswith((*_CSV, *_PARQUET)):
        return [path]
    with path.open("rb") as file:
        start = file.read(16)
    return [] if start[8:12] == b"DUCK" else [path]


def _listed(files: list[Path]) -> str:
    return "[" + ", ".join(quoted_text(str(f)) for f in files) + "]"


def _attach(connection: Any, path: Path, table: str | None) -> None:
    with path.open("rb") as file:
        if file.read(16)[8:12] != b"DUCK":
            raise InputError(f"{path}: it is neither CSV, Parquet nor a DuckDB file")
    connection.execute(f"ATTACH {quoted_text(path.absolute())} AS given (READ_ONLY)")
    schema, name = table_of(connection, "given", table, str(path))
    connection.execute(
        f"CREATE TABLE rows AS SELECT *, {_EXTRA}, '' AS sdil_file "
        f"FROM given.{quoted_name(schema)}.{quoted_name(name)}"
    )
    connection.execute("DETACH given")


def table_of(connection: Any, database: str, table: str | None, where: str) -> tuple[str, str]:
    """Schema and name of the table of a database that was asked for, or of the only one."""
    within = f"database_name = {quoted_text(database)}"
    rows = connection.execute(
        f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {within} AND NOT temporary "
        f"UNION ALL SELECT schema_name, view_name FROM duckdb_views() WHERE {within} "
        "AND NOT internal ORDER BY 1, 2"
    ).fetchall()
    return _choose_table([(str(s), str(t)) for s, t in rows], table, where, "main")


def _choose_table(
    found: list[tuple[str, str]], asked: str | None, where: str, usual: str
) -> tuple[str, str]:
    names = [t if s == usual else f"{s}.{t}" for s, t in found]
    if not found:
        raise InputError(f"{where}: there is no table in it")
    if asked is None and len(found) == 1:
        return found[0]
    for pair, name in zip(found, names, strict=True):
        if asked in (name, ".".join(pair)):
            return pair
    what = (
        "which table? Name it with --table." if asked is None else f"there is no table {asked!r}."
    )
    raise InputError(f"{where}: {what} There are {', '.join(names[:20])}")


def _copy_from_server(connection: Any, url: str, table: str | None, scratch: Path) -> None:
    """Copy a table of a PostgreSQL server to a file, and from there; numbers stay what they are."""
    where = place_of(url)
    try:
        import psycopg
    except ImportError:
        raise InputError('reading PostgreSQL needs psycopg: pip install "sdil[postgres]"') from None
    path = scratch / "rows.csv"
    try:
        with psycopg.connect(url, client_encoding="UTF8") as server, server.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET LOCAL datestyle = 'ISO, YMD'")
            cursor.execute(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE "
                "table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
            )
            found = [(str(s), str(t)) for s, t in cursor.fetchall()]
            schema, name = _choose_table(found, table, where, "public")
            cursor.execute(
                "SELECT column_name, udt_name FROM information_schema.columns WHERE "
                "table_schema = %s AND table_name = %s ORDER BY ordinal_position",
                (schema, name),
            )
            columns = {str(c): str(kind) for c, kind in cursor.fetchall()}
            whole = f"{quoted_name(schema)}.{quoted_name(name)}"
            with (
                path.open("wb") as file,
                cursor.copy(f"COPY (SELECT * FROM {whole}) TO STDOUT (FORMAT csv)") as rows,
            ):
                for block in rows:
                    file.write(bytes(block))
    except psycopg.Error as error:
        raise InputError(f"{where}: PostgreSQL: {first_line(error)}") from None
    kinds = ", ".join(
        f"{quoted_text(n)}: {quoted_text(_POSTGRES_NUMBERS.get(k, 'VARCHAR'))}"
        for n, k in columns.items()
    )
    with clear_sql(where):
        connection.execute(
            f"CREATE TABLE rows AS SELECT *, {_EXTRA}, '' AS sdil_file FROM read_csv("
            f"{quoted_text(path)}, header = false, auto_detect = false, columns = {{{kinds}}}, "
            f"quote = '\"', escape = '\"', delim = ',')"
        )
    path.unlink()
