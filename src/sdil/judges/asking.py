"""Which spans a person should look at: those whose labels would teach the judge most.

What labels change is a Gaussian process (`lessons.py`), which knows beforehand how much less is
left open after an answer, whatever the answer is. Of all noisy steps those count of which the judge
is unsure. A span is worth asking for by how much less would be open of these, times how probably
all of its steps are good or all bad: of a mixed one a person can only say that he is unsure. Spans
are chosen one after the other, as if those before had been answered, so that twenty are not twenty
times the same question.

Before there is a judge (`first_questions`) nothing is known that could be asked by: single steps,
since of a stretch a person may be unsure, as unlike one another as there are; and some that end
episodes, since where it ends well is the aim.
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
from sdil.trajectories import Trajectory

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
_ENDS = 4  # of the first questions one in so many is the end of an episode
_CLUSTERED = 2_000  # steps that the others of them are chosen from
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


def first_questions(noisy: Sequence[Trajectory], n: int = 20, *, seed: int = 0) -> list[Question]:
    """The steps that a person should label first where there is no clean set, and so no judge; then
    `sdil.clean_from_labels`.

    A quarter of them are the last ones of episodes that a task ended, at random. The others are
    nearest to the middles of clusters of states and actions, so that none is like another.
    """
    if n < 1 or not len(noisy):
        return []
    rng = np.random.default_rng([seed, 23])
    ended = np.array([i for i, episode in enumerate(noisy) if episode.terminated], int)
    ended = np.sort(rng.permutation(ended)[: n // _ENDS])
    ends = [(int(i), len(noisy[i]) - 1) for i in ended]
    lengths = np.array([len(episode) for episode in noisy], int)
    steps = np.sort(rng.permutation(int(lengths.sum()))[:_CLUSTERED])
    episode = np.searchsorted(np.cumsum(lengths), steps, side="right")
    at = steps - (np.cumsum(lengths) - lengths)[episode]
    inside = at < lengths[episode] - 1 if len(ends) else at >= 0
    episode, at = episode[inside], at[inside]
    middles, shares = _middles(noisy, episode, at, n - len(ends), seed)
    aim = "an episode ends here, and where it ends well is the aim"
    found = [Question(_name(noisy, i), t, t, 0.0, 1, aim) for i, t in ends]
    for number, share in zip(middles, shares, strict=True):
        i, t = int(episode[number]), int(at[number])
        stands = round(float(share) * int(lengths.sum()))
        why = f"{stands} steps look like it, by state and action"
        found.append(Question(_name(noisy, i), t, t, 0.0, stands, why))
    return found


def _name(noisy: Sequence[Trajectory], number: int) -> str:
    return noisy[number].id or str(number)


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
        steps, others = look(np.concatenate(each)), look(every)
        left = _means(posterior.covariance(steps, steps), size)
        self._left = _means(left.T, size)  # (K, K)
        self._shared = _means(posterior.covariance(others, steps), size)  # (steps, K)
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


def _means(values: Array, size: Array) -> Array:
    """Over columns (A, B) that stand beside one another, so many each. (A, K)"""
    begin = np.cumsum(size) - size
    return np.asarray(np.add.reduceat(values, begin, axis=1) / size)


def _middles(
    noisy: Sequence[Trajectory], episode: Array, at: Array, n: int, seed: int
) -> tuple[Array, Array]:
    """Of M steps, `at` which in which episode, the numbers of those nearest to the middles of `n`
    clusters of states and actions, and the share of steps in each. (n,) each"""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    where = list(zip(episode.tolist(), at.tolist(), strict=True))
    if not where:
        return np.zeros(0, int), np.zeros(0)
    actions = np.stack([noisy[i].actions[t] for i, t in where])
    if np.issubdtype(actions.dtype, np.integer):  # they are the same or they are not
        columns = actions.reshape(len(where), -1).T
        actions = np.concatenate([column[:, None] == np.unique(column) for column in columns], 1)
    sides = [actions]
    observations = noisy[0].observations
    if observations.dtype.names is None and observations.dtype != np.uint8:  # pictures and `Dict`
        sides.append(np.stack([noisy[i].observations[t] for i, t in where]))
    seen = np.concatenate([_side(side) for side in sides], 1)
    if not seen.shape[1]:  # nothing varies
        return np.zeros(1, int), np.ones(1)
    n = min(n, len(np.unique(seen, axis=0)))
    with threadpool_limits(1):  # several would add up in the order they happen to arrive
        found = KMeans(n, n_init=1, random_state=seed).fit(seen)
    far = ((seen - found.cluster_centers_[found.labels_]) ** 2).sum(1)
    nearest = [np.where(found.labels_ == c, far, np.inf).argmin() for c in range(n)]
    return np.array(nearest, int), np.bincount(found.labels_, minlength=n) / len(where)


def _side(values: Array) -> Array:
    """Standardised, all entries together as wide as one. (M, D)"""
    values = np.asarray(values, np.float32).reshape(len(values), -1)
    spread = values.std(0)
    values = ((values - values.mean(0)) / np.where(spread > 1e-6, spread, 1.0))[:, spread > 1e-6]
    return np.asarray(values / np.sqrt(max(values.shape[1], 1)))


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


def is_labelled(question: Question, labels: Sequence[Label]) -> bool:
    """Whether some step that it asks about is labelled."""
    return _labelled(question.episode, question.first_step, question.last_step + 1, labels)


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
