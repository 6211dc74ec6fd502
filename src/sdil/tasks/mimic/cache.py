"""The folder of intermediate tables. They are patient data: nobody but their owner may read them.

What is being written has the process's number in its name, so that what a killed build left is told
from what another one is writing.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdil.files import clear_errors, is_running, show_bytes

_TABLE = r"[a-z_]+-[0-9a-f]{16}\.parquet|postgres-[a-z_]+-[0-9a-f]{16}\.csv\.gz"
_FINISHED = re.compile(_TABLE)
# the second beginning is DuckDB's own; a version before this one wrote no process's number
_UNFINISHED = re.compile(
    rf"(?:tmp_)?\.(?:{_TABLE})\.(?:(?P<writer>\d+)(?:@[\w-]+)?\.)?\w{{8}}|spill(?:-(?P<spiller>\d+)-\w{{8}})?"
)


@contextmanager
def private() -> Iterator[None]:
    """What this process writes meanwhile is its owner's alone: folders 0700, files 0600."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def prepare_cache(folder: Path) -> None:
    """Make the folder, close what is in it to others, and remove what killed builds left there.

    The folder itself is closed too, unless things that are not ours lie in it.
    """
    with clear_errors(folder), private():
        folder.mkdir(parents=True, exist_ok=True)
        inside = list(folder.iterdir())
        for path in inside:
            left = _UNFINISHED.fullmatch(path.name)
            process = None if left is None else left["writer"] or left["spiller"]
            if left is not None and not (process and is_running(process)):
                _remove(path)
            elif _FINISHED.fullmatch(path.name):
                _close(path, 0o600)
        if all(_is_ours(path.name) for path in inside):
            _close(folder, 0o700)


@contextmanager
def spill_folder(cache: Path) -> Iterator[Path]:
    """Where DuckDB puts what does not fit into memory; gone afterwards."""
    with clear_errors(cache):
        path = Path(tempfile.mkdtemp(prefix=f"spill-{os.getpid()}-", dir=cache))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def describe_room(cache: Path) -> str:
    """How much the tables in a cache take up, and how much more there is room for."""
    ours = [path for path in cache.iterdir() if _FINISHED.fullmatch(path.name)]
    taken = sum(path.stat().st_size for path in ours)
    free = shutil.disk_usage(cache).free
    return f"{len(ours)} tables of {show_bytes(taken)} are there, {show_bytes(free)} are free"


def _is_ours(name: str) -> bool:
    return (_FINISHED.fullmatch(name) or _UNFINISHED.fullmatch(name)) is not None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _close(path: Path, mode: int) -> None:
    status = path.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        path.chmod(mode)
