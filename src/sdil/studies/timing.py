"""A cell measured by the clock: what belongs beside a record, not in it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def timed(inputs: Mapping[str, Any], data: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """A cell's record, and how long it took, where and when."""
    wall, cpu = time.perf_counter(), time.process_time()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    from sdil.studies.measure import measure

    record, fit = measure(inputs, data)
    return record, {
        "started": started,
        "wall_s": round(time.perf_counter() - wall, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
        "fit_cpu_s": round(fit, 3),
        "machine": machine(),
        "versions": {n: version(n) for n in ("sdil", "torch", "numpy", "scikit-learn")},
    }


def machine() -> str:
    """The processor and the system, in a line."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else platform.processor() or platform.machine()
    return f"{processor}, {os.cpu_count()} cores, {platform.platform()}, Python " + (
        platform.python_version()
    )
