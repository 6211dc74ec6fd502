"""Answers written back to where data came from: what `--to` of score, curate and export share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sdil.choosing import By
from sdil.cli.console import progress
from sdil.errors import InputError
from sdil.files import refuse_existing
from sdil.formats.answers import Answered
from sdil.formats.data import origin_of
from sdil.formats.lerobot import LeRobot
from sdil.formats.lerobot_sidecars import PROGRESS_FILE
from sdil.formats.origin import Origin
from sdil.formats.recognise import is_server, open_source
from sdil.formats.rows import RowAnswer, answer_rows
from sdil.formats.source import Source
from sdil.formats.table_places import files_of
from sdil.formats.table_source import choose_actions
from sdil.formats.trimming import trims_of, write_trims
from sdil.formats.writing import (
    WRITERS,
    default_place,
    place_of,
    refuse_touching,
    write_back,
)
from sdil.scores import StepScores
from sdil.spaces import Array
from sdil.trajectories import Trajectories

TABLES = ("table", "csv", "parquet", "duckdb")
"""What the format of a table may be called."""
FOR_LEROBOT = ("rabc", "weights", "episodes", "delete-command")
"""What LeRobot's own tools take."""
KINDS = ("same", *WRITERS, *TABLES, "lerobot", *FOR_LEROBOT, "trim")
"""What may be written."""
TO_HELP = (
    "What to write, and where: KIND or KIND:PATH. same (or its name: robomimic, zarr, d4rl, aloha, "
    "minari, numpy, csv, parquet, duckdb, lerobot): the source's own format. trim: a CSV of what "
    "to leave out. For LeRobot's tools: rabc, weights, episodes, delete-command. Without a PATH it "
    "lies beside the source."
)


@dataclass(frozen=True)
class Target:
    """What to write, and where."""

    kind: str
    path: Path | None


