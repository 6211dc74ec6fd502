"""Minari's other layout back: a folder per episode with one Arrow or Parquet file and its metadata.

    data/metadata.json      `data_format` says which of the two
    data/0/part-0.arrow     a row per observation: one more than actions, whose last row is padding
    data/0/metadata.json    id, total_steps, seed, options

Tables are cut as they are, with the types that Minari gave them, so that pictures stay the bytes
that they were.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.hdf5 import clear_reading
from sdil.formats.rows import FIRST, SCORE, SOURCE, WEIGHT, RowAnswer

_ABOUT = "metadata.json"
_PADDED = ("actions", "rewards", "terminations", "truncations")
FORMATS = ("arrow", "parquet")
"""What Minari calls them."""


def add_scores(folder: Path, answers: Sequence[RowAnswer], said_of: Path) -> None:
    """Add `sdil_score` and `sdil_weight` to the infos of each episode of a copy."""
    for at, answer in enumerate(answers):
        file, table = _episode(folder, at, answer, said_of)
        new = {
            name: np.append(values, np.float32(np.nan)).astype(np.float32)
            for name, values in ((SCORE, answer.score), (WEIGHT, answer.weight))
        }
        with clear_reading(str(said_of)):
            _write(file, _with_infos(table, new))
        if answer.quality is not None:
            _note(folder / str(at), {"sdil_quality": answer.quality})


def write_pieces(old: Path, answers: Sequence[RowAnswer], new: Path) -> tuple[int, int]:
    """Write the kept segments as episodes into an empty folder; how many, and how many steps."""
    number = total = 0
    for at, answer in enumerate(answers):
        file, table = _episode(old, at, answer, old)
        for start, stop in answer.pieces:
            folder = new / str(number)
            shutil.copytree(file.parent, folder, ignore=lambda _, names, f=file: [f.name])
            with clear_reading(str(old)):
                whole = (start, stop) == (0, len(answer))
                cut = table if whole else _cut(table, start, stop, len(answer))
                _write(folder / file.name, cut)
            about = {"id": number, "total_steps": stop - start, SOURCE: at, FIRST: start}
            _note(folder, about, without=("seed",) if start else ())
            number, total = number + 1, total + stop - start
    return number, total


def _episode(folder: Path, at: int, answer: RowAnswer, said_of: Path) -> tuple[Path, Any]:
    """The file of an episode and what it holds, where it is the one that was judged."""
    place = folder / str(at)
    endings = tuple(f".{form}" for form in FORMATS)
    files = [p for p in sorted(place.glob("*")) if p.suffix in endings]
    if len(files) != 1:
        raise InputError(
            f"{said_of}: episode {at} has {len(files)} tables; Minari writes one for each"
        )
    with clear_reading(str(files[0])):
        table = _read(files[0])
    if len(table) != len(answer) + 1:
        raise InputError(
            f"{said_of}: episode {at} is not the one that was judged (episode {answer.id!r}, "
            f"{len(answer)} steps); import and judge it again"
        )
    return files[0], table


def _cut(table: Any, start: int, stop: int, length: int) -> Any:
    """Some steps with the observation after them; the padding after actions stays what it was."""
    import pyarrow as pa

    steps, parts = stop - start, []
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if name not in _PADDED:
            parts.append(column.slice(start, steps + 1))
            continue
        part = pa.concat_arrays([column.slice(start, steps), column.slice(length, 1)])
        if name == "truncations" and not table.column("terminations")[stop - 1].as_py():
            ends = part.to_numpy(zero_copy_only=False).copy()
            ends[steps - 1] = True  # it was cut short, and the task did not end it
            part = pa.array(ends, part.type)
        parts.append(part)
    return pa.table(parts, table.schema)


def _with_infos(table: Any, new: dict[str, Any]) -> Any:
    import pyarrow as pa

    arrays, fields, mask = [], [], None
    at = table.schema.get_field_index("infos")
    if at >= 0:
        infos = table.column(at).combine_chunks()
        mask = infos.is_null() if infos.null_count else None
        for i, field in enumerate(infos.type):
            if field.name not in new:
                arrays.append(infos.field(i))
                fields.append(field)
    for name, values in new.items():
        arrays.append(pa.array(values))
        fields.append(pa.field(name, pa.float32()))
    struct = pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)
    field = pa.field("infos", struct.type)
    return table.append_column(field, struct) if at < 0 else table.set_column(at, field, struct)


def _read(file: Path) -> Any:
    pa = _pyarrow()
    if file.suffix == ".parquet":
        return pa.parquet.read_table(file, partitioning=None)
    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source).read_all()


def _write(file: Path, table: Any) -> None:
    """In one piece: Minari takes each piece for an episode."""
    pa = _pyarrow()
    whole = table.combine_chunks()
    with _replacing(file) as out:
        if file.suffix == ".parquet":
            pa.parquet.write_table(whole, out, row_group_size=max(1, len(whole)))
            return
        with pa.OSFile(str(out), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
            writer.write_table(whole)


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """A name beside it: what is written may still be read out of the file itself."""
    out = file.with_name(f".{file.name}")
    yield out
    out.replace(file)


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Minari's Arrow and Parquet files need pyarrow: pip install 'sdil[formats]'"
        ) from None
    return pyarrow


def _note(folder: Path, more: dict[str, Any], without: Sequence[str] = ()) -> None:
    """Add to what is said of an episode."""
    file = folder / _ABOUT
    said = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    kept = {name: value for name, value in said.items() if name not in without}
    file.write_text(json.dumps({**kept, **more}), "utf-8")
