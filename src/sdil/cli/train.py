"""`sdil train`: a policy from demonstrations, in a run folder that can be resumed."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import Annotated

import tyro

from sdil.algorithms import LEARNERS
from sdil.arguments import read_run
from sdil.cli.answers import print_wrapped
from sdil.cli.console import parse, plain, print_json
from sdil.cli.fitting import (
    as_json,
    asks_to_resume,
    data_of,
    parse_fields,
    preset_of,
    print_phases,
    telling,
)
from sdil.errors import InputError
from sdil.runs import Finished, resume, train


def main(arguments: list[str]) -> None:
    """Choose the learner, then parse its own hyper-parameters."""
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_help()
        if not arguments:
            raise InputError("which learner? See above.")
        return
    if asks_to_resume(arguments):
        parse(resume_training, arguments, "train")
        return
    name, *rest = arguments
    if name not in LEARNERS:
        raise InputError(f"there is no learner {name!r}; there are {', '.join(LEARNERS)}")
    configured, rest = preset_of(LEARNERS[name], rest)
    learner, options = parse_fields(configured, TrainOptions, rest, f"train {name}")
    with telling(f"training {name}", options.out, "train") as on_epoch:
        done = train(
            learner,
            data_of(options),
            options.out,
            judge=options.judge,
            valid=options.valid,
            env=options.env,
            clean_only=options.clean_only,
            seed=options.seed,
            threads=options.threads,
            tensorboard=options.tensorboard,
            overwrite=options.overwrite,
            on_epoch=on_epoch,
        )
    _report(done, options.as_json)


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """What every learner takes."""

    data: Annotated[
        str,
        tyro.conf.arg(
            metavar="PATH",
            help="Folder of demonstrations to learn from, or other people's data, read where it "
            "lies (lerobot:PATH, robomimic:FILE, FILE.csv, ...; see `sdil inspect`).",
        ),
    ]
    out: Annotated[Path, tyro.conf.arg(help="Run folder to write; it must not exist.")]
    judge: Annotated[
        Path | None,
        tyro.conf.arg(
            help="A judgement of `sdil judge`, for learners that use one (sdil, scored-bc); "
            "without it, they bring their own."
        ),
    ] = None
    valid: Annotated[
        Path | None,
        tyro.conf.arg(
            help="Folder whose clean set serves for early stopping; without it, training is as "
            "long as is best across folds, on all that there is."
        ),
    ] = None
    env: Annotated[
        str | None,
        tyro.conf.arg(
            help="A task's name or Gymnasium id, for learners that practise; by default where the "
            "demonstrations came from. none: learn from the records alone."
        ),
    ] = None
    clean_only: Annotated[
        bool, tyro.conf.arg(help="Leave the noisy set out: the paper's first setting.")
    ] = False
    clean: Annotated[
        str | None,
        tyro.conf.arg(
            help="Of data in another format, read where it lies: which episodes are trusted, as "
            "`sdil import` takes it (better; 0-29,40; 'top 20% by return'; an SQL condition)."
        ),
    ] = None
    features: Annotated[
        str | None, tyro.conf.arg(help="Of data in another format: what is seen, by name.")
    ] = None
    actions: Annotated[
        str | None, tyro.conf.arg(help="Of data in another format: what is done, by name.")
    ] = None
    every: Annotated[
        int | None, tyro.conf.arg(help="Of data in another format: keep each n-th frame.")
    ] = None
    task: Annotated[
        str | None, tyro.conf.arg(help="Of data in another format: which of several tasks.")
    ] = None
    seed: Annotated[int, tyro.conf.arg(help="Everything random follows from it.")] = 0
    threads: Annotated[
        int, tyro.conf.arg(help="CPU threads; networks this small are fastest with one.")
    ] = 1
    tensorboard: Annotated[
        bool, tyro.conf.arg(help="Also log each number for TensorBoard, in the run folder.")
    ] = False
    overwrite: Annotated[bool, tyro.conf.arg(help="Replace the run folder if it exists.")] = False
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="Print the answer as JSON.")] = False


def resume_training(
    resume_: Annotated[Path, tyro.conf.arg(name="resume")],
    env: str | None = None,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Go on with an interrupted run, exactly as if it had never stopped.

    Args:
        resume_: The run folder.
        env: The environment that it practises in; to be named again where it is not one of ours.
        as_json: Print the answer as JSON.
    """
    name = read_run(resume_).get("name", "")
    with telling(f"training {name}", resume_, "train") as on_epoch:
        done = resume(resume_, makes="policy", env=env, on_epoch=on_epoch)
    _report(done, as_json)


def _report(done: Finished, json: bool) -> None:
    if json:
        print_json({"run": str(done.folder), **as_json(done)})
        return
    print(f"trained for {done.epochs} epochs in {done.seconds:.1f} s")
    print_phases(done)
    judge = getattr(done.result, "judge", None)
    if judge is not None:
        names = [s.name for s in judge.signals if s.heard and s.output == "step"]
        heard = ", ".join(names) or "nothing that tells"
        print_wrapped(f"steps were judged by {judge.name}, which heard: {heard}")
        if "step" in judge.unknown:
            print_wrapped(judge.unknown["step"])
    trusted = getattr(done.result, "trusted", "")
    if trusted:
        print_wrapped(trusted)
    out = done.folder
    more = "" if read_run(out)["environment"] else " --data FOLDER"  # records have no environment
    print(plain(f"written to {out}; measure it with: sdil evaluate {out}{more}"))


def _print_help() -> None:
    print("usage: sdil train LEARNER --data FOLDER --out RUN [OPTIONS]")
    print("       sdil train --resume RUN\n")
    print("learners:")
    for name, kind in LEARNERS.items():
        first_line = (kind.__doc__ or "").strip().splitlines()[0]
        text = f"  {name:<12} {first_line} ({kind.reference})"
        print(textwrap.fill(text, 80, subsequent_indent=" " * 15, break_on_hyphens=False))
    print("\nsdil train LEARNER --help lists every hyper-parameter. --preset NAME starts from")
    print("another configuration than the default:")
    for name, kind in LEARNERS.items():
        for preset in getattr(kind, "presets", dict)():
            print(f"  {name:<12} {preset}")