@dataclass(frozen=True)
class Exporting:
    """A source that was judged, and where to write what is said of it; nothing is written yet."""

    source: Source
    origin: Origin
    targets: tuple[Target, ...]
    in_place: bool = False
    overwrite: bool = False
    chunk: int | None = None
    """How many frames a LeRobot policy predicts at once, where that is known."""

    def answer(
        self,
        sets: Mapping[str, Trajectories],
        scores: Mapping[str, Sequence[StepScores]],
        kept: Mapping[str, Sequence[Array]],
        weights: Mapping[str, Sequence[Array]] = MappingProxyType({}),
    ) -> list[RowAnswer]:
        """What is said of every row of the source; `kept` and `weights` where somebody chose."""
        told = [
            Answered(
                episode,
                scores[name][at],
                self.origin.frames_of(episode, len(scores[name][at].optimality)),
                None if name not in kept else kept[name][at],
                None if name not in weights else weights[name][at],
            )
            for name, trajectories in sets.items()
            for at, episode in enumerate(trajectories.ids)
        ]
        trusted = set(sets["clean"].ids) if "clean" in sets else set()
        return answer_rows(self.source, told, trusted=trusted)

    def check(self, *, curated: bool) -> None:
        """Refuse now what could not be written after judging."""
        for target in self.targets:
            self.place(target, curated=curated)
            whole = target.kind in ("same", "lerobot") and self.source.format == "lerobot"
            if whole and not curated:
                raise InputError(
                    "LeRobot takes scores as files beside the data: --to rabc, weights or "
                    "episodes; what is kept as a new data set: sdil curate ... --to lerobot:PATH"
                )

    def write(self, answers: Callable[[By], list[RowAnswer]], *, curated: bool) -> list[Written]:
        """Write all of it. `curated`: only what is kept, segments as episodes.

        `answers` are asked for by what is kept or dropped whole: where a format chooses whole
        episodes, they are.
        """
        told: dict[By, list[RowAnswer]] = {}
        written = []
        for target in self.targets:
            by = self._unit(target.kind, curated)
            if by not in told:
                told[by] = answers(by)
            written.append(self._write_one(target, told[by], curated))
        first = next(iter(told.values()))
        unjudged = sum(answer.quality is None for answer in first)
        if unjudged:
            warnings.warn(
                f"{unjudged} of {len(first)} episodes of the source were not judged: they go out "
                "as they are, with weight 1 and no score",
                stacklevel=2,
            )
        return written

    def _unit(self, kind: str, curated: bool) -> By:
        """What is kept or dropped whole, where nobody says: episodes where a format picks them."""
        picks = kind in ("episodes", "delete-command") or (
            kind != "trim" and self.source.format == "robomimic" and not curated
        )
        return "episode" if picks else "segment"

    def _write_one(self, target: Target, answers: Sequence[RowAnswer], curated: bool) -> Written:
        out = self.place(target, curated=curated)
        if target.kind == "trim":
            trims = trims_of(
                answers, fps=frame_rate_of(self.source.about), starts=self._starts(answers)
            )
            write_trims(out, trims)
            return Written(target.kind, str(out), f"{len(trims)} stretches to leave out")
        if isinstance(self.source, LeRobot):
            return self._write_lerobot(self.source, target.kind, answers, out, curated)
        write_back(self.source, answers, out, curated=curated, in_place=self.in_place)
        return Written(target.kind, str(out), _counted(answers, curated))

    def _write_lerobot(
        self, source: LeRobot, kind: str, answers: Sequence[RowAnswer], out: Path, curated: bool
    ) -> Written:
        from sdil.formats import lerobot_sidecars as sidecars
        from sdil.formats.lerobot_curated import write_curated

        if kind == "rabc":
            sidecars.write_rabc(source, answers, out, chunk=self.chunk)
            return Written(kind, str(out), "train with:", sidecars.train_command(source, out))
        if kind == "weights":
            sidecars.write_weights(source, answers, out)
            return Written(kind, str(out), "index and weight, a row per frame")
        if kind == "episodes":
            sidecars.write_episode_columns(source, answers, out)
            picked = "LeRobotDataset(..., episode_filter=lambda e: e['sdil/quality'] > 0)"
            return Written(kind, str(out), "sdil/quality and sdil/worst_segment:", picked)
        if kind == "delete-command":
            drop = [a.id for a in answers if not a.keep.any()]
            if not drop:
                return Written(kind, None, "no episode is to be dropped")
            said = "episodes and frames are numbered anew: write rabc and weights after it"
            return Written(kind, None, said, sidecars.delete_command(source, drop, out))
        with progress("writing a curated data set") as update:
            write_curated(source, answers, out, overwrite=self.overwrite, on_episode=update)
        return Written(kind, str(out), _counted(answers, curated))

    def place(self, target: Target, *, curated: bool) -> Path:
        """Where a target is written; refused where something is there already."""
        if self.in_place and curated:
            raise InputError(
                "--in-place adds to a file; what is kept goes elsewhere: --to KIND:PATH"
            )
        if target.path is not None:
            if self.in_place and target.kind not in ("trim", "rabc", "weights"):
                raise InputError("--in-place writes to the source itself: give --to no path")
            out = target.path
        elif self.in_place and target.kind in ("same", "robomimic", "episodes"):
            return place_of(self.source)
        else:
            out = self._usual_place(target.kind, curated)
        if target.kind == "delete-command":
            return out  # nothing is written there
        if target.kind not in ("rabc", "weights", "trim"):
            refuse_touching(place_of(self.source), out)
        elif not is_server(self.source.location):
            self._refuse_replacing(out)
        if target.kind == "lerobot":
            from sdil.formats.lerobot_curated import MARKER

            refuse_existing(out, overwrite=self.overwrite, marker=MARKER)
        folder = out.is_dir() and target.kind != "episodes"  # whose tables alone are replaced
        if out.exists() and (folder or not self.overwrite) and target.kind != "lerobot":
            hint = "remove it, or choose" if out.is_dir() else "pass --overwrite, or choose"
            raise InputError(f"{out} exists already; {hint} another name: --to {target.kind}:PATH")
        return out

    def _refuse_replacing(self, out: Path) -> None:
        """A table beside the data may lie in its folder, but takes the place of no file of it."""
        place = place_of(self.source)
        own = place / PROGRESS_FILE
        inside = place.is_dir() and place.resolve() in out.resolve().parents
        if out.resolve() == place.resolve() or (inside and out.exists() and out != own):
            raise InputError(f"{out} is a file of {place}, which is not touched; choose another")

    def _usual_place(self, kind: str, curated: bool) -> Path:
        if kind == "trim" and is_server(self.source.location):
            return Path("trim.csv")
        place = place_of(self.source)
        if kind == "trim":
            return place.with_name(f"{place.name}-trim.csv")
        if kind == "rabc":
            return place / PROGRESS_FILE
        if kind == "weights":
            return place.with_name(f"{place.name}-weights.parquet")
        if kind == "episodes":
            return place.with_name(f"{place.name}-episodes")
        if kind == "delete-command":
            return place.with_name(f"{place.name}-sdil")
        return default_place(self.source, curated=curated)

    def _starts(self, answers: Sequence[RowAnswer]) -> dict[str, float]:
        """Where each episode begins in its video file, of the first camera."""
        if not isinstance(self.source, LeRobot) or not self.source.layout.cameras:
            return {}
        camera = next(iter(self.source.layout.cameras))
        return {a.id: self.source.clip(i, camera).start for i, a in enumerate(answers)}


