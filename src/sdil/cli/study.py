"""`sdil study`: the paper's experiments, your own, and their tables."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.text import Text

from sdil.cli import FAILED
from sdil.cli.console import parse, plain, print_table, show
from sdil.cli.wrapping import complain
from sdil.errors import InputError
from sdil.report.comparing import headline
from sdil.report.rendering import Format, render
from sdil.report.tables import notes, tables
from sdil.studies.cell import Cell, check_asked, hash_of_folder
from sdil.studies.grid import Progress, Results, Study, check_name, run_study
from sdil.studies.methods import Options
from sdil.studies.paper import BY_NAME_ALONE, STUDIES
from sdil.studies.reading import read_published, read_study
from sdil.studies.runners import Run, in_this_process, on_ray, on_workers
from sdil.studies.written import read_written

errors = Console(stderr=True)
Form = Annotated[Format, tyro.conf.arg(name="format")]

_USAGE = """usage: sdil study NAME [OPTIONS]
       sdil study run FILE.toml [OPTIONS]
       sdil study tune LEARNER --task TASK [OPTIONS]
       sdil study show FOLDER [OPTIONS]
       sdil study publish FOLDER... --out docs/results
       sdil study redraw docs/results/records/NAME.json...

the paper's studies, and those it lacks:
{studies}
  all            every one of these but {left_out}

run      a study of your own, written in a TOML file
tune     search for a learner's hyper-parameters on clean validation
show     a study's tables, in the terminal, Markdown, LaTeX or CSV
publish  a page per study: tables, figures, records
redraw   the figures of published studies, from their records

sdil study NAME --help says more. What is finished is kept: a study that was
interrupted goes on where it stopped."""


def main(arguments: list[str]) -> int | None:
    """Choose, parse and run; the exit code, where it is not 0."""
    commands: dict[str, Callable[..., int | None]] = {
        **{name: _named(name) for name in STUDIES},
        "all": _named(*(name for name in STUDIES if name not in BY_NAME_ALONE)),
        "run": run_written,
        "tune": tune_learner,
        "show": show_study,
        "publish": publish_studies,
        "redraw": redraw_studies,
    }
    if arguments and arguments[0] in commands:
        return parse(commands[arguments[0]], arguments[1:], f"study {arguments[0]}")
    about = (
        textwrap.fill(f"  {name:<13}  {_first_line(make)}", 80, subsequent_indent=" " * 17)
        for name, make in STUDIES.items()
    )
    left_out = " and ".join(BY_NAME_ALONE)
    print(_USAGE.format(studies="\n".join(about), left_out=left_out))
    if not arguments or arguments[0] not in ("-h", "--help"):
        raise InputError("which study? See above.")
    return None


def _named(*names: str) -> Callable[..., int]:
    def study(
        preset: Literal["full", "quick"] = "full",
        seeds: tuple[int, ...] = (),
        clean: int | None = None,
        noisy: int | None = None,
        tasks: tuple[str, ...] = (),
        learners: tuple[str, ...] = (),
        data: Path | None = None,
        workers: int | None = None,
        ray: str | None = None,
        out: Path = Path("studies"),
        name: str | None = None,
        form: Form = "terminal",
    ) -> int:
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
            ray: Measure on a Ray cluster instead: its address, "auto" for the one this machine
                belongs to, "local" to start one here (needs sdil[ray]).
            out: The folder of studies. Studies of one folder share what they measured.
            name: The study's name there, where sizes differ from the usual ones.
            form: How its tables are printed.
        """
        if name is not None and len(names) > 1:
            raise InputError("--name is for one study; choose another --out for all of them")
        if name is not None:
            check_name(name, "--name")
        check_asked(clean, noisy, seeds)
        whole = None if data is None else str(_whole(data, out))
        options = Options(seeds or None, clean, noisy, preset == "quick", whole)
        studies = [STUDIES[each](options) for each in names]
        run = _runner(workers, ray)
        return max(_measure(study, out, run, form, tasks, learners, name) for study in studies)

    return study


def _whole(data: Path, out: Path) -> Path:
    """A folder of all stays: a study deals them anew for each seed, `mimic build` writes parts."""
    parts = [data / name for name in ("train", "valid", "test")]
    if not all((part / "sdil.json").is_file() for part in parts):
        return data
    content = "-".join(hash_of_folder(str(part))[:12] for part in parts)  # never one gone stale
    whole = out / "data" / f"mimic-{content}"
    if not whole.exists():
        from sdil.demonstrations import Demonstrations
        from sdil.formats.folder import load_demonstrations, save_demonstrations
        from sdil.tasks.mimic.cache import private

        read = [load_demonstrations(part) for part in parts]
        clean, noisy = ([t for part in read for t in getattr(part, s)] for s in ("clean", "noisy"))
        demos = Demonstrations(clean, noisy, read[0].spaces)
        with private():  # patient data
            save_demonstrations(demos, whole, task="mimic")
    return whole


def run_written(
    file: tyro.conf.Positional[Path],
    workers: int | None = None,
    ray: str | None = None,
    out: Path = Path("studies"),
    form: Form = "terminal",
) -> int:
    """Measure what is missing of a study of your own, keep it, and show its tables.

    Args:
        file: The study, in TOML: tasks, clean, noisy, seeds and [[learners]] (docs/studies.md).
        workers: Processes that measure; as many as there are cores if not given. 0: none but
            this one.
        ray: Measure on a Ray cluster instead: its address, "auto" or "local".
        out: The folder of studies.
        form: How its tables are printed.
    """
    return _measure(read_written(file), out, _runner(workers, ray), form)


