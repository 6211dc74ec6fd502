"""`sdil review`: look at steps, say whether they are good, and have the judgement learn from it."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import tyro

from sdil.cli.console import parse, plain, print_wrapped
from sdil.errors import InputError


def _user() -> str:
    """Who is at the keyboard, as far as the machine knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in containers
        return ""


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(review, arguments, "review")


def review(
    judgement: tyro.conf.Positional[Path],
    labels: Path,
    data: str | None = None,
    who: str | None = None,
    ask: int = 20,
    port: int = 0,
    open_: Annotated[bool, tyro.conf.arg(name="open")] = False,
) -> None:
    """Serve a page on this machine where a person labels spans of steps: good, bad or unsure.

    The page asks for the spans whose labels teach most, and after every two answers chooses them
    anew; any other span can be labelled too. Every answer is in the table of labels at once, so
    that nothing is lost however this ends. "Rejudge" tells the judgement all labels, in seconds,
    and shows what changed. Nothing leaves this machine: the page is served on the loopback address,
    under an address that holds a secret.

    Args:
        judgement: A judgement of `sdil judge`, by our own judge.
        labels: The table to keep answers in, .csv or .parquet; it may exist and is gone on with.
        data: Folder of demonstrations; by default what the judgement was made of.
        who: Your name in the table; by default that of your account.
        ask: Spans that are asked for at a time.
        port: By default one that is free.
        open_: Open the page in the browser.
    """
    if labels.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{labels}: its name must end in .csv or .parquet")
    if ask < 1:
        raise InputError(f"--ask must be at least 1, not {ask}")
    if not 0 <= port < 65_536:
        raise InputError(f"--port must be from 0 to 65535, not {port}")
    from sdil.cli.answers import data_for
    from sdil.cli.reviewing import Review
    from sdil.cli.serving import ReviewServer
    from sdil.explanation.seen import names_of
    from sdil.formats.data import describe, load_demonstrations, origin_of
    from sdil.formats.filmed import cameras_for
    from sdil.locks import locked

    place = data_for(judgement, data)
    demos = load_demonstrations(place)
    names = names_of(describe(place), demos.spaces)
    filmed, missing = cameras_for(origin_of(place), demos)
    if missing is not None:
        print_wrapped(f"note: {missing}")
    with locked(labels):
        kept = Review(
            judgement,
            demos,
            labels,
            who=who or _user(),
            names=names,
            questions=ask,
            filmed=filmed,
        )
        with ReviewServer(kept, port) as server:
            print(plain(f"{len(kept.labels)} answers are in {labels}; review at"), flush=True)
            print(server.address, flush=True)
            print("end with Ctrl-C: every answer is on disk already", flush=True)
            if open_:
                import webbrowser

                webbrowser.open(server.address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print()
                print(plain(f"{len(kept.labels)} answers are in {labels}"))
