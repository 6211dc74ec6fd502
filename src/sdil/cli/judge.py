"""`sdil judge`: which steps of demonstrations are good, with no policy, in a folder of its own."""

from __future__ import annotations

import dataclasses
import shlex
import textwrap
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from sdil.algorithms import JUDGES, find_judge, make_judge
from sdil.arguments import read_run
from sdil.cli.answers import answers_of, print_wrapped
from sdil.cli.console import parse, plain, print_json, print_table
from sdil.cli.fitting import (
    Actions,
    Clean,
    Every,
    Features,
    OneTask,
    as_json,
    asks_to_resume,
    data_of,
    parse_fields,
    preset_of,
    telling,
)
from sdil.cli.health import health_for, print_health
from sdil.errors import InputError
from sdil.formats.data import is_source, load_demonstrations
from sdil.judges.judge import Judge
from sdil.judging import FittedJudge
from sdil.runs import Finished, judge, resume


def main(arguments: list[str]) -> None:
    """Choose the judge, ours where none is named, then parse its own hyper-parameters."""
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_help()
        if not arguments:
            raise InputError("which demonstrations? See above.")
        return
    if asks_to_resume(arguments):
        parse(resume_judging, arguments, "judge")
        return
    named = not arguments[0].startswith("-")
    name, rest = (arguments[0], arguments[1:]) if named else (Judge.name, arguments)
    configured, rest = preset_of(find_judge(name), rest)
    fields, options = parse_fields(configured, JudgeOptions, rest, f"judge {name}")
    with telling(f"judging by {name}", options.out, "judge") as on_epoch:
        done = judge(
            make_judge(name, **dataclasses.asdict(fields)),
            data_of(options),
            options.out,
            valid=options.valid,
            seed=options.seed,
            threads=options.threads,
            overwrite=options.overwrite,
            on_epoch=on_epoch,
            named=name,
        )
    _report(done, options.as_json)


@dataclasses.dataclass(frozen=True)
class JudgeOptions:
    """What every judge takes."""

    data: Annotated[
        str,
        tyro.conf.arg(
            metavar="PATH",
            help="Folder of demonstrations to judge, or other people's data, read where it "
            "lies (lerobot:PATH, robomimic:FILE, FILE.csv, ...; see `sdil inspect`).",
        ),
    ]
    out: Annotated[Path, tyro.conf.arg(help="Judgement folder to write; it must not exist.")]
    valid: Annotated[
        Path | None,
        tyro.conf.arg(
            help="Folder whose clean set decides what is heard; "
            "without it, evidence is tested on clean groups in turn, and nothing is held out; "
            "the other judges hold out a fifth of the clean episodes."
        ),
    ] = None
    clean: Clean = None
    features: Features = None
    actions: Actions = None
    every: Every = None
    task: OneTask = None
    seed: Annotated[int, tyro.conf.arg(help="Everything random follows from it.")] = 0
    threads: Annotated[
        int, tyro.conf.arg(help="CPU threads; networks this small are fastest with one.")
    ] = 1
    overwrite: Annotated[bool, tyro.conf.arg(help="Replace the folder if it exists.")] = False
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="Print the answer as JSON.")] = False


def resume_judging(
    resume_: Annotated[Path, tyro.conf.arg(name="resume")],
    judge: str | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Go on with an interrupted judgement, exactly as if it had never stopped.

    Args:
        resume_: The judgement folder.
        judge: The import path of a judge of your own, to be named again.
        as_json: Print the answer as JSON.
    """
    name = read_run(resume_).get("name", "")
    with telling(f"judging by {name}", resume_, "judge") as on_epoch:
        done = resume(resume_, makes="judge", named=judge, on_epoch=on_epoch)
    _report(done, as_json)


def _report(done: Finished, json: bool) -> None:
    fitted = done.result
    assert isinstance(fitted, FittedJudge)
    data = read_run(done.folder)["data"]
    demos = load_demonstrations(data)
    health = health_for(done.folder, fitted, demos)
    optimality = np.concatenate([s.optimality for s in fitted.score(demos.noisy)])
    silent = "step" in fitted.unknown
    summary: dict[str, Any] = {
        "judge": fitted.name,
        "health": health.as_json(),
        **answers_of(fitted),
        "noisy_steps": len(optimality),
        "mean": None if silent else float(optimality.mean()),
        "good": None if silent else float((optimality > 0).mean()),
    }
    if json:
        print_json({"judgement": str(done.folder), "data": data, **summary, **as_json(done)})
        return
    print(plain(f"judged by {fitted.name} in {done.seconds:.1f} s"))
    print_health(health)
    for output, question in _QUESTIONS.items():
        rows = [
            [s.name, "yes" if s.heard else "no", s.why]
            for s in fitted.signals
            if s.output == output
        ]
        if rows:
            print_table(
                f"what was listened to for {question}",
                ["signal", "heard", "why"],
                rows,
                text_columns=3,
            )
    for sentence in fitted.unknown.values():
        print_wrapped(sentence)
    if not silent:
        print(f"{summary['good']:.1%} of {len(optimality)} noisy steps score above 0")
    for name, sentence in summary["odd"].items():
        print_wrapped(f"odd clean demonstrations: {name}: {sentence}")
    out = done.folder
    print(plain(f"written to {out}; the worst and best segments:"))
    if is_source(data):  # the judgement remembers it, and what was chosen of it
        print(plain(f"  sdil score {shlex.quote(str(out))}"))
        return
    place = Path(data)
    near = place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place
    print(plain(f"  sdil score {shlex.quote(str(out))} --data {shlex.quote(str(near))}"))


_QUESTIONS = {
    "step": "steps: is this action right here?",
    "episode": "episodes: how well did this go?",
}


def _print_help() -> None:
    print("usage: sdil judge [JUDGE] --data FOLDER --out JUDGEMENT [OPTIONS]")
    print("       sdil judge --resume JUDGEMENT\n")
    print("Says which steps of the noisy demonstrations are good and how well each went,")
    print("with no policy; what it cannot tell, it calls unknown.")
    print("sdil score, curate, report and train --judge take the judgement.\n")
    print("judges:")
    for name, kind in JUDGES.items():
        about = "ours, if none is named" if name == Judge.name else kind.reference
        first_line = (kind.__doc__ or "").strip().splitlines()[0]
        inner = (
            ""
            if kind in (Judge, JUDGES["pu"], JUDGES["deminf"])
            else "What it weighs noisy steps by: "
        )
        text = f"  {name:<12} {inner}{first_line} ({about})"
        print(textwrap.fill(text, 80, subsequent_indent=" " * 15, break_on_hyphens=False))
    print("\nsdil judge JUDGE --help lists every hyper-parameter.")
