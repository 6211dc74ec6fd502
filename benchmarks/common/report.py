"""What the benchmarks share: what was measured where, plain tables, and targets met or not."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """A figure and what it should be."""

    what: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    def __str__(self) -> str:
        wanted = f">= {self.at_least:g}" if self.at_most is None else f"<= {self.at_most:g}"
        verdict = "met" if self.met else "NOT MET"
        return f"{self.what}: {self.value:.2f} (target {wanted}): {verdict}"


def measure_all(
    work: Callable[..., Any], cells: Sequence[Sequence[Any]], workers: int
) -> list[Any]:
    """What `work(*cell)` answers for each cell, in their order, by processes of one thread each."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(workers) as pool:
        running = [pool.submit(work, *cell) for cell in cells]
        for i, _ in enumerate(as_completed(running), 1):
            print(f"{i}/{len(running)}", file=sys.stderr, flush=True)
        return [each.result() for each in running]


def begin(**facts: Any) -> dict[str, Any]:
    """Print what is measured, when and where; the same as a dictionary, for `finish`."""
    about = {
        "command": shlex.join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.platform()}",
        "versions": f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("sdil", "torch", "numpy")),
        **facts,
    }
    for name, value in about.items():
        print(f"{name:<9} {value}")
    print(flush=True)
    return about


def finish(
    about: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    targets: Sequence[Target],
    file: Path | None,
) -> None:
    """Print whether the targets are met, and save everything where a file is given."""
    for target in targets:
        print(target)
    if file is not None:
        met = [asdict(t) | {"met": t.met} for t in targets]
        file.write_text(json.dumps({**about, "rows": rows, "targets": met}, indent=2) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns of plain text; all but the first are numbers, and so to the right."""
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    for row in (columns, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells))
    print(flush=True)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; all but the first column are numbers, and so to the right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def paired_interval(differences: Any) -> str:
    """The mean of differences by seed (n,) and Student's 95% interval of it."""
    from scipy.stats import t as student

    n, middle = len(differences), differences.mean()
    if n < 2:
        return f"{middle:+.1f}"
    reach = student.ppf(0.975, n - 1) * differences.std(ddof=1) / n**0.5
    return f"{middle:+.1f} ({middle - reach:+.1f} to {middle + reach:+.1f})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
