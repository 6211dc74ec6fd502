"""What a task knows of its own demonstrations, step by step; for evaluation only.

No learner and no judge reads it, and in a folder of demonstrations it lies in a file of its own
(`sdil.load_truth`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.spaces import Array


@dataclass(frozen=True)
class Truth:
    """Which steps of which trajectory were good."""

    clean_good: list[Array]
    """Per clean trajectory (T,): was the step good? The task says what that means: that it brought
    the agent closer to the goal or, in sepsis, that it lost less than 0.01 of the best value."""
    noisy_good: list[Array]
    """Per noisy trajectory (T,): likewise."""
    noisy_segment: list[Array] | None = None
    """Per noisy trajectory (T,): index into `segment_names`, where segments are known."""
    segment_names: tuple[str, ...] = ()
    """What the segment numbers stand for."""

    def check_fits(self, demos: Demonstrations) -> None:
        """Raise unless there is one label for each step of these demonstrations."""
        for name, labels, trajectories in (
            ("clean_good", self.clean_good, demos.clean),
            ("noisy_good", self.noisy_good, demos.noisy),
            ("noisy_segment", self.noisy_segment, demos.noisy),
        ):
            if labels is not None and [len(a) for a in labels] != trajectories.lengths.tolist():
                raise InputError(f"truth: {name} does not fit the trajectories step by step")

    def to_arrays(self) -> dict[str, Array]:
        """Flat arrays, the trajectories end to end: what a file holds."""
        arrays = {
            "clean_good": _join(self.clean_good, bool),
            "noisy_good": _join(self.noisy_good, bool),
        }
        if self.noisy_segment is not None:
            arrays["noisy_segment"] = _join(self.noisy_segment, np.int8)
            arrays["segment_names"] = np.array(self.segment_names)
        return arrays

    @staticmethod
    def from_arrays(
        arrays: Mapping[str, Array], *, clean: Sequence[int], noisy: Sequence[int]
    ) -> Truth:
        """The inverse of `to_arrays`, given how many steps each trajectory has."""
        segments = arrays.get("noisy_segment")
        return Truth(
            clean_good=_cut(arrays["clean_good"], clean),
            noisy_good=_cut(arrays["noisy_good"], noisy),
            noisy_segment=None if segments is None else _cut(segments, noisy),
            segment_names=(
                () if segments is None else tuple(str(s) for s in arrays["segment_names"])
            ),
        )


def _join(arrays: list[Array], dtype: Any) -> Array:
    return np.concatenate([np.asarray(a, dtype) for a in arrays]) if arrays else np.empty(0, dtype)


def _cut(values: Array, lengths: Sequence[int]) -> list[Array]:
    if len(values) != sum(lengths):
        raise ValueError(f"{len(values)} labels for {sum(lengths)} steps")
    return np.split(values, np.cumsum(lengths)[:-1]) if lengths else []
