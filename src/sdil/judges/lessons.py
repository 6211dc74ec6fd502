"""What labelled steps teach of all others: a Gaussian process over the log-odds of "good".

Before any label its mean is what the judge's signals amount to, neighbours apart. Answers of people
are taken for wrong in one case of ten; the mode given them is found by Fisher scoring (Laplace's
approximation), and what it changes in a step is a sum over labelled steps, weighed by how alike
they are (`likeness.py`).

The mode alone is too sure of itself. How probably a step is good is the mean over what the process
leaves open of it, about the sigmoid of log-odds that count by 1 / sqrt(1 + pi v / 8) (MacKay 1992),
where v is the variance that is left: a step that is like no labelled one stays nearer to "who
knows".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from sdil.judges.likeness import Looks, Seen, likeness, own_likeness
from sdil.spaces import Array
from sdil.states import below

WRONG = 0.1
"""How often an answer is taken for wrong."""
OPEN = 0.25
"""So much of the variance that is left counts: the spreads of `likeness.py` are set wide, so that
labels are followed."""
_OPEN_BEFORE = 0.5  # times `Looks.trust`, in judges that do not say how much
_ROUNDS = 200  # each goes half of the way: whole steps of scoring swing to and fro
_SAME = 1e-5  # log-odds that no longer count
_JITTER = 1e-6
_AT_ONCE = 4_096  # steps whose likeness is kept in memory


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known after L labelled steps."""

    examples: Seen
    weights: Array
    """How much of its likeness to each of them a step's log-odds change by. (L,)"""
    root: Array
    """Of how much each tells. (L,)"""
    factor: Array
    """Cholesky factor of what the labels leave open. (L, L)"""

    @staticmethod
    def of(examples: Seen, said: Array, counts: Array) -> Posterior:
        """`said` (L,) is 1 where people say good and 0 where they say bad, `counts` (L,) what an
        answer counts."""
        examples = examples.double()
        n = len(examples)
        prior = likeness(examples, examples) + _JITTER * np.eye(n)
        weights, change = np.zeros(n), np.zeros(n)
        for _ in range(_ROUNDS):
            slope, tells = _slopes(examples.odds + change, said, counts)
            aim = tells * change + slope
            root = np.sqrt(tells)
            inner = np.eye(n) + root[:, None] * prior * root
            found = aim - root * np.linalg.solve(inner, root * (prior @ aim))
            weights = (weights + found) / 2
            before, change = change, prior @ weights
            if np.abs(change - before).max(initial=0.0) < _SAME:
                break
        root = np.sqrt(_slopes(examples.odds + change, said, counts)[1])
        factor = np.linalg.cholesky(np.eye(n) + root[:, None] * prior * root)
        return Posterior(examples, weights, root, factor)

    def change(self, steps: Seen) -> Array:
        """What labels change in the log-odds of steps. (N,)"""
        return self.taught(steps)[0]

    @staticmethod
    def of_nothing() -> Posterior:
        """What is known before any label."""
        none, empty = np.zeros(0), np.zeros((0, 0))
        return Posterior(Seen(empty, empty, empty, empty, none), none, none, empty)

    @cached_property
    def closes(self) -> Array:
        """Times how alike labelled steps are to a step: its squared length is by how much less is
        open of that step. (L, L)"""
        from scipy.linalg import solve_triangular

        if not len(self.examples):
            return np.zeros((0, 0))
        return np.asarray(solve_triangular(self.factor, np.diag(self.root), lower=True))

    def variance(self, steps: Seen) -> Array:
        """What is left open of each step by itself. (N,)"""
        return self.taught(steps)[1]

    def taught(self, steps: Seen) -> tuple[Array, Array]:
        """What labels change in the log-odds of steps, and the variance that they leave. (N,)"""
        return _taught(steps, self.examples, self.weights, self.closes)

    def covariance(self, one: Seen, other: Seen) -> Array:
        """What is left open, of steps together. (A, B)"""
        found = likeness(one, other)
        if not len(self.examples):
            return found
        known = [self.closes @ likeness(self.examples, x) for x in (one, other)]
        return np.asarray(found - known[0].T @ known[1])


