"""Gather the evidence of which steps are good: train, plan and weigh (see `networks/evidence.py`).

A noisy demonstration is a good demonstration of how to reach what it reached: it teaches how the
world moves even where its aim was wrong. So the temporal distance and the graph are learned from
clean and noisy demonstrations alike, and only the clean ones say where to go.

The signals are joined as witnesses that see the same hidden fact, "this step is good", each in its
own way (Dawid and Skene 1979): expectation-maximisation finds how far each can be trusted from how
they agree with one another. A signal that does not even rate held-out clean steps above noisy ones
is not heard: where demonstrations have no end worth reaching, progress and value are noise. What
cannot be found from such data is how many noisy steps are good: `good_share` is assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.algorithms.training import Stages
from sdil.errors import InputError
from sdil.networks.evidence import N_BINS, SIGNALS, Evidence, Numbering
from sdil.spaces import Array
from sdil.windows import Windows

MEMBERS = 3
_WAYPOINTS = 64
_EXPECTILE = 0.1  # low: the shortest of the ways that were seen counts
_LEAST_VALUE = float(np.exp(-10.0))  # as far away as ten demonstrations are long: too far to tell
# Ways that nobody recorded are longer than they seem, by half a demonstration: not all of them are
# there, and `to_go`, a soft minimum, lies under the shortest.
_DETOUR = 0.5
_PRICES = (1.0, 2.0)  # and so much dearer: the signal is the mean over planning with either
_ROUNDS = 5  # more of them fade what only two signals agree on
_TRUST = 0.7  # witnesses are not independent: what one adds to the others counts for less
_STANDARD_ERRORS = 2.0  # by which a signal must rate clean steps above noisy ones to be heard


class EvidenceFields(Protocol):
    """What the evidence takes from a learner's hyper-parameters."""

    @property
    def hidden(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def signals(self) -> str: ...
    @property
    def good_share(self) -> float: ...
    @property
    def clone_updates(self) -> int: ...
    @property
    def distance_updates(self) -> int: ...


def chosen_signals(names: str) -> list[str]:
    """The names in "likelihood+progress+value", checked."""
    chosen = names.split("+")
    if not set(chosen) <= set(SIGNALS):
        raise InputError(f'signals are some of "{"+".join(SIGNALS)}", not "{names}"')
    return chosen


def gather_evidence(
    windows: Windows,
    n_clean: int,
    held_out: Windows,
    n_actions: int,
    settings: EvidenceFields,
    stages: Stages,
    generator: torch.Generator,
) -> Evidence:
    """Learn from the steps of `windows`, whose first `n_clean` are the clean ones.

    `held_out` are clean steps that are not among them.
    """
    chosen = chosen_signals(settings.signals)
    index = torch.arange(len(windows))
    following, exists = windows.next_states_at(index)
    states = windows.at(index).state
    is_last = torch.cat([windows.times[1:] == 0, torch.ones(1, dtype=torch.bool)])
    last_of = index[is_last][torch.searchsorted(index[is_last], index)]  # of its episode (N,)
    clean = index[:n_clean]
    unit = n_clean / float(is_last[:n_clean].sum())  # mean length of a clean demonstration
    pointed = clean[exists[:n_clean]]
    pointed = pointed[torch.randperm(len(pointed), generator=generator)[:_WAYPOINTS]]
    ends = (is_last & exists)[:n_clean].nonzero()[:, 0]
    record = Record.of(windows, following, exists, ends, n_actions) if "value" in chosen else None
    compared = states[:0] if record is None else record.states[record.several]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        evidence = Evidence(
            (states.shape[1], n_actions),
            members=MEMBERS,
            hidden=settings.hidden,
            waypoints=len(pointed),
            states=len(compared),
        )
    evidence.states.copy_(compared)
    evidence.standardise.fit(windows)
    evidence.waypoints.copy_(evidence.standardise(following[pointed]))
    evidence.remaining.copy_((last_of - index)[pointed] / unit)
    if "likelihood" in chosen:
        _train_clones(evidence, windows, n_clean, settings, stages, generator)
    if "progress" in chosen and len(pointed):
        _train_distance(evidence, windows, last_of, n_clean, unit, settings, stages, generator)
    told, heard = {}, {}
    for name in (name for name in SIGNALS if name in chosen):  # progress comes before value
        if name == "value" and record is not None and len(compared):
            advantage = record.advantage(evidence if "progress" in heard else None, unit)
            evidence.advantage.copy_(torch.from_numpy(advantage[record.several]))
        told[name] = getattr(evidence, name)(windows)[n_clean:].numpy()
        if separates(getattr(evidence, name)(held_out).numpy(), told[name]):
            heard[name] = told[name]
    edges, log_odds = weigh_signals(list((heard or told).values()), settings.good_share)
    for name, some_edges, some_odds in zip(heard or told, edges, log_odds, strict=True):
        evidence.edges[SIGNALS.index(name)] = torch.from_numpy(some_edges)
        evidence.log_odds[SIGNALS.index(name)] = torch.from_numpy(some_odds)
    evidence.prior.fill_(np.log(settings.good_share / (1 - settings.good_share)))
    return evidence


def draw_by_score(
    scores: Tensor, likelihood: Tensor | None, generator: torch.Generator
) -> Callable[[int], Tensor]:
    """Draws noisy steps with weight p^2 + l, where p is the probability that a step is good. (N,)

    Doubtful steps are drawn seldom, not never: where no step is surely good, a doubtful one still
    says more of what to do there than nothing. l is the likelihood `p(a_t | s_t)` under clones of
    the clean set, once more and by itself: it keeps the policy near what clean demonstrations would
    do wherever a noisy one went, so that a few steps trusted by mistake do not decide there alone.
    """
    weights = ((1.0 + scores.double()) / 2.0).clamp(min=1e-3).square()
    reached = (weights if likelihood is None else weights + likelihood).cumsum(0)
    reached = reached / reached[-1]

    def draw(count: int) -> Tensor:
        drawn = torch.rand(count, dtype=torch.float64, generator=generator)
        return torch.searchsorted(reached, drawn).clamp(max=len(reached) - 1)

    return draw


def _train_clones(
    evidence: Evidence,
    windows: Windows,
    n_clean: int,
    settings: EvidenceFields,
    stages: Stages,
    generator: torch.Generator,
) -> None:
    """Behaviour cloning of the clean set, several times over."""

    def loss(_: Tensor) -> dict[str, Tensor]:
        drawn = torch.randint(n_clean, (MEMBERS * settings.batch_size,), generator=generator)
        states = evidence.standardise(windows.at(drawn).state)
        logits = evidence.clones(states.view(MEMBERS, settings.batch_size, -1))
        return {"imitation": F.cross_entropy(logits.flatten(0, 1), windows.actions_at(drawn))}

    stages.converge(
        "clone clean",
        {"clones": evidence.clones},
        loss=loss,
        valid_loss=None,
        n_samples=n_clean,
        updates=settings.clone_updates,
    )


def _train_distance(
    evidence: Evidence,
    windows: Windows,
    last_of: Tensor,
    n_clean: int,
    unit: float,
    settings: EvidenceFields,
    stages: Stages,
    generator: torch.Generator,
) -> None:
    """Low-expectile regression on (state, later state of the same episode) -> steps between."""
    each = max(1, settings.batch_size // 2)
    size = MEMBERS * each
    of_clean = size // 4
    farthest = last_of - torch.arange(len(windows)) + windows.has_next[last_of].long()  # (N,)
    begun = torch.where(farthest > 0)[0]
    begun_clean = begun[begun < n_clean]

    def loss(_: Tensor) -> dict[str, Tensor]:
        def draw(among: Tensor, count: int) -> Tensor:
            return among[torch.randint(len(among), (count,), generator=generator)]

        step = torch.cat([draw(begun, size - of_clean), draw(begun_clean, of_clean)])
        step = step[torch.randperm(size, generator=generator)]
        ahead = 1 + (torch.rand(size, generator=generator) * farthest[step]).long()
        rows = windows.rows[step]
        pair = torch.cat(
            [
                evidence.standardise(windows.observations[rows]),
                evidence.standardise(windows.observations[rows + ahead]),
            ],
            1,
        )
        found = evidence.distance(pair.view(MEMBERS, each, -1)).flatten()
        excess = ahead / unit - found
        weight = torch.where(excess < 0, 1 - _EXPECTILE, _EXPECTILE)
        return {"distance": (weight * excess.square()).mean()}

    stages.converge(
        "measure distances",
        {"distance": evidence.distance},
        loss=loss,
        valid_loss=None,
        n_samples=len(windows),
        updates=settings.distance_updates,
        without_decay=("distance",),
    )


@dataclass(frozen=True, eq=False)
class Record:
    """All recorded transitions, as a graph of distinct states."""

    states: Tensor
    """(U, I)"""
    before: Array
    """Of each transition, the number of the state it leaves. (E,)"""
    actions: Array
    after: Array
    ends: Array
    """Numbers of the states in which clean demonstrations end."""
    n_actions: int

    @staticmethod
    def of(
        windows: Windows, following: Tensor, exists: Tensor, ends: Tensor, n_actions: int
    ) -> Record:
        """`following` are the states after each step, where `exists`; `ends` are the steps that
        end clean demonstrations."""
        index = torch.arange(len(windows))
        rows = torch.cat([windows.at(index).state, following]).float()
        numbering = Numbering(rows.numpy())
        before, after = numbering.of_rows.view(2, -1).numpy()
        known = exists.numpy()
        actions = windows.actions_at(index).long().numpy()
        return Record(
            rows[numbering.first],
            before[known],
            actions[known],
            after[known],
            after[ends.numpy()],
            n_actions,
        )

    @property
    def several(self) -> Array:
        """Numbers of the states in which several actions were seen; there they can be compared."""
        seen = np.zeros((len(self.states), self.n_actions), bool)
        seen[self.before, self.actions] = True
        return np.flatnonzero(seen.sum(1) > 1)

    @torch.no_grad()
    def advantage(self, evidence: Evidence | None, unit: float) -> Array:
        """The value signal of each state and action that was seen, NaN elsewhere. (U, A)

        `evidence` knows how far each state seems to be from an end by ways that nobody recorded;
        without it only recorded ones count. `unit` is the mean length of a clean demonstration.
        """
        steps = self.before, self.actions, self.after, self.ends
        shape, discount = (len(self.states), self.n_actions), float(np.exp(-1.0 / unit))
        if evidence is None or not len(self.ends):
            return plan(*steps, shape, discount)
        away = (evidence.to_go(self.states).double().numpy() + _DETOUR).clip(min=0.0)
        planned = [plan(*steps, shape, discount, np.exp(-price * away)) for price in _PRICES]
        return np.mean(planned, 0)


def plan(
    states: Array,
    actions: Array,
    next_states: Array,
    ends: Array,
    shape: tuple[int, int],
    discount: float,
    otherwise: Array | None = None,
) -> Array:
    """The value signal of each state and action that was seen, NaN elsewhere. (U, A)

    Values are those of the empirical decision process with reward 1 at the ends of clean
    demonstrations: `Q(s, a)` is the mean over recorded outcomes; `V` the best seen action's, or
    what a state is worth `otherwise` (U,), by ways that were not recorded. The signal is `log Q`
    less its mean over the actions seen in the state, rounded, so that equals are equal.
    """
    n_states, n_actions = shape
    pair = states * n_actions + actions
    count = np.bincount(pair, minlength=n_states * n_actions)
    seen = count.reshape(shape) > 0
    at_end = np.zeros(n_states, bool)
    at_end[ends] = True
    least = np.zeros(n_states) if otherwise is None else otherwise
    value = np.where(at_end, 1.0, least)
    for _ in range(1_000):
        total = np.bincount(pair, discount * value[next_states], n_states * n_actions)
        q = (total / np.maximum(count, 1)).reshape(shape)
        better = np.where(at_end, 1.0, np.maximum(least, np.where(seen, q, 0.0).max(1)))
        if np.abs(better - value).max() < 1e-9:
            break
        value = better
    log_q = np.where(seen, np.log(np.maximum(q, _LEAST_VALUE)), 0.0)
    mean = log_q.sum(1) / np.maximum(seen.sum(1), 1)
    return np.where(seen, (log_q - mean[:, None]).round(6) + 0.0, np.nan)


def separates(clean: Array, noisy: Array) -> bool:
    """Whether a signal rates clean steps above noisy ones, beyond chance (Mann and Whitney)."""
    from scipy.stats import rankdata

    a, b = clean[~np.isnan(clean)], noisy[~np.isnan(noisy)]
    if not len(a) or not len(b):
        return False
    ranks = rankdata(np.concatenate([a, b]))[: len(a)]
    area = (ranks.mean() - (len(a) + 1) / 2) / len(b)  # under the ROC curve
    error = np.sqrt((len(a) + len(b) + 1) / (12 * len(a) * len(b)))
    return bool(area > 0.5 + _STANDARD_ERRORS * error)


def weigh_signals(signals: list[Array], good_share: float) -> tuple[list[Array], list[Array]]:
    """Bins of each signal, and the log-odds of "good" that each bin is worth.

    Expectation-maximisation over the noisy steps (N,), begun at the mean of their ranks. Within a
    signal more is never worse. A signal that is alone has nobody to agree with: its ranks decide.
    """
    from scipy.stats import rankdata
    from sklearn.isotonic import IsotonicRegression

    n = len(signals[0])
    edges, bins = [], []
    ranks = np.zeros(n)
    for signal in signals:
        known = ~np.isnan(signal)
        cuts = np.quantile(signal[known], np.arange(1, N_BINS) / N_BINS) if known.any() else None
        edges.append(np.full(N_BINS - 1, np.inf) if cuts is None else cuts)
        bins.append(np.where(known, np.searchsorted(edges[-1], signal, side="right"), -1))
        ranks[known] += (rankdata(signal[known]) - 0.5) / known.sum() - 0.5
    prior = np.log(good_share / (1 - good_share))
    p = 0.05 + 0.9 * rankdata(ranks) / n
    log_odds = [np.zeros(N_BINS) for _ in signals]
    for _ in range(_ROUNDS if len(signals) > 1 else 1):
        total = np.full(n, prior)
        for i, signal_bins in enumerate(bins):
            known = signal_bins >= 0
            share = np.bincount(signal_bins[known], minlength=N_BINS) / max(known.sum(), 1)
            few = 5.0 * share  # as if five more steps of each kind had been seen
            good = np.bincount(signal_bins[known], p[known], N_BINS) + few
            bad = np.bincount(signal_bins[known], 1 - p[known], N_BINS) + few
            used = share > 0
            ratio = np.log(good[used] / good.sum()) - np.log(bad[used] / bad.sum())
            found = np.zeros(N_BINS)
            found[used] = IsotonicRegression().fit_transform(
                np.flatnonzero(used), ratio, sample_weight=share[used]
            )
            log_odds[i] = _TRUST * found
            total += np.where(known, log_odds[i][signal_bins], 0.0)
        p = 1.0 / (1.0 + np.exp(-total))
    return edges, log_odds
