"""Data as text that steers no terminal."""

from __future__ import annotations

import re

DIRECTIONS = "\u200e\u200f\u2028-\u202e\u2066-\u2069"  # they reorder or break lines
_UNSEEN = re.compile(f"[\x00-\x1f\x7f-\x9f{DIRECTIONS}\ud800-\udfff]")


def plain(text: object, *, lines: bool = False) -> str:
    """Data as a terminal may show it: what would steer the terminal is written out, as \\x1b.

    `lines`: its line breaks are meant, as those of a traceback.
    """
    if lines:
        return "\n".join(map(plain, str(text).split("\n")))
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))
