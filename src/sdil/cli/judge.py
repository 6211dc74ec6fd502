"""`sdil judge`: which steps of demonstrations are good, with no policy, in a folder of its own."""

from __future__ import annotations

import dataclasses
import shlex
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from sdil.algorithms import JUDGES, find_judge, make_judge
from sdil.arguments import read_run
from sdil.cli.answers import answers_of
from sdil.cli.chosen import nearby, print_chosen
from sdil.cli.console import (
    parse,
    plain,
    print_command,
    print_json,
    print_table,
    print_wrapped,
)
from sdil.cli.fitting import (
    Actions,
    Clean,
    Device,
    Every,
    Features,
    ImageSize,
    OneTask,
    as_json,
    asks_to_resume,
    data_of,
    parse_fields,
    preset_of,
    print_options,
    telling,
)
from sdil.cli.health import health_for, print_health
from sdil.errors import InputError
from sdil.formats.data import is_source, load_demonstrations
from sdil.judges.fitted import EvidenceJudge
from sdil.judges.judge import Judge
from sdil.judging import FittedJudge
from sdil.labels import Label, load_labels
from sdil.runs import Finished, judge, load_tellable, resume, tell


def main(arguments: list[str]) -> None:
    """Choose the judge, ours where none is named, then parse its own hyper-parameters."""
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_help()
        if not arguments:
            raise InputError("which demonstrations? See above.")
        return
    if "--again" in arguments or any(a.startswith("--again=") for a in arguments):
        parse(judge_again, arguments, "judge")
        return
    if asks_to_resume(arguments):
        parse(resume_judging, arguments, "judge")
        return
    named = not arguments[0].startswith("-")
    name, rest = (arguments[0], arguments[1:]) if named else (Judge.name, arguments)
    configured, rest = preset_of(find_judge(name), rest)
    fields, options = parse_fields(configured, JudgeOptions, rest, f"judge {name}")
    if (options.labels is not None or options.ask) and name != Judge.name:
        raise InputError(f"{name} takes no labels and asks for none; {Judge.name} does")
    labels = [] if options.labels is None else load_labels(options.labels)
    with telling(f"judging by {name}", options.out, "judge") as on_epoch:
        done = judge(
            make_judge(name, **dataclasses.asdict(fields)),
            data_of(options),
            options.out,
            valid=options.valid,
            seed=options.seed,
            threads=options.threads,
            device=options.device,
            overwrite=options.overwrite,
            on_epoch=on_epoch,
            named=name,
        )
    if options.labels is not None:
        try:
            done = dataclasses.replace(done, result=tell(options.out, labels))
        except InputError as error:
            raise InputError(
                f"{options.labels}: {error}; {options.out} is judged without them"
            ) from None
    _report(done, options.as_json, ask=options.ask, labels=labels)


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
    image_size: ImageSize = None
    actions: Actions = None
    every: Every = None
    task: OneTask = None
    labels: Annotated[
        Path | None,
        tyro.conf.arg(
            help="What people say of spans of steps: .csv or .parquet, of `sdil review`."
        ),
    ] = None
    ask: Annotated[int, tyro.conf.arg(help="Name so many spans whose labels would teach most.")] = 0
    seed: Annotated[int, tyro.conf.arg(help="Everything random follows from it.")] = 0
    threads: Annotated[
        int, tyro.conf.arg(help="CPU threads; networks this small are fastest with one.")
    ] = 1
    device: Device = "cpu"
    overwrite: Annotated[bool, tyro.conf.arg(help="Replace the folder if it exists.")] = False
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="Print the answer as JSON.")] = False


