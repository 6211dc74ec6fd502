"""Where the files of an episode lie in a LeRobot data set: templates, as people write them.

LeRobot's own variables are `episode_chunk`, `episode_index`, `chunk_index`, `file_index` and
`video_key`; others say `chunk_idx`, `shard_idx`, `episode_id`, `camera` or `total_episodes`. What
cannot be filled in stands for anything, where that leaves one file.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sdil.errors import InputError

_FIELD = re.compile(r"\{(\w+)(?::(0?\d{0,2})d?)?\}")
_MEANINGS = (
    ("chunk", ("chunk",)),
    ("file", ("file", "shard", "part")),
    ("camera", ("video", "cam", "image", "view", "key")),
    ("episode", ("episode", "ep_", "index", "idx", "id")),
)
"""What a variable means, by what is in its name; the first that fits."""


class MissingFileError(InputError):
    """A file that an episode should lie in is not there."""

    def __init__(self, path: Path, episode: int) -> None:
        super().__init__(
            f"{path} is missing, where episode {episode} should be; download the data set whole, "
            "or leave the episode out"
        )
        self.path = path


@dataclass(frozen=True)
class Wanted:
    """Which file is looked for."""

    episode: int
    chunk: int
    file: int
    camera: str = ""
    """Empty for a table."""

    @property
    def ending(self) -> str:
        return ".mp4" if self.camera else ".parquet"


@dataclass(frozen=True)
class Files:
    """The files of a data set."""

    root: Path
    numbers: Mapping[str, Any]
    """`meta/info.json`: what it counts may be used in templates."""
    _listed: dict[str, dict[str, list[Path]]] = field(default_factory=dict, repr=False)
    """The files below a folder by their names, listed once: many may be looked for."""
    _found: dict[tuple[str, Wanted], Path] = field(default_factory=dict, repr=False)
    """What was looked for before: a file is asked for with every read."""

    def find(self, template: Any, wanted: Wanted) -> Path:
        """The file; by its template, or by LeRobot's own names where that leads nowhere."""
        place = f"{self.root}/meta/info.json"
        if not isinstance(template, str):
            raise InputError(f"{place}: a path template is {template!r}")
        if (template, wanted) not in self._found:
            self._found[template, wanted] = self._find(template, wanted, place)
        return self._found[template, wanted]

    def _find(self, template: str, wanted: Wanted, place: str) -> Path:
        path, unknown = self._fill(template, wanted)
        if path.is_absolute() or ".." in path.parts or "\0" in str(path) or not path.parts:
            raise InputError(f"{place}: the path template {template!r} leads elsewhere")
        found = self._there(path, bool(unknown)) or self._by_name(path.name, wanted)
        if found is not None:
            return found
        if unknown:
            raise InputError(
                f"{place}: the path template {template!r} uses {{{unknown[0]}}}, which nothing is "
                "known of, and more or less than one file fits it; use {episode_index}, "
                "{chunk_index}, {file_index} or {video_key}"
            )
        raise MissingFileError(self.root / path, wanted.episode)

    def _fill(self, template: str, wanted: Wanted) -> tuple[Path, list[str]]:
        """A template with its variables filled in, and those that nothing is known of."""
        unknown: list[str] = []

        def value(match: re.Match[str]) -> str:
            name, width = match[1], match[2]
            known = self._value(name, wanted)
            if known is None:
                unknown.append(name)
                return "\1"
            return f"{known:{width}d}" if width and isinstance(known, int) else str(known)

        text = _FIELD.sub(value, template)
        if unknown:
            text = "*".join(glob.escape(part) for part in text.split("\1"))
        return Path(text), unknown

    def _value(self, name: str, wanted: Wanted) -> int | str | None:
        counted = self.numbers.get(name)
        if isinstance(counted, int) and not isinstance(counted, bool):
            return counted
        for meaning, parts in _MEANINGS:
            if any(part in name.lower() for part in parts):
                found: int | str = getattr(wanted, meaning)
                return found if found != "" else None
        return None

    def _there(self, path: Path, is_pattern: bool) -> Path | None:
        """The file, also where its folder is called `video` instead of `videos` or the reverse."""
        other = {"videos": "video", "video": "videos"}.get(path.parts[0])
        choices = [path] if other is None else [path, Path(other, *path.parts[1:])]
        try:
            for choice in choices:
                if is_pattern:
                    found = [p for p in self.root.glob(str(choice)) if p.is_file()]
                    if len(found) == 1:
                        return found[0]
                elif (self.root / choice).is_file():
                    return self.root / choice
        except (OSError, ValueError):  # a name that is too long, or no pattern
            pass
        return None

    def _by_name(self, name: str, wanted: Wanted) -> Path | None:
        """The one file of this name, or of LeRobot's own, or the only one, if any."""
        ending, chunk, file = wanted.ending, wanted.chunk, wanted.file
        names = {
            name,
            f"episode_{wanted.episode:06d}{ending}",
            f"chunk-{chunk:03d}/file-{file:03d}{ending}",
            f"chunk-{chunk:03d}/file_{file:03d}{ending}",
        }
        for folder in ("videos", "video") if wanted.camera else ("data",):
            files = self._files_of(folder, ending)
            if not wanted.camera and len(files[""]) == 1:
                return files[""][0]  # all episodes in one table
            found = {
                path
                for name in names
                for path in files.get(name, ())
                if not wanted.camera or wanted.camera in path.relative_to(self.root).parts
            }
            if len(found) == 1:
                return found.pop()
        return None

    def _files_of(self, folder: str, ending: str) -> dict[str, list[Path]]:
        """Files by their names, also with that of their folder before it; all under ""."""
        if folder not in self._listed:
            listed: dict[str, list[Path]] = {"": []}
            for path in sorted((self.root / folder).rglob(f"*{ending}")):
                for name in ("", path.name, f"{path.parent.name}/{path.name}"):
                    listed.setdefault(name, []).append(path)
            self._listed[folder] = listed
        return self._listed[folder]
