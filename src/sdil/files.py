"""Writing files so that a good name never holds half a file."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdil.errors import InputError


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; renamed to it on success, removed on any failure."""
    with _clear_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path, *, overwrite: bool, marker: str) -> Iterator[Path]:
    """A temporary folder beside `path`; takes its place on success, removed on any failure."""
    refuse_existing(path, overwrite=overwrite, marker=marker)
    with _clear_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            if path.exists():
                old = temporary.with_name(temporary.name + ".old")
                path.rename(old)
                temporary.rename(path)
                shutil.rmtree(old)
            else:
                temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def refuse_existing(path: Path, *, overwrite: bool, marker: str) -> None:
    """Raise unless `path` is free, an empty folder, or a folder of ours that may be replaced.

    `marker` is the file that shows that a folder is of the kind about to be written: `--overwrite`
    replaces nothing else.
    """
    if not path.exists():
        return
    if path.is_dir() and not any(path.iterdir()):
        with _clear_errors(path):
            path.rmdir()
        return
    if not overwrite:
        raise InputError(f"{path} exists already; choose another name or pass --overwrite")
    if not (path / marker).is_file():
        raise InputError(f"{path} has no {marker}, so it was not written by this command: kept")


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    with new_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path, *, what: str) -> Any:
    """The JSON in `path`, or an error that says which file should have been `what`."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent} is not {what}: {path.name} is missing") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
