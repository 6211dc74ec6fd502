"""`sdil import`: other people's data as a folder of demonstrations, one episode at a time."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import tyro

from sdil.cli.chosen import notes_of, print_notes
from sdil.cli.console import (
    parse,
    print_command,
    print_json,
    print_table,
    print_wrapped,
    progress,
)
from sdil.formats.importing import import_source
from sdil.formats.reading import Reading, open_reading
from sdil.formats.recognise import NAMES, Address, parse_address

CLEAN_HELP = (
    "Which episodes are trusted: a filter key, operator, task or name (better), numbers (0-29,40), "
    "the top of a column ('top 20% by return', 'shortest 40'), an SQL condition on columns of "
    "episodes ('success and steps < 300'), or a file with a name in each line."
)


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(import_, arguments, "import")


def import_(
    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PATH")],
    out: Path,
    clean: Annotated[str | None, tyro.conf.arg(help=CLEAN_HELP)] = None,
    noisy: str | None = None,
    features: str | None = None,
    actions: str | None = None,
    every: int | None = None,
    image_size: str | None = None,
    task: str | None = None,
    group: str | None = None,
    format: Annotated[str | None, tyro.conf.arg(metavar="{" + ",".join(NAMES) + "}")] = None,
    table: str | None = None,
    episode: str | None = None,
    time: str | None = None,
    env: str | None = None,
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Make a folder of demonstrations of a data set in any format that is known here.

    It is read one episode at a time, so that it may be larger than memory; after Ctrl-C the same
    command goes on. `sdil inspect SOURCE` says beforehand what is in it.

    Args:
        source: Path or address: LeRobot, robomimic, ALOHA, D4RL, Zarr, Minari, NumPy, CSV,
            Parquet, DuckDB, PostgreSQL.
        out: Folder of demonstrations to write; it must not exist.
        noisy: Which episodes are doubtful, said in the same ways; by default all others.
        features: What is seen, names with commas between them: obs/object, obs/*, state[0:3]; by
            default all that the source calls so. Cameras are left out unless they are named:
            observation.images.top,observation.state.
        actions: What is done, said in the same ways.
        every: Keep each n-th frame; rewards in between are added up.
        image_size: Resize the pictures of cameras by area: 96, or HxW.
        task: Which of several tasks.
        group: The column of episodes whose values a split keeps together.
        format: How to read it, where it is not recognised.
        table: Which table of a database.
        episode: The column of a table that numbers the episodes.
        time: The column of a table that orders the steps.
        env: The Gymnasium environment that it was recorded in, noted for `sdil evaluate`.
        overwrite: Replace the folder if it exists.
        as_json: Print the answer as JSON.
    """
    given = parse_address(source)
    address = Address(given.location, format or given.format, given.choices).with_choices(
        clean=clean,
        noisy=noisy,
        features=features,
        actions=actions,
        every=None if every is None else str(every),
        image_size=image_size,
        task=task,
        group=group,
        table=table,
        episode=episode,
        time=time,
    )
    reading = open_reading(address)
    with progress(f"importing {reading.source.format}") as update:
        try:
            done = import_source(
                reading, out, environment=env, overwrite=overwrite, on_progress=update
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted; what was written is kept, and the same command goes on with it"
            ) from None
    if as_json:
        print_json(
            {
                "out": str(out),
                "format": reading.source.format,
                "chosen": done.chosen,
                "notes": notes_of(reading.source.about),
                "episodes": done.episodes,
                "steps": done.steps,
                "resumed": done.resumed,
                "observation": list(reading.observation.names),
                "cameras": {c.name: list(c.shape) for c in reading.cameras},
                "action": list(reading.action.names),
            }
        )
        return
    if done.resumed:
        print(f"went on after {done.resumed} episodes that were written before")
    print_wrapped(done.chosen)
    print_notes(reading.source.about)
    print_table(
        f"{reading.source.format} {reading.source.location}",
        ["", *done.episodes],
        [
            ["episodes", *map(str, done.episodes.values())],
            ["steps", *map(str, done.steps.values())],
        ],
    )
    _say_names(reading)
    place = shlex.quote(str(out))
    print_wrapped(f"written to {out}; which steps are good:")
    print_command(f"sdil judge --data {place} --out {place}-judged")


def _say_names(reading: Reading) -> None:
    for label, picked in (("observation", reading.observation), ("action", reading.action)):
        names = picked.names
        if not names:
            continue
        shown = ", ".join(names[:12]) + (f", ... ({len(names)})" if len(names) > 12 else "")
        print_wrapped(f"{label}: {shown}")
    for camera in reading.cameras:
        size = "x".join(map(str, camera.shape))
        print_wrapped(f"camera {camera.name}: {camera.feature.name}, {size}")
    taken = {camera.feature.name for camera in reading.cameras}
    left = [f.name for f in reading.source.features if f.role == "image" and f.name not in taken]
    if left:
        print_wrapped(f"pictures, left out: {', '.join(left)}; {how_to_see(reading, left)}")


def how_to_see(reading: Reading, left: list[str]) -> str:
    """The option that takes the first of these cameras, too."""
    named = reading.address.choices.get("features")
    names = [named] if named else reading.observation.features
    return f"--features {shlex.quote(','.join([*names, left[0]]))} --image-size 96 has the first"
