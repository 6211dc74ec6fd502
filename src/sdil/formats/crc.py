"""CRC-32 of bytes of which parts are known: what was summed up once need not be summed up again.

A checksum is the rest of a division by a polynomial P over bits. That of pieces end to end is the
sum (exclusive or) of those of the pieces, each multiplied by x^(8 n) where n bytes follow it
(zlib's `crc32_combine`, which Python does not have; here for thousands of pieces at once). As
zlib has them, the lowest power stands in the highest bit.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np

from sdil.spaces import Array

_P = 0xEDB88320
_ONE = 1 << 31
_BITS = 13  # of a number of bytes that are looked up at once: two look-ups reach 64 MB
_LAST = (1 << _BITS) - 1
_FOURTHS = tuple(np.uint64(0x1111111111111111 << k) for k in range(4))


def sum_rows(array: Array, edges: Sequence[int]) -> list[int]:
    """The CRC-32 of the rows between each two edges of an array that lies in one piece."""
    content, size = array.reshape(-1).view(np.uint8).data, array.nbytes // len(array)
    return [zlib.crc32(content[first * size : last * size]) for first, last in pairwise(edges)]


def join_sums(sums: Sequence[int] | Array, sizes: Sequence[int] | Array) -> int:
    """The CRC-32 of pieces end to end, of which each has this CRC-32 and so many bytes."""
    size = np.asarray(sizes, np.int64)
    after = int(size.sum()) - np.cumsum(size)
    return int(np.bitwise_xor.reduce(_times(_shift(after), np.asarray(sums, np.uint64))))


def _shift(size: Array) -> Array:
    """x^(8 n) mod P for each n."""
    found, digit = _powers(0)[size & _LAST], 1
    while (size := size >> _BITS).any():
        found = _times(found, _powers(digit)[size & _LAST])
        digit += 1
    return found


def _times(a: Array, b: Array) -> Array:
    """a b mod P for pairs of polynomials. (N,) of 64 bits

    A product without carries out of common ones: of every fourth bit, at most eight meet in one
    place, and three bits are free for what is carried.
    """
    parts_a, parts_b = ([x & fourth for fourth in _FOURTHS] for x in (a, b))
    product = np.zeros(a.shape, np.uint64)
    for k, fourth in enumerate(_FOURTHS):
        mixed = parts_a[0] * parts_b[k]
        for i in range(1, 4):
            mixed ^= parts_a[i] * parts_b[(k - i) % 4]
        product |= mixed & fourth
    product <<= np.uint64(1)
    rest = product >> np.uint64(32)
    for byte, table in enumerate(_tables()):  # what is beyond x^31
        rest ^= table[(product >> np.uint64(8 * byte)) & np.uint64(255)]
    return rest


@lru_cache(maxsize=1)
def _tables() -> Array:
    """What each byte beyond x^31 leaves: of x^56 to x^63 first. (4, 256)"""
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = (table >> np.uint64(1)) ^ ((table & np.uint64(1)) * np.uint64(_P))
    found = [table]
    for _ in range(3):
        found.append((found[-1] >> np.uint64(8)) ^ table[found[-1] & np.uint64(255)])
    return np.array(found[::-1])


@cache
def _powers(digit: int) -> Array:
    """x^(8 n 2^(13 digit)) mod P for n below 2^13. (2^13,)"""
    before = _powers(digit - 1) if digit else None
    base = np.array([_ONE >> 8], np.uint64)  # x^8
    if before is not None:
        base = _times(before[_LAST:], before[1:2])
    found = np.array([_ONE], np.uint64)
    for _ in range(_BITS):
        found = np.concatenate([found, _times(found, base)])
        base = _times(base, base)
    return found
