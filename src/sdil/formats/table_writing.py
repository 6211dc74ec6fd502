"""Tables back: the same rows with a score and a weight, or the kept rows, segments as episodes.

CSV is copied as text, so that every field stays as it was written; Parquet keeps its schema; of a
DuckDB file the whole database is copied and one table changed. In a curated table an episode that
is kept whole keeps its name; a segment of another has a new number, or `NAME[first:stop]` where
names are no numbers. `sdil_source` and `sdil_first` say where each row comes from.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file, new_folder
from sdil.formats.csv_writing import write_csv
from sdil.formats.hdf5 import first_line
from sdil.formats.recognise import is_server
from sdil.formats.rows import FIRST, SCORE, SOURCE, WEIGHT, RowAnswer
from sdil.formats.sql import quoted_name, quoted_text
from sdil.formats.table_places import files_of, table_of
from sdil.formats.table_source import TableSource
from sdil.spaces import Array

_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Rows:
    """What becomes of the rows of a file, in its order. N: how many it has."""

    keep: Array
    """(N,) bool"""
    columns: Mapping[str, Array]
    """What is added, by name. (N,) each"""
    episode: str | None = None
    """The column that gets other values, if any does."""
    renamed: Array | None = None
    """The new value of each row in it, as text; empty where it stays. (N,)"""

    def part(self, first: int, stop: int) -> Rows:
        """The same for some of the rows."""
        return Rows(
            self.keep[first:stop],
            {name: values[first:stop] for name, values in self.columns.items()},
            self.episode,
            None if self.renamed is None else self.renamed[first:stop],
        )

    def only(self, rows: Array) -> Rows:
        """The same, but of the rows only these are kept."""
        return Rows(self.keep & rows, self.columns, self.episode, self.renamed)


def write_scored(source: TableSource, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same table with `sdil_score` and `sdil_weight`."""
    places = _places(source, answers)
    columns = {
        SCORE: _in_order([a.score for a in answers], places, np.nan),
        WEIGHT: _in_order([a.weight for a in answers], places, np.nan),
    }
    _write(source, Rows(np.ones(sum(map(len, places)), bool), columns), out)


def write_curated(source: TableSource, answers: Sequence[RowAnswer], out: Path) -> None:
    """The kept rows alone."""
    places = _places(source, answers)
    names, sources, firsts, pieces = [], [], [], []
    numbers = _numbers(answers)
    after = 0 if numbers is None else max(numbers) + 1
    for answer in answers:
        name = np.full(len(answer), "", object)
        first, piece = np.zeros(len(answer), np.int64), np.full(len(answer), "", object)
        for a, b in answer.pieces:
            first[a:b] = a
            if not answer.is_whole:
                name[a:b] = _named(answer, a, b) if numbers is None else str(after)
                piece[a:b] = f"_{a}_{b}"
                after += 1
        names.append(name)
        firsts.append(first)
        pieces.append(piece)
        sources.append(np.full(len(answer), answer.id, object))
    column = source.about["episode_column"]
    by_file = source.episode_is_file
    rows = Rows(
        keep=_in_order([a.keep for a in answers], places),
        columns={SOURCE: _in_order(sources, places), FIRST: _in_order(firsts, places)},
        episode=None if by_file else column,
        renamed=None if by_file else _in_order(names, places),
    )
    _write(source, rows, out, _in_order(pieces, places) if by_file else None)


def _write(source: TableSource, rows: Rows, out: Path, pieces: Array | None = None) -> None:
    """`pieces`: what is added to the name of the file of each row, where each is an episode."""
    if is_server(source.location):
        raise InputError("nothing is written to a server; write a table of scores instead")
    try:
        _write_whole(source, rows, out, pieces)
    except (InputError, OSError):
        raise
    except Exception as error:  # pyarrow's and DuckDB's own: a column that takes no such names
        raise InputError(
            f"{out}: the table cannot be written ({first_line(error)}); keep whole episodes "
            "(--by episode), or write a table of scores (sdil score --out)"
        ) from None


def _write_whole(source: TableSource, rows: Rows, out: Path, pieces: Array | None) -> None:
    original = Path(source.location)
    files = files_of(original)
    if not files:
        _write_database(source, original, rows, out)
        return
    if len(files) == 1 and original.is_file():
        with new_file(out, size=original.stat().st_size) as temporary:
            _check_all_used(_write_file(original, temporary, rows, 0), rows, original)
        return
    with new_folder(out, overwrite=False, marker="") as folder:
        at = 0
        for path in files:
            at = _write_each(path, folder / path.relative_to(original), rows, at, pieces)
        _check_all_used(at, rows, original)


