"""The tables of MIMIC-IV from a PostgreSQL server, in the schemas of its official scripts.

Only the columns and item ids needed are copied out, once, as CSV.gz in the cache folder; all that
follows is the same as for files. The copy is made in one transaction, so it is of one moment.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.files import new_file
from sdil.formats.sql import quoted_name
from sdil.tasks.mimic.cache import prepare_cache, private
from sdil.tasks.mimic.definitions import table_items
from sdil.tasks.mimic.sources import COLUMNS, EXPECTED, TABLES, MimicTable, check_columns


def copy_tables(
    url: str, cache: Path, on_progress: Callable[[int, int, str], None] | None = None
) -> dict[str, MimicTable]:
    """Copy what is needed from the server, unless the same was copied before."""
    try:
        import psycopg
    except ImportError:
        raise InputError("reading PostgreSQL needs psycopg: pip install 'sdil[postgres]'") from None
    prepare_cache(cache)
    try:
        with (
            private(),
            psycopg.connect(url, client_encoding="UTF8") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET LOCAL datestyle = 'ISO, YMD'")
            tables = {}
            for done, (short, name) in enumerate(TABLES.items()):
                if on_progress is not None:
                    on_progress(done, len(TABLES), f"copying {short}")
                tables[short] = _copy(cursor, short, name, cache)
            return tables
    except psycopg.OperationalError as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"PostgreSQL cannot be reached: {reason}") from None
    except psycopg.Error as error:  # its text may quote a row
        raise InputError(f"PostgreSQL: {type(error).__name__}; {EXPECTED}") from None


def _copy(cursor: Any, short: str, name: str, cache: Path) -> MimicTable:
    schema = f"mimiciv_{name.partition('/')[0]}"
    where = f"{schema}.{short}"
    cursor.execute(
        "SELECT column_name FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s",
        (schema, short),
    )
    found = tuple(row[0] for row in cursor.fetchall())
    if not found:
        raise InputError(f"PostgreSQL: the table {where} is missing; {EXPECTED}")
    check_columns(found, name, f"PostgreSQL: {where}")
    columns = tuple(COLUMNS[name])
    items = table_items(short) if "itemid" in columns else ()
    chosen = f" WHERE itemid IN ({', '.join(map(str, items))})" if items else ""
    # the official schema pads ICD codes with blanks (CHAR); as text they lose them
    kinds = {c: "::text" if kind == "VARCHAR" else "" for c, kind in COLUMNS[name].items()}
    wanted = ", ".join(quoted_name(c) + kind for c, kind in kinds.items())
    table = f"{quoted_name(schema)}.{quoted_name(short)}"
    query = f"SELECT {wanted} FROM {table}{chosen}"
    cursor.execute(
        "SELECT pg_relation_size(%s::regclass), pg_relation_filenode(%s::regclass)", (where, where)
    )
    at = cursor.connection.info
    # changes when the table is loaded anew
    state = repr((at.host, at.port, at.dbname, cursor.fetchone(), query))
    key = hashlib.sha256(state.encode()).hexdigest()[:16]
    path = cache / f"postgres-{short}-{key}.csv.gz"
    if not path.exists():
        with (
            new_file(path) as temporary,
            gzip.open(temporary, "wb", compresslevel=1) as file,
            cursor.copy(f"COPY ({query}) TO STDOUT WITH (FORMAT csv, HEADER)") as rows,
        ):
            for block in rows:
                file.write(bytes(block))
    return MimicTable(short, path, columns)
