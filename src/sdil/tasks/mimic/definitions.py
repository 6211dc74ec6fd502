"""The tables of item ids, units, limits and windows, and how SQL gets at them.

They lie as CSV beside this file, so that a reader finds every number in one place; docs/mimic.md
shows them. In an SQL file `$chartevents_items` stands for the item ids needed of a table,
`$urine_items` for those of a variable, and `$step` for a number of windows.csv.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from sdil.formats.sql import quoted_name, quoted_text

HERE = Path(__file__).parent
TABLES = {  # name in SQL: file
    "items": "variables.csv",
    "antibiotic_terms": "antibiotics.csv",
    "ventilation_terms": "ventilation.csv",
    "comorbidities": "comorbidities.csv",
    "features": "features.csv",
}
_TEXT_VARIABLES = (
    "gcs_verbal",
    "oxygen_flow",
    "oxygen_device",
    "ventilator_mode",
    "ventilator_mode_hamilton",
)
_COLUMN_TYPES = {
    "items": "{'itemid': 'INTEGER', 'more_than': 'DOUBLE', 'at_least': 'DOUBLE', "
    "'less_than': 'DOUBLE', 'at_most': 'DOUBLE', 'subtract': 'DOUBLE', 'multiply': 'DOUBLE'}",
    "comorbidities": "{'first': 'VARCHAR', 'last': 'VARCHAR', 'points': 'INTEGER', "
    "'icd_version': 'INTEGER'}",
    "features": "{'low': 'DOUBLE', 'high': 'DOUBLE'}",
}


@dataclass(frozen=True)
class Feature:
    """One number of a state, before scaling."""

    name: str
    unit: str
    low: float
    """Values below are taken as errors and dropped."""
    high: float
    """Values above likewise."""
    hold_hours: int
    """How long a value counts after the four hours it was measured in."""
    log: bool
    """Scaled as log(1 + value)."""


@cache
def rows_of(file: str) -> list[dict[str, str]]:
    """The rows of one of the CSV tables."""
    with (HERE / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


@cache
def windows() -> dict[str, int]:
    """Every window and threshold, by name."""
    return {row["name"]: int(row["value"]) for row in rows_of("windows.csv")}


@cache
def features() -> tuple[Feature, ...]:
    """The features of a state in their order; the previous action follows them."""
    return tuple(
        Feature(
            name=row["feature"],
            unit=row["unit"],
            low=float(row["low"]),
            high=float(row["high"]),
            hold_hours=int(row["hold_hours"]),
            log=row["log"] == "1",
        )
        for row in rows_of("features.csv")
    )


@cache
def table_items(table: str) -> tuple[int, ...]:
    """The item ids that are needed of one table of MIMIC-IV."""
    return tuple(
        sorted({int(r["itemid"]) for r in rows_of("variables.csv") if r["table"] == table})
    )


def fill(name: str) -> str:
    """The SQL of a step, with item ids and windows in their places."""
    return Template((HERE / "sql" / f"{name}.sql").read_text("utf-8")).substitute(_names())


@cache
def _names() -> dict[str, str]:
    found: dict[str, set[int]] = {}
    for row in rows_of("variables.csv"):
        for key in (row["table"], row["variable"]):
            found.setdefault(f"{key}_items", set()).add(int(row["itemid"]))
        if row["variable"] in _TEXT_VARIABLES:
            found.setdefault("text_items", set()).add(int(row["itemid"]))
    lists = {key: ", ".join(map(str, sorted(ids))) for key, ids in found.items()}
    longest = max(f.hold_hours for f in features())
    return {**lists, **{k: str(v) for k, v in windows().items()}, "longest_hold": str(longest)}


def load_tables(connection: Any) -> None:
    """Make the CSV tables and the macros known to a DuckDB connection."""
    for name, file in TABLES.items():
        types = f", types = {_COLUMN_TYPES[name]}" if name in _COLUMN_TYPES else ""
        connection.execute(
            f"CREATE OR REPLACE TABLE {quoted_name(name)} AS SELECT * FROM "
            f"read_csv({quoted_text(HERE / file)}, header = true, delim = ',', quote = '\"'{types})"
        )
    connection.execute((HERE / "sql" / "macros.sql").read_text("utf-8"))


def texts() -> str:
    """All definitions as one text: a part of every cache key."""
    files = [*TABLES.values(), "windows.csv", "sql/macros.sql"]
    return "\n".join((HERE / file).read_text("utf-8") for file in files)
