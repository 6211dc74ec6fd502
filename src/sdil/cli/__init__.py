"""The command line. Thin: parse, call, print. Each command is imported when it is called."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from sdil.errors import InputError

COMMANDS = {
    "collect": "make demonstrations of a benchmark task",
    "import": "make demonstrations of your own data, in any of many formats",
    "inspect": "say what a folder of demonstrations, or a data set of yours, holds",
    "judge": "say which steps of demonstrations are good, with no policy",
    "train": "learn a policy from demonstrations",
    "algorithms": "list the learners and the judges",
    "evaluate": "measure a policy in its environment and on recorded steps",
    "review": "label steps in a page on this machine; the judge learns from it",
    "score": "rank segments and write the score of each step",
    "curate": "write cleaner demonstrations, and say whether they help",
    "export": "write answers back in the format that data came in",
    "report": "explain a run or a judgement on one page",
    "demo": "collect, train, evaluate and report on FourRooms, end to end",
    "study": "run the paper's experiments, or your own, and show their tables",
    "mimic": "make demonstrations of sepsis treatment from MIMIC-IV",
    "expert": "train a PPO agent to demonstrate a task (needs sdil[experts])",
}

_MODULES = {"import": "importing"}
"""Where a command lies whose name Python keeps for itself."""

FAILED = 1
"""The exit code where cells of a study failed."""
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        _print_help()
        return 0 if arguments else BAD_INPUT
    if arguments[0] == "--version":
        from sdil import __version__

        print(f"sdil {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"sdil: there is no command {name!r}; try sdil --help", file=sys.stderr)
        return BAD_INPUT
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            code: int | None = import_module(f"sdil.cli.{_MODULES.get(name, name)}").main(rest)
    except InputError as error:
        _complain(f"sdil {name}: {_as_options(str(error))}", rest)
        return BAD_INPUT
    except KeyboardInterrupt as stop:
        print(file=sys.stderr)
        _complain(f"sdil {name}: {str(stop) or 'interrupted'}", rest)
        return INTERRUPTED
    except BrokenPipeError:  # `sdil inspect ... | head`
        sys.stderr.close()
        return 0
    except OSError as error:
        _complain(f"sdil {name}: {error}", rest)
        return BAD_INPUT
    return code or 0


def _print_help() -> None:
    width = max(map(len, COMMANDS))
    print("usage: sdil COMMAND [OPTIONS]\n")
    print("Imitation learning from a few trusted demonstrations and many doubtful ones.\n")
    print("commands:")
    for name, text in COMMANDS.items():
        print(f"  {name:<{width}}  {text}")
    print("\nsdil COMMAND --help says more about each, sdil --version which version this is.")


def _as_options(message: str) -> str:
    """What Python calls an argument is an option here."""
    return message.replace("overwrite=True", "--overwrite")


def _show_warning(message: Warning | str, *_: object) -> None:
    _complain(f"warning: {message}")


def _complain(text: str, arguments: Sequence[str] = ()) -> None:
    from sdil.cli.wrapping import complain, parts_of

    complain(text, parts_of(arguments))
