"""Which of a source's features become observations and actions, and what their entries are called.

`obs/object`, `obs/*` (pictures only by their own name), `state[0:3]`, `state[shoulder]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from sdil.errors import InputError
from sdil.formats.source import Feature, Source
from sdil.spaces import Array, find_loss

_BRACKETS = re.compile(r"^(?P<name>.+)\[(?P<entries>[^\]]+)\]$")
_MOST_NAMED = 8  # features that a complaint lists
_LARGEST = 2**22  # entries of one step


@dataclass(frozen=True)
class Part:
    """A feature, or some of its entries."""

    feature: Feature
    entries: tuple[int, ...] | None = None
    """Positions in the flattened feature; None for all."""

    @cached_property
    def width(self) -> int:
        return prod(self.feature.shape) if self.entries is None else len(self.entries)

    def names(self) -> list[str]:
        """What each entry is called where it could be confused with another feature's."""
        name = self.feature.name
        if self.feature.shape == () or (prod(self.feature.shape) == 1 and not self.feature.entries):
            every = [name]
        elif self.feature.entries:
            every = [f"{name}[{entry}]" for entry in self.feature.entries]
        else:
            places = product(*map(range, self.feature.shape))
            every = [f"{name}[{','.join(map(str, place))}]" for place in places]
        return every if self.entries is None else [every[i] for i in self.entries]

    def short_names(self) -> list[str] | None:
        """What the source calls each entry, where it does."""
        if not self.feature.entries:
            return None
        every = self.feature.entries
        return list(every) if self.entries is None else [every[i] for i in self.entries]


@dataclass(frozen=True)
class Picked:
    """Parts that are laid side by side in one vector."""

    parts: tuple[Part, ...]
    dtype: np.dtype[np.generic]
    """Of the vector: wide enough for every part."""

    @cached_property
    def features(self) -> list[str]:
        return list(dict.fromkeys(part.feature.name for part in self.parts))

    @cached_property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Short where that is clear."""
        long = [name for part in self.parts for name in part.names()]
        short = [name for part in self.parts for name in (part.short_names() or part.names())]
        return tuple(short if len(set(short)) == len(short) else long)

    @property
    def units(self) -> tuple[str | None, ...]:
        """Of each entry; nothing where none is known."""
        units = tuple(part.feature.unit for part in self.parts for _ in range(part.width))
        return units if any(units) else ()

    @property
    def is_counted(self) -> bool:
        """Whether it may be a column of counted actions: one whole number."""
        return self.width == 1 and self.parts[0].feature.dtype_kind in "iu"

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of each feature at one step."""
        return {part.feature.name: part.feature.shape for part in self.parts}

    def lay(self, values: Mapping[str, Array], rows: int, where: str) -> Array:
        """An episode's features side by side; not a copy where there is one of them. (rows, width)

        What is given back is for reading only: it may be the source's own.
        """
        if len(self.parts) == 1 and self.parts[0].entries is None:
            whole = values[self.parts[0].feature.name]
            if whole.dtype == self.dtype:
                return whole[:rows].reshape(rows, self.width)
        out = np.empty((rows, self.width), self.dtype)
        column = 0
        for part in self.parts:
            array = values[part.feature.name][:rows]
            kind = array.dtype
            if array.ndim == part.width == 1 and (kind.kind == "f" or kind.itemsize < 8):
                out[:, column] = array  # a column of a table: there may be hundreds
                column += 1
                continue
            flat = array.reshape(len(array), -1)
            if part.entries is not None:
                flat = flat[:, list(part.entries)]
            to = out[:, column : column + part.width]
            if flat.dtype.kind in "iu" and flat.dtype.itemsize == 8:
                lost = find_loss(flat, self.dtype)  # beyond 2^53 a float skips whole numbers
                if lost is not None:
                    raise InputError(f"{where}, {part.feature.name}, row {lost[0][0]}{lost[1]}")
            to[...] = flat
            column += part.width
        return out


