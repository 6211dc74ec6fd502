"""`sdil train`: a policy from demonstrations, in a run folder that can be resumed."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from sdil.algorithms import LEARNERS
from sdil.algorithms.learner import Learner
from sdil.cli.console import check_seed, parse, print_json, print_table, set_threads
from sdil.cli.run import RunInputs, continue_run, read_run, start_run
from sdil.errors import InputError


def main(arguments: list[str]) -> None:
    """Choose the learner, then parse its own hyper-parameters."""
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_help()
        if not arguments:
            raise InputError("which learner? See above.")
        return
    if arguments[0] == "--resume" or arguments[0].startswith("--resume="):
        parse(resume_training, arguments, "train")
        return
    name, *rest = arguments
    if name not in LEARNERS:
        raise InputError(f"there is no learner {name!r}; there are {', '.join(LEARNERS)}")
    learner, rest = _preset(LEARNERS[name], rest)
    hints = get_type_hints(TrainOptions, include_extras=True)
    options: Any = dataclasses.make_dataclass(
        f"train {name}",
        [
            *[(f.name, hints[f.name], f) for f in dataclasses.fields(TrainOptions)],
            (
                "learner",
                Annotated[LEARNERS[name], tyro.conf.arg(name="")],
                dataclasses.field(default=learner),
            ),
        ],
        namespace={"__doc__": LEARNERS[name].__doc__},
    )
    chosen = parse(options, rest, f"train {name}")
    shared = {f.name: getattr(chosen, f.name) for f in dataclasses.fields(TrainOptions)}
    _train(chosen.learner, TrainOptions(**shared))


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """What every learner takes."""

    data: Annotated[Path, tyro.conf.arg(help="Folder of demonstrations to learn from.")]
    out: Annotated[Path, tyro.conf.arg(help="Run folder to write; it must not exist.")]
    valid: Annotated[
        Path | None,
        tyro.conf.arg(
            help="Folder whose clean set serves for early stopping; "
            "without it, a fifth of the clean episodes is held out."
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
    resume: Path,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Go on with an interrupted run, exactly as if it had never stopped.

    Args:
        resume: The run folder.
        as_json: Print the answer as JSON.
    """
    _report(resume, continue_run(resume), as_json)


def _train(learner: Learner, options: TrainOptions) -> None:
    check_seed(options.seed)
    set_threads(options.threads)
    inputs = RunInputs(
        learner=learner.name,
        hyperparameters=dataclasses.asdict(learner),  # type: ignore[call-overload]
        seed=options.seed,
        data=str(options.data),
        valid=None if options.valid is None else str(options.valid),
        clean_only=options.clean_only,
        command=["sdil", *sys.argv[1:]],
        threads=options.threads,
        tensorboard=options.tensorboard,
        env=options.env,
    )
    _report(
        options.out, start_run(inputs, options.out, overwrite=options.overwrite), options.as_json
    )


def _report(out: Path, last: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"run": str(out), **last})
        return
    print(f"trained for {last['epochs']} epochs in {last['seconds']:.1f} s")
    for phase, figures in last["phases"].items():
        print_table(
            f"{phase}, {_epochs(figures)}",
            ["figure", "value"],
            [[k.replace("_", " "), _show(v)] for k, v in figures.items() if k not in _NAMES],
        )
    more = "" if read_run(out)["environment"] else " --data FOLDER"  # records have no environment
    print(f"written to {out}; measure it with: sdil evaluate {out}{more}")


_NAMES = ("phase", "epoch", "epochs", "kept")


def _epochs(figures: dict[str, Any]) -> str:
    kept, epochs = figures["epoch"], figures["epochs"]
    return f"after {epochs} epochs" if kept == epochs else f"epoch {kept} of {epochs}, the one kept"


def _show(value: Any) -> str:
    if isinstance(value, list):  # usage per skill, or a histogram, in percent
        return " ".join(f"{100 * v:.0f}" for v in value) + " %"
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def _preset(kind: Any, arguments: list[str]) -> tuple[Learner, list[str]]:
    """The learner that `--preset NAME` stands for, and the arguments without it."""
    presets: dict[str, Learner] = getattr(kind, "presets", dict)()
    for i, argument in enumerate(arguments):
        if argument == "--preset" or argument.startswith("--preset="):
            rest = arguments[:i] + arguments[i + (1 if "=" in argument else 2) :]
            name = argument.partition("=")[2] or "".join(arguments[i + 1 : i + 2])
            if name not in presets:
                known = ", ".join(presets) or "none"
                raise InputError(f"{kind.name} has no preset {name!r}; it has {known}")
            return presets[name], rest
    return kind(), arguments


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
