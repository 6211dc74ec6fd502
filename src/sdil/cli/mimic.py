"""`sdil mimic`: sepsis in MIMIC-IV, as a cohort or as demonstrations."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import tyro

from sdil.cli.console import (
    check_seed,
    parse,
    plain,
    print_command,
    print_json,
    print_table,
    print_wrapped,
    progress,
)
from sdil.errors import InputError
from sdil.files import refuse_existing
from sdil.tasks.mimic.build import QUALITY, Mortality, build, write
from sdil.tasks.mimic.cohort import write_cohort
from sdil.tasks.mimic.pipeline import Limits, Pipeline
from sdil.tasks.mimic.quality import masked
from sdil.tasks.mimic.sources import MimicTable, open_tables

_USAGE = """usage: sdil mimic build --mimic DIR --out FOLDER [OPTIONS]
       sdil mimic cohort --mimic DIR --out FILE.parquet [OPTIONS]

build   demonstrations of sepsis treatment: clean = survived, noisy = died
cohort  a row per ICU stay: stay_id, included, onset (hours from ICU
        admission), reason

sdil mimic build --help says more. MIMIC-IV 2.2 or 3.x is expected, as
distributed (hosp/, icu/)."""


def main(arguments: list[str]) -> None:
    """Choose between the two, parse and run."""
    commands: dict[str, Callable[..., None]] = {
        "build": build_demonstrations,
        "cohort": find_cohort,
    }
    if arguments and arguments[0] in commands:
        parse(commands[arguments[0]], arguments[1:], f"mimic {arguments[0]}")
        return
    print(_USAGE)
    if not arguments or arguments[0] not in ("-h", "--help"):
        raise InputError("which of build and cohort? See above.")


def find_cohort(
    out: Path,
    mimic: Path | None = None,
    postgres: str | None = None,
    cache: Path | None = None,
    memory: float = 3.0,
    threads: int = 2,
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Which ICU stays of MIMIC-IV have sepsis (Sepsis-3), since when, and why others are left out.

    Args:
        out: The Parquet file to write; it must not exist.
        mimic: MIMIC-IV as distributed: the folder with hosp/ and icu/ (CSV, CSV.gz or Parquet).
        postgres: Instead: the address of a PostgreSQL server with the official schemas
            (mimiciv_hosp, mimiciv_icu), such as postgresql://user@host/mimiciv.
        cache: Folder for intermediate tables, which hold patient data; beside `out` if not given.
        memory: How much memory DuckDB may use, in GB; beyond it, it spills to the cache folder.
        threads: CPU threads.
        overwrite: Replace the file if it exists.
        as_json: Print the answer as JSON.
    """
    if out.exists() and not overwrite:
        raise InputError(f"{out} exists already; choose another name or pass --overwrite")
    pipeline = _open(mimic, postgres, cache or out.absolute().parent / _CACHE, memory, threads)
    with progress("finding sepsis") as update:
        flow = write_cohort(pipeline, out, update)
    counts = {reason: masked(n) for reason, n in flow.reasons.items()}
    if as_json:
        print_json({"file": str(out), "stays": flow.stays, "included": flow.included, **counts})
        return
    print_table("cohort", ["", "stays"], [[k, str(v)] for k, v in counts.items()])
    print(plain(f"{flow.included} of {flow.stays} ICU stays; written to {out}"))


def build_demonstrations(
    out: Path,
    mimic: Path | None = None,
    postgres: str | None = None,
    mortality: Mortality = "hospital",
    seed: int = 0,
    cache: Path | None = None,
    memory: float = 3.0,
    threads: int = 2,
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Demonstrations of sepsis treatment: the folders train, valid and test, and a quality report.

    Args:
        out: The folder to write; it must not exist.
        mimic: MIMIC-IV as distributed: the folder with hosp/ and icu/ (CSV, CSV.gz or Parquet).
        postgres: Instead: the address of a PostgreSQL server with the official schemas
            (mimiciv_hosp, mimiciv_icu), such as postgresql://user@host/mimiciv.
        mortality: Which deaths make a stay noisy: in the hospital, or within 90 days of ICU
            admission.
        seed: The split by patient follows from it, and with it all that is fitted on its training
            part.
        cache: Folder for intermediate tables, which hold patient data; beside `out` if not given.
        memory: How much memory DuckDB may use, in GB; beyond it, it spills to the cache folder.
        threads: CPU threads.
        overwrite: Replace the folder if it exists.
        as_json: Print the answer as JSON.
    """
    check_seed(seed)
    refuse_existing(out, overwrite=overwrite, marker=QUALITY)
    pipeline = _open(mimic, postgres, cache or out.absolute().parent / _CACHE, memory, threads)
    with progress("reading MIMIC-IV") as update:
        built = build(pipeline, mortality=mortality, seed=seed, on_progress=update)
    origin = {"source": "MIMIC-IV", "mortality": mortality, "seed": seed}
    write(built, out, origin=origin, overwrite=overwrite)
    if as_json:
        sets = {
            part: {
                "clean": len(demos.clean),
                "noisy": len(demos.noisy),
                "steps": demos.all.n_steps,
                "fingerprint": demos.fingerprint(),
            }
            for part, demos in built.parts.items()
        }
        print_json({"folder": str(out), **sets, "quality": built.quality})
        return
    rows = [
        [part, str(len(d.clean)), str(len(d.noisy)), str(d.all.n_steps)]
        for part, d in built.parts.items()
    ]
    print_table("demonstrations", ["", "clean", "noisy", "steps"], rows)
    print_wrapped(f"written to {out}; look at it with:")
    print_command(f"sdil inspect {shlex.quote(str(out))}")
    train, valid = (shlex.quote(str(out / part)) for part in ("train", "valid"))
    print("train with:")
    print_command(f"sdil train bc --data {train} --valid {valid} --out RUN")


_CACHE = ".mimic-cache"


def _open(
    mimic: Path | None, postgres: str | None, cache: Path, memory: float, threads: int
) -> Pipeline:
    if memory < 0.5 or threads < 1:
        raise InputError("--memory is at least 0.5 GB and --threads at least 1")
    if (mimic is None) == (postgres is None):
        raise InputError("give either --mimic DIR or --postgres URL")
    return Pipeline(_tables(mimic, postgres, cache), cache, Limits(memory, threads))


def _tables(mimic: Path | None, postgres: str | None, cache: Path) -> dict[str, MimicTable]:
    if mimic is not None:
        return open_tables(mimic)
    from sdil.tasks.mimic.postgres import copy_tables

    assert postgres is not None
    with progress("reading PostgreSQL") as update:
        return copy_tables(postgres, cache, update)
