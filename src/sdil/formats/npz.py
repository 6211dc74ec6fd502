"""Arrays of a `.npz` file as they lie there: read in one go where they are not compressed.

NumPy reads them through `zipfile`, a piece at a time, with two copies of each. Here an array that
is merely stored is read into its place, and summed up as a whole or by parts: a zip file has a
CRC-32 of each member. Whatever is out of the ordinary is left to NumPy.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipInfo

import numpy as np

from sdil.errors import InputError
from sdil.formats.crc import join_sums, sum_rows
from sdil.spaces import Array

_LOCAL = 30  # bytes of a member's own header before its name


@dataclass(frozen=True)
class Member:
    """An array, and what the file says of its bytes."""

    array: Array
    name: str
    """Of the member in the zip file."""
    said: int | None = None
    """CRC-32 of all of it, as the file has it; None where NumPy looked at that already."""
    head: bytes = b""
    """What precedes the numbers."""

    def check(self) -> None:
        """BadZipFile where the array is not what was written."""
        if self.said is not None:
            self._compare(zlib.crc32(self.array.data, zlib.crc32(self.head)))

    def sum_up(self, edges: Array) -> Array | None:
        """The same, with the CRC-32 of the rows between each two edges, which hold all of them;
        None where NumPy looked at it already. (E,)"""
        if self.said is None:
            return None
        sums = sum_rows(self.array, edges.tolist())
        sizes = np.diff(edges) * (self.array.nbytes // len(self.array))
        self._compare(join_sums([zlib.crc32(self.head), *sums], [len(self.head), *sizes.tolist()]))
        return np.array(sums, np.int64)

    def _compare(self, found: int) -> None:
        if found != self.said:
            raise BadZipFile(f"Bad CRC-32 for file {self.name!r}")


def read_npz(path: Path) -> tuple[dict[str, Member], list[str]]:
    """The arrays of a file, some of which are still to be checked; and the names of those that
    hold objects, which are left alone: nothing is unpickled."""
    with path.open("rb") as file:
        content: Any = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise InputError("it is a single array; put observations and actions into a .npz")
        found, objects = {}, []
        for name in content.files:
            key = name if name in content.zip.NameToInfo else f"{name}.npy"
            member = _stored(file, content.zip.getinfo(key))
            try:
                found[str(name)] = member or Member(np.asarray(content[name]), key)
            except ValueError as error:
                if "Object arrays" not in str(error):
                    raise
                objects.append(str(name))
        return found, objects


def _stored(file: BufferedReader, info: ZipInfo) -> Member | None:
    """A member that lies there as it is, or None."""
    if info.compress_type != ZIP_STORED or info.flag_bits & 1:
        return None
    file.seek(info.header_offset)
    local = file.read(_LOCAL)
    if len(local) < _LOCAL or local[:4] != b"PK\3\4":
        return None
    named, more = struct.unpack("<HH", local[26:])
    if file.read(named) != info.orig_filename.encode():
        return None
    begin = info.header_offset + _LOCAL + named + more
    if begin + info.file_size > os.fstat(file.fileno()).st_size:
        return None
    file.seek(begin)
    try:
        read = {(1, 0): np.lib.format.read_array_header_1_0}[np.lib.format.read_magic(file)]
        shape, by_column, number = read(file)
    except (ValueError, KeyError):
        return None
    head = file.tell() - begin
    size = number.itemsize * prod(shape)
    if number.kind not in "biuf" or by_column or not size or head + size != info.file_size:
        return None
    array = np.empty(shape, number)
    file.seek(begin)
    first = file.read(head)
    if file.readinto(array.reshape(-1).view(np.uint8).data) != size:
        return None
    return Member(array, info.filename, info.CRC, first)
