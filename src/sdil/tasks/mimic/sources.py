"""The tables of MIMIC-IV on disk: where they are, which columns are needed, what is wrong.

No message here quotes a value: an error names file and column, and counts.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdil.errors import InputError

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
        path = str(self.path).replace("'", "''")
        if self.path.suffix == ".parquet":
            return f"read_parquet('{path}')"
        columns = ", ".join(f"'{c}': 'VARCHAR'" for c in self.columns)
        return (
            f"read_csv('{path}', auto_detect = false, header = true, delim = ',', quote = '\"', "
            f"escape = '\"', columns = {{{columns}}})"
        )

    def select(self) -> str:
        """SQL for the columns needed, in their types."""
        needed = COLUMNS[TABLES[self.name]]
        columns = ", ".join(f'CAST("{c}" AS {kind}) AS "{c}"' for c, kind in needed.items())
        return f"SELECT {columns} FROM {self.relation()}"

    def find_fault(self, connection: Any) -> str:
        """After a failed read: which column does not hold what it should, and how often."""
        for column, kind in COLUMNS[TABLES[self.name]].items():
            try:
                bad = connection.execute(
                    f'SELECT count(*) FROM {self.relation()} WHERE "{column}" IS NOT NULL '
                    f'AND TRY_CAST("{column}" AS {kind}) IS NULL'
                ).fetchone()[0]
            except Exception:  # the file itself is damaged: a value quoted here would be a leak
                return f"{self.path}: damaged or truncated; {EXPECTED}"
            if bad:
                return f"{self.path}: column {column}: {bad} values are no {kind}; {EXPECTED}"
        return f"{self.path}: cannot be read; {EXPECTED}"


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
    table = MimicTable(short, found[0], _column_names(found[0]))
    check_columns(table.columns, name, str(found[0]))
    return table


def check_columns(columns: tuple[str, ...], name: str, where: str) -> None:
    """Refuse a table that lacks a column."""
    missing = [c for c in COLUMNS[name] if c not in columns]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise InputError(f"{where}: column{plural} {', '.join(missing)} missing; {EXPECTED}")


def _column_names(path: Path) -> tuple[str, ...]:
    if path.suffix == ".parquet":
        import duckdb

        try:
            found = duckdb.connect().execute("SELECT * FROM read_parquet(?) LIMIT 0", [str(path)])
        except duckdb.Error:
            raise InputError(f"{path}: cannot be read as Parquet; {EXPECTED}") from None
        return tuple(column[0] for column in found.description)
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as text:
            header = text.readline(1_000_000)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        kind = "gzip" if path.suffix == ".gz" else "CSV"
        raise InputError(f"{path}: cannot be read as {kind}; {EXPECTED}") from None
    return tuple(name.strip().strip('"') for name in header.rstrip("\r\n").split(","))
