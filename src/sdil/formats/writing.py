"""Answers written back in the format that the data came in.

`write_back` writes a copy of a source with a score and a weight of every row, or only what was
kept, segments as episodes. What came in goes out the same but for that. One module per format cuts
its files; LeRobot takes answers in more ways, which `cli/exporting.py` asks for by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from sdil.errors import InputError
from sdil.formats.recognise import is_server
from sdil.formats.rows import RowAnswer
from sdil.formats.source import Source
from sdil.formats.table_source import TableSource
from sdil.formats.table_writing import write_curated as write_curated_table
from sdil.formats.table_writing import write_scored as write_scored_table

WRITERS = {
    "robomimic": "sdil.formats.robomimic_writing",
    "d4rl": "sdil.formats.d4rl_writing",
    "aloha": "sdil.formats.aloha_writing",
    "zarr": "sdil.formats.replay_buffer_writing",
    "minari": "sdil.formats.minari_writing",
    "numpy": "sdil.formats.arrays_writing",
}
"""Who writes which format: each has `write_scored` and `write_curated`."""


def write_back(
    source: Source,
    answers: Sequence[RowAnswer],
    out: Path,
    *,
    curated: bool,
    in_place: bool = False,
) -> None:
    """Write a source with what is said of it, or what was kept of it, to a new place.

    `in_place`: `out` is the source's own file, which is replaced once the new one is whole.
    """
    if source.format not in (*WRITERS, "table"):
        raise InputError(f"{source.location}: {source.format} is not written back this way")
    original = place_of(source)
    out = out.absolute()
    if not in_place:
        refuse_touching(original, out)
    if curated and not any(answer.keep.any() for answer in answers):
        raise InputError(f"{source.location}: nothing is kept, so that there is nothing to write")
    if isinstance(source, TableSource):  # it alone knows which row is of which episode
        (write_curated_table if curated else write_scored_table)(source, answers, out)
        return
    module = import_module(WRITERS[source.format])
    write: Callable[[Path, Sequence[RowAnswer], Path], None]
    write = module.write_curated if curated else module.write_scored
    write(original, answers, out)


def refuse_touching(original: Path, out: Path) -> None:
    """Raise where what is written would lie in or over the original."""
    old, new = original.resolve(), out.resolve()
    if new == old or new in old.parents or old in new.parents:
        raise InputError(
            f"{out} would lie in or over {original}, which is not touched; choose another place"
        )


def place_of(source: Source) -> Path:
    """The file or folder that a source was read from."""
    if is_server(source.location):
        raise InputError(
            f"{source.location}: nothing is written to a server; write the scores as a table "
            "(sdil score --out scores.parquet) or a trim list (--to trim:trim.csv)"
        )
    place = Path(source.location)
    if source.format == "minari":
        from sdil.formats.minari_source import local_folder

        found = None if place.exists() else local_folder(source.location)
        return place if found is None else found.parent
    return place


def default_place(source: Source, *, curated: bool) -> Path:
    """Where it is written if nobody says: beside the original, under a name of its own."""
    place = place_of(source)
    word = "curated" if curated else "scored"
    if source.format == "minari" and "-v" in place.name:
        name, _, version = place.name.rpartition("-v")
        return place.with_name(f"{name}-{word}-v{version}")
    suffix = "" if place.is_dir() and place.suffix != ".zarr" else "".join(place.suffixes[-2:])
    if suffix not in (".csv.gz", ".zarr.zip", ".zarr"):
        suffix = "" if place.is_dir() else place.suffix
    return place.with_name(f"{place.name.removesuffix(suffix)}-{word}{suffix}")
