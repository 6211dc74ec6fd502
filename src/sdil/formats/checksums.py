"""Checksums of the files of a folder of demonstrations, and whether they are what was written."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sdil.files import json_text
from sdil.formats.episodes import FILE, PLACES, read_places
from sdil.formats.mapped import DIGESTS, Rows, sum_up_others
from sdil.formats.minari import Notes
from sdil.spaces import Array

ABOUT = "sdil.json"
AGAIN = "copy the folder again, or collect again"
SETS = ("clean", "noisy")
CHECKSUMS, MAPPED = "checksums", "mapped"
"""Entries of `sdil.json`: of each file its checksum, and of a mapped one where its rows lie."""


def write_about(
    folder: Path, about: dict[str, Any], known: Mapping[str, int | None] | None = None
) -> None:
    """Write `sdil.json` into a folder that is not in its place yet, with checksums of the files of
    both sets and of all that it says; of a mapped file they are of all but its rows, which have
    their own. `known` are the CRC-32 of files that were summed up as they were written."""
    for name in SETS:
        for file in files_of(name):
            summed = (known or {}).get(file)
            if summed is not None:
                about[CHECKSUMS][file] = f"crc32:{summed:08x}"
            elif (folder / file).exists():
                rows = about.get(MAPPED, {}).get(name) if file == files_of(name)[1] else None
                about[CHECKSUMS][file] = (
                    _checksum_of(folder / file)
                    if rows is None
                    else sum_up_others(folder / file, Rows.from_json(rows))
                )
    about[CHECKSUMS][ABOUT] = digest_of_the_rest(about)
    (folder / ABOUT).write_text(json_text(about), "utf-8")


def known_places(folder: Path, about: dict[str, Any], name: str, noted: Notes) -> Array | None:
    """Where each episode of a set lies in its file, as it was written; None where it is unknown."""
    if not noted.episodes:
        return np.zeros((0, 5), np.int64)
    file = files_of(name)[0]
    if not is_as_written(folder, about, file, noted):
        return None
    return read_places((folder / file).read_bytes(), noted.episodes)


def is_as_written(folder: Path, about: dict[str, Any], file: str, noted: Notes) -> bool:
    """Whether a file of a set has the checksum that was noted; an empty set needs none."""
    if not noted.episodes:
        return True
    written = str(about[CHECKSUMS].get(file))
    kind = "crc32" if written.startswith("crc32:") else "sha256"  # of earlier versions
    try:
        return written == _checksum_of(folder / file, kind)
    except OSError:
        return False


def data_folder(folder: Path, name: str) -> Path:
    """Where the Minari data set of a set lies."""
    return folder / f"{name}-v0"


def files_of(name: str) -> tuple[str, str, str]:
    """Of a set, within the folder: where its episodes lie, the file that they lie in, and of a
    mapped one their hashes."""
    return f"{name}-v0/{PLACES}", f"{name}-v0/{FILE.as_posix()}", f"{name}-v0/{DIGESTS}"


def digest_of_the_rest(about: dict[str, Any]) -> str:
    """A checksum of all that `sdil.json` says but for this checksum, however it is laid out."""
    others = {name: value for name, value in about[CHECKSUMS].items() if name != ABOUT}
    said = {name: value for name, value in about.items() if name != MAPPED or value}
    plain = json.loads(json.dumps({**said, CHECKSUMS: others}))  # as it will be read
    return digest(json.dumps(plain, sort_keys=True).encode())


def _checksum_of(path: Path, kind: str = "crc32") -> str:
    """Of all bytes of a file of a set. CRC-32 misses no flipped bit and no damaged run of up to
    four bytes, other damage once in four thousand million times, in a third of SHA-256's time."""
    content = np.memmap(path, np.uint8, "r").data if path.stat().st_size else b""
    return digest(content) if kind == "sha256" else f"crc32:{zlib.crc32(content):08x}"


def digest(content: bytes | memoryview) -> str:
    """SHA-256."""
    return hashlib.sha256(content).hexdigest()
