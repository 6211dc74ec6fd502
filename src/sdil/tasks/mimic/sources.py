"""The tables of MIMIC-IV on disk: where they are, which columns are needed, what is wrong.

No message here quotes a value: an error names file and column, and counts.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.formats.sql import quoted_name, quoted_text

EXPECTED = "MIMIC-IV 2.2 or 3.x is expected"

_ID, _INT, _NUMBER, _TEXT, _TIME = "BIGINT", "INTEGER", "DOUBLE", "VARCHAR", "TIMESTAMP"
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "hosp/patients": {
        "subject_id": _ID,
        "gender": _TEXT,
        "anchor_age": _INT,
        "anchor_year": _INT,
        "dod": _TIME,
    },
    "hosp/admissions": {
        "subject_id": _ID,
        "hadm_id": _ID,
        "admittime": _TIME,
        "hospital_expire_flag": _INT,
    },
    "hosp/diagnoses_icd": {"hadm_id": _ID, "icd_code": _TEXT, "icd_version": _INT},
    "hosp/prescriptions": {
        "subject_id": _ID,
        "hadm_id": _ID,
        "starttime": _TIME,
        "stoptime": _TIME,
        "drug_type": _TEXT,
        "drug": _TEXT,
        "route": _TEXT,
    },
    "hosp/microbiologyevents": {
        "subject_id": _ID,
        "micro_specimen_id": _ID,
        "chartdate": _TIME,
        "charttime": _TIME,
        "spec_type_desc": _TEXT,
        "org_itemid": _INT,
        "org_name": _TEXT,
    },
    "hosp/labevents": {
        "subject_id": _ID,
        "hadm_id": _ID,
        "specimen_id": _ID,
        "itemid": _INT,
        "charttime": _TIME,
        "value": _TEXT,
        "valuenum": _NUMBER,
    },
    "icu/icustays": {
        "subject_id": _ID,
        "hadm_id": _ID,
        "stay_id": _ID,
        "intime": _TIME,
        "outtime": _TIME,
    },
    "icu/chartevents": {
        "subject_id": _ID,
        "stay_id": _ID,
        "charttime": _TIME,
        "storetime": _TIME,
        "itemid": _INT,
        "value": _TEXT,
        "valuenum": _NUMBER,
    },
    "icu/inputevents": {
        "stay_id": _ID,
        "starttime": _TIME,
        "endtime": _TIME,
        "itemid": _INT,
        "amount": _NUMBER,
        "amountuom": _TEXT,
        "rate": _NUMBER,
        "rateuom": _TEXT,
        "patientweight": _NUMBER,
    },
    "icu/outputevents": {
        "stay_id": _ID,
        "charttime": _TIME,
        "itemid": _INT,
        "value": _NUMBER,
    },
}
TABLES = {name.partition("/")[2]: name for name in COLUMNS}
"""Short names, as the SQL files use them, and where the tables lie."""
_ENDINGS = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class MimicTable:
    """One table of MIMIC-IV, checked: it is there, can be opened, and has the columns needed."""

    name: str
    path: Path
    columns: tuple[str, ...]
    """All its columns, in order."""

    @property
    def signature(self) -> str:
        """Changes when the file does."""
        status = self.path.stat()
        return f"{self.path.name} {status.st_size} {status.st_mtime_ns}"

    def relation(self) -> str:
        """SQL for the file as it is; a CSV's columns are all text."""
        path = quoted_text(self.path)
        if self.path.suffix == ".parquet":
            return f"read_parquet({path})"
        columns = ", ".join(f"{quoted_text(c)}: 'VARCHAR'" for c in self.columns)
        return (
            f"read_csv({path}, auto_detect = false, header = true, delim = ',', quote = '\"', "
            f"escape = '\"', columns = {{{columns}}})"
        )

    def select(self) -> str:
        """SQL for the columns needed, in their types."""
        needed = COLUMNS[TABLES[self.name]]
        columns = ", ".join(
            f"CAST({quoted_name(c)} AS {kind}) AS {quoted_name(c)}" for c, kind in needed.items()
        )
        return f"SELECT {columns} FROM {self.relation()}"

    def find_fault(self, connection: Any) -> str | None:
        """After a failed read: what is wrong with this table, if anything is."""
        for column, kind in COLUMNS[TABLES[self.name]].items():
            name = quoted_name(column)
            try:
                bad = connection.execute(
                    f"SELECT count(*) FROM {self.relation()} WHERE {name} IS NOT NULL "
                    f"AND TRY_CAST({name} AS {kind}) IS NULL"
                ).fetchone()[0]
            except Exception:  # the file itself is damaged: a value quoted here would be a leak
                return f"{self.path}: damaged or truncated; {EXPECTED}"
            if bad:
                return f"{self.path}: column {column}: {bad} values are no {kind}; {EXPECTED}"
        return None


