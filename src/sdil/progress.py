"""How far a long computation is, in a line of words: what is done, the time it took, what is left.

On the command line it is shown on a terminal; from Python where `progress=True`, or in a notebook.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Event, Thread
from typing import Any, TextIO, TypeVar

from sdil.cores import as_many_as_wanted
from sdil.plain import plain

Kind = TypeVar("Kind", bound=type[Any])

WIDTH = 79
"""The longest line: one more would wrap on a terminal of 80 columns."""
_EVERY = 0.2  # seconds between two lines


def duration(seconds: float) -> str:
    """Seconds in words: 8 s, 1 min 20 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def line_of(text: str, done: int, total: int | None, seconds: float, width: int = WIDTH) -> str:
    """One line, cut to fit: the name gives way, the figures do not."""
    told = f"{duration(seconds)} elapsed"
    if total:
        told = f"{done:,} of {total:,} done, {told}"
        if 0 < done < total:
            told += f", {duration(seconds / done * (total - done))} left"
    name, room = plain(text), width - len(told) - 2
    if len(name) > room:
        name = name[: max(0, room - 1)] + "…"
    return f"{name}: {told}"[:width]


class Line:
    """A line that is written over and over; gone at the end."""

    def __init__(self, text: str, file: TextIO) -> None:
        self.text, self._file = text, file
        self.done, self.total = 0, 0
        self._began = self._phase_began = time.monotonic()
        self._first, self._shown, self._long = 0, 0.0, 0
        self._stop = Event()
        self._ticking = Thread(target=self._tick, daemon=True)  # the time goes on in long steps
        self._ticking.start()

    def update(self, done: int, total: int, text: str | None = None) -> None:
        """So much is done by now; a new text begins a new count."""
        if text is not None and text != self.text:
            self.text, self._phase_began, self._shown = text, time.monotonic(), 0.0
        self.done, self.total = done, total
        if time.monotonic() - self._shown >= _EVERY:
            self._write()

    def close(self) -> None:
        """Wipe the line out."""
        self._stop.set()
        self._ticking.join()
        self._file.write("\r" + " " * self._long + "\r")
        self._file.flush()

    def _tick(self) -> None:
        while not self._stop.wait(1.0):
            self._write()

    def _write(self) -> None:
        self._shown = time.monotonic()
        width = min(WIDTH, shutil.get_terminal_size().columns - 1)
        seconds = self._shown - self._phase_began
        line = line_of(self.text, self.done, self.total, seconds, width)
        self._file.write("\r" + line.ljust(self._long))
        self._file.flush()
        self._long = len(line)


@contextmanager
def showing(text: str, file: TextIO | None = None) -> Iterator[Callable[..., None]]:
    """Call what this gives with (done, total), and a new text where that changes."""
    line = Line(text, sys.stderr if file is None else file)
    try:
        yield line.update
    finally:
        line.close()


def in_notebook() -> bool:
    """Whether this runs in a Jupyter notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def following(
    what: str, on_epoch: Callable[[Any], None] | None, progress: bool | None
) -> Iterator[Callable[[Any], None] | None]:
    """What to give as `on_epoch`: the caller's own, or one that shows how far it is where
    `progress` is True, or None and this is a notebook."""
    wanted = in_notebook() if progress is None else progress
    if not wanted or on_epoch is not None:
        yield on_epoch
        return
    with showing(what) as update:
        yield lambda epoch: update(epoch.index, epoch.total, f"{what}: {epoch.phase}")


@contextmanager
def counting(
    what: str, on_progress: Callable[[int, int], None] | None, progress: bool | None
) -> Iterator[Callable[[int, int], None] | None]:
    """The same for what is counted (done, total) instead of in epochs."""
    wanted = in_notebook() if progress is None else progress
    if not wanted or on_progress is not None:
        yield on_progress
        return
    with showing(what) as update:
        yield update


def shown_by_fit(kind: Kind) -> Kind:
    """Let the `fit` of a learner or a judge compute with one thread unless told, and take
    `progress`: True shows how far it is; if nothing is said, it is shown in notebooks."""
    owner: Any = next(base for base in kind.__mro__ if "fit" in vars(base))
    fit = owner.fit
    if hasattr(fit, "shows_progress"):
        return kind

    @wraps(fit)
    def watched(self: Any, *arguments: Any, progress: bool | None = None, **named: Any) -> Any:
        on_epoch = named.pop("on_epoch", None)
        with as_many_as_wanted(), following(f"fitting {self.name}", on_epoch, progress) as heard:
            return fit(self, *arguments, on_epoch=heard, **named)

    watched.shows_progress = True  # type: ignore[attr-defined]
    owner.fit = watched
    return kind
