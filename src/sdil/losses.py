"""Losses in named terms: their sum, their means over an epoch, and that they are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from sdil.errors import InputError


def total(terms: Mapping[str, Tensor]) -> Tensor:
    """The sum of all terms."""
    first, *others = terms.values()
    return sum(others, start=first)


class Sums:
    """Running sums of named figures; nothing leaves the device before `means`."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def add(self, terms: Mapping[str, Tensor]) -> None:
        for name, term in terms.items():
            value = term.detach()
            self._sums[name] = self._sums[name] + value if name in self._sums else value.clone()
        self._count += 1

    def means(self) -> dict[str, float]:
        return {name: float(value) / self._count for name, value in self._sums.items()}


def refuse_divergence(phase: str, figures: Mapping[str, float]) -> None:
    """Raise where a loss is no longer a number."""
    for name, value in figures.items():
        if not math.isfinite(value):
            raise InputError(f"{phase}: training diverged ({name} is {value}); lower learning_rate")
