"""Writing files so that a good name never holds half a file, and nothing good is lost on the way.

What is being written has a hidden name beside its own that holds the process's number and machine,
so that what a killed process left is told from what another one is writing. A full disk is said in
one sentence.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdil.errors import InputError

_HOST = "".join(c if c.isalnum() else "-" for c in socket.gethostname())
_NESTED = {dict, list, tuple}
REPLACED = ".replaced"
"""The ending of the hidden name under which a folder waits while another takes its place."""


@contextmanager
def new_file(path: Path, *, size: int = 0) -> Iterator[Path]:
    """A temporary name beside `path`; renamed to it on success, removed on any failure.

    `size` is how many bytes will be written, as far as that is known.
    """
    with clear_errors(path, size):
        path.parent.mkdir(parents=True, exist_ok=True)
        require_room(path, size)
        _remove_stale(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_hidden(path))
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path, *, overwrite: bool, marker: str, size: int = 0) -> Iterator[Path]:
    """A temporary folder beside `path`; takes its place on success, removed on any failure.

    `size` is how many bytes will be written, as far as that is known.
    """
    refuse_existing(path, overwrite=overwrite, marker=marker)
    with clear_errors(path, size):
        path.parent.mkdir(parents=True, exist_ok=True)
        require_room(path, size)
        _remove_stale(path)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=_hidden(path)))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            if path.exists():
                old = set_aside(path, is_good=True)
                temporary.rename(path)
                shutil.rmtree(old)
            else:
                temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def set_aside(path: Path, *, is_good: bool) -> Path:
    """Give a folder the hidden name under which it waits to be replaced, or to come back.

    One that is not good gives way to what is waiting already.
    """
    aside = replaced_name(path)
    if aside.exists() and not is_good:
        shutil.rmtree(path)
        return aside
    if aside.exists():
        shutil.rmtree(aside)
    path.rename(aside)
    return aside


def replaced_name(path: Path) -> Path:
    """Where a folder waits while another takes its place."""
    named = path if path.name else path.resolve()  # "." has no name of its own
    return named.parent / f".{named.name}{REPLACED}"


def waiting(path: Path) -> str:
    """Where what was at `path` before waits, if anywhere, to be added to a complaint."""
    aside = replaced_name(path)
    if not aside.exists():
        return ""
    return (
        f"; what was there before waits in {aside}: bring it back with: rm -r {path} && "
        f"mv {aside} {path}"
    )


def refuse_missing(path: Path, hint: str) -> None:
    """Raise where `path` does not exist; and where a killed command set it aside, say where."""
    if path.exists():
        return
    aside = replaced_name(path)
    if aside.exists():
        raise InputError(
            f"{path} does not exist, but a command that was to replace it was killed and left it "
            f"in {aside}; bring it back with: mv {aside} {path}"
        )
    raise InputError(f"{path} does not exist; {hint}")


def refuse_existing(path: Path, *, overwrite: bool, marker: str) -> None:
    """Raise unless `path` is free, an empty folder, or a folder of ours that may be replaced.

    `marker` is the file that shows that a folder is of the kind about to be written: `--overwrite`
    replaces nothing else.
    """
    if not path.exists():
        aside = replaced_name(path)
        if aside.exists() and not overwrite:
            raise InputError(
                f"a command that was to replace {path} was killed and left it in {aside}; bring "
                f"it back with: mv {aside} {path}; or pass overwrite=True to go without it"
            )
        return
    if path.is_dir() and not any(path.iterdir()):
        with clear_errors(path):
            path.rmdir()
        return
    if not overwrite:
        raise InputError(f"{path} exists already; choose another name or pass overwrite=True")
    if not (path / marker).is_file():
        raise InputError(f"{path} has no {marker}, so it was not written by this command: kept")


def json_text(value: Any) -> str:
    """A value as JSON that people can read."""
    return _indented(value) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    text = json_text(value)
    with new_file(path, size=len(text)) as temporary:
        temporary.write_text(text, "utf-8")


def _indented(value: Any, margin: str = "\n") -> str:
    """`json.dumps(value, indent=2, ensure_ascii=False)`, which is slow for long lists: it goes
    through all of them in Python."""
    inner = margin + "  "
    if type(value) is list and value and not _NESTED.intersection(map(type, value)):
        plain = json.dumps(value, ensure_ascii=False, separators=(f",{inner}", ": "))
        return f"[{inner}{plain[1:-1]}{margin}]"
    if type(value) is list and value:
        return f"[{inner}" + f",{inner}".join(_indented(x, inner) for x in value) + f"{margin}]"
    if type(value) is dict and value and all(type(k) is str for k in value):
        lines = (
            f"{json.dumps(k, ensure_ascii=False)}: {_indented(v, inner)}" for k, v in value.items()
        )
        return f"{{{inner}" + f",{inner}".join(lines) + f"{margin}}}"
    if isinstance(value, tuple(_NESTED)):
        return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", margin)
    return json.dumps(value, ensure_ascii=False)


def read_json(path: Path, *, what: str) -> Any:
    """The JSON in `path`, or an error that says which file should have been `what`."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path.parent} is not {what}: {path.name} is missing{waiting(path.parent)}"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None


@contextmanager
def clear_errors(path: Path, size: int = 0) -> Iterator[None]:
    """What goes wrong while `path` is written, in one sentence; a full disk above all."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # h5py, DuckDB and safetensors each have their own
        if is_disk_full(error):
            raise InputError(_no_room(path, size)) from error
        if isinstance(error, OSError):
            raise InputError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def is_disk_full(error: BaseException) -> bool:
    """Whether an error of any library means that there is no room left."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full or "No space left on device" in str(error) or "Disk quota exceeded" in str(error)


def require_room(path: Path, size: int) -> None:
    """Raise where so many bytes will not fit."""
    if size > _free(path):
        raise InputError(_no_room(path, size))


def _no_room(path: Path, size: int) -> str:
    needed = f"it needs about {show_bytes(size)}, and " if size else ""
    free = show_bytes(_free(path))
    return (
        f"cannot write {path}: the disk is full ({needed}{free} are free there); make room, or "
        "write elsewhere"
    )


def _free(path: Path) -> int:
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def show_bytes(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1_000 or unit == "GB":
            break
        size /= 1_000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _remove_stale(path: Path) -> None:
    """Remove what killed processes of this machine left of their attempts to write `path`."""
    for left in path.parent.glob(f".{_literal(path.name)}.*@*.*"):
        process, _, host = left.name[len(path.name) + 2 :].partition(".")[0].partition("@")
        if host == _HOST and process.isdecimal() and not is_running(process):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def _hidden(path: Path) -> str:
    """How the hidden name begins under which this process writes `path`."""
    return f".{path.name}.{os.getpid()}@{_HOST}."


def is_running(process: str) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # somebody else's; no number of a process
        return True
    return True


def _literal(name: str) -> str:
    """A name in which glob sees no pattern."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
