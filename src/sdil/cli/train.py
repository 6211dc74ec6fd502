"""`sdil train`: a policy from demonstrations, in a run folder that can be resumed."""

from __future__ import annotations

import dataclasses
import shlex
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sdil.cli.chosen import nearby
from sdil.cli.console import parse, plain, print_json, print_wrapped
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
    print_phases,
    seeds_of,
    telling,
)
from sdil.cli.wrapping import complain
from sdil.errors import InputError
from sdil.progress import duration
from sdil.studies.source import Sources

if TYPE_CHECKING:
    from sdil.runs import Finished


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
    from sdil.algorithms import find_learner  # PyTorch: seconds, which --help need not wait for
    from sdil.arguments import read_run
    from sdil.cli.chosen import print_chosen
    from sdil.runs import train

    name, *rest = arguments
    if name.startswith("-"):
        raise InputError(
            "LEARNER comes first: sdil train LEARNER --data FOLDER --out RUN; sdil train --help "
            "lists the learners"
        )
    configured, rest = preset_of(find_learner(name), rest)
    learner, options = parse_fields(configured, TrainOptions, rest, f"train {name}")
    several = None if options.seeds is None else seeds_of(options.seeds)
    runs = {options.seed: options.out} if several is None else _folders(options.out, several)
    answers = []
    for seed, out in runs.items():  # one after the other: docs/speed.md says why
        with telling(f"training {name}", out, "train") as on_epoch:
            done = train(
                learner,
                data_of(options),
                out,
                judge=options.judge,
                valid=options.valid,
                env=options.env,
                clean_only=options.clean_only,
                seed=seed,
                threads=options.threads,
                device=options.device,
                tensorboard=options.tensorboard,
                overwrite=options.overwrite,
                on_epoch=on_epoch,
                named=name,
            )
        if not options.as_json and out == next(iter(runs.values())):
            with suppress(InputError):  # the source may be gone by now, and the policy is learned
                print_chosen(read_run(out)["data"])
        if several is not None and options.as_json:
            answers.append({"seed": seed, **_answer(done)})
        else:
            _report(done, options.as_json, options.verbose)
    if answers:
        print_json({"runs": answers})


def _folders(out: Path, seeds: list[int]) -> dict[int, Path]:
    """A run folder for each seed."""
    return {seed: out / f"seed-{seed}" for seed in seeds}


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
    clean: Clean = None
    features: Features = None
    image_size: ImageSize = None
    actions: Actions = None
    every: Every = None
    task: OneTask = None
    seed: Annotated[int, tyro.conf.arg(help="Everything random follows from it.")] = 0
    seeds: Annotated[
        str | None,
        tyro.conf.arg(
            help="Several seeds instead, such as 0-4 or 0,3,7: a run each, in OUT/seed-0 and so on."
        ),
    ] = None
    threads: Annotated[
        int, tyro.conf.arg(help="CPU threads; networks this small are fastest with one.")
    ] = 1
    device: Device = "cpu"
    tensorboard: Annotated[
        bool, tyro.conf.arg(help="Also log each number for TensorBoard, in the run folder.")
    ] = False
    overwrite: Annotated[bool, tyro.conf.arg(help="Replace the run folder if it exists.")] = False
    verbose: Annotated[
        bool, tyro.conf.arg(help="Also print what was said of the weights that each phase keeps.")
    ] = False
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="Print the answer as JSON.")] = False


def resume_training(
    resume_: Annotated[Path, tyro.conf.arg(name="resume")],
    env: str | None = None,
    learner: str | None = None,
    verbose: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Go on with an interrupted run, exactly as if it had never stopped.

    Args:
        resume_: The run folder.
        env: The environment that it practises in; to be named again where it is not one of ours.
        learner: The import path of a learner of your own, to be named again.
        verbose: Also print what was said of the weights that each phase keeps.
        as_json: Print the answer as JSON.
    """
    from sdil.arguments import read_run
    from sdil.runs import resume

    name = read_run(resume_).get("name", "")
    with telling(f"training {name}", resume_, "train") as on_epoch:
        done = resume(resume_, makes="policy", env=env, named=learner, on_epoch=on_epoch)
    _report(done, as_json, verbose)


def _report(done: Finished, json: bool, verbose: bool) -> None:
    """In three lines; tables behind --verbose."""
    from sdil.arguments import read_run

    if json:
        print_json(_answer(done))
        return
    floor = _worse_than_blind(done)
    if verbose:
        print_phases(done)
    judge = getattr(done.result, "judge", None)
    trusted = getattr(done.result, "trusted", "")
    print(f"trained for {done.epochs} epochs in {duration(done.seconds)}{_last_loss(done)}")
    if judge is not None:
        names = [s.name for s in judge.signals if s.heard and s.output == "step"]
        heard = ", ".join(names) or "nothing that tells"
        more = judge.unknown.get("step") or trusted
        about = f"steps were judged by {judge.name}, which heard: {heard}"
        print_wrapped(f"{about}; {more}" if more else about)
    elif trusted:
        print_wrapped(trusted)
    if floor is not None:
        complain(f"warning: {floor}")
    noted, out = read_run(done.folder), shlex.quote(str(done.folder))
    # records have no environment: on what it learned from, unless others are named
    on = "" if noted["environment"] else f" --data {shlex.quote(nearby(noted['data']))}"
    print(plain(f"written to {done.folder}; measure it with: sdil evaluate {out}{on}"))


def _answer(done: Finished) -> dict[str, Any]:
    return {"run": str(done.folder), **as_json(done), "warning": _worse_than_blind(done)}


def _last_loss(done: Finished) -> str:
    """What the last phase says of the weights that it keeps, where it says it."""
    last = list(done.phases.values())[-1] if done.phases else {}
    known = [(name, last[name]) for name in ("valid_loss", "valid_nll", "loss") if name in last]
    told = [(name, value) for name, value in known if isinstance(value, float)]
    return f"; {told[0][0].replace('_', ' ')} {told[0][1]:.3f}" if told else ""


def _worse_than_blind(done: Finished) -> str | None:
    """On clean validation where it was given, otherwise on the clean steps learned from."""
    from sdil.arguments import read_run
    from sdil.evaluation.floors import worse_than_blind
    from sdil.formats.data import load_demonstrations
    from sdil.policy import Policy

    assert isinstance(done.result, Policy)
    about = read_run(done.folder)
    seen = load_demonstrations(about["data"]).clean
    asked = seen if about["valid"] is None else load_demonstrations(about["valid"]).clean
    return worse_than_blind(done.result, seen, asked)


def _print_help() -> None:
    written = Sources()  # read, not imported: PyTorch takes seconds
    learners = {name: written.learner(name) for name in written.listed("LEARNERS")}
    print("usage: sdil train LEARNER --data FOLDER --out RUN [OPTIONS]")
    print("       sdil train --resume RUN\n")
    print("learners:")
    for name, learner in learners.items():
        text = f"  {name:<12} {learner.about} ({learner.class_variables['reference']})"
        print(textwrap.fill(text, 80, subsequent_indent=" " * 15, break_on_hyphens=False))
    print("  module:Class  one of your own")
    print("\nsdil train LEARNER --help lists every hyper-parameter. --preset NAME starts from")
    print("another configuration than the default:")
    for name, learner in learners.items():
        for preset in learner.presets:
            print(f"  {name:<12} {preset}")
