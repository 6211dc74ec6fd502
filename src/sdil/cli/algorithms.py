"""`sdil algorithms`: every learner and judge, what each does, and where it comes from."""

from __future__ import annotations

from typing import Annotated

import tyro

from sdil.cli.console import parse, print_json, print_table
from sdil.studies.source import Sources

_TOLD = ("noisy_set", "environment", "judges_steps", "takes_judge", "reference")


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(algorithms, arguments, "algorithms")


def algorithms(as_json: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """List the learners and the judges.

    Args:
        as_json: Print the answer as JSON.
    """
    written = Sources()  # read, not imported: PyTorch takes seconds
    rows = [
        {"name": name} | {key: written.learner(name).class_variables[key] for key in _TOLD}
        for name in written.listed("LEARNERS")
    ]
    names = written.listed("JUDGES")
    if as_json:
        judges = [
            {"name": name, "reference": written.judge(name).class_variables["reference"]}
            for name in names
        ]
        print_json({"learners": rows, "judges": judges})
        return
    print_table(
        "learners",
        ["name", "the noisy set is", "environment", "judge", "reference"],
        [
            [
                str(r["name"]),
                str(r["noisy_set"]),
                str(r["environment"]),
                "takes one" if r["takes_judge"] else "has one" if r["judges_steps"] else "no",
                str(r["reference"]),
            ]
            for r in rows
        ],
        text_columns=5,
    )
    print("Each learns from the clean set alone too: sdil train NAME --clean-only ...")
    print("Judges that need no policy: sdil judge NAME ..., NAME one of")
    print(f"  {', '.join(names)}")
