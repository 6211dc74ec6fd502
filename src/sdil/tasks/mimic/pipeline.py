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
from sdil.files import new_file
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
        self._cache.mkdir(parents=True, exist_ok=True)
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
            for name in steps:
                connection.execute(self._view(name))
            found = connection.execute(query).fetchnumpy()
        return dict(found)

    def path(self, name: str) -> Path:
        """Where the result of a step lies, or will."""
        return self._cache / f"{name}-{self._key(name)}.parquet"

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """A connection within the limits that knows the definitions."""
        spill = str(self._cache / "spill").replace("'", "''")
        connection = duckdb.connect(
            config={"threads": self._limits.threads, "preserve_insertion_order": False}
        )
        try:
            connection.execute(f"SET memory_limit = '{int(self._limits.memory_gb * 1000)}MB'")
            connection.execute(f"SET temp_directory = '{spill}'")
            connection.execute("SET enable_progress_bar = true")  # counted, for `_watching`
            connection.execute("SET enable_progress_bar_print = false")
            load_tables(connection)
            yield connection
        finally:
            connection.close()

    def _compute(self, step: Step, connection: Any) -> None:
        for name in step.reads:
            connection.execute(self._view(name))
        try:
            with new_file(self.path(step.name)) as temporary:
                target = str(temporary).replace("'", "''")
                connection.execute(
                    f"COPY ({fill(step.name)}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
                )
        except (duckdb.Error, RuntimeError) as error:
            raise self._explain(step, error, connection) from None

    def _explain(self, step: Step, error: Exception, connection: Any) -> BaseException:
        """What to raise instead: DuckDB's messages quote values, which are patient data."""
        if "interrupted" in str(error).lower():  # Ctrl-C, as DuckDB passes it on
            return KeyboardInterrupt("interrupted; the same command goes on where it stopped")
        if isinstance(error, duckdb.OutOfMemoryException):
            memory = self._limits.memory_gb
            return InputError(f"{step.text}: {memory} GB of memory are not enough; raise --memory")
        if isinstance(error, _ABOUT_DATA):
            for name in step.reads:
                if name in self._tables:
                    return InputError(self._tables[name].find_fault(connection))
        return InputError(f"{step.text}: {type(error).__name__} ({EXPECTED})")

    def _view(self, name: str) -> str:
        if name in self._tables:
            return f"CREATE OR REPLACE VIEW {name} AS {self._tables[name].select()}"
        path = str(self.path(name)).replace("'", "''")
        return f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet('{path}')"

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