@dataclass(frozen=True)
class Written:
    """What was written, for people and programs."""

    kind: str
    path: str | None
    says: str
    command: str | None = None
    """To be run, or read, as it is."""


def prepare(
    to: Sequence[str],
    data: str | Path,
    *,
    source: str | None = None,
    in_place: bool = False,
    overwrite: bool = False,
    chunk: int | None = None,
) -> Exporting:
    """Check what was asked for and open the source; before anything is judged.

    `source`: where it lies now, if it was moved since it was imported.
    """
    targets = tuple(parse_target(text) for text in to)
    origin = origin_of(data)
    if origin is None:
        raise InputError(
            f"{data} was not imported: there is no source to write back to; `sdil import` or "
            "--data FORMAT:PATH?clean=... reads one"
        )
    opened = reopen(origin, source)
    for target in targets:
        _check_kind(target.kind, opened)
    if in_place and any(t.kind not in ("same", "robomimic", "episodes") for t in targets):
        raise InputError("--in-place is for robomimic files and for --to episodes")
    if in_place and opened.format not in ("robomimic", "lerobot"):
        raise InputError(f"--in-place is for robomimic and LeRobot; {opened.format} is copied")
    return Exporting(opened, origin, targets, in_place, overwrite, chunk)


def parse_target(text: str) -> Target:
    """`KIND` or `KIND:PATH`."""
    kind, _, path = text.partition(":")
    if kind not in KINDS:
        raise InputError(f"--to {text}: there is no {kind!r}; there are {', '.join(KINDS)}")
    return Target(kind, Path(path) if path else None)


def reopen(origin: Origin, moved_to: str | None = None) -> Source:
    """The source that demonstrations were read from."""
    options = {k: origin.choices[k] for k in ("table", "episode", "time") if k in origin.choices}
    place = origin.location if moved_to is None else moved_to
    try:
        return choose_actions(open_source(place, origin.format, **options), origin.choices)
    except InputError as error:
        if moved_to is None and "does not exist" in str(error):
            raise InputError(
                f"{place}, from which the demonstrations were read, is not there any more; say "
                "where it lies now: --source PATH"
            ) from None
        raise


def _check_kind(kind: str, source: Source) -> None:
    known = table_kind(source) if source.format == "table" else source.format
    if kind in ("same", "trim", known, source.format):
        return
    if kind in FOR_LEROBOT and source.format == "lerobot":
        return
    raise InputError(
        f"--to {kind}: the data came as {known}, and goes out as that: --to {known}:PATH, or what "
        "to leave out as a table: --to trim:PATH"
    )


def table_kind(source: Source) -> str:
    """What the files of a table are."""
    if is_server(source.location):
        return "postgresql"
    files = files_of(Path(source.location))
    if not files:
        return "duckdb"
    return "parquet" if files[0].suffix.lower() in (".parquet", ".pq") else "csv"


def frames_of(origin: Origin | None, trajectories: Trajectories) -> dict[str, list[Array]]:
    """A column `frame` of a table of scores: the source's own number of each step."""
    if origin is None:
        return {}
    pairs = zip(trajectories.ids, trajectories.lengths.tolist(), strict=True)
    return {"frame": [origin.frames_of(episode, length) for episode, length in pairs]}


def frame_rate_of(about: Mapping[str, Any]) -> float | None:
    """Frames per second, where a source says it of itself."""
    said: Any = about.get("fps")
    arguments = about.get("env_args")
    if said is None and isinstance(arguments, Mapping):
        said = (arguments.get("env_kwargs") or {}).get("control_freq")
    good = isinstance(said, int | float) and not isinstance(said, bool) and said > 0
    return float(said) if good else None


def _counted(answers: Sequence[RowAnswer], curated: bool) -> str:
    if not curated:
        return f"{len(answers)} episodes with a score and a weight of each row"
    pieces = sum(len(answer.pieces) for answer in answers)
    rows = sum(int(answer.keep.sum()) for answer in answers)
    return f"{pieces} episodes, {rows} of {sum(map(len, answers))} rows"
