"""What a hyper-parameter may be. Each limit stands on its field, and everyone reads it there.

    hidden: Count = 64                                  # Annotated[int, AtLeast(1)]
    good_share: Annotated[float, Between(0, 1, open_low=True, open_high=True)] = 0.5
    distillation: Literal["log", "prob"] = "log"

`check_fields` holds a configuration against its own annotations: type, choice and limit. A float
takes whole numbers too, an int nothing else, and no number may be infinite or NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from sdil.errors import InputError


@dataclass(frozen=True)
class Between:
    """A number from `low` to `high`, without an end that is open."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    @property
    def short(self) -> str:
        """In a few signs: ">=1", "0..1", ">0", "(0,1)"."""
        if self.high == math.inf:
            return f"{'>' if self.open_low else '>='}{self.low:g}"
        if not self.open_low and not self.open_high:
            return f"{self.low:g}..{self.high:g}"
        first, last = "(" if self.open_low else "[", ")" if self.open_high else "]"
        return f"{first}{self.low:g},{self.high:g}{last}"

    def __str__(self) -> str:
        low = f"above {self.low:g}" if self.open_low else f"at least {self.low:g}"
        high = f"under {self.high:g}" if self.open_high else f"at most {self.high:g}"
        if self.high == math.inf:
            return low
        if not self.open_low and not self.open_high:
            return f"between {self.low:g} and {self.high:g}"
        return f"{low} and {high}"


def AtLeast(low: float) -> Between:  # noqa: N802  # it stands where a type stands
    """A number that is not smaller."""
    return Between(low)


def Above(low: float) -> Between:  # noqa: N802  # likewise
    """A number that is larger."""
    return Between(low, open_low=True)


class Some:
    """Some of these names, joined by "+", each once."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def holds(self, value: str) -> bool:
        chosen = value.split("+")
        return set(chosen) <= set(self.names) and len(set(chosen)) == len(chosen)

    def __str__(self) -> str:
        return f'some of "{"+".join(self.names)}"'


Count = Annotated[int, AtLeast(1)]
CountOrNone = Annotated[int, AtLeast(0)]
"""A number of things that may be 0."""
Weight = Annotated[float, AtLeast(0)]
Positive = Annotated[float, Above(0)]
Share = Annotated[float, Between(0, 1)]
PartialShare = Annotated[float, Between(0, 1, open_low=True, open_high=True)]
"""A share that is neither nothing nor all."""
Discount = Annotated[float, Between(0, 1, open_high=True)]
Score = Annotated[float, Between(-1, 1)]


def check_fields(configured: Any, who: str) -> None:
    """Refuse a dataclass instance any field of which is not what its annotation allows."""
    hints = get_type_hints(type(configured), include_extras=True)
    for field in fields(configured):
        check_value(getattr(configured, field.name), hints[field.name], f"{who}: {field.name}")


def check_value(value: Any, hint: Any, what: str) -> None:
    """Refuse a value that is not what `hint` allows; `what` names it."""
    wanted = allowed(hint)
    if not fits(value, hint):
        raise InputError(f"{what} must be {wanted}, not {value!r}")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type, the choices and the limits that an annotation says."""
    if get_origin(hint) is Annotated:
        kind, *limits = get_args(hint)
        return fits(value, kind) and all(
            limit.holds(value) for limit in limits if isinstance(limit, Between | Some)
        )
    if get_origin(hint) in (Union, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if get_origin(hint) is tuple:  # of any length
        return isinstance(value, tuple) and all(fits(each, get_args(hint)[0]) for each in value)
    if hint is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        try:
            return math.isfinite(value)
        except OverflowError:  # a whole number too large for a float
            return False
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def allowed(hint: Any) -> str:
    """What an annotation allows, in words: "a whole number, at least 1"."""
    if get_origin(hint) is Annotated:
        kind, *limits = get_args(hint)
        said = [str(limit) for limit in limits if isinstance(limit, Between | Some)]
        return ", ".join(said if kind is str else [allowed(kind), *said])
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(allowed(each) for each in get_args(hint))
    if get_origin(hint) is Literal:
        if len(get_args(hint)) == 1:
            return f'"{get_args(hint)[0]}"'
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(hint))
    if get_origin(hint) is tuple:
        return f"a tuple, each {allowed(get_args(hint)[0])}"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[hint]
