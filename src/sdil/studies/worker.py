"""A worker process: cells in on standard input, results out on standard output, as JSON lines.

It ends, in mid-cell too, when whoever started it closes its input or dies.
"""

from __future__ import annotations

import json
import os
import select
import sys
from threading import Thread
from typing import Any

from sdil.studies.runners import Job, attempt


def main() -> None:
    """Measure cells until there are no more."""
    Thread(target=_end_with_the_input, daemon=True).start()
    import sdil.algorithms
    import sdil.studies.measure  # noqa: F401  # imported now: no cell's time is spent on it

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between the answers

    def answer(**said: Any) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    for line in sys.stdin:
        asked = json.loads(line)
        job = Job(asked["address"], "", asked["inputs"], asked["data"])
        answer(kind="started")
        done = attempt(job)
        answer(kind="finished", record=done.record, timing=done.timing, traceback=done.traceback)


def _end_with_the_input() -> None:
    """Wait until nobody can write to our input any more: nobody will hear an answer either."""
    hung_up = select.poll()
    hung_up.register(sys.stdin.fileno(), 0)  # a hang-up is told without asking for anything
    hung_up.poll()
    os._exit(1)


if __name__ == "__main__":
    main()
