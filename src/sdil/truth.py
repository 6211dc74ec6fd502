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

_MOST_NUMBERS = 128  # of segments and of skills: each is stored in a byte


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
    clean_skill: list[Array] | None = None
    """Per clean trajectory (T,): index into `skill_names`, where it is known what was done."""
    noisy_skill: list[Array] | None = None
    """Per noisy trajectory (T,): likewise; the one is known where the other is."""
    skill_names: tuple[str, ...] = ()
    """What the skill numbers stand for."""

    def check_fits(self, demos: Demonstrations) -> None:
        """Raise unless there is one label for each step of these demonstrations."""
        for name, labels, trajectories in (
            ("clean_good", self.clean_good, demos.clean),
            ("noisy_good", self.noisy_good, demos.noisy),
            ("noisy_segment", self.noisy_segment, demos.noisy),
            ("clean_skill", self.clean_skill, demos.clean),
            ("noisy_skill", self.noisy_skill, demos.noisy),
        ):
            if labels is None:
                continue
            shapes = [np.shape(a) for a in labels]
            if shapes != [(length,) for length in trajectories.lengths.tolist()]:
                raise InputError(f"truth: {name} does not fit the trajectories step by step")
            for i, values in enumerate(labels):
                self._check(name, np.asarray(values), f"episode {trajectories.ids[i]!r}, step")

    def _check(self, name: str, values: Array, where: str) -> None:
        """Raise where a label is neither yes nor no, or the number of no segment or skill."""
        number = not name.endswith("good")
        names = self.segment_names if name == "noisy_segment" else self.skill_names
        top = min(len(names) or _MOST_NUMBERS, _MOST_NUMBERS) - 1 if number else 1
        if values.dtype.kind not in "biuf":
            raise InputError(f"truth: {name} is {values.dtype}, not numbers or True and False")
        good = (values >= 0) & (values <= top) & (values == np.floor(values))  # NaN is neither
        if not good.all():
            at = int(np.argmin(good))
            wanted = f"a whole number from 0 to {top}" if number else "True or False"
            raise InputError(f"truth: {name}, {where} {at}: {values[at]} is not {wanted}")

    def to_arrays(self) -> dict[str, Array]:
        """Flat arrays, the trajectories end to end: what a file holds."""
        arrays = {
            "clean_good": _join(self.clean_good, bool),
            "noisy_good": _join(self.noisy_good, bool),
        }
        if self.noisy_segment is not None:
            arrays["noisy_segment"] = _join(self.noisy_segment, np.int8)
            arrays["segment_names"] = np.array(self.segment_names)
        if self.clean_skill is not None and self.noisy_skill is not None:
            arrays["clean_skill"] = _join(self.clean_skill, np.int8)
            arrays["noisy_skill"] = _join(self.noisy_skill, np.int8)
            arrays["skill_names"] = np.array(self.skill_names)
        return arrays

    @staticmethod
    def from_arrays(
        arrays: Mapping[str, Array], *, clean: Sequence[int], noisy: Sequence[int]
    ) -> Truth:
        """The inverse of `to_arrays`, given how many steps each trajectory has."""
        segments = arrays.get("noisy_segment")
        names = () if segments is None else tuple(str(s) for s in arrays["segment_names"])
        skills = "clean_skill" in arrays
        skill_names = tuple(str(s) for s in arrays["skill_names"]) if skills else ()
        empty = Truth([], [], segment_names=names, skill_names=skill_names)

        def cut(name: str, values: Array, lengths: Sequence[int], dtype: Any) -> list[Array]:
            if values.shape != (sum(lengths),):
                labels = len(values) if values.ndim == 1 else f"{values.shape}"
                raise InputError(f"{name} holds {labels} labels for {sum(lengths)} steps")
            empty._check(name, values, "label")
            return np.split(values.astype(dtype), np.cumsum(lengths)[:-1]) if lengths else []

        return Truth(
            clean_good=cut("clean_good", arrays["clean_good"], clean, bool),
            noisy_good=cut("noisy_good", arrays["noisy_good"], noisy, bool),
            noisy_segment=(
                None if segments is None else cut("noisy_segment", segments, noisy, np.int8)
            ),
            segment_names=names,
            clean_skill=(
                cut("clean_skill", arrays["clean_skill"], clean, np.int8) if skills else None
            ),
            noisy_skill=(
                cut("noisy_skill", arrays["noisy_skill"], noisy, np.int8) if skills else None
            ),
            skill_names=skill_names,
        )


def _join(arrays: list[Array], dtype: Any) -> Array:
    return np.concatenate([np.asarray(a, dtype) for a in arrays]) if arrays else np.empty(0, dtype)
