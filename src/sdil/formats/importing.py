"""A source becomes a folder of demonstrations, one episode at a time: it may be larger than memory.

What is being written lies in a hidden folder beside the new one, with a note of how far it came and
a checksum of that. Asked for the same again after a stop of any kind, the checksum decides whether
work goes on there or begins anew; the new folder appears when it is whole.

    .mine.importing/
      importing.json                 what was asked for, which episodes are done, their checksum
      clean-v0/data/main_data.hdf5   their arrays; HDF5 in Minari's layout once the set is whole
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdil.errors import InputError
from sdil.files import (
    clear_errors,
    read_json,
    refuse_existing,
    require_room,
    set_aside,
    write_json,
)
from sdil.formats.checksums import write_about
from sdil.formats.episodes import FILE, PLACES, EpisodeFile
from sdil.formats.fingerprints import Summed, fingerprint_of, sum_up
from sdil.formats.folder import FORMAT_VERSION
from sdil.formats.mapped import Laid, MappedFile, is_mapped, remove_part, row_bytes, save_digests
from sdil.formats.mapping import mapped_to_json
from sdil.formats.minari import Notes, write_metadata
from sdil.formats.origin import Numbered
from sdil.formats.reading import Reading
from sdil.formats.runs import Run
from sdil.locks import locked
from sdil.observations import has_frames
from sdil.spaces import Spaces
from sdil.trajectories import Trajectory

_JOURNAL = "importing.json"
_MARKER = "sdil.json"
_SETS = ("clean", "noisy")
_SECONDS = 5.0  # between two notes of how far it came
OnProgress = Callable[[int, int], None]
_State = dict[str, Summed]
"""How far an import came: the episodes that are written, of each set that was begun."""


@dataclass(frozen=True)
class ImportedFolder:
    """What was written."""

    folder: Path
    episodes: dict[str, int]
    """By set."""
    steps: dict[str, int]
    resumed: int
    """Episodes that an earlier attempt had written already."""
    chosen: str
    """How clean and noisy episodes were chosen, in a sentence."""


def work_folder(out: Path) -> Path:
    """Where an import that was stopped waits to be gone on with."""
    return out.with_name(f".{out.name}.importing")


def import_source(
    reading: Reading,
    out: str | Path,
    *,
    task: str | None = None,
    environment: str | None = None,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> ImportedFolder:
    """Write what was chosen of a source as a folder of demonstrations, or go on with it."""
    out = Path(out).absolute()
    refuse_existing(out, overwrite=overwrite, marker=_MARKER)
    clean, noisy, sentence = reading.sets
    size = _size(reading)
    with clear_errors(out, size), locked(out):
        work = work_folder(out)
        request = _request(reading)
        state = _resume(work, request, reading)
        if state is None:
            shutil.rmtree(work, ignore_errors=True)
            require_room(out, size)
            state = {}
        resumed = _done(state)
        laid = _laid(reading)
        known: dict[str, int | None] = {}
        for name, positions in zip(_SETS, (clean, noisy), strict=True):
            known |= _write_set(reading, work, name, positions, state, request, on_progress, laid)
        notes = {}
        for name in _SETS:
            notes[name] = _notes(state[name])
            write_metadata(work / f"{name}-v0" / FILE, f"{name}-v0", reading.spaces, notes[name])
        about = {
            "format": FORMAT_VERSION,
            "task": task,
            "environment": environment,
            "origin": {"imported": f"{reading.source.format} {reading.source.location}"},
            "spaces": reading.spaces.to_json(),
            **reading.origin().to_json(),
            **{name: notes[name].to_json() for name in _SETS},
            "fingerprint": fingerprint_of(reading.spaces, [state[name] for name in _SETS]),
            "checksums": {},
            **({} if laid is None else {"mapped": mapped_to_json(work, laid)}),
        }
        for file in laid or ():
            remove_part(file)
        write_about(work, about, known)
        (work / _JOURNAL).unlink(missing_ok=True)
        _take_place(work, out)
    return ImportedFolder(
        out,
        {name: notes[name].episodes for name in _SETS},
        {name: notes[name].steps for name in _SETS},
        resumed,
        sentence,
    )


def _done(state: _State) -> int:
    """How many episodes are written."""
    return sum(len(each.ids) for each in state.values())


def _notes(written: Summed) -> Notes:
    """What is to be noted of the episodes of a set, checked."""
    ends = zip(written.rows, written.steps, strict=True)
    return Notes(
        episodes=len(written.ids),
        steps=sum(written.steps),
        ids=written.ids,
        groups=written.groups,
        without_rewards=[i for i, summed in enumerate(written.rewards) if summed is None],
        without_final_observation=[i for i, (rows, steps) in enumerate(ends) if rows == steps],
    )


def _write_set(
    reading: Reading,
    work: Path,
    name: str,
    positions: Sequence[int],
    state: _State,
    request: str,
    on_progress: OnProgress | None,
    laid: Laid | None,
) -> dict[str, int | None]:
    """Write the episodes of a set that are not written yet; the CRC-32 of its file, where it was
    summed up on the way."""
    clean, noisy, _ = reading.sets
    total = len(clean) + len(noisy)
    written = state.setdefault(name, Summed())
    done = _done(state)
    path = work / f"{name}-v0" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    framed = has_frames(reading.spaces.observation)
    known: dict[str, int | None] = {}
    with _open_file(path, reading.spaces, list(written.steps), laid) as file:
        noted = time.monotonic()
        episodes = reading.read_in_turn(positions[len(written.ids) :])
        try:
            while True:
                try:
                    some = next(episodes, None)
                except InputError:  # it must be mended, or chosen from differently
                    shutil.rmtree(work, ignore_errors=True)
                    raise
                if some is None:
                    break
                if isinstance(some, Run):
                    summed = some.sum_up()
                    file.append_run(some, summed)
                else:
                    t, (seen, acted) = some
                    summed = sum_up(t, framed=framed, seen=seen, done=acted)
                    file.append(t, summed)
                written.extend(summed)
                done += len(summed.ids)
                if on_progress is not None:
                    on_progress(done, total)
                if time.monotonic() - noted > _SECONDS:
                    _note(file, work, request, reading, state)
                    noted = time.monotonic()
        except BaseException:  # Ctrl-C, a full disk: what is written stays
            if work.exists():
                _note(file, work, request, reading, state)
            raise
        places = file.finish()
        if isinstance(file, EpisodeFile):
            known[f"{name}-v0/{FILE.as_posix()}"] = file.checksum
        if isinstance(file, MappedFile) and laid is not None and written.ids:
            laid[path] = file.about_rows()
            if framed:
                save_digests(path, [bytes.fromhex(str(digest)) for digest in written.seen])
    if written.ids:
        np.save(work / f"{name}-v0" / PLACES, places)
    return known


def _laid(reading: Reading) -> Laid | None:
    """Nothing laid yet, where observations are to be mapped."""
    clean, noisy, _ = reading.sets
    chosen = [reading.source.episodes[i] for i in (*clean, *noisy)]
    rows = sum(e.steps for e in chosen) // reading.every
    return {} if is_mapped(reading.spaces, rows) else None


def _open_file(
    path: Path, spaces: Spaces, lengths: list[int], laid: Laid | None
) -> EpisodeFile | MappedFile:
    if laid is None:
        return EpisodeFile(path, spaces, lengths)
    return MappedFile(path, spaces, lengths, before=next(reversed(laid.items()), None))


def _note(
    file: EpisodeFile | MappedFile, work: Path, request: str, reading: Reading, state: _State
) -> None:
    """Write down how far it came."""
    file.flush()
    write_json(
        work / _JOURNAL,
        {
            "request": request,
            "sets": {name: vars(each) for name, each in state.items()},
            "frames": {k: v.to_json() for k, v in reading.frames.items()},
            "fingerprint": fingerprint_of(reading.spaces, list(state.values())),
        },
    )


def _resume(work: Path, request: str, reading: Reading) -> _State | None:
    """How far an earlier attempt at the same came, if all of that is as it was noted."""
    if not (work / _JOURNAL).is_file():
        return None
    try:
        said = read_json(work / _JOURNAL, what="an import")
        if said["request"] != request:
            return None
        state: _State = {}
        laid, framed = _laid(reading), has_frames(reading.spaces.observation)
        for name in _SETS:
            if name not in said["sets"]:
                break
            noted, state[name] = Summed(**said["sets"][name]), Summed()
            for t in _written(work, name, noted, reading.spaces, laid):
                state[name].extend(sum_up(t, framed=framed))
        if fingerprint_of(reading.spaces, list(state.values())) != said["fingerprint"]:
            return None
        reading.frames.update({k: Numbered.from_json(v) for k, v in said["frames"].items()})
        return state
    except Exception:  # half a file, or not ours: HDF5, JSON and Notes each have their own
        return None


def _written(
    work: Path, name: str, noted: Summed, spaces: Spaces, laid: Laid | None
) -> Iterator[Trajectory]:
    """The episodes of a set that are noted as written."""
    if not noted.ids:
        return
    path = work / f"{name}-v0" / FILE
    with _open_file(path, spaces, list(noted.steps), laid) as file:
        for at, (seen, done, rewards, ends, _) in enumerate(file.read_again()):
            yield Trajectory(
                seen[: noted.rows[at]],
                done,
                None if noted.rewards[at] is None else rewards,
                bool(ends[-1]),
                noted.ids[at],
                noted.groups[at],
            )
        if isinstance(file, MappedFile) and laid is not None:
            laid[path] = file.where_rows()


def _request(reading: Reading) -> str:
    """A hash of what is asked for: the source as it lies there, and what is chosen of it."""
    source = reading.source
    asked = repr(
        (
            source.format,
            sorted(reading.address.choices.items()),
            [(f.name, f.shape, f.dtype) for f in source.features],
            [(e.id, e.steps) for e in source.episodes],
            reading.sets[:2],
            _files_state(Path(source.location)),
        )
    )
    return hashlib.sha256(asked.encode()).hexdigest()


def _files_state(path: Path) -> list[tuple[str, int, int]]:
    """Size and time of every file of the source: one that changed is begun anew."""
    if not path.exists():
        return []
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    return [(str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files]


def _size(reading: Reading) -> int:
    """At most how many bytes it takes."""
    clean, noisy, _ = reading.sets
    chosen = (*clean, *noisy)
    steps = sum(reading.source.episodes[i].steps for i in chosen) // reading.every
    row = row_bytes(reading.spaces.observation)
    if _laid(reading) is not None:  # whose rows are there twice
        steps += sum(reading.source.episodes[i].steps for i in clean) // reading.every + len(clean)
    row += (
        50 * len(reading.cameras) + 50 + reading.action.width * reading.action.dtype.itemsize + 10
    )
    return (steps + len(chosen)) * row + 8_000 * len(chosen) + 200_000


def _take_place(work: Path, out: Path) -> None:
    if out.exists():
        old = set_aside(out, is_good=True)
        work.rename(out)
        shutil.rmtree(old)
    else:
        work.rename(out)