class Lessons(nn.Module):
    """What labels taught, as a judge keeps it."""

    weights: Tensor
    """(L,)"""
    before: Tensor
    """The odds of "good" before any label. ()"""
    closes: Tensor | None
    """As `Posterior` has it; None of judges of before, which went by the mode alone. (L, L)"""
    open: Tensor
    """How much of the variance that is left counts (`OPEN`). ()"""
    shift: Tensor | None
    """Of those of the mode: what is added to all log-odds, since the odds of "good" are now others.
    ()"""

    def __init__(self, looks: Looks, examples: Seen, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.looks = looks
        for name, value in vars(examples).items():
            self.register_buffer(f"examples_{name}", torch.from_numpy(np.asarray(value, float)))
        for name in _LESSONS:
            value = tensors.get(name) if name in _LATER else tensors[name]
            if name == "open" and value is None:
                value = _OPEN_BEFORE * looks.trust
            self.register_buffer(name, None if value is None else value.double())

    @staticmethod
    def of(looks: Looks, posterior: Posterior, before: float) -> Lessons:
        values = {
            "weights": posterior.weights,
            "before": np.array(before),
            "closes": posterior.closes,
            "open": np.array(OPEN),
        }
        tensors = {name: torch.from_numpy(value) for name, value in values.items()}
        return Lessons(looks, posterior.examples, tensors)

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Lessons:
        """The inverse of `state_dict`."""
        examples = Seen.of_tensors(tensors, "examples_")
        return Lessons(Looks.of_tensors(below(tensors, "looks")), examples, tensors)

    def forward(self, steps: Seen) -> tuple[Array, Array]:
        """What labels change in the log-odds of steps, and how much these then count. (N,) each"""
        examples = [getattr(self, f"examples_{n}").numpy() for n in Seen.__dataclass_fields__]
        closes = None if self.closes is None else self.closes.numpy()
        change, variance = _taught(steps, Seen(*examples), self.weights.numpy(), closes)
        return change, how_much_counts(variance, float(self.open))


_LESSONS = ("weights", "before", "closes", "open", "shift")
_LATER = ("closes", "open", "shift")  # judges of before lack some


def _taught(
    steps: Seen, examples: Seen, weights: Array, closes: Array | None
) -> tuple[Array, Array]:
    """What labels change in the log-odds of steps, a sum over examples by how alike they are; and
    the variance that they leave, 0 where it is not known what they close. (N,) each"""
    change, variance = np.zeros(len(steps)), np.zeros(len(steps))
    for begin in range(0, len(steps), _AT_ONCE):
        some = np.arange(begin, min(begin + _AT_ONCE, len(steps)))
        here = steps.at(some).double()
        alike = likeness(here, examples) if len(examples) else np.zeros((len(some), 0))
        change[some] = alike @ weights
        if closes is not None:
            variance[some] = own_likeness(here) - ((alike @ closes.T) ** 2).sum(1)
    return change, np.maximum(variance, 0.0)


def how_much_counts(variance: Array, share: float = OPEN) -> Array:
    """By how much log-odds are to be multiplied of which so much is open, a `share` of it counting.
    (N,)"""
    return np.asarray(1 / np.sqrt(1 + np.pi * share * variance / 8))


def _slopes(log_odds: Array, said: Array, counts: Array) -> tuple[Array, Array]:
    """Of the log-likelihood of the answers, and the information in them. (L,) each"""
    p = 1.0 / (1.0 + np.exp(-log_odds))
    answers = WRONG + (1 - 2 * WRONG) * p  # how often a person will say good
    steep = (1 - 2 * WRONG) * p * (1 - p)
    spread = answers * (1 - answers)
    slope = counts * (said - answers) / spread * steep
    return slope, counts * steep**2 / spread + 1e-12
