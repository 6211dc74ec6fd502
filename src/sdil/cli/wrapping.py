"""Sentences in lines that a terminal has room for; what is there to be copied stays in one piece.

Commands, options with their values, quoted texts and the user's own arguments are not broken, even
where they are longer than a line.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable

from sdil.plain import plain

WIDTH = 80
"""Columns of a terminal that is taken for granted."""
_NARROWEST = 20
_QUOTED = r"""`[^`]+`|(?<!\w)'[^']+'(?!\w)|(?<!\w)"[^"]+"(?!\w)"""
_VALUE = rf"(?:{_QUOTED}|[^\s;,()]+)"
_OPTION = rf"--?[a-z][\w-]*(?:[= ](?!-){_VALUE})?"
_PLACE = r"(?:[A-Z]+\b|[^\s;,()]*[/.=][^\s;,()]*)"  # NAMES, paths and files
_WHOLE = re.compile(
    rf"pip install {_VALUE}|\b(?:iconv|mv) [^;]+|"
    rf"\bsdil [a-z]+(?: [a-z][\w-]*(?= (?:--|{_PLACE})))?(?: (?:{_OPTION}|{_PLACE}))*|"
    rf"--[a-z][\w-]*(?:[= ](?:{_QUOTED}|[A-Z\d/][^\s;,()]*))?|{_QUOTED}"
)
_GAP = "\x00"  # a blank at which no line ends; `plain` leaves none in a text


def wrap(text: object, width: int = WIDTH, keep: Iterable[str] = ()) -> str:
    """A sentence as lines; further ones are indented. `keep`: what else is not to be broken."""

    def joined(found: re.Match[str]) -> str:
        return found[0].replace(" ", _GAP)

    said = plain(text)
    for piece in sorted({plain(k) for k in keep if " " in k}, key=len, reverse=True):
        said = said.replace(piece, piece.replace(" ", _GAP))
    return textwrap.fill(
        _WHOLE.sub(joined, said),
        max(width, _NARROWEST),
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    ).replace(_GAP, " ")


def complain(text: object, keep: Iterable[str] = ()) -> None:
    """Say it where errors are said, in lines of that terminal."""
    print(wrap(text, _width_of_errors(), keep), file=sys.stderr)


def parts_of(arguments: Iterable[str]) -> list[str]:
    """What a message may repeat of a command line: each argument, and the place in it."""
    found = []
    for argument in arguments:
        value = argument.partition("=")[2] if argument.startswith("--") else argument
        found += [argument, value, value.partition("?")[0]]
    return [part for part in found if part]


def _width_of_errors() -> int:
    """Of the terminal that shows them; 80 where there is none."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except (AttributeError, OSError, ValueError):  # no terminal, or a stream without a file
        return WIDTH
