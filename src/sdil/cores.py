"""How many CPU threads PyTorch computes with: one, unless told, from Python as from the shell.

Networks this small are fastest with one, and several add up in the order they happen to arrive:
another count gives another policy. `steadily` is on all that computes for a user (`fit`, `score`,
`evaluate`, `did_it_help`); what the caller's own code had set is back afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import wraps
from typing import ParamSpec, TypeVar

from sdil.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

_wanted: ContextVar[int] = ContextVar("sdil threads", default=1)


class threads:  # noqa: N801  # used like a function
    """`sdil.threads(4)`: from now on, fitting and scoring use four CPU threads instead of one;
    as `with sdil.threads(4):` until the end of the block."""

    def __init__(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"threads must be a whole number of at least 1, not {count!r}")
        self._before: Token[int] = _wanted.set(count)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        _wanted.reset(self._before)

    def __repr__(self) -> str:
        return f"sdil computes with {_wanted.get()} CPU thread(s)"


def wanted_threads() -> int:
    """As many as `threads` says: one, unless told."""
    return _wanted.get()


@contextmanager
def as_many_as_wanted() -> Iterator[None]:
    """PyTorch's number of threads as `threads` says, and afterwards as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(_wanted.get())
    try:
        yield
    finally:
        torch.set_num_threads(before)


def steadily(function: Callable[P, R]) -> Callable[P, R]:
    """Computes with as many threads as `threads` says: one, unless told."""

    @wraps(function)
    def steady(*arguments: P.args, **named: P.kwargs) -> R:
        with as_many_as_wanted():
            return function(*arguments, **named)

    return steady
