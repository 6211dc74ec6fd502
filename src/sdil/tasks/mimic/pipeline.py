"""The steps from the tables of MIMIC-IV to a cohort and its records, each kept as Parquet.

A step is one file of `sql/`. Its result is named after a hash of all it depends on (the input
files' sizes and times, its SQL, the definitions, the steps before it), so a second run reads what
the first one made and a changed definition is computed anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import duckdb

from sdil.errors import InputError
from sdil.files import is_disk_full, new_file, show_bytes
from sdil.formats.sql import quoted_name, quoted_text
from sdil.tasks.mimic.cache import describe_room, prepare_cache, private, spill_folder
from sdil.tasks.mimic.definitions import fill, load_tables, texts
from sdil.tasks.mimic.sources import EXPECTED, MimicTable

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Step:
    """One SQL file and what it reads: tables of MIMIC-IV and earlier steps."""

    name: str
    reads: tuple[str, ...]
    text: str


STEPS = (
    Step("stays", ("icustays", "admissions", "patients"), "ICU stays"),
    Step("charts", ("chartevents",), "chart events"),
    Step("samples", ("labevents",), "laboratory values"),
    Step("infusions", ("inputevents",), "fluids and drugs given"),
    Step("urine", ("outputevents",), "urine output"),
    Step("antibiotics", ("prescriptions", "stays"), "antibiotics"),
    Step("cultures", ("microbiologyevents",), "cultures"),
    Step("suspicion", ("antibiotics", "cultures"), "suspected infections"),
    Step("clock", ("stays", "charts"), "hours of each stay"),
    Step("vitals", ("charts",), "vital signs"),
    Step("coma", ("charts",), "Glasgow coma scale"),
    Step("ventilation", ("charts",), "ventilation"),
    Step("gases", ("samples", "charts", "ventilation", "stays"), "blood gases"),
    Step("vasoactive", ("infusions",), "vasopressors"),
    Step(
        "sofa",
        ("clock", "stays", "urine", "vitals", "coma", "gases", "samples", "vasoactive"),
        "SOFA by the hour",
    ),
    Step("cohort", ("stays", "suspicion", "sofa", "clock"), "Sepsis-3 cohort"),
    Step("steps", ("cohort", "stays"), "4-hour steps"),
    Step(
        "states",
        (
            *("steps", "stays", "clock", "vitals", "samples", "coma", "gases", "urine"),
            *("ventilation", "sofa"),
        ),
        "states",
    ),
    Step("treatments", ("steps", "infusions", "vasoactive"), "treatments"),
    Step("patients_of_steps", ("steps", "stays", "charts", "diagnoses_icd"), "patients"),
)
_BY_NAME = {step.name: step for step in STEPS}
_ABOUT_DATA = (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.IOException)
_SPILL_FULL = "max_temp_directory_size"  # DuckDB stops there, before the disk is full


@dataclass(frozen=True)
class Limits:
    """What DuckDB may use."""

    memory_gb: float = 3.0
    threads: int = 2


class Pipeline:
    """Steps over given tables, with their results in a folder."""

    def __init__(self, tables: Mapping[str, MimicTable], cache: Path, limits: Limits) -> None:
        self._tables = tables
        self._cache = cache
        self._limits = limits
        self._keys: dict[str, str] = {}

    def run(self, wanted: Sequence[str], on_progress: Progress | None = None) -> None:
        """Compute steps and all they need, unless they are there already."""
        needed = set().union(*(self._needed(name) for name in wanted))
        todo = [s for s in STEPS if s.name in needed]
        prepare_cache(self._cache)
        with self.connect() as connection:
            for done, step in enumerate(todo):
                if self.path(step.name).exists():
                    continue
                with _watching(connection, on_progress, (done, len(todo), step.text)):
                    self._compute(step, connection)
        if on_progress is not None:
            on_progress(len(todo), len(todo), "done")

    def fetch(self, query: str, *steps: str) -> dict[str, Any]:
        """The columns of a query over results of steps, as NumPy arrays."""
        with self.connect() as connection:
            try:
                for name in steps:
                    connection.execute(self._view(name))
                return dict(connection.execute(query).fetchnumpy())
            except (duckdb.Error, RuntimeError) as error:
                raise self._explain(f"reading {', '.join(steps)}", steps, error) from None

    def path(self, name: str) -> Path:
        """Where the result of a step lies, or will."""
        return self._cache / f"{name}-{self._key(name)}.parquet"

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """A connection within the limits that knows the definitions; what it writes is private."""
        limits = {"threads": self._limits.threads, "preserve_insertion_order": False}
        with private(), spill_folder(self._cache) as spill, duckdb.connect(config=limits) as opened:
            opened.execute(f"SET memory_limit = '{int(self._limits.memory_gb * 1000)}MB'")
            opened.execute(f"SET temp_directory = {quoted_text(spill)}")
            opened.execute("SET enable_progress_bar = true")  # counted, for `_watching`
            opened.execute("SET enable_progress_bar_print = false")
            load_tables(opened)
            yield opened

    def _compute(self, step: Step, connection: Any) -> None:
        with new_file(self.path(step.name)) as temporary:
            try:
                for name in step.reads:
                    connection.execute(self._view(name))
                connection.execute(
                    f"COPY ({fill(step.name)}) TO {quoted_text(temporary)} "
                    "(FORMAT parquet, COMPRESSION zstd)"
                )
            except (duckdb.Error, RuntimeError) as error:
                raise self._explain(step.text, step.reads, error) from None

    def _explain(self, doing: str, reads: Sequence[str], error: Exception) -> BaseException:
        """What to raise instead: DuckDB's messages quote values, which are patient data."""
        if "interrupted" in str(error).lower():  # Ctrl-C, as DuckDB passes it on
            return KeyboardInterrupt("interrupted; the same command goes on where it stopped")
        if is_disk_full(error) or _SPILL_FULL in str(error):
            size = sum(table.path.stat().st_size for table in self._tables.values())
            return InputError(
                f"{doing}: the disk of {self._cache} is full ({describe_room(self._cache)}; in all "
                f"they may take as much as the {show_bytes(size)} of MIMIC-IV's own files); make "
                "room or pass --cache FOLDER on another disk, and the same command goes on"
            )
        if isinstance(error, duckdb.OutOfMemoryException):
            memory = self._limits.memory_gb
            return InputError(f"{doing}: {memory} GB of memory are not enough; raise --memory")
        if isinstance(error, _ABOUT_DATA):
            fault = self._find_fault(reads)
            if fault is not None:
                return InputError(fault)
        return InputError(f"{doing}: {type(error).__name__} ({EXPECTED})")

    def _find_fault(self, reads: Sequence[str]) -> str | None:
        """Which of these tables and results is damaged, and how."""
        with self.connect() as connection:  # of its own: one that failed may be of no more use
            for name in reads:
                if name in self._tables:
                    fault = self._tables[name].find_fault(connection)
                    if fault is not None:
                        return fault
                    continue
                path = self.path(name)
                try:  # read every value, keep none
                    connection.execute(
                        f"SELECT bit_xor(hash(found)) FROM read_parquet({quoted_text(path)}) found"
                    )
                except duckdb.Error:
                    return f"{path}: damaged; delete it, and the same command computes it anew"
        return None

    def _view(self, name: str) -> str:
        view = f"CREATE OR REPLACE VIEW {quoted_name(name)} AS"
        if name in self._tables:
            return f"{view} {self._tables[name].select()}"
        return f"{view} SELECT * FROM read_parquet({quoted_text(self.path(name))})"

    def _key(self, name: str) -> str:
        if name not in self._keys:
            step = _BY_NAME[name]
            parts = [fill(name), texts()]
            for read in step.reads:
                table = self._tables.get(read)
                parts.append(self._key(read) if table is None else table.signature)
            self._keys[name] = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
        return self._keys[name]

    def _needed(self, name: str) -> set[str]:
        step = _BY_NAME.get(name)
        if step is None:
            return set()
        return {name}.union(*(self._needed(read) for read in step.reads))


@contextmanager
def _watching(
    connection: Any, on_progress: Progress | None, step: tuple[int, int, str]
) -> Iterator[None]:
    """Tell how far a step is, now and every second while it runs: the largest takes minutes."""
    if on_progress is None:
        yield
        return
    tell, (done, total, text) = on_progress, step
    tell(done, total, text)
    over = Event()

    def watch() -> None:
        while not over.wait(1.0):
            percent = connection.query_progress()
            tell(done, total, text if percent < 0 else f"{text} {percent:.0f}%")

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
