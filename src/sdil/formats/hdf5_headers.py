"""The headers that HDF5 keeps of arrays, for thousands of them at once.

The HDF5 library takes some fifty microseconds for each data set that it makes: five for each
episode, and making them took ten times as long as writing what they hold. Here the arrays lie in
the file already, one after the other, and what HDF5 wants to know of them is laid out as its
specification says ("HDF5 File Format Specification Version 3.0"; the sections are named below): the
oldest forms, which every version of the library reads and which carry no checksums of their own.

The same group with the same data sets is repeated, so that one header is made as a template and the
addresses and lengths are put into all copies of it together.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sdil.spaces import Array

SUPERBLOCK = 96
"""Bytes at the beginning of the file that are kept for `make_headers`."""
_UNDEFINED = 2**64 - 1  # an address of nothing
_LEAF, _NODE = 64, 64  # half of how many entries a leaf and a node of the root's tree have room for
_CHUNKS = 32  # the same of a node over chunks, which this superblock cannot say: HDF5's own number
_DATASPACE, _LINK_INFO, _DATATYPE, _FILL, _LINK = 1, 2, 3, 5, 6
_LAYOUT, _GROUP_INFO, _ATTRIBUTE, _SYMBOL_TABLE = 8, 10, 12, 17


@dataclass(frozen=True)
class Repeated:
    """A data set that each of the groups has, under the same name."""

    name: str
    """With slashes where it lies in groups within the group."""
    number: np.dtype[Any]
    shape: tuple[int, ...]
    """Of one row."""
    rows: Array
    """How many each has. (G,)"""
    place: Array
    """At which byte of the file each begins; anything where it takes no room. (G,)"""
    apart: int | None = None
    """Bytes from the beginning of a row to that of the next; None where they lie side by side."""

    @property
    def row_bytes(self) -> int:
        return self.number.itemsize * int(np.prod(self.shape, dtype=np.int64))


def make_headers(
    names: Sequence[str], data: Sequence[Repeated], attributes: Mapping[str, Array], begin: int
) -> tuple[bytes, list[bytes]]:
    """The first bytes of a file (`SUPERBLOCK`), and pieces that follow from `begin`, where its
    arrays end.

    `names` are those of the groups; `attributes` whole numbers, one for each group.
    """
    assert begin % 8 == 0, "addresses are multiples of eight"
    pieces: list[bytes] = []
    at = begin
    tree: dict[str, Any] = {}
    for each in data:
        if each.apart is None or not each.row_bytes:
            headers = _dataset_headers(each)
        else:
            indices, roots = _chunk_indices(each, at)
            pieces.append(indices)
            at += len(indices)
            headers = _scattered_headers(each, roots)
        inside = tree
        *path, last = each.name.split("/")
        for key in path:
            inside = inside.setdefault(key, {})
        inside[last] = at + headers.shape[1] * np.arange(len(names), dtype=np.int64)
        pieces.append(headers.tobytes())
        at += headers.size
    addresses, at = _groups(tree, attributes, at, pieces)
    root_bytes, root = _root(names, addresses, at)
    pieces.append(root_bytes)
    return _superblock(root, at + len(root_bytes)), pieces


def _groups(
    tree: Mapping[str, Any], attributes: Mapping[str, Array], at: int, pieces: list[bytes]
) -> tuple[Array, int]:
    """The groups that hold data sets and groups: their addresses, and where they end."""
    places = []
    for inside in tree.values():
        if isinstance(inside, dict):
            inside, at = _groups(inside, {}, at, pieces)
        places.append(inside)
    headers = _group_headers(list(tree), places, attributes)
    pieces.append(headers.tobytes())
    return at + headers.shape[1] * np.arange(len(headers), dtype=np.int64), at + headers.size


def _superblock(root: int, end: int) -> bytes:
    """II.A, version 0: where the root group and the end of the file are."""
    versions = bytes([0, 0, 0, 0, 0, 8, 8, 0])
    sizes = struct.pack("<HHI", _LEAF, _NODE, 0)
    addresses = struct.pack("<4Q", 0, _UNDEFINED, end, _UNDEFINED)
    entry = struct.pack("<QQII16x", 0, root, 0, 0)
    return b"\x89HDF\r\n\x1a\n" + versions + sizes + addresses + entry


def _message(kind: int, content: bytes, constant: bool = False) -> bytes:
    """IV.A.1.a: one message of a header, padded to eight bytes."""
    padded = content + bytes(-len(content) % 8)
    return struct.pack("<HHB3x", kind, len(padded), constant) + padded


def _header(messages: Sequence[bytes]) -> bytes:
    """IV.A.1.a: an object header, version 1."""
    content = b"".join(messages)
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(content)) + content


@cache
def _datatype(number: np.dtype[Any]) -> bytes:
    """IV.A.2.d, as the library itself has it; the first two bytes say only that it is one."""
    from h5py import h5t

    return bytes(h5t.py_create(number, logical=True).encode()[2:])


def _dataspace(shape: Sequence[int]) -> bytes:
    """IV.A.2.b, version 1."""
    return struct.pack(f"<BB6x{len(shape)}Q", 1, len(shape), *shape)


def _dataset_headers(data: Repeated) -> Array:
    """One header for each group. (G, bytes)"""
    template = _dataset_template(data, struct.pack("<BBQQ", 3, 1, _PLACE, _BYTES))  # in one piece
    sizes = data.rows * data.row_bytes
    place = np.where(sizes > 0, data.place, -1)  # -1 is `_UNDEFINED`
    return _filled(template, {_ROWS: data.rows, _PLACE: place, _BYTES: sizes})


def _dataset_template(data: Repeated, layout: bytes) -> bytes:
    return _header(
        [
            _message(_DATASPACE, _dataspace([_ROWS, *data.shape])),
            _message(_DATATYPE, _datatype(data.number), constant=True),
            _message(_FILL, bytes([2, 2, 2, 1]), constant=True),  # allocated late, filled with 0
            _message(_LAYOUT, layout),
        ]
    )


def _scattered_headers(data: Repeated, roots: Array) -> Array:
    """The same for rows that lie apart: each is a chunk, found by a tree (IV.A.2.i, class 2)."""
    sizes = [1, *data.shape, data.number.itemsize]
    layout = struct.pack(f"<BBBQ{len(sizes)}I", 3, 2, len(sizes), _PLACE, *sizes)
    return _filled(_dataset_template(data, layout), {_ROWS: data.rows, _PLACE: roots})


def _chunk_indices(data: Repeated, begin: int) -> tuple[bytes, Array]:
    """Trees over the rows of each data set (III.A.1, nodes of type 1), and where each has its root.

    A key says how many bytes a chunk has and where in the data set it begins: of a row (i, 0, ...).
    """
    axes = 2 + len(data.shape)  # rows, those of the shape, bytes of a number
    key = np.dtype([("bytes", "<u4"), ("filters", "<u4"), ("at", "<u8", (axes,))])
    entry = np.dtype([("key", key), ("child", "<u8")])
    size = 24 + 2 * _CHUNKS * entry.itemsize + key.itemsize
    size += -size % 8
    pieces: list[bytes] = []
    roots, at = [], begin
    for rows, place in zip(data.rows.tolist(), data.place.tolist(), strict=True):
        children = place + (data.apart or 0) * np.arange(rows)
        firsts, level = np.arange(rows), 0
        while True:
            count = max(-(-len(children) // (2 * _CHUNKS)), 1)
            addresses = at + size * np.arange(count)
            for i in range(count):
                part = slice(2 * _CHUNKS * i, 2 * _CHUNKS * (i + 1))
                some = children[part]
                entries = np.zeros(len(some), entry)
                entries["key"]["bytes"] = data.row_bytes
                entries["key"]["at"][:, 0] = firsts[part]
                entries["child"] = some
                beyond = np.zeros(1, key)
                after = firsts[part.stop] if part.stop < len(firsts) else rows
                beyond["at"][0, 0] = after
                left = addresses[i - 1] if i else _UNDEFINED
                right = addresses[i + 1] if i + 1 < count else _UNDEFINED
                head = struct.pack("<4sBBHQQ", b"TREE", 1, level, len(some), left, right)
                node = head + entries.tobytes() + beyond.tobytes()
                pieces.append(node.ljust(size, b"\0"))
            at += size * count
            if count == 1:
                break
            children, firsts, level = addresses, firsts[:: 2 * _CHUNKS], level + 1
        roots.append(int(addresses[0]))
    return b"".join(pieces), np.array(roots, np.int64)


# numbers that stand in a template where each copy has its own; no header holds them otherwise
_ROWS, _PLACE, _BYTES = 0xA1B2C3D4E5F60001, 0xA1B2C3D4E5F60002, 0xA1B2C3D4E5F60003
_FIRST_LINK, _FIRST_ATTRIBUTE = 0xA1B2C3D4E5F61000, 0xA1B2C3D4E5F62000


def _filled(template: bytes, numbers: Mapping[int, Array]) -> Array:
    """As many copies as there are numbers, each with its own in the place of what stands for it."""
    count = len(next(iter(numbers.values())))
    copies = np.tile(np.frombuffer(template, np.uint8), (count, 1))
    for stands, own in numbers.items():
        at = template.index(struct.pack("<Q", stands))
        copies[:, at : at + 8] = own.astype("<i8").reshape(-1, 1).view(np.uint8)
    return copies


def _group_headers(
    names: Sequence[str], places: Sequence[Array], attributes: Mapping[str, Array]
) -> Array:
    """Groups whose links are messages of their headers. (G, bytes)"""
    messages = [
        _message(_LINK_INFO, struct.pack("<BBQQ", 0, 0, _UNDEFINED, _UNDEFINED)),
        _message(_GROUP_INFO, bytes(2), constant=True),
    ]
    numbers: dict[int, Array] = {}
    for i, (name, place) in enumerate(zip(names, places, strict=True)):
        text = name.encode()
        link = struct.pack(f"<BBB{len(text)}sQ", 1, 0, len(text), text, _FIRST_LINK + i)
        messages.append(_message(_LINK, link))  # IV.A.2.g: a hard link
        numbers[_FIRST_LINK + i] = place
    kind, one = _datatype(np.dtype(np.int64)), _dataspace([])
    for i, (name, values) in enumerate(attributes.items()):
        text = name.encode() + b"\0"
        sizes = struct.pack("<BxHHH", 1, len(text), len(kind), len(one))
        padded = [part + bytes(-len(part) % 8) for part in (text, kind, one)]
        value = struct.pack("<Q", _FIRST_ATTRIBUTE + i)
        messages.append(_message(_ATTRIBUTE, sizes + b"".join(padded) + value))  # IV.A.2.m
        numbers[_FIRST_ATTRIBUTE + i] = values
    return _filled(_header(messages), numbers)


def _root(names: Sequence[str], addresses: Array, begin: int) -> tuple[bytes, int]:
    """A group of groups as a tree over their names in order (III.A.1, III.B, III.D).

    The bytes that belong at `begin`, and the address of its header in the file.
    """
    texts = [name.encode() for name in names]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    stride = (max(map(len, texts), default=0) // 8 + 1) * 8  # ended by a zero
    heap = bytes(8) + b"".join(texts[i].ljust(stride, b"\0") for i in order)
    spoken = 8 + stride * np.arange(len(order), dtype=np.int64)  # of each name in order
    pieces, at = [heap], begin + len(heap)
    heap_header = at
    pieces.append(b"HEAP" + struct.pack("<B3xQQQ", 0, len(heap), 1, begin))
    at += len(pieces[-1])

    entries = np.zeros((len(order), 5), "<i8")  # name, header, and 24 bytes of nothing cached
    entries[:, 0], entries[:, 1] = spoken, addresses[order]
    children, last = [], []
    for first in range(0, max(len(order), 1), 2 * _LEAF):
        some = entries[first : first + 2 * _LEAF]
        leaf = b"SNOD" + struct.pack("<BxH", 1, len(some)) + some.tobytes()
        pieces.append(leaf.ljust(8 + 2 * _LEAF * 40, b"\0"))
        children.append(at)
        last.append(int(some[-1, 0]) if len(some) else 0)
        at += len(pieces[-1])
    level = 0
    while level == 0 or len(children) > 1:
        children, last, nodes = _level(children, last, level, at)
        pieces.append(nodes)
        at += len(nodes)
        level += 1
    header = _header([_message(_SYMBOL_TABLE, struct.pack("<QQ", children[0], heap_header))])
    return b"".join([*pieces, header]), at


def _level(
    children: list[int], last: list[int], level: int, begin: int
) -> tuple[list[int], list[int], bytes]:
    """The nodes over some children of a tree (III.A.1): addresses, largest names, their bytes."""
    size = 24 + (4 * _NODE + 1) * 8
    groups = [
        (children[i : i + 2 * _NODE], last[i : i + 2 * _NODE])
        for i in range(0, len(children), 2 * _NODE)
    ]
    addresses = [begin + i * size for i in range(len(groups))]
    made, before = [], 0
    for i, (below, largest) in enumerate(groups):
        left = addresses[i - 1] if i else _UNDEFINED
        right = addresses[i + 1] if i + 1 < len(groups) else _UNDEFINED
        node = b"TREE" + struct.pack("<BBHQQQ", 0, level, len(below), left, right, before)
        node += b"".join(struct.pack("<QQ", *pair) for pair in zip(below, largest, strict=True))
        made.append(node.ljust(size, b"\0"))
        before = largest[-1]
    return addresses, [largest[-1] for _, largest in groups], b"".join(made)
