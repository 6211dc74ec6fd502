"""What is said of demonstrations by whatever judges them, step by step and in segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sdil.spaces import Array


@dataclass(frozen=True, eq=False)
class StepScores:
    """The judgement of one trajectory of T steps."""

    optimality: Array
    """How good each step is, in [-1, 1]. (T,)"""
    skill: Array | None = None
    """The most probable skill of each step, where the learner has skills. (T,) integers"""
    skill_probs: Array | None = None
    """How probable each of the K skills is. (T, K)"""
    parts: Mapping[str, Array] = field(default_factory=dict)
    """The signals behind `optimality`, by name, each in [-1, 1]; empty where it is one. (T,)"""
    spread: Array | None = None
    """How unsure it is: the standard deviation over several estimates of `optimality`. (T,)"""
    quality: Array | None = None
    """How well it goes around each step, in [-1, 1]: another question than whether the action is
    right. The mean over a stretch says how well the stretch went. None where nobody knows. (T,)"""
    quality_parts: Mapping[str, Array] = field(default_factory=dict)
    """The signals behind `quality`, by name, each in [-1, 1]. (T,)"""
    integrity: Array | None = None
    """How well the next state fits the action, in [0, 1], by what follows elsewhere in the data;
    it says nothing of how good a step is. (T,)"""

    def __repr__(self) -> str:
        scores = self.optimality
        signals = ", ".join(self.parts) or "one signal"
        return (
            f"StepScores: {len(scores)} steps, mean {scores.mean():+.2f}, {scores.min():+.2f} to "
            f"{scores.max():+.2f}\n  made of {signals}"
        )

    def how_well(self, start: int = 0, stop: int | None = None) -> float:
        """How well a stretch went, or the whole: the mean `quality`, or `optimality` where the
        judge has no answer of its own to that."""
        of_steps = self.optimality if self.quality is None else self.quality
        return float(of_steps[start:stop].mean())

    def segments(self) -> list[Segment]:
        """Runs of equal skill, in order; without skills, runs on the same side of 0."""
        label = self.optimality > 0 if self.skill is None else self.skill
        edges = np.flatnonzero(np.diff(label)) + 1
        starts = [0, *edges.tolist()]
        stops = [*edges.tolist(), len(label)]
        return [
            Segment(
                start,
                stop,
                None if self.skill is None else int(self.skill[start]),
                float(self.optimality[start:stop].mean()),
            )
            for start, stop in zip(starts, stops, strict=True)
        ]


@dataclass(frozen=True)
class Segment:
    """A run of steps with the same skill, or, without skills, all good or all bad."""

    start: int
    stop: int
    """One past its last step."""
    skill: int | None
    optimality: float
    """Mean over its steps."""


@dataclass(frozen=True, eq=False)
class JudgedSteps:
    """What is said of N steps, of one trajectory after the other."""

    optimality: Array
    """2 p - 1, p the estimated probability that the step is as good as an expert's. (N,)"""
    parts: Mapping[str, Array] = field(default_factory=dict)
    """The same by each signal alone. (N,)"""
    spread: Array | None = None
    """How far `optimality` moves when one signal is left out: standard deviation. (N,)"""
    skill_probs: Array | None = None
    """How probable each of the K skills is. (N, K)"""
    quality: Array | None = None
    """How well it goes around each step. (N,)"""
    quality_parts: Mapping[str, Array] = field(default_factory=dict)
    """The same by each of its signals alone. (N,)"""
    integrity: Array | None = None
    """How well the next state fits the action. (N,)"""

    def by_trajectory(self, split: Callable[[Array], Sequence[Array]]) -> list[StepScores]:
        """The same for each trajectory; `split` cuts arrays of all steps."""
        n = len(split(self.optimality))

        def cut(values: Array | None) -> Sequence[Array | None]:
            return [None] * n if values is None else split(values)

        def cut_all(parts: Mapping[str, Array]) -> list[dict[str, Array]]:
            pieces = {name: split(part) for name, part in parts.items()}
            return [{name: piece[i] for name, piece in pieces.items()} for i in range(n)]

        return [
            StepScores(
                optimality=optimality,
                skill=None if probs is None else probs.argmax(1),
                skill_probs=probs,
                parts=parts,
                spread=spread,
                quality=quality,
                quality_parts=quality_parts,
                integrity=integrity,
            )
            for optimality, probs, parts, spread, quality, quality_parts, integrity in zip(
                split(self.optimality),
                cut(self.skill_probs),
                cut_all(self.parts),
                cut(self.spread),
                cut(self.quality),
                cut_all(self.quality_parts),
                cut(self.integrity),
                strict=True,
            )
        ]
