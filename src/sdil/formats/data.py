"""What `--data` names: a folder of demonstrations, or other people's data, read where it lies.

demos/mine                                  a folder that `sdil collect` or `sdil import` wrote
robomimic:lift.hdf5?clean=better            anything that `sdil import` reads, and what is
                                            chosen of it
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.formats import folder as folders
from sdil.formats.origin import Imported, Origin
from sdil.formats.reading import open_reading
from sdil.formats.recognise import (
    is_demonstrations,
    is_minari_id,
    is_server,
    parse_address,
    without_password,
)
from sdil.truth import Truth


def load_demonstrations(data: str | Path) -> Demonstrations:
    """The demonstrations that `--data` names, every value checked."""
    if not is_source(data):
        return folders.load_demonstrations(data)
    address = parse_address(data)
    path = Path(address.location)
    state = path.stat() if path.exists() else None
    return _read(str(address), state and (state.st_mtime_ns, state.st_size))


def load_truth(data: str | Path) -> Truth | None:
    """What is known of each step; of other people's data nothing."""
    return None if is_source(data) else folders.load_truth(data)


def describe(data: str | Path) -> dict[str, Any]:
    """What is known of them: task, environment, origin, and of a source what was chosen of it."""
    if not is_source(data):
        return folders.describe(data)
    origin = origin_of(data)
    assert origin is not None
    return {
        "task": None,
        "environment": None,
        "origin": {"read from": f"{origin.format} {origin.location}", "chosen": origin.chosen},
        **origin.to_json(),
    }


def origin_of(data: str | Path) -> Origin | None:
    """Names, units and frames of the source, where there is one."""
    if not is_source(data):
        return folders.origin_of(data)
    demos = load_demonstrations(data)
    assert isinstance(demos, Imported)
    return demos.origin


def absolute(data: str | Path) -> str:
    """The same from any folder, as runs remember it."""
    if not is_source(data):
        return str(Path(data).absolute())
    address = parse_address(data).absolute()
    if is_server(address.location) and without_password(address.location) != address.location:
        raise InputError(
            "an address is kept in the run's folder, so that it must not hold a password; put it "
            "into PGPASSWORD or ~/.pgpass"
        )
    return str(address)


def name_of(data: str | Path) -> str:
    """What to call it in a title: the last part of its path."""
    return Path(parse_address(data).location).name


def with_choices(data: str | Path, **choices: str | None) -> str:
    """The same with what options say of it; a folder of demonstrations takes none."""
    given = {name: value for name, value in choices.items() if value is not None}
    if not given:
        return str(data)
    if not is_source(data) and is_demonstrations(data):
        options = ", ".join(f"--{name}" for name in given)
        raise InputError(f"{data} is a folder of demonstrations, which has no use for {options}")
    return str(parse_address(data).with_choices(**given))


def is_source(data: str | Path) -> bool:
    """Whether it is other people's data: by what is said of it, or by what lies there."""
    address = parse_address(data)
    if address.format or address.choices or is_server(address.location):
        return True
    path = Path(address.location)
    if not path.exists():
        return is_minari_id(address.location)
    return not is_demonstrations(path) and not _is_ours(path)


def _is_ours(path: Path) -> bool:
    """Whether it is a folder of demonstrations that is damaged, or of some other kind of ours."""
    names = ("clean-v0", "noisy-v0", "run.json", "judge.json", "policy.json", "quality.json")
    return path.is_dir() and (
        any((path / name).exists() for name in names) or not any(path.iterdir())
    )


@lru_cache(maxsize=1)
def _read(address: str, state: tuple[int, int] | None) -> Imported:
    """Commands ask for the demonstrations and for what is known of them: one look will do, as long
    as the file is the same (`state`)."""
    return open_reading(parse_address(address)).read_all()
