"""What PyTorch computes with: one CPU thread, unless told, and no GPU, unless told.

Networks this small are fastest with one thread, and several add up in the order they happen to
arrive: another count gives another policy. `steadily` is on all that computes for a user (`fit`,
`score`, `evaluate`, `did_it_help`); what the caller's own code had set is back afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast

from sdil.errors import InputError

if TYPE_CHECKING:
    import torch

P = ParamSpec("P")
R = TypeVar("R")

_wanted: ContextVar[int] = ContextVar("sdil threads", default=1)
_device: ContextVar[str] = ContextVar("sdil device", default="cpu")
DEVICES = ("auto", "cpu", "cuda")


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


@contextmanager
def computing_on(device: str | None) -> Iterator[None]:
    """Inside, networks and frames are on this device: "cpu", "cuda", or "auto", a GPU where there
    is one. None: on whichever it was outside. On a GPU too the same seed gives the same result."""
    if device is None:
        yield
        return
    chosen = resolve_device(device)
    before = _device.set(chosen)
    try:
        if chosen == "cpu":
            yield
        else:
            with _deterministic():
                yield
    finally:
        _device.reset(before)


def resolve_device(device: str) -> Literal["cpu", "cuda"]:
    """Where it is computed by this word: "cpu" or "cuda"."""
    if device not in DEVICES:
        raise InputError(f"a device is one of {', '.join(DEVICES)}, not {device!r}")
    if device == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if device == "auto":
        return "cpu"
    raise InputError(
        "there is no GPU that PyTorch can use here; device cpu computes without one, and auto "
        "takes one where there is one"
    )


def wanted_device() -> torch.device:
    """Where to compute, as `computing_on` says: on the CPU, unless told."""
    import torch

    if _device.get() == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())  # as tensors say it


@contextmanager
def _deterministic() -> Iterator[None]:
    """The same seed gives the same result on the same machine."""
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS first starts
    cudnn, written = torch.backends.cudnn, cast(Any, torch.utils.deterministic)
    before = torch.are_deterministic_algorithms_enabled(), cudnn.benchmark
    filled = written.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    cudnn.benchmark = written.fill_uninitialized_memory = False  # all memory is written to first
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        cudnn.benchmark, written.fill_uninitialized_memory = before[1], filled
