"""Names and texts inside an SQL statement, for DuckDB and PostgreSQL alike.

Columns, paths and values that a user's file names are never part of a statement as they are: a
column may be called `x'); COPY ...`.
"""

from __future__ import annotations

from pathlib import Path


def quoted_name(name: str) -> str:
    """The name of a column, a table or a view."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def quoted_text(text: str | Path) -> str:
    """A string: a value or a path."""
    doubled = str(text).replace("'", "''")
    return f"'{doubled}'"
