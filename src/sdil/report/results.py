"""A study as a page: where the champion wins and where it does not, tables, figures, records."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.files import new_file
from sdil.report.comparing import headline
from sdil.report.rendering import TextTable, render
from sdil.report.settings import captions
from sdil.report.tables import notes, tables
from sdil.studies.grid import Results
from sdil.studies.reading import read_published

_NONE_KNOWN: Mapping[str, float] = {}


def publish(
    results: Results,
    out: Path,
    order: Sequence[str] = (),
    experts: Mapping[str, float] = _NONE_KNOWN,
) -> list[Path]:
    """Write `<study>.md`, its figures and `records/<study>.json` into a folder, and its `index.md`.

    The index says of every study whose records lie there what it found: first those named by
    `order`, then others. `experts` is what the demonstrators of tasks earn, a line in figures.
    """
    study = results.study
    figures = _draw(results, out / study.name, experts)
    page = out / f"{study.name}.md"
    with new_file(page) as temporary:
        temporary.write_text(_page(results, _figures(results, figures, experts)), "utf-8")
    records = out / "records" / f"{study.name}.json"
    with new_file(records) as temporary:
        temporary.write_text(_records(results), "utf-8")
    index = out / "index.md"
    with new_file(index) as temporary:
        temporary.write_text(_index(out / "records", order), "utf-8")
    return [page, *figures, records, index]


def redraw(records: Path, experts: Mapping[str, float] = _NONE_KNOWN) -> list[Path]:
    """Draw the figures of a published study again, from `records/<study>.json`; nothing else.

    The part of its page about figures is written anew.
    """
    results = read_published(records)
    page = records.parent.parent / f"{results.study.name}.md"
    text = page.read_text("utf-8")
    if not _FIGURES.search(text):
        raise InputError(f'{page}: there is no part "## Figures"; publish the study again')
    figures = _draw(results, page.with_suffix(""), experts)
    part = _figures(results, figures, experts)
    with new_file(page) as temporary:
        temporary.write_text(_FIGURES.sub(lambda _: part, text), "utf-8")
    return [*figures, page]


_MEANS = "Interquartile means with bootstrap 95% intervals, best first"
_PROFILES = (
    "Performance profiles of the best rows with bootstrap 95% intervals, best first; without tasks "
    "where all of these are at the top"
)
_FIGURES = re.compile(r"^## Figures\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def _draw(results: Results, stem: Path, experts: Mapping[str, float]) -> list[Path]:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError("figures need Matplotlib: pip install 'sdil[figures]'") from None
    from sdil.report.study_figures import draw

    return draw(results, stem, experts)


def _figures(results: Results, figures: Sequence[Path], experts: Mapping[str, float]) -> str:
    """The part of a page about figures; SVG is shown, which is light or dark as the page is."""
    parts = ["## Figures\n"]
    for path in figures:
        if path.suffix == ".svg":
            what = _PROFILES if "-profiles" in path.name else _MEANS
            parts.append(
                f"![{results.study.title}]({path.name})\n\n{what} "
                f"([PNG]({path.with_suffix('.png').name})).\n"
            )
    parts += [f"{line}\n" for line in captions(results, experts)]
    return "\n".join(parts if len(parts) > 1 else [*parts, "None: nothing is measured.\n"]) + "\n"


def _sections(some: Sequence[TextTable]) -> list[str]:
    """Tables under headings, which give a long page its table of contents."""
    parts, before = [], ""
    for table in some:
        where, _, what = table.title.partition(": ")
        if where != before:
            parts.append(f"## {where}\n")
        if what:
            parts.append(f"### {what}\n")
        parts.append(render(table, "markdown").partition("\n\n")[2])
        before = where
    return parts


def _index(records: Path, order: Sequence[str]) -> str:
    """Every study; what several of them remark is said once."""
    paths = sorted(records.glob("*.json"))
    paths.sort(key=lambda path: order.index(path.stem) if path.stem in order else len(order))
    every = [read_published(path) for path in paths]
    parts = ["# Results\n", "What each study found; its page has tables, figures and records.\n"]
    parts += [f"{remark}\n" for remark in dict.fromkeys(f.study.remark for f in every) if remark]
    for found in every:
        study = found.study
        done = f"{found.count('done')} of {len(found.found)} cells"
        parts.append(f"## {study.title}\n\n[Tables and figures]({study.name}.md), {done}.\n")
        parts.append("".join(f"- {line}\n" for line in headline(found)))
    return "\n".join(parts)


def _page(results: Results, figures: str) -> str:
    study = results.study
    parts = [f"# {study.title}\n"]
    said = headline(results)
    parts.append("".join(f"- {line}\n" for line in said) or "Nothing has been measured yet.\n")
    if study.remark:
        parts.append(f"{study.remark}\n")
    seeds = len({f.entry.cell.seed for f in results.found})
    parts.append(
        '"Better" and "worse": the 95% interval of the difference by seed (Student) lies on one '
        f"side of 0; otherwise these seeds cannot tell. {seeds} seeds; every method of a seed saw "
        "the same demonstrations. Intervals are not corrected for their number: of forty "
        "differences that are nothing, one is called better and one worse.\n"
    )
    if notes(results):
        parts.append("".join(f"- **{line}**\n" for line in notes(results)))
    parts.append(_origin(results))
    parts.append(figures.removesuffix("\n"))
    parts += _sections(tables(results))
    parts.append(
        f"## Records\n\nEvery cell: [records/{study.name}.json](records/{study.name}.json).\n"
    )
    return "\n".join(parts)


def _origin(results: Results) -> str:
    """The command, the machines and the days."""
    timings = [f.timing for f in results.found if f.timing is not None and f.state == "done"]
    if not timings:
        return ""
    machines = Counter(str(t["machine"]) for t in timings)
    days = sorted(str(t["started"])[:10] for t in timings)
    versions = Counter(json.dumps(t["versions"], sort_keys=True) for t in timings)
    unique = {id(t): t for t in timings}
    hours = sum(float(t["cpu_s"]) for t in unique.values()) / 3_600
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    software = json.loads(versions.most_common(1)[0][0])
    return (
        f"- command: `{results.command}`\n- machine: {'; '.join(machines)}\n- measured: {when}, "
        f"{hours:.1f} hours of CPU\n- versions: "
        + ", ".join(f"{name} {number}" for name, number in software.items())
        + "\n"
    )


def _records(results: Results) -> str:
    """A line per cell: small, and a change shows as a changed line."""
    lines = []
    for found in results.found:
        about: dict[str, Any] = {
            "row": found.entry.row,
            "at": found.entry.at,
            "cell": found.entry.cell.as_json(),
            "state": found.state,
        }
        if found.record is not None:
            about["source"] = found.record["inputs"]["source"]
            about["measures"] = {k: _short(v) for k, v in found.record["measures"].items()}
            if found.record["warnings"]:
                about["warnings"] = found.record["warnings"]
        if found.timing is not None:
            about["cpu_s"] = found.timing["cpu_s"]  # less where another cell had found the judge
            if "fit_cpu_s" in found.timing:  # as if it were alone
                about["fit_cpu_s"] = found.timing["fit_cpu_s"]
        lines.append(json.dumps(about, ensure_ascii=False))
    head = json.dumps({"study": results.study.as_json(), "command": results.command})
    body = ",\n".join(lines)
    return f'{head[:-1]}, "cells": [\n{body}\n]}}\n'


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return [_short(v) for v in value] if isinstance(value, list) else value
