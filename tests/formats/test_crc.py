"""Checksums put together of parts are those of the whole."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from sdil.formats.crc import join_sums


@given(st.lists(st.binary(max_size=600), min_size=1, max_size=9), st.integers(0, 70_000))
def test_of_pieces_end_to_end(pieces, zeros):
    pieces = [*pieces[:-1], bytes(zeros), pieces[-1]]
    found = join_sums([zlib.crc32(p) for p in pieces], [len(p) for p in pieces])
    assert found == zlib.crc32(b"".join(pieces))


def test_of_more_than_four_thousand_million_bytes():
    block = bytes(range(256)) * 4096  # 1 MB
    once = zlib.crc32(block)
    found, size = once, len(block)
    for _ in range(13):  # doubled to 8 GB
        found, size = join_sums([found, found], [size, size]), 2 * size
    assert size == 2**33
    assert join_sums([once] * 2**13, [len(block)] * 2**13) == found
    assert join_sums([once] * 3, [len(block)] * 3) == zlib.crc32(block * 3)
