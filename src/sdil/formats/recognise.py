"""Which format a path or an address is in, told by what lies there and not by its name.

robomimic:lift.hdf5            a format may be named before the place
lift.hdf5?clean=better&every=2 and what is chosen of it after the place
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sdil.errors import InputError
from sdil.files import refuse_missing
from sdil.formats.source import Source

OPENERS = {
    "lerobot": "sdil.formats.lerobot:open_lerobot",
    "robomimic": "sdil.formats.robomimic:open_robomimic",
    "aloha": "sdil.formats.aloha:open_aloha",
    "d4rl": "sdil.formats.d4rl:open_d4rl",
    "zarr": "sdil.formats.replay_buffer:open_replay_buffer",
    "minari": "sdil.formats.minari_source:open_minari",
    "numpy": "sdil.formats.arrays:open_arrays",
    "table": "sdil.formats.tables:open_table",
}
"""Who opens which format."""
NAMES = tuple(OPENERS)
"""What `--format` takes."""
_TABLE_ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq", ".duckdb", ".db", ".ddb")
_HDF5_ENDINGS = (".hdf5", ".h5", ".he5", ".hdf")
_POSTGRES = ("postgresql://", "postgres://")
CHOICES = (
    *("clean", "noisy", "features", "actions", "every", "image_size", "task", "group"),
    *("table", "episode", "time"),
)
"""What may stand after the place."""


@dataclass(frozen=True)
class Address:
    """Where a source lies, and what was said along with it."""

    location: str
    format: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """As one text, which `parse_address` reads again."""
        said = "&".join(
            f"{name}={quote(value, safe=_SAFE)}" for name, value in self.choices.items()
        )
        prefix = f"{self.format}:" if self.format else ""
        mark = "&" if "?" in self.location and is_server(self.location) else "?"
        return f"{prefix}{self.location}{mark if said else ''}{said}"

    def absolute(self) -> Address:
        """The same from any folder."""
        if is_server(self.location) or not Path(self.location).exists():
            return self
        return Address(str(Path(self.location).absolute()), self.format, self.choices)

    def with_choices(self, **choices: str | None) -> Address:
        """The same with more said along with it."""
        given = {name: value for name, value in choices.items() if value is not None}
        return Address(self.location, self.format, {**self.choices, **given})


_SAFE = " ,:;/<>='\"()*[]!|"  # what may stay as it is, so that people can read it


def parse_address(text: str | Path) -> Address:
    """What a user gave: `[FORMAT:]PLACE[?NAME=VALUE&...]`. A path that exists is only a path."""
    text = str(text)
    if Path(text).exists():
        return Address(text)
    name, colon, rest = text.partition(":")
    found = name if colon and name in OPENERS else None
    place = rest if found else text
    if Path(place).exists() or "?" not in place:
        return Address(place, found)
    place, _, query = place.partition("?")
    ours: dict[str, str] = {}
    others = []
    for part in query.split("&"):
        key, _, value = part.partition("=")
        if key in CHOICES:
            ours[key] = unquote(value)
        elif is_server(place):  # the server's own: sslmode and the like
            others.append(part)
        else:
            raise InputError(
                f"{text}: after the question mark stand {', '.join(CHOICES)}, not {key!r}"
            )
    return Address(f"{place}?{'&'.join(others)}" if others else place, found, ours)


def is_server(location: str) -> bool:
    """Whether it is the address of a PostgreSQL server."""
    return location.startswith(_POSTGRES)


def without_password(location: str) -> str:
    """The address of a server as it may be shown and kept."""
    scheme, _, rest = location.partition("://")
    rest, question, query = rest.partition("?")
    login, at, host = rest.rpartition("@")
    kept = [part for part in query.split("&") if part.partition("=")[0].lower() != "password"]
    query = f"?{'&'.join(kept)}" if question and kept else ""
    return f"{scheme}://{login.partition(':')[0]}{at}{host}{query}"


def is_demonstrations(location: str | Path) -> bool:
    """Whether it is a folder of demonstrations of ours."""
    return (Path(location) / "sdil.json").is_file()


def open_source(location: str | Path, format: str | None = None, **options: Any) -> Source:
    """Open other people's data to look at it or read it; nothing is copied.

    `location` may name the format before a colon. `options` are `table`, `episode` and `time`, for
    tables: which one, and which columns number the episodes and the steps.
    """
    address = parse_address(location)
    options = {name: value for name, value in options.items() if value is not None}
    said = {k: v for k, v in address.choices.items() if k in ("table", "episode", "time")}
    name = format or address.format or recognise(address.location)
    if name not in OPENERS:
        raise InputError(f"there is no format {name!r}; there are {', '.join(NAMES)}")
    options = {**said, **options}
    if options and name != "table":
        raise InputError(
            f"{address.location}: {', '.join(options)} {'is' if len(options) == 1 else 'are'} for "
            f"tables, but this is read as {name}"
        )
    if name != "minari" and not is_server(address.location):
        refuse_missing(Path(address.location), "check the path")
    module, _, function = OPENERS[name].partition(":")
    opener: Callable[..., Source] = getattr(import_module(module), function)
    return opener(address.location, **options)


def recognise(location: str) -> str:
    """The name of the format of what lies there."""
    if is_server(location):
        return "table"
    path = Path(location)
    if not path.exists() and is_minari_id(location):
        return "minari"
    refuse_missing(path, "check the path")
    found = _recognise_folder(path) if path.is_dir() else _recognise_file(path)
    if found is None:
        raise InputError(
            f"{path}: it is in no format that is known here; name one with --format "
            f"({', '.join(NAMES)}) if you know better"
        )
    return found


def _recognise_folder(path: Path) -> str | None:
    if is_demonstrations(path):
        raise InputError(
            f"{path} is a folder of demonstrations already: give it to sdil judge or sdil train"
        )
    if (path / "meta" / "info.json").is_file():
        return "lerobot"
    if any((path / name).exists() for name in (".zgroup", ".zmetadata", "zarr.json")):
        return "zarr"
    if any((p / "metadata.json").is_file() for p in (path, path / "data")):
        return "minari"
    for child in sorted(path.iterdir()):
        if child.suffix.lower() in _HDF5_ENDINGS:
            return "aloha"
        if child.suffix.lower() in (".npz", ".npy"):
            return "numpy"
        if _ends(child, _TABLE_ENDINGS):
            return "table"
    if (path / "meta").is_dir() and (path / "data").is_dir():
        return "zarr"  # a store whose groups lost their marks, as copies by hand do
    return None


def _recognise_file(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if start.startswith(b"\x89HDF\r\n\x1a\n") or path.suffix.lower() in _HDF5_ENDINGS:
        return _recognise_hdf5(path)
    if start.startswith(b"PAR1") or start[8:12] == b"DUCK" or _ends(path, _TABLE_ENDINGS):
        return "table"
    if start.startswith(b"PK"):
        return "zarr" if path.suffix.lower() == ".zip" else "numpy"
    if start.startswith(b"\x93NUMPY") or path.suffix.lower() == ".npz":
        return "numpy"
    return None


def _recognise_hdf5(path: Path) -> str:
    from sdil.formats.hdf5 import opened

    with opened(path) as file:
        names = set(file)
        if "data" in names:
            return "robomimic"
        if names & {"observations", "actions", "terminals", "timeouts"} and "action" not in names:
            return "d4rl"
        if "action" in names:
            return "aloha"
    raise InputError(
        f"{path}: an HDF5 file with {_listed(names)}, which is neither robomimic (data/demo_0), "
        "ALOHA (action, observations/qpos) nor D4RL (observations, actions)"
    )


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:8]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "") if shown else "nothing"


def _ends(path: Path, endings: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(endings)


def is_minari_id(location: str) -> bool:
    """Whether Minari keeps a local data set of this name."""
    if "-v" not in location:
        return False
    from sdil.formats.minari_source import local_folder

    return local_folder(location) is not None
