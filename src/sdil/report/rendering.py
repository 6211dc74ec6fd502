"""A table of text as Markdown, LaTeX or CSV; the command line draws it in the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Format = Literal["terminal", "markdown", "latex", "csv"]


@dataclass(frozen=True)
class TextTable:
    """A table of text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1


def render(table: TextTable, form: Format) -> str:
    """A table as text, in any of the formats but "terminal"."""
    return _FORMS[form](table)


def _markdown(table: TextTable) -> str:
    rule = ["---"] * table.text_columns + ["---:"] * (len(table.columns) - table.text_columns)
    lines = [table.columns, rule, *table.rows]
    body = "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )
    return f"**{table.title}**\n\n{body}"


def _latex(table: TextTable) -> str:
    def row(cells: Sequence[str]) -> str:
        return "  " + " & ".join(_escape(cell) for cell in cells) + r" \\" + "\n"

    places = "l" * table.text_columns + "r" * (len(table.columns) - table.text_columns)
    return (
        f"% {table.title}\n\\begin{{tabular}}{{{places}}}\n  \\toprule\n{row(table.columns)}"
        f"  \\midrule\n{''.join(row(r) for r in table.rows)}  \\bottomrule\n\\end{{tabular}}\n"
    )


def _escape(text: str) -> str:
    for sign in ("&", "%", "_", "#"):
        text = text.replace(sign, "\\" + sign)
    return text.replace(" ± ", r" $\pm$ ").replace("*", r"$^*$").replace(">", r"$>$")


def _csv(table: TextTable) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("table", *table.columns))
    writer.writerows((table.title, *row) for row in table.rows)
    return file.getvalue()


_FORMS: dict[Format, Callable[[TextTable], str]] = {
    "markdown": _markdown,
    "latex": _latex,
    "csv": _csv,
}
