"""Memory and speed of frames that lie in a folder: written as they come, mapped, cut into windows.

    python benchmarks/larger_than_memory.py
    python benchmarks/larger_than_memory.py --frames 1000000 --folder /data/frames

Episodes of made-up pictures are imported from a source that makes each of them when it is asked
for; the folder is loaded, and windows are cut at random. Of each stage the highest resident size is
sampled fifty times a second and told in two parts: anonymous memory, which the process owns, and
pages of files, which the system gives back as soon as anything else needs the room
(/proc/self/status; `ru_maxrss` cannot tell them apart). Windows are cut once with whatever the
system has cached of the file and, with `--cold`, after asking it to forget that.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import sdil
from common.report import Target, begin, finish, print_table
from sdil.formats.fingerprints import fingerprint_like
from sdil.formats.folder import describe
from sdil.formats.importing import import_source
from sdil.formats.reading import Reading
from sdil.formats.recognise import Address
from sdil.formats.source import Episode, Feature, Recorded
from sdil.windows import Windows

MEGABYTE = 1e6


@dataclass
class Made:
    """A source that makes its episodes up."""

    episodes: tuple[Episode, ...]
    side: int
    seed: int
    location: str = "made up"
    format: str = "made"
    features: tuple[Feature, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """Noise, other in every episode."""
        random, steps = np.random.default_rng([self.seed, index]), self.episodes[index].steps
        values: dict[str, Any] = {}
        if "camera" in features:
            shape = (steps, self.side, self.side, 3)
            values["camera"] = random.integers(0, 256, shape, np.uint8)
        for name in ("state", "action"):
            if name in features:
                values[name] = random.normal(size=(steps, 4)).astype(np.float32)
        return Recorded(values)


class Sampled:
    """The highest memory of a stage."""

    def __init__(self) -> None:
        self.anonymous = self.files = 0.0
        self.seconds = 0.0


@contextmanager
def sampled() -> Iterator[Sampled]:
    """Sample the memory of this process while something runs."""
    peak, over = Sampled(), threading.Event()

    def look() -> None:
        while True:
            said = dict(
                line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
            )
            sizes = [int(said[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile")]
            peak.anonymous = max(peak.anonymous, sizes[0])
            peak.files = max(peak.files, sizes[1])
            if over.wait(0.02):
                return

    thread = threading.Thread(target=look)
    began = time.perf_counter()
    thread.start()
    try:
        yield peak
    finally:
        peak.seconds = time.perf_counter() - began
        over.set()
        thread.join()


def main(
    frames: int = 200_000,
    side: int = 64,
    steps: int = 100,
    clean_share: float = 0.05,
    look_back: int = 1,
    batch: int = 256,
    batches: int = 400,
    seed: int = 120,
    cold: bool = False,
    folder: Path | None = None,
    json: Path | None = None,
) -> None:
    """Measure, print, and compare with the targets.

    Args:
        frames: How many pictures altogether.
        side: Their height and width.
        steps: Of each episode.
        clean_share: The share of episodes that is trusted.
        look_back: Past steps of a window.
        batch: Windows that are cut together.
        batches: How many times.
        seed: All made-up data and the order of windows follow from it.
        cold: Ask the system to forget the file before windows are cut.
        folder: Where to write; a temporary folder by default. A folder that is there is used as it
            is.
        json: Save everything to this file.
    """
    about = begin(seed=seed, sizes=f"{frames} frames {side}x{side}x3, episodes of {steps} steps")
    with tempfile.TemporaryDirectory() as place:
        where = folder or Path(place, "demos")
        rows: list[dict[str, Any]] = [{"stage": "imports", "frames": 0, **_told(_only_imports())}]
        if not where.exists():
            rows.append(_write(where, frames, side, steps, clean_share, seed))
        with sampled() as peak:
            demos = sdil.load_demonstrations(where)
        rows.append({"stage": "load", "frames": len(demos.all.observations), **_told(peak)})
        with sampled() as peak:
            written = describe(where)["fingerprint"]
            assert fingerprint_like(written, demos) == written
        rows.append({"stage": "fingerprint", "frames": len(demos.all.observations), **_told(peak)})
        if cold:
            _forget(where)
        with sampled() as peak:
            seen = _cut_windows(demos, look_back, batch, batches, seed)
        rows.append({"stage": "windows", "frames": seen, **_told(peak)})
        size = sum(p.stat().st_size for p in where.rglob("*") if p.is_file())
    print_table(
        ("stage", "frames", "seconds", "frames/s", "own memory MB", "pages of files MB"),
        [
            (
                row["stage"],
                f"{row['frames']:,}",
                f"{row['seconds']:.2f}",
                f"{row['frames'] / row['seconds']:,.0f}",
                f"{row['anonymous'] / MEGABYTE:,.0f}",
                f"{row['files'] / MEGABYTE:,.0f}",
            )
            for row in rows
        ],
    )
    print(f"the folder takes {size / MEGABYTE:,.0f} MB")
    own = max(row["anonymous"] for row in rows) - rows[0]["anonymous"]
    targets = [Target("own memory beyond that of imports, in GB", own / 1e9, at_most=1.0)]
    finish({**about, "folder_bytes": size}, rows, targets, json)


def _only_imports() -> Sampled:
    torch.zeros(1)
    with sampled() as peak:
        time.sleep(0.05)
    return peak


def _write(
    where: Path, frames: int, side: int, steps: int, clean_share: float, seed: int
) -> dict[str, Any]:
    count = max(frames // steps, 2)
    source = Made(
        tuple(Episode(str(i), steps) for i in range(count)),
        side,
        seed,
        features=(
            Feature("camera", "image", (side, side, 3), "uint8"),
            Feature("state", "observation", (4,), "float32"),
            Feature("action", "action", (4,), "float32"),
        ),
    )
    clean = max(round(clean_share * count), 1)
    chosen = {"clean": f"0-{clean - 1}", "features": "camera,state"}
    with sampled() as peak:
        import_source(Reading(source, Address(source.location, None, chosen)), where)
    return {"stage": "write", "frames": count * steps, **_told(peak)}


def _cut_windows(
    demos: sdil.Demonstrations, look_back: int, batch: int, batches: int, seed: int
) -> int:
    """Windows at random; every byte of them is in memory then."""
    windows = Windows(demos.all, look_back)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        windows.at(torch.randint(len(windows), (batch,), generator=generator))
    return batches * batch * (1 + look_back)


def _forget(where: Path) -> None:
    for path in where.rglob("*.hdf5"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _told(peak: Sampled) -> dict[str, float]:
    return {"seconds": peak.seconds, "anonymous": peak.anonymous, "files": peak.files}


if __name__ == "__main__":
    tyro.cli(main)
