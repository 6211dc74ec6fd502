"""Which episodes of a source become the clean set, which the noisy one, and in which groups.

`trusted.py` knows which episodes a text names; here they are taken from a task, and kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from sdil.errors import InputError
from sdil.formats.source import Episode, Source
from sdil.formats.trusted import choose, columns_of, offer


def of_task(source: Source, task: str | None) -> tuple[int, ...]:
    """Positions of the episodes of a task, all of them where none was chosen."""
    if task is None:
        return tuple(range(len(source.episodes)))
    tasks = list(dict.fromkeys(e.task for e in source.episodes if e.task is not None))
    numbered = source.about.get("tasks")  # the source's own numbers, where it has any
    if task not in tasks and task.isdecimal():
        if isinstance(numbered, Mapping):
            task = numbered.get(int(task), task)
        elif int(task) < len(tasks):
            task = tasks[int(task)]
    found = tuple(i for i, e in enumerate(source.episodes) if e.task == task)
    if not found:
        raise InputError(
            f"{source.location}: there is no task {task!r}; "
            + (f"there are {'; '.join(tasks)}" if tasks else "it names no tasks")
        )
    return found


def clean_and_noisy(
    source: Source, said: Mapping[str, str]
) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Positions of the clean and of the noisy episodes, and how they were chosen.

    `said` is what was chosen: `clean`, and `noisy` and `task` where they were named.
    """
    if "clean" not in said:
        raise InputError(
            f"{source.location}: which episodes are trusted? Say it with --clean. {offer(source)}"
        )
    among = of_task(source, said.get("task"))
    clean = choose(source, said["clean"], among=among)
    wanted = set(among)
    first = tuple(i for i in clean.positions if i in wanted)
    if not first:
        raise InputError(f"{source.location}: no episode of the task is among {clean.sentence}")
    if "noisy" in said:
        doubtful = choose(source, said["noisy"], among=among)
        both = set(first) & set(doubtful.positions)
        if both:
            name = source.episodes[min(both)].id
            raise InputError(f"{source.location}: episode {name!r} is clean and noisy")
        rest = tuple(i for i in doubtful.positions if i in wanted)
        others = f"noisy: {doubtful.sentence} ({len(rest)})"
    else:
        trusted = set(first)
        rest = tuple(i for i in among if i not in trusted)
        others = f"noisy: all others ({len(rest)})"
    one = source.episodes[first[0]].task
    task = f" of the task {one}" if "task" in said else ""
    return first, rest, f"clean{task}: {clean.sentence} ({len(first)}); {others}"


def group_of(source: Source, episode: Episode, said: Mapping[str, str]) -> str | None:
    """The group that a split keeps together: the source's own, or what a column says."""
    column = said.get("group")
    if column is None or column == "group":
        return episode.group
    if column == "task":
        return episode.task
    if column not in columns_of(source):
        known = ", ".join(columns_of(source)) or "none"
        raise InputError(
            f"{source.location}: episodes have no column {column!r} to group them by; "
            f"there are {known}"
        )
    value = episode.columns.get(column)
    return None if value is None else str(value)
