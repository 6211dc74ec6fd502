"""One process at a time works in a folder; others are told who it is.

The lock is the kernel's, on a hidden file beside the folder that says whose it is: it ends with the
process, however that ends, so a file without a holder is what a killed process left, and is taken
over. It lies beside the folder so that it holds while the folder itself is being replaced.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sdil.errors import InputError
from sdil.files import clear_errors


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder while something is done in it; raise where somebody else does."""
    path = lock_of(folder)
    with clear_errors(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _acquire(path, folder)
    try:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        holder = f"process {os.getpid()} on {socket.gethostname()} since {now}\n"
        with suppress(OSError):  # on a full disk it is not told who it is; the lock holds
            os.ftruncate(file, 0)
            os.write(file, holder.encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def refuse_locked(folder: Path) -> None:
    """Raise where a process works in the folder right now."""
    try:
        with lock_of(folder).open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return
    except OSError:
        raise InputError(_taken(folder)) from None


def lock_of(folder: Path) -> Path:
    """The file that is locked while somebody works in a folder."""
    return folder.with_name(f".{folder.name}.lock")


def _acquire(path: Path, folder: Path) -> int:
    """The open file, locked."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise InputError(_taken(folder)) from None
        if path.exists() and os.fstat(file).st_ino == path.stat().st_ino:
            return file
        os.close(file)  # its holder ended, and took the file away, between the two lines above


def _taken(folder: Path) -> str:
    try:
        holder = lock_of(folder).read_text("utf-8").strip() or "another process"
    except OSError:
        holder = "another process"
    return f"{folder} is being worked in right now, by {holder}; wait for it, or stop it first"
