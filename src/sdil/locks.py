"""One process at a time works in a folder; others are told who it is.

The lock is the kernel's, on a file that says whose it is: it ends with the process, however that
ends, so a file without a holder is what a killed process left, and is taken over.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sdil.errors import InputError

LOCK = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder while something is done in it; raise where somebody else does."""
    path = folder / LOCK
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(_taken(folder)) from None
        file.truncate(0)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {now}\n")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def refuse_locked(folder: Path) -> None:
    """Raise where a process works in the folder right now."""
    path = folder / LOCK
    if not path.exists():
        return
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(_taken(folder)) from None


def _taken(folder: Path) -> str:
    try:
        holder = (folder / LOCK).read_text("utf-8").strip() or "another process"
    except OSError:
        holder = "another process"
    return f"{folder} is being worked in right now, by {holder}; wait for it, or stop it first"
