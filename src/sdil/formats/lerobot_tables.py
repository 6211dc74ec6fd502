"""Tables of a LeRobot data set of version 3.0, as its own readers want them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from sdil.errors import InputError
from sdil.formats.lerobot_layout import DATA_3

_LARGEST = 100 * 2**20  # bytes of one data file: LeRobot's own limit
_IN_CHUNK = 1000
_AT_ONCE = 200
_FIRST = (
    ("episode_index", "int64"),
    ("length", "int64"),
    ("data/chunk_index", "int64"),
    ("data/file_index", "int64"),
    ("dataset_from_index", "int64"),
    ("dataset_to_index", "int64"),
)


class TableFiles:
    """`data/`: a row group per episode, a new file where one would become too large."""

    def __init__(self, out: Path) -> None:
        self._out, self._files, self._bytes = out, 0, 0
        self._writer: Any = None

    def __enter__(self) -> TableFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def add(self, table: Any, where: str) -> tuple[int, int]:
        """Write an episode; the numbers of its chunk and file."""
        import pyarrow.parquet as parquet

        if self._writer is not None and self._bytes + table.nbytes > _LARGEST:
            self._writer.close()
            self._writer, self._bytes = None, 0
        if self._writer is None:
            chunk, file = divmod(self._files, _IN_CHUNK)
            path = self._out / DATA_3.format(chunk_index=chunk, file_index=file)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = parquet.ParquetWriter(path, table.schema)
            self._files += 1
        if not table.schema.equals(self._writer.schema):  # files of version 2 may differ
            try:
                table = table.cast(self._writer.schema)
            except (ValueError, NotImplementedError) as error:
                raise InputError(
                    f"{where}: its columns are not of the types of the episodes before it ({error})"
                ) from None
        self._writer.write_table(table)
        self._bytes += table.nbytes
        return divmod(self._files - 1, _IN_CHUNK)


def write_tasks(path: Path, texts: Sequence[str]) -> None:
    """`tasks.parquet`, as pandas writes it: the texts are its index."""
    import pyarrow
    import pyarrow.parquet as parquet

    def described(name: str | None, kind: str, numpy: str) -> dict[str, Any]:
        return {
            "name": name,
            "field_name": name,
            "pandas_type": kind,
            "numpy_type": numpy,
            "metadata": {"encoding": "UTF-8"} if name is None else None,
        }

    pandas = {
        "index_columns": ["task"],
        "column_indexes": [described(None, "unicode", "object")],
        "columns": [
            described("task_index", "int64", "int64"),
            described("task", "unicode", "object"),
        ],
        "pandas_version": "2.2.0",
    }
    table = pyarrow.table({"task_index": list(range(len(texts))), "task": list(texts)})
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)


def write_meta_rows(
    folder: Path, rows: Sequence[dict[str, Any]], stats: Sequence[tuple[str, Any]]
) -> None:
    """`meta/episodes`: a row per episode, its columns in LeRobot's order and of its types."""
    import pyarrow
    import pyarrow.parquet as parquet

    fields = [(name, pyarrow.type_for_alias(kind)) for name, kind in _FIRST]
    fields.insert(1, ("tasks", pyarrow.list_(pyarrow.string())))
    known = {name for name, _ in (*fields, *stats)}
    others = dict.fromkeys(name for row in rows for name in row if name not in known)
    for name in others:
        values = [row[name] for row in rows if row.get(name) is not None]
        kind = _kind(values)
        if kind is not None:
            fields.append((name, kind))
    schema = pyarrow.schema([*fields, *stats])
    path = folder / "chunk-000" / "file-000.parquet"
    path.parent.mkdir(parents=True)
    with parquet.ParquetWriter(path, schema) as writer:
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            writer.write_table(pyarrow.Table.from_pylist(list(some), schema))


def _kind(values: Sequence[Any]) -> Any:
    """The type of a column of values of whole episodes; None where they are not of one type."""
    import pyarrow

    if values and all(isinstance(v, bool) for v in values):
        return pyarrow.bool_()
    if any(isinstance(v, bool) for v in values):
        return None
    for kinds, type_ in ((int, pyarrow.int64()), (int | float, pyarrow.float64())):
        if values and all(isinstance(v, kinds) for v in values):
            return type_
    return pyarrow.string() if values and all(isinstance(v, str) for v in values) else None