def tune_learner(
    learner: tyro.conf.Positional[str],
    task: str = "fourrooms",
    clean: int = 30,
    noisy: int = 600,
    trials: int = 20,
    seeds: tuple[int, ...] = (100, 101, 102),
    space: Path | None = None,
    workers: int | None = None,
    ray: str | None = None,
    out: Path = Path("studies"),
) -> None:
    """Search for hyper-parameters that predict clean validation actions best (needs sdil[tune]).

    Args:
        learner: The learner.
        task: The task.
        clean: Clean trajectories to train on; half as many, at least 10, validate.
        noisy: Noisy trajectories.
        trials: Settings to try, those of an earlier search included. The first is the learner as
            it is.
        seeds: Each setting is tried on these; use others than a study's.
        space: The fields to search over, in TOML (docs/studies.md); learning rate, weight decay
            and size of the networks if not given.
        workers: Processes that measure; as many as there are cores if not given.
        ray: Measure on a Ray cluster instead: its address, "auto" or "local".
        out: The folder of studies.
    """
    from sdil.studies.tune import USUAL_SPACE, read_space, tune

    if not seeds or trials < 1:
        raise InputError("at least one seed and one trial are needed")
    check_asked(clean, noisy, seeds)
    command = shlex.join(["sdil", *sys.argv[1:]])
    with _progress() as tell, _kept(out, command):
        found = tune(
            Cell(task, learner, 0, clean, noisy),
            USUAL_SPACE if space is None else read_space(space),
            where="the usual space" if space is None else str(space),
            trials=trials,
            seeds=seeds,
            root=out,
            run=_runner(workers, ray),
            abreast=_count(workers),
            on_progress=tell,
        )
    names = list(found[0].fields)
    print_table(
        f"{learner} on {task}, {clean} clean, {noisy} noisy: {len(found)} trials, best first",
        ["trial", *names, "valid NLL"],
        [
            [str(t.number), *(f"{t.fields[n]:.4g}" for n in names), show(t.valid_nll)]
            for t in found[:10]
        ],
    )
    options = " ".join(f"--{n.replace('_', '-')} {found[0].fields[n]:.4g}" for n in names)
    print(plain(f"best: sdil train {learner} {options} ..."))


def publish_studies(
    folders: tyro.conf.Positional[tuple[Path, ...]], out: Path = Path("docs/results")
) -> None:
    """Write a page per study: where SDIL wins and where it does not, tables, figures, records.

    Args:
        folders: Folders of studies, such as studies/table1 studies/curve.
        out: The folder to write to.
    """
    from sdil.report.results import publish
    from sdil.studies.experts import expert_rewards

    for folder in folders:
        results = read_study(folder)
        for path in publish(results, out, list(STUDIES), expert_rewards(results.study)):
            print(plain(path))


def redraw_studies(records: tyro.conf.Positional[tuple[Path, ...]]) -> None:
    """Draw the figures of published studies again. Nothing is measured; records stay as they are.

    Args:
        records: Published records, such as docs/results/records/table1.json.
    """
    from sdil.report.results import redraw
    from sdil.studies.experts import expert_rewards

    for path in records:
        for written in redraw(path, expert_rewards(read_published(path).study)):
            print(plain(written))


def show_study(
    folder: tyro.conf.Positional[Path],
    form: Form = "terminal",
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
                print(f"{plain(found.entry.cell)}\n{plain(found.traceback, lines=True)}")
        return
    print_results(results, form)


def print_results(results: Results, form: Format) -> None:
    """A study's tables, and what a reader must know: beside them, where a program reads these."""
    if form == "terminal":
        console = Console()
        remark = [results.study.remark] if results.study.remark else []
        for line in (results.study.title, "", *headline(results), *remark, *notes(results)):
            console.print(Text(plain(line)))
    else:
        for line in notes(results):
            complain(line)
    for table in tables(results):
        print()
        if form == "terminal":
            print_table(table.title, table.columns, table.rows, text_columns=table.text_columns)
        else:
            print(plain(render(table, form), lines=True), end="")


def _measure(
    study: Study,
    out: Path,
    run: Run,
    form: Format,
    tasks: tuple[str, ...] = (),
    learners: tuple[str, ...] = (),
    name: str | None = None,
) -> int:
    """Measure and show a study; the exit code, which tells whether cells asked for failed."""
    command = shlex.join(["sdil", *sys.argv[1:]])
    with _progress() as tell, _kept(out, command):
        results = run_study(
            study,
            out,
            run,
            name=name,
            command=command,
            tasks=tasks,
            learners=learners,
            on_progress=tell,
        )
    print_results(results, form)
    asked = set(study.only(tasks=tasks, learners=learners).entries)
    failed = [f for f in results.found if f.state != "done" and f.entry in asked]
    if not failed:
        return 0
    folder = out / results.study.name
    why = f"sdil study show {folder} --failures says why"
    complain(f"{len(failed)} of {len(asked)} cells asked for failed; {why}")
    return FAILED


@contextmanager
def _kept(out: Path, command: str) -> Iterator[None]:
    """After Ctrl-C, say that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; what is finished is kept in {out}. Go on with: {command}"
        ) from None


def _runner(workers: int | None, ray: str | None) -> Run:
    if ray is not None:
        return on_ray(ray)
    return in_this_process if workers == 0 else on_workers(_count(workers))


def _count(workers: int | None) -> int:
    return len(os.sched_getaffinity(0)) if workers is None else workers


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
                line = f"{place} {plain(now.last.text)}: {took} ({about})"
                errors.print(Text(line), soft_wrap=True)

        yield tell


def duration(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _first_line(make: Callable[..., object]) -> str:
    return (make.__doc__ or "").strip().splitlines()[0]
