"""How alike two steps are: what people say of one tells something of the others.

A step is looked at from four sides: its state (the main directions of the standardised states, in
units of how far two noisy states are apart), how high each signal rates it among noisy steps,
heard or not, its action, and what the judge made of it before any label. Likeness is the
covariance of a Gaussian process over what labels may change in the log-odds of "good": all steps
together, the weight of what the judge thought and of what each signal says, steps that all signals
rate alike with the same action, and steps with the same action in states nearby.

Signals mostly agree, and where they differ labels have most to say. So their weights are those of
ranks that were made uncorrelated over noisy steps. And what signals repeat after one another counts
once (`joining.how_far_apart`) in what the judge thought: no label could move it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sdil.heads import ActionHead, counts_actions
from sdil.spaces import Array

ALL, THOUGHT, RANKS = 0.7, 0.4, 2.0
"""Standard deviations, in log-odds, of what may change for all steps alike, of the weight of what
was thought before (of 1), and of the weight of each signal's ranks."""
RATED_ALIKE, NEARBY = 2.6, 2.6
"""The same of steps with the same action that signals rate alike, or that are nearby."""
STATES = 3_000
"""That directions and distances are found from."""
_NEAR = 0.3  # of the median distance of two noisy states
_LIKE = 0.5  # of ranks from -1 to 1, per signal
_DIRECTIONS = 24
_REST = 1e-6  # of the mean squared distance from the middle: states so near are one
_GRID = 41  # quantiles that ranks are read off
_APART = 10.0  # counted actions are the same or they are not
_SAME = 0.01  # of the variance of ranks: signals that differ by less are one
_MOST_ODDS = 4.0  # log-odds beyond it are not told apart


@dataclass(frozen=True, eq=False)
class Seen:
    """N steps, as likeness looks at them."""

    state: Array
    """(N, P)"""
    ranks: Array
    """From -1 to 1, 0 where a signal says nothing. (N, S)"""
    apart: Array
    """The same, uncorrelated over noisy steps. (N, S)"""
    action: Array
    """(N, D)"""
    odds: Array
    """Log-odds of "good" before any label. (N,)"""

    def __len__(self) -> int:
        return len(self.odds)

    def at(self, index: Array) -> Seen:
        return Seen(*(side[index] for side in vars(self).values()))

    @staticmethod
    def together(parts: Sequence[Seen]) -> Seen:
        each = (vars(part).values() for part in parts)
        return Seen(*(np.concatenate(x) for x in zip(*each, strict=True)))

    def small(self) -> Seen:
        """As it is kept: likeness does not hang on last digits."""
        sides = (self.state, self.ranks, self.apart, self.action)
        state, ranks, apart, action = (side.astype(np.float16) for side in sides)
        return Seen(state, ranks, apart, action, self.odds.astype(np.float32))

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor], prefix: str) -> Seen:
        """By names; ranks as they are of judges of before."""
        before = {f"{prefix}apart": tensors[f"{prefix}ranks"]}
        every = {**before, **tensors}
        return Seen(*(every[prefix + name].numpy() for name in Seen.__dataclass_fields__))

    def double(self) -> Seen:
        return Seen(*(np.asarray(x, float) for x in vars(self).values()))


def likeness(one: Seen, other: Seen) -> Array:
    """The covariance of each step of one with each of the other. (A, B)"""
    same = np.exp(-_apart(one.action, other.action) / 2)
    nearby = np.exp(-_apart(one.state, other.state) / (2 * _NEAR**2))
    width = 2 * _LIKE**2 * max(one.ranks.shape[1], 1)
    rated_alike = np.exp(-_apart(one.ranks, other.ranks) / width)
    thought = (x.odds.clip(-_MOST_ODDS, _MOST_ODDS) for x in (one, other))
    found = ALL**2 + THOUGHT**2 * np.outer(*thought) + RANKS**2 * one.apart @ other.apart.T
    found += same * (RATED_ALIKE**2 * rated_alike + NEARBY**2 * nearby)
    return np.asarray(found)


def own_likeness(steps: Seen) -> Array:
    """The variance of each step: its likeness to itself. (N,)"""
    thought = steps.odds.clip(-_MOST_ODDS, _MOST_ODDS)
    found = ALL**2 + THOUGHT**2 * thought**2 + RANKS**2 * (steps.apart**2).sum(1)
    return np.asarray(found + RATED_ALIKE**2 + NEARBY**2)