def resume_judging(
    resume_: Annotated[Path, tyro.conf.arg(name="resume")],
    judge: str | None = None,
    labels: Path | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Go on with an interrupted judgement, exactly as if it had never stopped.

    Args:
        resume_: The judgement folder.
        judge: The import path of a judge of your own, to be named again.
        labels: What people say of spans of steps, where it was to be told: to be named again.
        as_json: Print the answer as JSON.
    """
    said = [] if labels is None else load_labels(labels)
    name = read_run(resume_).get("name", "")
    with telling(f"judging by {name}", resume_, "judge") as on_epoch:
        done = resume(resume_, makes="judge", named=judge, on_epoch=on_epoch)
    if labels is not None:
        done = dataclasses.replace(done, result=tell(resume_, said))
    _report(done, as_json, labels=said)


def judge_again(
    again: Path,
    labels: Path | None = None,
    ask: int = 0,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Tell a judgement what people say of steps, in seconds: no network is trained again.

    Args:
        again: The judgement folder; what it says changes.
        labels: Table of labels, .csv or .parquet: all that count, not only new ones.
        ask: Name so many spans whose labels would teach most.
        as_json: Print the answer as JSON.
    """
    begun = time.perf_counter()
    given = [] if labels is None else load_labels(labels)
    try:
        fitted = load_tellable(again) if labels is None else tell(again, given)
    except InputError as error:
        raise InputError(f"{error}" if labels is None else f"{labels}: {error}") from None
    done = Finished(again, 0, time.perf_counter() - begun, {}, fitted)
    _report(done, as_json, ask=ask, labels=given)


def _report(done: Finished, json: bool, *, ask: int = 0, labels: Sequence[Label] = ()) -> None:
    fitted = done.result
    assert isinstance(fitted, FittedJudge)
    data = read_run(done.folder)["data"]
    demos = load_demonstrations(data)
    health = health_for(done.folder, fitted, demos)
    optimality = np.concatenate([s.optimality for s in fitted.score(demos.noisy)])
    silent = "step" in fitted.unknown
    summary: dict[str, Any] = {
        "judge": fitted.name,
        "clean_episodes": list(demos.clean.ids),
        "health": health.as_json(),
        **answers_of(fitted),
        "noisy_steps": len(optimality),
        "mean": None if silent else float(optimality.mean()),
        "good": None if silent else float((optimality > 0).mean()),
    }
    if ask:
        assert isinstance(fitted, EvidenceJudge)
        questions = fitted.ask(demos, ask, labels)
        summary["ask"] = [dataclasses.asdict(question) for question in questions]
    if json:
        print_json({"judgement": str(done.folder), "data": data, **summary, **as_json(done)})
        return
    print(plain(f"judged by {fitted.name} in {done.seconds:.1f} s"))
    print_chosen(data, demos)
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
    if ask:
        print_table(
            "spans of noisy steps whose labels would teach most",
            ["episode", "steps", "score", "why"],
            [
                [q.episode, f"{q.first_step} to {q.last_step}", f"{q.optimality:+.2f}", q.why]
                for q in questions
            ],
            text_columns=4,
        )
        print("answer them in a page:")
        print_command(f"sdil review {shlex.quote(str(out))} --labels FILE")
    print_wrapped(f"written to {out}; the worst and best segments:")
    if is_source(data):  # the judgement remembers it, and what was chosen of it
        print_command(f"sdil score {shlex.quote(str(out))}")
        return
    print_command(f"sdil score {shlex.quote(str(out))} --data {shlex.quote(nearby(data))}")


_QUESTIONS = {
    "step": "steps: is this action right here?",
    "episode": "episodes: how well did this go?",
}


def _print_help() -> None:
    print("usage: sdil judge [JUDGE] --data FOLDER --out JUDGEMENT [OPTIONS]")
    print("       sdil judge --resume JUDGEMENT")
    print("       sdil judge --again JUDGEMENT --labels FILE [--ask 20]\n")
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
    print()
    print_options(JudgeOptions)
    print("\nsdil judge JUDGE --help lists the hyper-parameters and defaults too; of other")
    print("people's data, sdil inspect PATH says what --clean, --features and --actions may")
    print("name, and sdil import --help how.")
