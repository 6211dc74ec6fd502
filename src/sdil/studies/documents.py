"""JSON from disk, taken apart with care: every complaint names the file and the field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.files import read_json
from sdil.limits import fits


@dataclass(frozen=True)
class Kind:
    """What a field may be."""

    words: str
    holds: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    """Whether a value is a finite number; true and false are none."""
    return fits(value, float)


def or_null(kind: Kind) -> Kind:
    """The same, or nothing."""
    return Kind(f"{kind.words} or null", lambda v: v is None or kind.holds(v))


def list_of(kind: Kind) -> Kind:
    """A list of nothing else."""
    return Kind(
        f"a list, each {kind.words}", lambda v: isinstance(v, list) and all(map(kind.holds, v))
    )


def table_of(kind: Kind) -> Kind:
    """An object with values of nothing else."""
    return Kind(
        f"an object, each value {kind.words}",
        lambda v: isinstance(v, dict) and all(map(kind.holds, v.values())),
    )


def one_of(*choices: Any) -> Kind:
    """One of these."""
    return Kind(f"one of {', '.join(map(str, choices))}", lambda v: v in choices)


ANYTHING = Kind("a value", lambda _: True)
TEXT = Kind("a text", lambda v: isinstance(v, str))
NUMBER = Kind("a finite number", is_number)
OBJECT = Kind("an object", lambda v: isinstance(v, dict))
LIST = Kind("a list", lambda v: isinstance(v, list))


class Part:
    """An object of a JSON file, or the whole of it."""

    def __init__(self, path: Path, value: Any, place: str = "") -> None:
        self.path = path
        self._place = place
        if not isinstance(value, dict):
            raise self.error("", "must be an object")
        self.value: dict[str, Any] = value

    @classmethod
    def read(cls, path: Path, *, what: str) -> Part:
        """The whole of a file, which should be `what`."""
        return cls(path, read_json(path, what=what))

    def __contains__(self, name: str) -> bool:
        return name in self.value

    def take(self, name: str, kind: Kind) -> Any:
        """A field that must be there."""
        if name not in self.value:
            raise self.error(name, "is missing")
        value = self.value[name]
        if not kind.holds(value):
            raise self.error(name, f"must be {kind.words}, not {_short(value)}")
        return value

    def get(self, name: str, kind: Kind, usual: Any) -> Any:
        """A field that need not be there."""
        return self.take(name, kind) if name in self.value else usual

    def part(self, name: str) -> Part:
        """The object in a field."""
        return Part(self.path, self.take(name, OBJECT), self._at(name))

    def parts(self, name: str) -> Iterator[Part]:
        """The objects of the list in a field."""
        for i, value in enumerate(self.take(name, LIST)):
            yield Part(self.path, value, self._at(f"{name}[{i}]"))

    def error(self, name: str, text: str) -> InputError:
        """A complaint about a field."""
        field = self._at(name) if name else self._place or "what is in it"
        return InputError(f"{self.path}: damaged: {field} {text}")

    def _at(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name


def _short(value: Any) -> str:
    """A value of any size, as a complaint quotes it."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:60]}..."
