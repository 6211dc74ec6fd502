"""The benchmark tasks, and their environments' registration with Gymnasium.

A task's name on the command line is `fourrooms`, `doorkey-5x5`, `doorkey-6x6`, `doorkey-8x8` or
`sepsis`; its Gymnasium id is `sdil/<name>-v0`. Importing this module registers the ids and nothing
heavier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium as gym

from sdil.errors import InputError
from sdil.named import check_has, find_named

if TYPE_CHECKING:
    from sdil.tasks.task import Benchmark

TASK_NAMES = ("fourrooms", "doorkey-5x5", "doorkey-6x6", "doorkey-8x8", "sepsis")


def get_task(name: str) -> Benchmark:
    """The task of this name: one of ours, of an entry point, or `module:task` of the user's."""
    if name == "sepsis":
        from sdil.tasks import sepsis

        return sepsis.TASK
    if name == "fourrooms":
        from sdil.tasks import fourrooms

        return fourrooms.TASK
    if name in TASK_NAMES:
        from sdil.tasks import doorkey

        return doorkey.TASKS[int(name[-1])]
    found = find_named(name, "sdil.tasks")
    if found is None:
        raise InputError(
            f"there is no task {name!r}; there are {', '.join(TASK_NAMES)}, or your own as "
            "module:task"
        )
    task: Benchmark = found() if isinstance(found, type) else found
    check_has(task, name, "task", ("collect", "environment", "table"))
    return task


def register() -> None:
    """Tell Gymnasium about our environments."""
    gym.register("sdil/fourrooms-v0", "sdil.tasks.fourrooms:FourRooms")
    gym.register("sdil/sepsis-v0", "sdil.tasks.sepsis:Sepsis")
    for size in (5, 6, 8):
        gym.register(
            f"sdil/doorkey-{size}x{size}-v0", "sdil.tasks.doorkey:DoorKey", kwargs={"size": size}
        )


if "sdil/fourrooms-v0" not in gym.registry:
    register()