def _write_each(path: Path, target: Path, rows: Rows, at: int, pieces: Array | None) -> int:
    """A file of a folder, or one for each segment of it; the row after its last."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if pieces is None:
        return _write_file(path, target, rows, at)
    stop = at + _count(path)
    name, dot, ending = target.name.partition(".")
    for piece in dict.fromkeys(pieces[at:stop][rows.keep[at:stop]]):
        _write_file(
            path, target.with_name(f"{name}{piece}{dot}{ending}"), rows.only(pieces == piece), at
        )
    return stop


def _write_file(path: Path, target: Path, rows: Rows, at: int) -> int:
    """A file whose first row is row `at` of all; the row after its last."""
    if path.name.lower().endswith(_PARQUET):
        return _write_parquet(path, target, rows, at)
    part = rows.part(at, len(rows.keep))
    return at + write_csv(path, target, part.keep, part.columns, part.episode, part.renamed)


def _write_parquet(path: Path, target: Path, rows: Rows, at: int) -> int:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError('writing Parquet needs pyarrow: pip install "sdil[formats]"') from None
    file = parquet.ParquetFile(path)
    kinds = {
        name: pyarrow.string() if values.dtype == object else pyarrow.from_numpy_dtype(values.dtype)
        for name, values in rows.columns.items()
    }
    schema = file.schema_arrow
    for name in kinds:
        if name in schema.names:
            schema = schema.remove(schema.get_field_index(name))
    whole = schema
    for name, kind in kinds.items():
        whole = whole.append(pyarrow.field(name, kind))
    packed = file.metadata.row_group(0).column(0).compression if file.num_row_groups else "SNAPPY"
    packed = "NONE" if packed == "UNCOMPRESSED" else packed
    with parquet.ParquetWriter(target, whole, compression=packed) as writer:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group).select(schema.names)
            part = rows.part(at, at + table.num_rows)
            at += table.num_rows
            for name, kind in kinds.items():
                table = table.append_column(
                    pyarrow.field(name, kind), pyarrow.array(part.columns[name], kind)
                )
            if part.renamed is not None:
                where = table.column_names.index(part.episode)
                field = table.schema.field(where)
                old = table.column(where)
                new = pyarrow.array([v or None for v in part.renamed], pyarrow.string())
                new = new.cast(field.type)
                table = table.set_column(where, field, pyarrow.compute.coalesce(new, old))
            table = table.filter(pyarrow.array(part.keep))
            if table.num_rows:
                writer.write_table(table)
    return at


def _write_database(source: TableSource, original: Path, rows: Rows, out: Path) -> None:
    """A copy of the whole database, in which the table has changed."""
    import duckdb

    with new_file(out, size=original.stat().st_size) as temporary:
        shutil.copyfile(original, temporary)
        with duckdb.connect(str(temporary)) as connection:
            database = connection.execute("SELECT current_database()").fetchone()[0]
            schema, name = table_of(connection, database, source.table, str(original))
            table = f"{quoted_name(schema)}.{quoted_name(name)}"
            connection.register(
                "sdil_told",
                {
                    "n": np.arange(1, len(rows.keep) + 1),
                    "keep": rows.keep,
                    **rows.columns,
                    **({} if rows.renamed is None else {"renamed": rows.renamed}),
                },
            )
            connection.execute(
                f"CREATE TEMP TABLE sdil_at AS SELECT r, sdil_told.* FROM sdil_told JOIN (SELECT "
                f"rowid AS r, row_number() OVER () AS n FROM {table}) AS given ON "
                "sdil_told.n = given.n"
            )
            _check_all_used(
                connection.execute("SELECT count(*) FROM sdil_at").fetchone()[0], rows, original
            )
            for column, values in rows.columns.items():
                key = quoted_name(column)
                kind = _SQL_KINDS[values.dtype.kind]
                connection.execute(f"ALTER TABLE {table} DROP COLUMN IF EXISTS {key}")
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {key} {kind}")
                connection.execute(
                    f"UPDATE {table} SET {key} = sdil_at.{key} FROM sdil_at "
                    f"WHERE {table}.rowid = sdil_at.r"
                )
            if rows.renamed is not None and rows.episode is not None:
                key = quoted_name(rows.episode)
                connection.execute(
                    f"UPDATE {table} SET {key} = sdil_at.renamed FROM sdil_at "
                    f"WHERE {table}.rowid = sdil_at.r AND sdil_at.renamed <> ''"
                )
            connection.execute(
                f"DELETE FROM {table} WHERE rowid IN (SELECT r FROM sdil_at WHERE NOT keep)"
            )
            connection.execute("CHECKPOINT")


_SQL_KINDS = {"f": "FLOAT", "O": "VARCHAR", "i": "BIGINT"}


def _places(source: TableSource, answers: Sequence[RowAnswer]) -> list[Array]:
    """Where each row of each episode stands in the table, from 0."""
    return [source.rows_of(at) - 1 for at in range(len(answers))]


def _in_order(
    of_episodes: Sequence[Array], places: Sequence[Array], closing: float | None = None
) -> Array:
    """What is known of each step, episode by episode, in the order of the table's rows.

    `closing` is said of a last row without an action; where None, the same as of the last step.
    """
    ordered = np.empty(sum(map(len, places)), of_episodes[0].dtype)
    for values, rows in zip(of_episodes, places, strict=True):
        ordered[rows[: len(values)]] = values
        ordered[rows[len(values) :]] = values[-1] if closing is None else closing
    return ordered


def _named(answer: RowAnswer, first: int, stop: int) -> str:
    """A segment by the source's own numbers of its frames, the last of them not counted."""
    return f"{answer.id}[{answer.frames[first]}:{answer.frames[stop - 1] + 1}]"


def _numbers(answers: Sequence[RowAnswer]) -> list[int] | None:
    """The episodes' names as numbers, where all of them are."""
    if all(re.fullmatch(r"-?\d+(\.0+)?", answer.id) for answer in answers):  # pandas has 3.0
        return [int(answer.id.partition(".")[0]) for answer in answers]
    return None


def _count(path: Path) -> int:
    import duckdb

    reader = "read_parquet" if path.name.lower().endswith(_PARQUET) else "read_csv"
    ((found,),) = duckdb.sql(f"SELECT count(*) FROM {reader}({quoted_text(path)})").fetchall()
    return int(found)


def _check_all_used(found: int, rows: Rows, path: Path) -> None:
    if found != len(rows.keep):
        raise InputError(
            f"{path}: {found} rows were found where {len(rows.keep)} were judged; was it changed "
            "since? Read and judge it again"
        )
