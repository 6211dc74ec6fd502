"""Time and memory of `sdil mimic build` on the open demo of MIMIC-IV, copied many times.

Every copy gets new ids of patients, admissions, stays and specimens, so that it is more patients
and not more rows of the same. Each build is a fresh process with an empty cache; the peak is its
own highest resident size, DuckDB and all imports included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import tyro

from common.report import Target, begin, finish, print_table
from sdil.tasks.mimic.sources import TABLES, MimicTable, open_tables

IDS = ("subject_id", "hadm_id", "stay_id", "specimen_id", "micro_specimen_id")
BEYOND_ALL_IDS = 1_000_000_000
BESIDE = Path(__file__).parents[2] / "shared" / "data" / "mimic-iv-demo"
DEMO = Path(os.environ.get("SDIL_MIMIC_DEMO", BESIDE))


def main(
    demo: Path = DEMO,
    copies: tuple[int, ...] = (1, 10, 50),
    memory: float = 3.0,
    threads: int = 2,
    scratch: Path | None = None,
    json: Path | None = None,
) -> None:
    """Measure how time and memory grow with the number of patients.

    Args:
        demo: The folder of the demo.
        copies: How often it is copied; a build for each, smallest first.
        memory: What DuckDB may use, in GB.
        threads: CPU threads.
        scratch: Where the copies are written; a temporary folder if not given.
        json: Save everything to this file.
    """
    about = begin(sizes=f"{demo.name} x {copies}", limits=f"{memory} GB, {threads} threads")
    rows = []
    for count in copies:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            rows.append(measure(demo, count, Path(folder), memory, threads))
    print_table(
        ["copies", "chart rows", "seconds", "seconds/copy", "peak MB", "stays built"],
        [
            [
                str(row["copies"]),
                f"{row['chart_rows']:,}",
                f"{row['seconds']:.1f}",
                f"{row['seconds'] / row['copies']:.2f}",
                f"{row['peak_mb']:,.0f}",
                str(row["stays"]),
            ]
            for row in rows
        ],
    )
    first, last = rows[0], rows[-1]
    growth = last["seconds"] / first["seconds"] / (last["copies"] / first["copies"])
    targets = [
        Target(f"seconds for {first['copies']} x demo", first["seconds"], at_most=60.0),
        Target(f"peak GB for {first['copies']} x demo", first["peak_mb"] / 1000, at_most=2.0),
        Target(f"peak GB for {last['copies']} x demo", last["peak_mb"] / 1000, at_most=4.0),
        Target("growth of time over growth of data", growth, at_most=1.0),
    ]
    finish(about, rows, targets, json)


def measure(demo: Path, copies: int, folder: Path, memory: float, threads: int) -> dict[str, Any]:
    """Build from `copies` copies of the demo, in a process of its own."""
    chart_rows = replicate(demo, folder / "mimic", copies)
    command = [
        *(sys.executable, "-c", _BUILD, "mimic", "build"),
        *("--mimic", str(folder / "mimic"), "--out", str(folder / "demos")),
        *("--cache", str(folder / "cache"), "--memory", str(memory), "--threads", str(threads)),
    ]
    begun = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    cohort = next((folder / "cache").glob("steps-*.parquet"))
    stays = duckdb.connect().execute(f"SELECT count(*) FROM '{cohort}'").fetchone()[0]
    shutil.rmtree(folder / "cache")
    return {
        "copies": copies,
        "chart_rows": chart_rows,
        "seconds": seconds,
        "peak_mb": int(done.stderr.splitlines()[-1]) * _RSS_UNIT / 1e6,
        "stays": stays,
    }


_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
_BUILD = (
    "import resource, sys; from sdil.cli import main; code = main(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
)


def replicate(demo: Path, target: Path, copies: int) -> int:
    """Write the demo `copies` times over as CSV.gz; returns the number of chart rows."""
    tables = open_tables(demo)
    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '2GB'")
        connection.execute("SET preserve_insertion_order = false")
        for short, name in TABLES.items():
            _replicate_table(connection, tables[short], target / f"{name}.csv.gz", copies)
        counted = connection.execute(f"SELECT count(*) FROM {tables['chartevents'].relation()}")
        return int(counted.fetchone()[0]) * copies


def _replicate_table(connection: Any, table: MimicTable, path: Path, copies: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = ", ".join(
        f"CAST({c} AS BIGINT) + copy * {BEYOND_ALL_IDS} AS {c}" if c in IDS else f'"{c}"'
        for c in table.columns
    )
    connection.execute(
        f"COPY (SELECT {columns} FROM {table.relation()}, range({copies}) AS copies(copy)) "
        f"TO '{path}' (FORMAT csv, HEADER, COMPRESSION gzip)"
    )


if __name__ == "__main__":
    tyro.cli(main)
