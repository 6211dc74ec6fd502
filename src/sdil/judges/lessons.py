"""What labelled steps teach of all others: a Gaussian process over the log-odds of "good".

Before any label its mean is what the judge's signals amount to, neighbours apart. Answers of people
are taken for wrong in one case of ten; the mode given them is found by Fisher scoring (Laplace's
approximation), and what it changes in a step is a sum over labelled steps, weighed by how alike
they are (`likeness.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sdil.judges.likeness import Looks, Seen, likeness
from sdil.spaces import Array
from sdil.training import below

WRONG = 0.1
"""How often an answer is taken for wrong."""
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
        return change_of(steps, self.examples, self.weights)

    @staticmethod
    def of_nothing() -> Posterior:
        """What is known before any label."""
        none, empty = np.zeros(0), np.zeros((0, 0))
        return Posterior(Seen(empty, empty, empty, none), none, none, empty)

    def covariance_of(self, steps: Seen) -> Array:
        """What is left open of each step by itself. (N,)"""
        each = [
            np.arange(begin, min(begin + 100, len(steps))) for begin in range(0, len(steps), 100)
        ]
        found = [self.covariance(steps.at(some), steps.at(some)).diagonal() for some in each]
        return np.concatenate(found) if found else np.zeros(0)

    def covariance(self, one: Seen, other: Seen) -> Array:
        """What is left open, of steps together. (A, B)"""
        from scipy.linalg import solve_triangular

        found = likeness(one, other)
        if not len(self.examples):
            return found
        known = [
            solve_triangular(
                self.factor, self.root[:, None] * likeness(self.examples, x), lower=True
            )
            for x in (one, other)
        ]
        return np.asarray(found - known[0].T @ known[1])


class Lessons(nn.Module):
    """What labels taught, as a judge keeps it."""

    weights: Tensor
    """(L,)"""
    before: Tensor
    """The odds of "good" before any label. ()"""
    shift: Tensor
    """What is added to all log-odds, since the odds of "good" are now others. ()"""

    def __init__(self, looks: Looks, examples: Seen, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        self.looks = looks
        for name, value in vars(examples).items():
            self.register_buffer(f"examples_{name}", torch.from_numpy(np.asarray(value, float)))
        for name in _LESSONS:
            self.register_buffer(name, tensors[name].double())

    @staticmethod
    def of(looks: Looks, posterior: Posterior, before: float, shift: float) -> Lessons:
        values = (posterior.weights, np.array(before), np.array(shift))
        tensors = {n: torch.from_numpy(v) for n, v in zip(_LESSONS, values, strict=True)}
        return Lessons(looks, posterior.examples, tensors)

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Lessons:
        """The inverse of `state_dict`."""
        examples = [tensors[f"examples_{name}"].numpy() for name in Seen.__dataclass_fields__]
        return Lessons(Looks.of_tensors(below(tensors, "looks")), Seen(*examples), tensors)

    def forward(self, steps: Seen) -> Array:
        """What labels change in the log-odds of steps. (N,)"""
        examples = [getattr(self, f"examples_{n}").numpy() for n in Seen.__dataclass_fields__]
        return change_of(steps, Seen(*examples), self.weights.numpy())


_LESSONS = ("weights", "before", "shift")


def change_of(steps: Seen, examples: Seen, weights: Array) -> Array:
    """A sum over examples, by how alike they are. (N,)"""
    found = np.zeros(len(steps))
    for begin in range(0, len(steps) if len(examples) else 0, _AT_ONCE):
        some = np.arange(begin, min(begin + _AT_ONCE, len(steps)))
        found[some] = likeness(steps.at(some).double(), examples) @ weights
    return found


def _slopes(log_odds: Array, said: Array, counts: Array) -> tuple[Array, Array]:
    """Of the log-likelihood of the answers, and the information in them. (L,) each"""
    p = 1.0 / (1.0 + np.exp(-log_odds))
    answers = WRONG + (1 - 2 * WRONG) * p  # how often a person will say good
    steep = (1 - 2 * WRONG) * p * (1 - p)
    spread = answers * (1 - answers)
    slope = counts * (said - answers) / spread * steep
    return slope, counts * steep**2 / spread + 1e-12
