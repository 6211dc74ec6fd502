"""Answers about other people's data, in its own numbers of episodes and frames.

What was imported may be every n-th frame, or some of the episodes: whoever writes answers back
needs the source's own name of the episode and its own number of each step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sdil.errors import InputError
from sdil.scores import StepScores
from sdil.spaces import Array


@dataclass(frozen=True, eq=False)
class Answered:
    """What was said of an episode of a source."""

    episode: str
    """Its name in the source: `Episode.id`."""
    scores: StepScores
    """Of T steps."""
    frames: Array | None = None
    """The source's own number of each step, rising (`Recorded.frames`); None: 0, 1, ... (T,)"""
    keep: Array | None = None
    """Is the step kept? None where nobody chose. (T,) bool"""
    weight: Array | None = None
    """How much the step should weigh, 0 to 1; None where that follows from its score. (T,)"""

    def over_frames(self, values: Array, frames: Array) -> Array:
        """What is known of each step (T,), for every frame of the episode (N,).

        A step stands for the frames until the next one, the first also for those before it.
        """
        own = np.arange(len(values)) if self.frames is None else np.asarray(self.frames)
        if len(own) != len(values) or not len(own):
            raise InputError(
                f"episode {self.episode}: {len(values)} scores for {len(own)} steps; score the "
                "demonstrations that were imported from this source"
            )
        if own[0] < frames[0] or own[-1] > frames[-1]:
            raise InputError(
                f"episode {self.episode}: steps {own[0]} to {own[-1]} were scored, but the source "
                f"has frames {frames[0]} to {frames[-1]}; import it again and score that"
            )
        at = np.searchsorted(own, frames, side="right") - 1
        return np.asarray(values)[np.maximum(at, 0)]


def answers_by_episode(answers: Iterable[Answered]) -> dict[str, Answered]:
    """The same by the name of the episode; an episode is answered for once."""
    found: dict[str, Answered] = {}
    for answer in answers:
        if answer.episode in found:
            raise InputError(f"episode {answer.episode} is scored twice")
        found[answer.episode] = answer
    return found
