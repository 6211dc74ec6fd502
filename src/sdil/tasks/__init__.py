"""The benchmark tasks, and their environments' registration with Gymnasium.

A task's name on the command line is one of `TASK_NAMES`; its Gymnasium id is `sdil/<name>-v0`.
Importing this module registers the ids and nothing heavier.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import gymnasium as gym

from sdil.errors import InputError
from sdil.named import check_has, find_named

if TYPE_CHECKING:
    from sdil.tasks.task import Benchmark

TASK_NAMES = (
    *("fourrooms", "doorkey-5x5", "doorkey-6x6", "doorkey-8x8", "errands", "sepsis"),
    *("pointmaze", "pick-place", "drawer-open"),
    *("fourrooms-images", "doorkey-5x5-images", "doorkey-6x6-images", "doorkey-8x8-images"),
    "pick-place-images",
)

TASK_MODULES = {
    **{f"doorkey-{size}x{size}": "sdil.tasks.doorkey" for size in (5, 6, 8)},
    "errands": "sdil.tasks.errands_people",
    "pointmaze": "sdil.tasks.pointmaze_people",
    "fourrooms-images": "sdil.tasks.pictures",
    **{f"doorkey-{size}x{size}-images": "sdil.tasks.pictures" for size in (5, 6, 8)},
    "pick-place": "sdil.tasks.sawyer_people",
    "pick-place-images": "sdil.tasks.sawyer_people",
    "drawer-open": "sdil.tasks.sawyer_people",
}
"""Where a task is made, if not in the module of its name."""


def get_task(name: str) -> Benchmark:
    """The task of this name: one of ours, of an entry point, or `module:task` of the user's."""
    if name in TASK_NAMES:
        module = import_module(TASK_MODULES.get(name, f"sdil.tasks.{name}"))
        tasks: dict[str, Benchmark] | None = getattr(module, "TASKS", None)
        ours: Benchmark = module.TASK if tasks is None else tasks[name]
        return ours
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
    gym.register("sdil/errands-v0", "sdil.tasks.errands:Errands")
    gym.register("sdil/sepsis-v0", "sdil.tasks.sepsis:Sepsis")
    gym.register("sdil/pointmaze-v0", "sdil.tasks.pointmaze:PointMaze")
    for arm in ("pick-place", "drawer-open"):
        gym.register(f"sdil/{arm}-v0", "sdil.tasks.sawyer:Sawyer", kwargs={"task": arm})
    arm_seen = {"task": "pick-place", "images": True}
    gym.register("sdil/pick-place-images-v0", "sdil.tasks.sawyer:Sawyer", kwargs=arm_seen)
    gym.register("sdil/pusht-v0", "sdil.tasks.pusht:PushT")  # no task: its data is the user's
    gym.register("sdil/pusht-images-v0", "sdil.tasks.pusht:PushT", kwargs={"images": True})
    gym.register("sdil/fourrooms-images-v0", "sdil.tasks.pictures:FourRoomsImages")
    for size in (5, 6, 8):
        name, size_of = f"sdil/doorkey-{size}x{size}", {"size": size}
        gym.register(f"{name}-v0", "sdil.tasks.doorkey:DoorKey", kwargs=size_of)
        gym.register(f"{name}-images-v0", "sdil.tasks.pictures:DoorKeyImages", kwargs=size_of)


if "sdil/fourrooms-v0" not in gym.registry:
    register()
