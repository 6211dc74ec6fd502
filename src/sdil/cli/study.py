"""`sdil study`: the paper's experiments, your own, and their tables."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import tyro

from sdil.cli.console import errors, parse, print_table
from sdil.errors import InputError
from sdil.report.tables import Format, headline, notes, render, tables
from sdil.studies.grid import Progress, Results, Study, read_study, run_study
from sdil.studies.paper import STUDIES, Options
from sdil.studies.runners import Run, in_this_process, on_workers

_USAGE = """usage: sdil study NAME [OPTIONS]
       sdil study run FILE.toml [OPTIONS]
       sdil study show FOLDER [OPTIONS]

the paper's studies, and those it lacks:
{studies}
  all            every one of these

run      a study of your own, written in a TOML file
show     a study's tables, in the terminal, Markdown, LaTeX or CSV

sdil study NAME --help says more. What is finished is kept: a study that was
interrupted goes on where it stopped."""


def main(arguments: list[str]) -> None:
    """Choose, parse and run."""
    commands: dict[str, Callable[..., None]] = {
        **{name: _named(name) for name in STUDIES},
        "all": _named(*STUDIES),
        "show": show_study,
    }
    if arguments and arguments[0] in commands:
        parse(commands[arguments[0]], arguments[1:], f"study {arguments[0]}")
        return
    about = (f"  {name:<13}  {_first_line(make)}" for name, make in STUDIES.items())
    print(_USAGE.format(studies="\n".join(about)))
    if not arguments or arguments[0] not in ("-h", "--help"):
        raise InputError("which study? See above.")


def _named(*names: str) -> Callable[..., None]:
    def study(
        preset: Literal["full", "quick"] = "full",
        seeds: tuple[int, ...] = (),
        clean: int | None = None,
        noisy: int | None = None,
        tasks: tuple[str, ...] = (),
        learners: tuple[str, ...] = (),
        data: Path | None = None,
        workers: int | None = None,
        out: Path = Path("studies"),
        name: str | None = None,
        form: Format = "terminal",
    ) -> None:
        """Measure what is missing of a study, keep it, and show its tables.

        Args:
            preset: full: 5 seeds. quick: 2 seeds, 10 clean and 100 noisy trajectories, and less
                practice for the learners that practise; to see that all works, not to compare.
            seeds: The seeds, instead of the preset's.
            clean: Clean trajectories, instead of the study's own.
            noisy: Noisy trajectories, instead of the study's own.
            tasks: Measure these tasks only.
            learners: Measure these learners (or rows of the table) only.
            data: A folder made by `sdil mimic build`: adds MIMIC-IV to table1.
            workers: Processes that measure; as many as there are cores if not given. 0: none but
                this one.
            out: The folder of studies. Studies of one folder share what they measured.
            name: The study's name there, where sizes differ from the usual ones.
            form: How its tables are printed.
        """
        options = Options(
            seeds or None, clean, noisy, preset == "quick", None if data is None else str(data)
        )
        for each in names:
            study = STUDIES[each](options)
            print_results(_measure(study, out, _runner(workers), tasks, learners, name), form)

    return study


def show_study(
    folder: tyro.conf.Positional[Path],
    form: Format = "terminal",
    failures: bool = False,
) -> None:
    """Show a study's tables. Nothing is measured.

    Args:
        folder: The study's folder, such as studies/table1.
        form: terminal, markdown, latex or csv.
        failures: Print the traceback of every cell that failed instead.
    """
    results = read_study(folder)
    if failures:
        for found in results.found:
            if found.traceback:
                print(f"{found.entry.cell}\n{found.traceback}")
        return
    print_results(results, form)


def print_results(results: Results, form: Format) -> None:
    """A study's tables, and what a reader must know."""
    if form == "terminal":
        print(f"{results.study.title}\n")
        for line in (*headline(results), *notes(results)):
            print(line)
    for table in tables(results):
        print()
        if form == "terminal":
            print_table(table.title, table.columns, table.rows, text_columns=table.text_columns)
        else:
            print(render(table, form), end="")


def _measure(
    study: Study,
    out: Path,
    run: Run,
    tasks: tuple[str, ...],
    learners: tuple[str, ...],
    name: str | None,
) -> Results:
    command = shlex.join(["sdil", *sys.argv[1:]])
    with _progress() as tell:
        try:
            return run_study(
                study,
                out,
                run,
                name=name,
                command=command,
                tasks=tasks,
                learners=learners,
                on_progress=tell,
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; what is finished is kept in {out}. Go on with: {command}"
            ) from None


def _runner(workers: int | None) -> Run:
    if workers == 0:
        return in_this_process
    return on_workers(len(os.sched_getaffinity(0)) if workers is None else workers)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """A bar where there is a terminal, else a line per finished cell."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("cells"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
    with bar:
        task = bar.add_task("starting")

        def tell(now: Progress) -> None:
            left = now.seconds_left()
            about = f"{len(now.running)} running, {now.failed} failed"
            about += "" if left is None else f", about {duration(left)} left"
            bar.update(task, completed=now.done + now.failed, total=now.total, description=about)
            if now.last is not None and (now.last_seconds is None or not errors.is_terminal):
                took = "FAILED" if now.last_seconds is None else duration(now.last_seconds)
                place = f"{now.done + now.failed}/{now.total}"
                errors.print(
                    f"{place} {now.last.text}: {took} ({about})", highlight=False, soft_wrap=True
                )

        yield tell


def duration(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _first_line(make: Callable[..., object]) -> str:
    return (make.__doc__ or "").strip().splitlines()[0]