class Looks(nn.Module):
    """How steps become `Seen`."""

    which: Tensor
    """The signals, by their numbers among all. (S,)"""
    grid: Tensor
    """Quantiles of each among noisy steps, by the final networks. (S, _GRID)"""
    centre: Tensor
    """Of standardised states. (I,)"""
    directions: Tensor
    """(I, P)"""
    parting: Tensor
    """Makes ranks uncorrelated; the identity in judges of before. (S, S)"""
    trust: Tensor
    """How much the sum of what signals say counts; 1 in judges of before. ()"""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name in _LOOKS:
            self.register_buffer(name, tensors[name])

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Looks:
        double, n = torch.float64, len(tensors["which"])
        before = {
            "parting": torch.eye(n, dtype=double),
            "trust": torch.ones((), dtype=double),
        }
        return Looks({**before, **tensors})

    @staticmethod
    def learn(which: list[int], signals: Array, states: Array, trust: float = 1.0) -> Looks:
        """From what signals say of noisy steps (S, N), and some of their standardised states."""
        grid = quantile_grid(signals)
        states = np.asarray(states, float)
        centre = states.mean(0)
        directions = np.eye(states.shape[1])
        if states.shape[1] > _DIRECTIONS:
            _, _, found = np.linalg.svd(states - centre, full_matrices=False)
            directions = found[:_DIRECTIONS].T
        seen = (states - centre) @ directions
        pairs = _apart(seen[::2][:500], seen[1::2][-500:])
        apart = pairs[pairs > _REST * max(float((seen**2).sum(1).mean()), 1e-12)]
        far = float(np.median(apart)) if apart.size else 1.0  # many may stand still
        directions = directions / np.sqrt(far)
        arrays = {
            "which": np.array(which),
            "grid": grid,
            "centre": centre,
            "directions": directions,
            "parting": _parting(_all_ranks(signals, grid)),
            "trust": np.array(trust),
        }
        kept = {name: torch.from_numpy(a).contiguous() for name, a in arrays.items()}
        return Looks(kept)  # only contiguous ones are saved

    def see(
        self, states: Tensor, actions: Tensor, head: ActionHead, ranks: Array, odds: Array
    ) -> Seen:
        """From standardised states (N, I) and actions (N, *action)."""
        encoded = head.encode(actions).double().flatten(1).numpy()
        scale = _APART if counts_actions(head) else 1 / np.sqrt(max(encoded.shape[1], 1))
        state = (states.double() - self.centre) @ self.directions
        return Seen(state.numpy(), ranks, self.part(ranks), scale * encoded, odds)

    def part(self, ranks: Array) -> Array:
        """Ranks that are uncorrelated over noisy steps; none is farther out than a rank can be, so
        that no odd step is asked about for being odd. (N, S)"""
        return np.clip(ranks @ self.parting.numpy(), -1.0, 1.0)

    def ranks(self, signals: Array, grid: Array | None = None) -> Array:
        """How high values (S, N) stand among noisy ones; `grid` where it is not that of the final
        networks. (N, S)"""
        return _all_ranks(signals, self.grid.numpy() if grid is None else grid)


_LOOKS = ("which", "grid", "centre", "directions", "parting", "trust")


def some_of(values: Array, most: int) -> Array:
    """At most so many of them, evenly spaced."""
    if len(values) <= most:
        return values
    return np.asarray(values[np.linspace(0, len(values) - 1, most).round().astype(int)])


def quantile_grid(signals: Array) -> Array:
    """(S, _GRID)"""
    return np.stack([_quantiles(signal) for signal in signals])


def _all_ranks(signals: Array, grid: Array) -> Array:
    at = np.linspace(-1, 1, _GRID)
    found = [_among(signal, values, at) for signal, values in zip(signals, grid, strict=True)]
    return np.stack(found, 1) if found else np.zeros((signals.shape[1], 0))


def _parting(ranks: Array) -> Array:
    """Times which ranks (N, S) are uncorrelated, each as near to its own as may be, and as wide as
    ranks are of which no two are equal. (S, S)"""
    of_ranks = 1 / 3  # the variance of what is anywhere between -1 and 1
    spread = ranks.T @ ranks / max(len(ranks), 1)
    values, directions = np.linalg.eigh(spread + _SAME * of_ranks * np.eye(ranks.shape[1]))
    return np.asarray(directions * np.sqrt(of_ranks / values) @ directions.T)


def _quantiles(signal: Array) -> Array:
    known = signal[~np.isnan(signal)]
    return np.quantile(known, np.linspace(0, 1, _GRID)) if len(known) else np.zeros(_GRID)


def _among(signal: Array, values: Array, at: Array) -> Array:
    """Where many noisy steps have one value it stands at their middle."""
    low = np.interp(signal, values, at)
    high = -np.interp(-signal, -values[::-1], at)
    return np.where(np.isnan(signal), 0.0, (low + high) / 2)


def _apart(one: Array, other: Array) -> Array:
    """Squared distances. (A, B)"""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    return np.asarray(np.maximum(squares, 0.0))
