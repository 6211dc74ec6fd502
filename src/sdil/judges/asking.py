"""Which spans a person should look at: those whose labels would teach the judge most.

A span of steps that are judged alike is worth asking for where the judge is unsure of it, where its
signals contradict each other, and where many other steps look the same to the signals. Spans are
chosen one after the other; each covers those that look like it, so that twenty of them are not
twenty times the same question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sdil.labels import Label
from sdil.scores import StepScores
from sdil.segmentation import change_points
from sdil.spaces import Array

LONGEST = 20
"""Steps that a person is asked to look at in one go; longer segments are cut."""
PENALTY = 0.5
"""By how much a cut between spans must lower the squared error of the score."""
_MOST = 1_500  # spans that are looked through
_ALIKE = 0.5  # distance of what signals say, in their range of 2, at which spans are alike
_LEAST = 1.0  # of interest in a span that the judge is sure of


@dataclass(frozen=True)
class Question:
    """A span that a person should label."""

    episode: str
    """Of the noisy set."""
    first_step: int
    last_step: int
    """It is inside."""
    optimality: float
    """What the judge says now, the mean."""
    stands_for: int
    """Noisy steps that look like it and are not asked about by those before it."""
    why: str
    """In a sentence."""

    def answer(self, label: str, *, who: str = "", when: str = "", note: str = "") -> Label:
        """The label that says it."""
        span = self.first_step, self.last_step
        return Label("noisy", self.episode, *span, label, who, when, note)


def spans_of(scores: Sequence[StepScores]) -> list[tuple[int, int, int]]:
    """All spans that could be asked for: number of the episode, first step, one past the last.

    Stretches whose scores stand about equally high among all: how far scores are apart says how
    much the judge knows, and people see what it does not.
    """
    if not scores:
        return []
    lengths = [len(judged.optimality) for judged in scores]
    ranks = _ranks(np.concatenate([judged.optimality for judged in scores]))
    found = []
    for i, high in enumerate(np.split(ranks, np.cumsum(lengths)[:-1])):
        cuts = [0, *change_points(high, PENALTY).tolist(), len(high)]
        for start, stop in pairwise(cuts):
            found += [(i, a, min(a + LONGEST, stop)) for a in range(start, stop, LONGEST)]
    return found


def choose(
    ids: Sequence[str], scores: Sequence[StepScores], n: int, labels: Sequence[Label] = ()
) -> list[Question]:
    """The `n` spans whose labels teach most, given those that there are; best first."""
    spans = spans_of(scores)
    if len(spans) > _MOST:
        chosen = np.random.default_rng(len(spans)).permutation(len(spans))[:_MOST]
        spans = [spans[i] for i in np.sort(chosen)]
    if not spans:
        return []
    said = _said(scores, spans)  # (K, S)
    length = np.array([b - a for _, a, b in spans], float)
    score = np.array([scores[i].optimality[a:b].mean() for i, a, b in spans])
    doubt = np.array([_doubt(scores[i], a, b) for i, a, b in spans])
    dispute = said.std(1) if said.shape[1] > 1 else np.zeros(len(spans))
    far = ((said[:, None] - said[None]) ** 2).mean(2)
    alike = np.exp(-far / (2 * (_ALIKE / 2) ** 2)).astype(np.float32)
    # of a mixed span a person can only say that it is neither
    worth = np.maximum(1.0 - _mixed(scores, spans), 0.05) ** 2
    interest = length * (_LEAST + doubt + dispute)
    covered = np.zeros(len(spans), np.float32)
    known = np.array([_labelled(ids[i], a, b, labels) for i, a, b in spans])
    for i in np.flatnonzero(known):
        covered = np.maximum(covered, alike[i])
    found: list[Question] = []
    while len(found) < min(n, int((~known).sum()) + len(found)):
        gain = (np.maximum(alike - covered, 0.0) * interest).sum(1)
        gain *= np.where(known, 0.0, worth)
        at = int(gain.argmax()) if gain.any() else int(np.flatnonzero(~known)[0])
        episode, first, stop = spans[at]
        stands = int(((alike[at] > 0.5) & (covered < 0.5)) @ length)
        why = _why(scores[episode], first, stop, doubt[at], dispute[at], stands)
        found.append(Question(ids[episode], first, stop - 1, float(score[at]), stands, why))
        covered, known[at] = np.maximum(covered, alike[at]), True
    return found


def _said(scores: Sequence[StepScores], spans: Sequence[tuple[int, int, int]]) -> Array:
    """How high each signal rates each span among all steps, from -1 to 1. (K, S)"""
    first = np.cumsum([0, *(len(judged.optimality) for judged in scores)])
    found = []
    for name in scores[0].parts or ("",):
        each = [judged.parts[name] if name else judged.optimality for judged in scores]
        ranks = _ranks(np.concatenate(each))
        found.append([ranks[first[i] + a : first[i] + b].mean() for i, a, b in spans])
    return np.array(found).T


def _mixed(scores: Sequence[StepScores], spans: Sequence[tuple[int, int, int]]) -> Array:
    """How far apart a span's own steps are: standard deviation of the scores' ranks. (K,)"""
    first = np.cumsum([0, *(len(judged.optimality) for judged in scores)])
    ranks = _ranks(np.concatenate([judged.optimality for judged in scores]))
    return np.array([ranks[first[i] + a : first[i] + b].std() for i, a, b in spans])


def _ranks(values: Array) -> Array:
    """From -1, the lowest, to 1; equals share theirs. (N,)"""
    from scipy.stats import rankdata

    return np.asarray(2 * (rankdata(values) - 0.5) / max(len(values), 1) - 1)


def _doubt(judged: StepScores, start: int, stop: int) -> float:
    """How unsure the judge is of a span: 1 where its score is 0."""
    doubt = 1.0 - float(np.abs(judged.optimality[start:stop]).mean())
    spread = 0.0 if judged.spread is None else float(judged.spread[start:stop].mean())
    return doubt + spread


def _labelled(episode: str, start: int, stop: int, labels: Sequence[Label]) -> bool:
    return any(
        label.set == "noisy"
        and label.episode == episode
        and label.first_step < stop
        and label.last_step >= start
        for label in labels
    )


def _why(
    judged: StepScores, start: int, stop: int, doubt: float, dispute: float, stands: int
) -> str:
    reasons = []
    parts = {name: float(part[start:stop].mean()) for name, part in judged.parts.items()}
    if len(parts) > 1 and dispute > 0.25:
        high, low = max(parts, key=parts.__getitem__), min(parts, key=parts.__getitem__)
        reasons.append(f"{high} speaks for it and {low} against it")
    if doubt > 0.6:
        reasons.append("the judge is unsure of it")
    reasons.append(f"{stands} steps look like it")
    return "; ".join(reasons)
