"""What `sdil train` and `sdil judge` share: options beside the fields, a bar, tables."""

from __future__ import annotations

import dataclasses
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import tyro

from sdil.cli.console import parse, print_table, progress
from sdil.errors import InputError
from sdil.formats.data import with_choices
from sdil.limits import Between
from sdil.moved import refuse_moved

if TYPE_CHECKING:
    from sdil.runs import Finished
    from sdil.training import Epoch, OnEpoch

Options = TypeVar("Options")

# Options of what is read in another format than ours.
Clean = Annotated[
    str | None,
    tyro.conf.arg(
        help="Of data in another format, read where it lies: which episodes are trusted, as "
        "`sdil import` takes it (better; 0-29,40; 'top 20% by return'; an SQL condition)."
    ),
]
Features = Annotated[
    str | None, tyro.conf.arg(help="Of data in another format: what is seen, by name.")
]
ImageSize = Annotated[
    str | None,
    tyro.conf.arg(help="Of data in another format: the size of its pictures, 96 or HxW."),
]
Actions = Annotated[
    str | None, tyro.conf.arg(help="Of data in another format: what is done, by name.")
]
Every = Annotated[
    int | None, tyro.conf.arg(help="Of data in another format: keep each n-th frame.")
]
OneTask = Annotated[
    str | None, tyro.conf.arg(help="Of data in another format: which of several tasks.")
]

Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    tyro.conf.arg(
        help="Where pictures are encoded and networks trained; auto: on a GPU where there is one."
    ),
]


def parse_fields(
    configured: Any, options: type[Options], arguments: Sequence[str], command: str
) -> tuple[Any, Options]:
    """A configuration with the fields that the command line changes, and the options beside it."""
    kind = type(configured)
    given = {a.partition("=")[0].lstrip("-").replace("-", "_") for a in arguments if a[:2] == "--"}
    refuse_moved(kind.name, sorted(given))
    hints = get_type_hints(options, include_extras=True)
    beside: Any = options
    own = dataclasses.fields(beside)
    limited = _with_limits(configured)
    together: Any = dataclasses.make_dataclass(
        command,
        [
            *[(f.name, hints[f.name], f) for f in own],
            (
                "configured",
                Annotated[type(limited), tyro.conf.arg(name="")],
                dataclasses.field(default=limited),
            ),
        ],
        namespace={"__doc__": kind.__doc__},
    )
    chosen = parse(together, arguments, command)
    fields = {f.name: getattr(chosen.configured, f.name) for f in dataclasses.fields(kind)}
    return kind(**fields), options(**{f.name: getattr(chosen, f.name) for f in own})


def print_options(options: type[Any]) -> None:
    """What every learner or judge takes, with what each option is for."""
    print("options:")
    for name, hint in get_type_hints(options, include_extras=True).items():
        said = [about for about in getattr(hint, "__metadata__", ()) if hasattr(about, "help")]
        flag = "--" + str((said and said[0].name) or name).replace("_", "-")
        text = f"  {flag:<12} {(said and said[0].help) or ''}"
        print(textwrap.fill(text, 80, subsequent_indent=" " * 15, break_on_hyphens=False))


def _with_limits(configured: Any) -> Any:
    """The same configuration, of a class whose help says the limit of each field."""
    kind = type(configured)
    hints = get_type_hints(kind, include_extras=True)
    fields = [
        (f.name, Annotated[hints[f.name], _argument(hints[f.name])], dataclasses.field())
        for f in dataclasses.fields(kind)
    ]
    limited: Any = dataclasses.make_dataclass(
        kind.__name__, fields, bases=(kind,), frozen=True, namespace={"__doc__": kind.__doc__}
    )
    return limited(**{f.name: getattr(configured, f.name) for f in dataclasses.fields(kind)})


def _argument(hint: Any) -> Any:
    """What help puts in the place of a number: its limits."""
    limits = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Between)]
    return tyro.conf.arg(metavar=limits[0].short) if limits else tyro.conf.arg()


@contextmanager
def telling(what: str, out: Path, command: str) -> Iterator[OnEpoch]:
    """A bar that follows epochs; after Ctrl-C, how to go on."""
    heard = 0
    with progress(what) as update:

        def on_epoch(epoch: Epoch) -> None:
            nonlocal heard
            heard += 1
            update(epoch.index, epoch.total, f"{what}: {epoch.phase}")

        try:
            yield on_epoch
        except KeyboardInterrupt:
            if not heard:
                raise KeyboardInterrupt("interrupted before anything was learned") from None
            raise KeyboardInterrupt(
                f"interrupted after {heard} epochs; nothing is lost. "
                f"Go on with: sdil {command} --resume {shlex.quote(str(out))}"
            ) from None


def print_phases(done: Finished) -> None:
    """What was said of the weights that each phase keeps."""
    for phase, figures in done.phases.items():
        print_table(
            f"{phase}, {_epochs(figures)}",
            ["figure", "value"],
            [[k.replace("_", " "), _show(v)] for k, v in figures.items() if k not in _NAMES],
        )


def as_json(done: Finished) -> dict[str, Any]:
    """A finished run for a program to read."""
    return {"epochs": done.epochs, "seconds": done.seconds, "phases": done.phases}


_CHOSEN = ("clean", "features", "image_size", "actions", "task")


def data_of(options: Any) -> str:
    """The demonstrations that options name, with what they choose of other people's data."""
    every = None if options.every is None else str(options.every)
    chosen = {name: getattr(options, name) for name in _CHOSEN}
    return with_choices(options.data, **chosen, every=every)


def seeds_of(text: str) -> list[int]:
    """The seeds that "0-4" or "0,3,7-9" stands for, in this order."""
    found: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InputError(f"seeds are given as 0-4 or 0,3,7, not {text!r}")
        found += range(int(first), int(last or first) + 1)
    if len(set(found)) != len(found) or not found:
        raise InputError(f"seeds are given as 0-4 or 0,3,7, each once, not {text!r}")
    return found


def asks_to_resume(arguments: Sequence[str]) -> bool:
    """Whether the first argument is `--resume`."""
    return bool(arguments) and arguments[0].partition("=")[0] == "--resume"


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


def preset_of(kind: Any, arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """The configuration that `--preset NAME` stands for, and the arguments without it."""
    presets: dict[str, Any] = getattr(kind, "presets", dict)()
    for i, argument in enumerate(arguments):
        if argument == "--preset" or argument.startswith("--preset="):
            rest = [*arguments[:i], *arguments[i + (1 if "=" in argument else 2) :]]
            name = argument.partition("=")[2] or "".join(arguments[i + 1 : i + 2])
            if name not in presets:
                known = ", ".join(presets) or "none"
                raise InputError(f"{kind.name} has no preset {name!r}; it has {known}")
            return presets[name], rest
    return kind(), list(arguments)
