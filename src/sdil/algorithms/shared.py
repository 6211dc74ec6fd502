"""What learners of the same demonstrations have in common, worked out once.

Whoever fits several learners to the same demonstrations says so (`sharing`); then the judge that
each would make for itself, and how far it is trusted, are found by the first and given to the
others. Policies are the same bit for bit, and so is what they warn of.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


class Shared:
    """What was found of the demonstrations that were looked at last."""

    def __init__(self) -> None:
        self.spared = 0.0
        """CPU seconds that it took to find what was only given away since."""
        self._of: Hashable = None
        self._found: dict[Hashable, tuple[Any, float, list[Warning]]] = {}

    def once(self, of: Hashable, what: Hashable, find: Callable[[], T]) -> T:
        if of != self._of:
            self._of, self._found = of, {}
        known = what in self._found
        if not known:
            began = time.process_time()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                value = find()
            said = [w.message for w in told if isinstance(w.message, Warning)]
            self._found[what] = value, time.process_time() - began, said
        found: T
        found, seconds, said = self._found[what]
        self.spared += seconds if known else 0.0
        for message in said:
            warnings.warn(message, stacklevel=3)
        return found


_NOW: ContextVar[Shared | None] = ContextVar("shared", default=None)


@contextmanager
def sharing(shared: Shared) -> Iterator[None]:
    """Learners that are fitted inside have it in common; of a judge that was fitted for another,
    `on_epoch` hears nothing."""
    before = _NOW.set(shared)
    try:
        yield
    finally:
        _NOW.reset(before)


def once(of: Callable[[], Hashable], what: Hashable, find: Callable[[], T]) -> T:
    """What `find` gives, or gave before to somebody who shares it: `what`, of the demonstrations
    that `of` tells apart from others. Nobody shares unless somebody says so."""
    shared = _NOW.get()
    return find() if shared is None else shared.once(of(), what, find)
