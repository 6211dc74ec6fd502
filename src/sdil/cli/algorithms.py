"""`sdil algorithms`: every learner, what it does with the noisy set, and where it comes from."""

from __future__ import annotations

from typing import Annotated

import tyro

from sdil.algorithms import LEARNERS
from sdil.cli.console import parse, print_json, print_table


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(algorithms, arguments, "algorithms")


def algorithms(as_json: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """List the learners.

    Args:
        as_json: Print the answer as JSON.
    """
    rows = [
        {
            "name": name,
            "noisy_set": kind.noisy_set,
            "environment": kind.environment,
            "judges_steps": kind.judges_steps,
            "reference": kind.reference,
        }
        for name, kind in LEARNERS.items()
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        "learners",
        ["name", "the noisy set is", "environment", "scores", "reference"],
        [
            [
                str(r["name"]),
                str(r["noisy_set"]),
                str(r["environment"]),
                "yes" if r["judges_steps"] else "no",
                str(r["reference"]),
            ]
            for r in rows
        ],
        text_columns=5,
    )
    print("Each learns from the clean set alone too: sdil train NAME --clean-only ...")
