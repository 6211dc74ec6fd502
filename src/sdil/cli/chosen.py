"""Of other people's data: which episodes `--clean` came to, and in what order steps are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sdil.cli.console import WIDTH, plain
from sdil.demonstrations import Demonstrations
from sdil.formats.data import is_source, load_demonstrations
from sdil.formats.origin import Imported
from sdil.formats.recognise import Address, parse_address

_LONGEST = 36  # letters of what was said with --clean


def print_chosen(data: str, demos: Demonstrations | None = None) -> None:
    """Which episodes of a source are trusted; of a folder of demonstrations nothing is said."""
    if not is_source(data):
        return
    demos = load_demonstrations(data) if demos is None else demos
    assert isinstance(demos, Imported)
    said = demos.origin.choices.get("clean", "")
    print(say_clean(said, demos.clean.ids, len(demos.clean) + len(demos.noisy)))
    print_notes(demos.origin.about, "?time=")


def nearby(data: str) -> str:
    """What `--data` takes, as short as it may be here."""
    address = parse_address(data)
    place = Path(address.location)
    if place.is_relative_to(Path.cwd()):
        place = place.relative_to(Path.cwd())
    return str(Address(str(place), address.format, address.choices)) if place.exists() else data


def notes_of(about: Mapping[str, Any], how: str = "--time") -> list[str]:
    """What was taken for granted of a source; `how` a column is named that orders the steps."""
    if about.get("time_column", "") is not None:
        return []
    return [f"no column orders the steps: the file's order is taken ({how} names one)"]


def print_notes(about: Mapping[str, Any], how: str = "--time") -> None:
    """The same, a line for each."""
    for note in notes_of(about, how):
        print(f"note: {note}")


def say_clean(said: str, ids: Sequence[str], total: int) -> str:
    """How many of all episodes are clean, and as many of their names as a line has room for."""
    said = " ".join(plain(said).split())
    said = said if len(said) <= _LONGEST else said[: _LONGEST - 3] + "..."
    head = f"clean: {len(ids)} of {total} episodes ({said})"
    names = [plain(name) for name in ids[:WIDTH]]
    for shown in range(len(names), 0, -1):
        rest = len(ids) - shown
        line = f"{head}: {', '.join(names[:shown])}" + (f", ... and {rest} more" if rest else "")
        if len(line) <= WIDTH:
            return line
    return head
