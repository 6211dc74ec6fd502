"""A CSV file copied as text: columns are added, rows left out, one field replaced.

Nothing is parsed and written anew: a number keeps its digits, a text its quotes, a line its end.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from sdil.errors import InputError
from sdil.formats.sql import quoted_text
from sdil.spaces import Array


@dataclass(frozen=True)
class Dialect:
    """How a file is written, by what DuckDB makes of it."""

    delimiter: bytes
    quote: bytes
    skipped: int
    """Lines before the first that counts."""
    header: bool
    columns: tuple[str, ...]


def write_csv(
    path: Path,
    target: Path,
    keep: Array,
    columns: Mapping[str, Array],
    episode: str | None = None,
    renamed: Array | None = None,
) -> int:
    """Copy rows of a file and add columns; how many rows it has.

    `keep` and each column have a value for every row (N,), or more; where `renamed` is not empty it
    takes the place of the field `episode`.
    """
    dialect = sniff(path)
    replaced = [i for i, name in enumerate(dialect.columns) if name in columns]
    if replaced:
        raise InputError(
            f"{path}: it has a column {dialect.columns[replaced[0]]} already; give the table that "
            "it was made from"
        )
    at = None if episode is None or renamed is None else dialect.columns.index(episode)
    row = 0
    with _open(path, "rb") as old, _open(target, "wb", like=path) as new:
        records = _records(old, dialect.quote)
        for _ in range(dialect.skipped):
            new.write(next(records, b""))
        if dialect.header:
            text, end = _parted(next(records, b""))
            added = [name.encode() for name in columns]
            new.write(dialect.delimiter.join([text, *added]) + (end or b"\n"))
        for record in records:
            text, end = _parted(record)
            if not text.strip():
                new.write(record)
                continue
            if row >= len(keep):
                return row + 1 + sum(1 for rest in records if rest.strip())
            if keep[row]:
                if at is not None and renamed is not None and renamed[row]:
                    text = _with_field(text, at, renamed[row], dialect)
                added = [_shown(values[row], dialect) for values in columns.values()]
                new.write(dialect.delimiter.join([text, *added]) + (end or b"\n"))
            row += 1
    return row


def sniff(path: Path) -> Dialect:
    """What DuckDB takes a file for."""
    import duckdb

    try:
        (found,) = duckdb.sql(
            "SELECT Delimiter, Quote, SkipRows, HasHeader, [c.name FOR c IN Columns] FROM "
            f"sniff_csv({quoted_text(path)}, sample_size = -1)"
        ).fetchall()
    except duckdb.Error as error:
        raise InputError(f"{path}: it cannot be read as CSV ({str(error)[:200]})") from None
    delimiter, quote, skipped, header, columns = found
    quote = "" if quote in ("", "(empty)", "\x00") else quote
    return Dialect(delimiter.encode(), quote.encode(), int(skipped), bool(header), tuple(columns))


def _records(file: IO[bytes], quote: bytes) -> Iterator[bytes]:
    """Each record with its line end; a line break within quotes does not end one."""
    held = b""
    for line in file:
        held += line
        if quote and held.count(quote) % 2:
            continue
        yield held
        held = b""
    if held:
        yield held


def _parted(record: bytes) -> tuple[bytes, bytes]:
    """A record and its line end."""
    text = record.rstrip(b"\r\n")
    return text, record[len(text) :]


def _with_field(text: bytes, at: int, value: str, dialect: Dialect) -> bytes:
    """A record with another value in one field; the others stay as they are."""
    fields: list[bytes] = []
    for part in text.split(dialect.delimiter):
        if fields and dialect.quote and fields[-1].count(dialect.quote) % 2:
            fields[-1] += dialect.delimiter + part
        else:
            fields.append(part)
    quoted = bool(dialect.quote) and fields[at].strip().startswith(dialect.quote)
    fields[at] = _quoted(value, dialect, always=quoted)
    return dialect.delimiter.join(fields)


def _shown(value: Any, dialect: Dialect) -> bytes:
    if isinstance(value, float | np.floating):
        return b"" if np.isnan(value) else f"{value:.6g}".encode()
    return _quoted(str(value), dialect, always=False)


def _quoted(value: str, dialect: Dialect, *, always: bool) -> bytes:
    text, mark = value.encode(), dialect.quote
    if always or (mark and (mark in text or dialect.delimiter in text)):
        return mark + text.replace(mark, mark * 2) + mark
    return text


def _open(path: Path, mode: str, like: Path | None = None) -> IO[bytes]:
    name = (like or path).name.lower()
    return cast(IO[bytes], gzip.open(path, mode) if name.endswith(".gz") else path.open(mode))
