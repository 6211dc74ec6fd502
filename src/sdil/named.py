"""A user's own tasks, judges and learners: by import path (`my_module:Mine`), or by entry point.

An import path is only ever followed where the user names it, on the command line, in Python or in
their own study; a name that came with a file is not. An entry point is a name that an installed
package gives, in the group `sdil.learners`, `sdil.judges` or `sdil.tasks`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

from sdil.errors import InputError

Group = Literal["sdil.learners", "sdil.judges", "sdil.tasks"]


def is_import_path(name: Any) -> bool:
    """Whether a name says where something is: `module:attribute`."""
    if not isinstance(name, str):
        return False
    module, _, attribute = name.partition(":")
    return bool(attribute) and all(part.isidentifier() for part in (*module.split("."), attribute))


def find_named(name: str, group: Group) -> Any:
    """What an import path or an entry point names; None where it is neither."""
    if is_import_path(name):
        return find_imported(name)
    for point in entry_points(group=group):
        if point.name == name:
            return point.load()
    return None


def find_imported(name: str) -> Any:
    """What lies at an import path."""
    module, _, attribute = name.partition(":")
    here = os.getcwd()  # noqa: PTH109  # sys.path holds text
    added = here not in sys.path and "" not in sys.path
    if added:  # a script of ours does not look where the user stands
        sys.path.insert(0, here)
    try:
        found = import_module(module)
    except ImportError as error:
        raise InputError(
            f"{name}: cannot import {module!r} ({error}); run from where it lies, or install it"
        ) from None
    finally:
        if added:
            sys.path.remove(here)
    if not hasattr(found, attribute):
        raise InputError(f"{name}: the module {module!r} has no {attribute!r}")
    return getattr(found, attribute)


def check_has(found: Any, name: str, what: str, needed: tuple[str, ...]) -> None:
    """Raise where something that was named is not of its kind."""
    missing = [each for each in needed if not hasattr(found, each)]
    if missing:
        raise InputError(
            f"{name} is no {what}: it has no {', '.join(missing)}; docs/architecture.md says what "
            f"a {what} is"
        )