def open_tables(folder: Path) -> dict[str, MimicTable]:
    """Every table needed, found and checked."""
    if not folder.is_dir():
        raise InputError(
            f"{folder} is not a folder; give the one with hosp/ and icu/ in it ({EXPECTED})"
        )
    return {short: _open_table(folder, short, name) for short, name in TABLES.items()}


def _open_table(folder: Path, short: str, name: str) -> MimicTable:
    found = [path for ending in _ENDINGS if (path := folder / f"{name}{ending}").is_file()]
    if not found:
        hint = ""
        if (folder / "core").is_dir():
            hint = "; a core/ folder is of MIMIC-IV 1.0 or older"
        elif any(folder.glob("ICUSTAYS.csv*")):
            hint = "; this looks like MIMIC-III"
        raise InputError(
            f"{folder}: the table {name} is missing (.csv, .csv.gz or .parquet){hint}; {EXPECTED}"
        )
    if len(found) > 1:
        names = " and ".join(p.name for p in found)
        raise InputError(f"{folder}: both {names} are there; keep one of them")
    columns, is_empty = _look_into(found[0])
    check_columns(columns, name, str(found[0]))
    _check_names(columns, str(found[0]))
    if is_empty:  # no table of MIMIC-IV is: the cohort would come out wrong, and nobody know why
        raise InputError(f"{found[0]}: there are columns, but no rows; {EXPECTED}")
    return MimicTable(short, found[0], columns)


def check_columns(columns: tuple[str, ...], name: str, where: str) -> None:
    """Refuse a table that lacks a column."""
    missing = [c for c in COLUMNS[name] if c not in columns]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise InputError(f"{where}: column{plural} {', '.join(missing)} missing; {EXPECTED}")


def _check_names(columns: tuple[str, ...], where: str) -> None:
    """Refuse columns that cannot be told apart."""
    alike = Counter(c.lower() for c in columns)  # as SQL compares names
    for number, column in enumerate(columns, 1):
        if not column:
            raise InputError(f"{where}: column {number} has no name; {EXPECTED}")
        if alike[column.lower()] > 1:
            raise InputError(f"{where}: more than one column is called {column!r}; {EXPECTED}")


def _look_into(path: Path) -> tuple[tuple[str, ...], bool]:
    """The names of the columns, and whether there are no rows."""
    if path.suffix == ".parquet":
        import duckdb

        try:
            with duckdb.connect() as connection:
                found = connection.execute("SELECT * FROM read_parquet(?) LIMIT 1", [str(path)])
                return tuple(column[0] for column in found.description), not found.fetchall()
        except duckdb.Error:
            raise InputError(f"{path}: cannot be read as Parquet; {EXPECTED}") from None
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as text:
            header, is_empty = text.readline(1_000_000), not text.read(1)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        kind = "gzip" if path.suffix == ".gz" else "CSV"
        raise InputError(f"{path}: cannot be read as {kind}; {EXPECTED}") from None
    try:
        names = next(csv.reader([header.rstrip("\r\n")], skipinitialspace=True), [])
    except csv.Error:
        raise InputError(f"{path}: its first line names no columns; {EXPECTED}") from None
    return tuple(name.strip() for name in names), is_empty