def pick(
    source: Source,
    asked: Sequence[str] | None,
    role: str,
    beside: Sequence[str] = (),
    *,
    none_is_fine: bool = False,
) -> Picked:
    """The features of a role, or those that were asked for. `beside`: those that others take."""
    if asked is None:
        parts = [Part(f) for f in source.features if f.role == role and f.name not in beside]
    else:
        parts = [part for text in asked for part in _find(source, text)]
    if not parts and not none_is_fine:
        what = "observations" if role == "observation" else "actions"
        flag = "--features" if role == "observation" else "--actions"
        raise InputError(
            f"{source.location}: nothing in it is taken for {what}; name features with {flag}. "
            f"There are {list_features(source)}"
        )
    seen: set[str] = set()
    for part in parts:
        kind = part.feature.dtype_kind
        if kind not in "biuf":
            raise InputError(
                f"{source.location}: {part.feature.name} holds {part.feature.dtype}, not numbers"
            )
        for name in part.names():
            if name in seen:
                raise InputError(f"{source.location}: {name} is asked for twice")
            seen.add(name)
    picked = Picked(tuple(parts), _wide_enough([p.feature for p in parts]))
    if picked.width > _LARGEST:
        raise InputError(
            f"{source.location}: a step would have {picked.width} numbers; choose fewer features"
        )
    return picked


def split_names(text: str | Sequence[str] | None) -> list[str] | None:
    """Names with commas between them; a comma within brackets is part of a name."""
    if text is None or not isinstance(text, str):
        return None if text is None else list(text)
    names = [n.strip() for n in re.split(r",(?![^\[]*\])", text)]
    return [n for n in names if n]


def list_features(source: Source) -> str:
    """The features of a source, for a complaint."""
    names = [
        f.name if f.role == "image" or f.dtype_kind in "biuf" else f"{f.name} (no numbers)"
        for f in source.features
    ]
    shown = ", ".join(names[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def _find(source: Source, text: str) -> list[Part]:
    exact = [f for f in source.features if f.name == text]
    if exact:
        return [Part(exact[0])]
    match = _BRACKETS.match(text)
    if match:
        for feature in source.features:
            if feature.name == match["name"]:
                return [_entries_of(source, feature, match["entries"])]
    found = [
        Part(f)
        for f in source.features
        if f.role != "image" and f.dtype_kind in "biuf" and _matches(f.name, text)
    ]
    if not found:
        owners = [f for f in source.features if text in f.entries]
        if len(owners) == 1:
            return [Part(owners[0], (owners[0].entries.index(text),))]
        raise InputError(
            f"{source.location}: there is no feature {text!r}; there are {list_features(source)}"
        )
    return found


def _matches(name: str, text: str) -> bool:
    return fnmatchcase(name, text) or (text.endswith(("/", ".", "_")) and name.startswith(text))


def _entries_of(source: Source, feature: Feature, text: str) -> Part:
    size = prod(feature.shape)
    names = Part(feature).names()
    if len(feature.shape) > 1 and f"{feature.name}[{text}]" in names:  # a place: row, column
        return Part(feature, (names.index(f"{feature.name}[{text}]"),))
    chosen: list[int] = []
    for piece in (p.strip() for p in text.split(",")):
        first, colon, last = piece.partition(":")
        if piece in feature.entries:
            chosen.append(feature.entries.index(piece))
        elif colon and all(not side or side.isdecimal() for side in (first, last)):
            chosen += range(size)[int(first) if first else None : int(last) if last else None]
        elif piece.isdecimal() and int(piece) < size:
            chosen.append(int(piece))
        else:
            known = f", called {', '.join(feature.entries)}" if feature.entries else ""
            raise InputError(
                f"{source.location}: {feature.name} has no entry {piece!r}; it has {size}{known}"
            )
    return Part(feature, tuple(chosen))


def _wide_enough(features: Sequence[Feature]) -> np.dtype[np.generic]:
    """The narrowest of float32 and float64 that keeps every number; long whole numbers are
    looked at again when they are read."""
    kinds = [np.dtype(f.dtype) for f in features]
    wide = any(
        (k.kind == "f" and k.itemsize > 4) or (k.kind in "iu" and k.itemsize > 2) for k in kinds
    )
    return np.dtype(np.float64 if wide else np.float32)
