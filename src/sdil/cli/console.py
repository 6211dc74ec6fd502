"""What commands share: arguments by tyro, progress and tables by rich."""

from __future__ import annotations

import inspect
import io
import json
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sdil.cli.wrapping import WIDTH as WIDTH
from sdil.cli.wrapping import wrap
from sdil.cores import threads
from sdil.errors import InputError
from sdil.plain import DIRECTIONS
from sdil.plain import plain as plain
from sdil.progress import showing

Result = TypeVar("Result")

_UNSEEN_IN_JSON = re.compile(f"[\x7f-\x9f{DIRECTIONS}\ud800-\udfff]")


def parse(command: Callable[..., Result], arguments: Sequence[str], name: str) -> Result:
    """Call `command` with the arguments of the command line; tyro exits with 2 on a wrong one."""
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.ConsolidateSubcommandArgs)
    asks_for_help = not {"-h", "--help"}.isdisjoint(arguments)
    if asks_for_help and command.__doc__:  # tyro keeps line breaks within an argument's text
        command.__doc__ = re.sub(r"\n {8,}(?=\S)", " ", inspect.cleandoc(command.__doc__))
    with _wrapped() if asks_for_help else nullcontext():
        return tyro.cli(command, args=list(arguments), prog=f"sdil {name}", config=config)


class _Held(io.StringIO):
    """Holds back what is printed; tyro asks it what it would ask the terminal, to draw boxes."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


@contextmanager
def _wrapped() -> Iterator[None]:
    """Wrap usage and text at the terminal's width, as tyro does with options alone."""
    held, width = _Held(), shutil.get_terminal_size().columns
    try:
        with redirect_stdout(held):
            yield
    finally:
        for line in held.getvalue().splitlines():
            bare = re.sub(r"\x1b\[[0-9;]*m", "", line)  # without colours
            indent = " " * 4 if bare.startswith("usage:") else ""
            fits = len(bare) <= width
            print(line if fits else textwrap.fill(bare, width, subsequent_indent=indent))


@contextmanager
def progress(text: str) -> Iterator[Callable[..., None]]:
    """A line on the terminal: call it with (done, total), and a new text where that changes.

    Nothing is shown where the output is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda *_, **__: None
        return
    with showing(text) as update:
        yield lambda done, total, description=text: update(done, total, description)


def set_threads(count: int) -> None:
    """Let PyTorch use this many CPU threads."""
    if count < 1:
        raise InputError(f"--threads must be at least 1, not {count}")
    threads(count)


def check_seed(seed: int) -> None:
    """Refuse a seed that NumPy would."""
    if not 0 <= seed < 2**32:
        raise InputError(f"--seed lies between 0 and 2^32 - 1, not {seed}")


def print_json(value: Any) -> None:
    """Print for a program to read; a terminal is not steered by it either."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print(_UNSEEN_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_wrapped(text: str) -> None:
    """A sentence in lines of 80 characters; further ones are indented, and names and commands are
    left whole: they are there to be typed."""
    print(wrap(text))


def print_command(command: str) -> None:
    """A command to be run as it is printed; where it is long, in several lines of a shell."""
    parts: list[str] = []  # an option stays with its value
    for word in (shlex.quote(plain(word)) for word in shlex.split(command)):
        if parts and parts[-1].startswith("--") and " " not in parts[-1] and word[:2] != "--":
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    line, lines = " ", []
    for part in parts:
        if len(line) + len(part) + 3 > WIDTH and line.strip():  # a space before, " \\" behind
            lines.append(line)
            line = "     "
        line += f" {part}"
    print(" \\\n".join([*lines, line]))


def show(value: Any) -> str:
    """A value as a table shows it; a dash where it is not known."""
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1
) -> None:
    """A table whose first columns are text and whose others are numbers; data is shown as it is,
    whole: names are there to be typed."""
    console, table = Console(), Table()
    for i, column in enumerate(columns):
        longest = max((len(plain(row[i])) for row in rows), default=0)
        table.add_column(
            Text(plain(column)),
            justify="left" if i < text_columns else "right",
            overflow="fold",
            no_wrap=i == 0 and longest <= console.width // 2,
        )
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(Text(plain(title), style="bold"))
    console.print(table)
