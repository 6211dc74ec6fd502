"""Ways to weigh noisy steps beside clean ones, by how probably each is good."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sdil.spaces import Array


class Way(NamedTuple):
    """To weigh noisy steps: p to a power, together at most so many times what clean ones weigh."""

    exponent: float | None
    """None: noisy steps are left alone; 0: each counts alike."""
    at_most: float = math.inf

    def weigh(self, good: Array, n_clean: Array | int, seen: Array | bool = True) -> Array:
        """What noisy steps weigh, by how probably each is good (..., N), beside so many clean ones
        (..., 1); only those that are `seen` are learned from."""
        if self.exponent is None:
            return np.zeros_like(good)
        weights = good**self.exponent
        total = np.maximum((weights * seen).sum(-1, keepdims=True), 1e-9)
        return np.asarray(weights * np.minimum(1.0, self.at_most * n_clean / total))

    @property
    def pools(self) -> bool:
        """Whether noisy steps count like clean ones."""
        return self.exponent == 0 and self.at_most == math.inf
