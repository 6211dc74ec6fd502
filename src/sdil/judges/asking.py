"""Which spans a person should look at: those whose labels would teach the judge most.

What labels change is a Gaussian process (`lessons.py`), which knows beforehand how much less is
left open after an answer, whatever the answer is. Of all noisy steps those count of which the judge
is unsure. A span is worth asking for by how much less would be open of these, times how probably
all of its steps are good or all bad: of a mixed one a person can only say that he is unsure. Spans
are chosen one after the other, as if those before had been answered, so that twenty are not twenty
times the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sdil.judges.lessons import WRONG, Posterior
from sdil.judges.likeness import Seen, some_of
from sdil.labels import Label
from sdil.scores import StepScores
from sdil.segmentation import change_points
from sdil.spaces import Array

LONGEST = 20
"""Steps that a person is asked to look at in one go; longer segments are cut."""
SPAN = 4.0
"""An answer counts as one about so many steps at most."""
PENALTY = 0.5
"""By how much a cut between spans must lower the squared error of the score."""
_MOST = 600  # spans that are looked through, and as many single steps and short pieces of them
_STEPS = 600  # noisy steps that stand for all
_LOOKED_AT = 4  # steps of a span that stand for it
_PIECE, _LONG = 3, 6  # the piece of a span of six or more that the judge is least sure of
_LIKE = 0.5  # correlation of what is left open, from which on steps are like a span
_SURE = 0.05  # no span is taken for surer than this
_DISPUTE, _UNSURE = 0.25, 0.5  # when a question says so


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
    ids: Sequence[str],
    scores: Sequence[StepScores],
    n: int,
    labels: Sequence[Label],
    posterior: Posterior,
    look: Callable[[Array], Seen],
    acts: Array,
    stays: float,
) -> list[Question]:
    """The `n` spans whose labels teach most, given those that there are; best first.

    `posterior` is what labels taught so far, `look` sees noisy steps by their numbers, `acts` (N,)
    is whether they do anything: answers about others teach nothing; `stays` is how far a step is
    as the one before it (`neighbours.py`).
    """
    if not scores:
        return []
    first = np.cumsum([0, *(len(judged.optimality) for judged in scores)])
    spans = [
        (i, a, b)
        for i, a, b in _candidates(scores, len(labels))
        if acts[first[i] + a : first[i] + b].any() and not _labelled(ids[i], a, b, labels)
    ]
    if not spans:
        return []
    gains = _Gains(scores, spans, first, posterior, look, acts, stays, len(labels))
    found: list[Question] = []
    for at in gains.best(n):
        episode, start, stop = spans[at]
        judged, stands = scores[episode], gains.stands_for[at]
        why = _why(judged, start, stop, stands)
        score = float(judged.optimality[start:stop].mean())
        found.append(Question(ids[episode], start, stop - 1, score, stands, why))
    return found


class _Gains:
    """How much less would be open after an answer about each of K spans."""

    def __init__(
        self,
        scores: Sequence[StepScores],
        spans: Sequence[tuple[int, int, int]],
        first: Array,
        posterior: Posterior,
        look: Callable[[Array], Seen],
        acts: Array,
        stays: float,
        seed: int,
    ) -> None:
        self._spans, self.stands_for = spans, dict[int, int]()
        p = (np.concatenate([judged.optimality for judged in scores]) + 1) / 2
        rng = np.random.default_rng([len(spans), seed])
        every = np.sort(rng.permutation(np.flatnonzero(acts))[:_STEPS])
        each = [some_of(np.arange(first[i] + a, first[i] + b), _LOOKED_AT) for i, a, b in spans]
        size = np.array([len(some) for some in each])
        mean = np.zeros((int(size.sum()), len(spans)))
        mean[np.arange(len(mean)), np.repeat(np.arange(len(spans)), size)] = np.repeat(
            1 / size, size
        )
        steps, others = look(np.concatenate(each)), look(every)
        self._left = mean.T @ (posterior.covariance(steps, steps) @ mean)  # (K, K)
        self._shared = posterior.covariance(others, steps) @ mean  # (steps, K)
        self._open = posterior.variance(others)
        self._counts = (4 * p[every] * (1 - p[every])) ** 2
        self._each_stands_for = int(acts.sum()) / max(len(every), 1)
        sure = np.clip(
            [p[first[i] + a : first[i] + b].mean() for i, a, b in spans], _SURE, 1 - _SURE
        )
        length = np.minimum([b - a for _, a, b in spans], SPAN)
        self._noise = 1 / (length * sure * (1 - sure) * (1 - 2 * WRONG) ** 2)
        self._pure = np.array([_purity(p[first[i] + a : first[i] + b], stays) for i, a, b in spans])

    def best(self, n: int) -> Iterator[int]:
        """The numbers of spans, best first."""
        free = np.ones(len(self._spans), bool)
        covered = np.zeros(len(self._counts), bool)
        episode, start, stop = np.array(self._spans).T
        for _ in range(n):
            if not free.any():
                return
            left = np.maximum(self._left.diagonal(), 0.0)
            gain = (self._counts @ self._shared**2) / (left + self._noise) * self._pure
            at = int(np.where(free, gain, -1.0).argmax())
            shared, mine = self._shared[:, at].copy(), self._left[:, at].copy()
            like = shared**2 > _LIKE**2 * left[at] * self._open
            self.stands_for[at] = round(float((like & ~covered).sum()) * self._each_stands_for)
            covered |= like
            free &= (episode != episode[at]) | (start >= stop[at]) | (stop <= start[at])
            known = 1 / (left[at] + self._noise[at])
            self._shared -= known * np.outer(shared, mine)
            self._left -= known * np.outer(mine, mine)
            yield at


def _candidates(scores: Sequence[StepScores], seed: int) -> list[tuple[int, int, int]]:
    """Some spans, and of longer ones the step and the piece that the judge is least sure of."""
    spans = spans_of(scores)
    if len(spans) > _MOST:
        chosen = np.random.default_rng([len(spans), seed]).permutation(len(spans))[:_MOST]
        spans = [spans[i] for i in np.sort(chosen)]
    pieces = []
    for i, a, b in spans:
        sure = np.abs(scores[i].optimality[a:b])
        sizes = ([1] if b - a > 1 else []) + ([_PIECE] if b - a >= _LONG else [])
        for size in sizes:
            at = a + int(np.convolve(sure, np.ones(size), "valid").argmin())
            pieces.append((i, at, at + size))
    return spans + pieces


def _purity(p: Array, stays: float) -> float:
    """How probably all steps are good or all bad, each being as the one before it so often."""
    good = p[0] * np.prod(stays + (1 - stays) * p[1:])
    return float(good + (1 - p[0]) * np.prod(stays + (1 - stays) * (1 - p[1:])))


def _ranks(values: Array) -> Array:
    """From -1, the lowest, to 1; equals share theirs. (N,)"""
    from scipy.stats import rankdata

    return np.asarray(2 * (rankdata(values) - 0.5) / max(len(values), 1) - 1)


def _labelled(episode: str, start: int, stop: int, labels: Sequence[Label]) -> bool:
    return any(
        label.set == "noisy"
        and label.episode == episode
        and label.first_step < stop
        and label.last_step >= start
        for label in labels
    )


def _why(judged: StepScores, start: int, stop: int, stands: int) -> str:
    reasons = []
    parts = {name: float(part[start:stop].mean()) for name, part in judged.parts.items()}
    if len(parts) > 1 and np.std(list(parts.values())) > _DISPUTE:
        high, low = max(parts, key=parts.__getitem__), min(parts, key=parts.__getitem__)
        reasons.append(f"{high} speaks for it and {low} against it")
    if np.abs(judged.optimality[start:stop]).mean() < _UNSURE:
        reasons.append("the judge is unsure of it")
    reasons.append(f"{stands} steps look like it")
    return "; ".join(reasons)
