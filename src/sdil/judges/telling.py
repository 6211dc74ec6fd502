"""What a judge learns from people: labelled steps are known where signals are weighed.

The judge keeps what its witnesses said of the steps that it was fitted to, by those that never saw
their groups (`Gathered`). So labels are taken in without training a network again:

1. What bins of heard signals are worth is found as before (`joining.py`), with labelled steps as
   known.
2. Logistic regression of the labels gives each signal two weights, of what its bins are worth by
   then and of the plain rank of a bin, and the odds of "good". Before any answer the first is 1 for
   a signal that is heard, the second 0, and the odds are those of the estimated share, as unsure as
   its interval is wide. Neither is ever negative: more is never worse.
   How far weights may move is tried on answers that are left out in turn; where these are not
   served, signals are weighed as before and the odds alone are learned.
3. The share of good steps is the mean probability of noisy steps then.

A person may be wrong: an answer is taken for wrong in one case of ten (`WRONG`). A span counts as
at most `SPAN` steps, since its steps have one answer. Unsure counts as nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sdil.judges.evidence import STEP_SIGNALS, Evidence
from sdil.judges.joining import N_BINS, bin_middles, weigh_signals, worth
from sdil.judging import CrossJudged, GoodShare
from sdil.labels import Episodes, Label, told_steps
from sdil.spaces import Array

IDLING = 0.3  # a step that idles is worth what this share of acting ones are under
WAITING = 0.1  # and this share where it is asked how well an episode went: waiting gets nowhere
WRONG = 0.1
"""How often an answer is taken for wrong."""
SPAN = 4.0
"""A span counts as so many steps at most."""
_KNOWN = 20.0  # a labelled step counts as so many noisy ones where bins are weighed
_SPREAD = 0.5  # how far, before any answer, the weight of what bins are worth may be from 1
_RANKS = 1.0  # the same of the weight of a signal's plain ranks from 0
_UNHEARD = 0.5  # the same where the signal is not heard
_FREEDOMS = (0.0, 0.3, 1.0)  # shares of these; the one that serves left-out answers is taken
_PARTS = 5  # that answers are left out in
_SURE = 0.5  # the least standard deviation of the odds of "good" before any answer
_ARRAYS = ("signals", "middles", "log_odds", "idling", "acts", "place")
_HEARD = 0.2  # log-odds between its bins that an unheard signal must come to, to be heard


@dataclass(frozen=True, eq=False)
class Gathered:
    """What the witnesses said of M steps, reference clean ones first, and what came of it."""

    names: tuple[str, ...]
    """Of S signals."""
    signals: Array
    """By those that never saw a step's group; NaN: nothing. (S, M)"""
    middles: Array
    """Of bins of noisy steps by the final networks. (S, N_BINS)"""
    log_odds: Array
    """What a bin is worth before labels; 0 throughout where the signal is not heard. (S, N_BINS)"""
    share: GoodShare
    """Before labels."""
    idling: Array
    """The same of what idling is worth. (2,)"""
    acts: Array
    """Whether a step acts. (M,) booleans"""
    n_clean: int
    """Reference steps among them."""
    place: Array
    """Of each step among clean and noisy ones, or -1. (M,)"""
    episodes: Episodes
    """Where the steps of each episode are among them."""

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name; what is text as the bytes of JSON."""
        about = {"names": self.names, "episodes": [[*k, *v] for k, v in self.episodes.items()]}
        text = json.dumps(about).encode()
        share = [self.share.point, self.share.low, self.share.high]
        arrays = {
            **{name: getattr(self, name) for name in _ARRAYS},
            "share": np.array(share),
            "n_clean": np.array(self.n_clean),
            "about": np.frombuffer(text, np.uint8).copy(),
        }
        return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Gathered:
        """The inverse of `tensors`."""
        about = json.loads(bytes(tensors["about"].tolist()))
        return Gathered(
            names=tuple(about["names"]),
            share=GoodShare(*tensors["share"].tolist()),
            n_clean=int(tensors["n_clean"]),
            episodes={(a, b): (first, n) for a, b, first, n in about["episodes"]},
            **{name: tensors[name].numpy() for name in _ARRAYS},
        )

    @property
    def noisy(self) -> Array:
        """Noisy steps that act."""
        return np.flatnonzero(self.acts & (np.arange(len(self.acts)) >= self.n_clean))

    def totals(self, log_odds: Array) -> Array:
        """Joined log-odds of all steps. (M,)"""
        return np.asarray(sum(self.each(log_odds), np.zeros(len(self.acts))))

    def each(self, log_odds: Array) -> list[Array]:
        """The log-odds of all steps by each signal. S times (M,)"""
        noisy = self.noisy
        return [
            worth(signal, bin_middles(signal[noisy]), odds) if odds.any() else np.zeros(len(signal))
            for signal, odds in zip(self.signals.astype(float), log_odds, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Told:
    """What takes the place of what was estimated without labels."""

    log_odds: Array
    """(S, N_BINS)"""
    share: GoodShare
    idling: Array
    """(2,)"""


def learn_from(gathered: Gathered, labels: Sequence[Label]) -> Told | None:
    """None where no label says anything of a step that acts."""
    told, span = told_steps(labels, gathered.episodes)
    known_place = gathered.place >= 0
    said = np.where(known_place, told[gathered.place], np.nan)
    span = np.where(known_place, span[gathered.place], -1)
    said[~gathered.acts] = np.nan  # what idling is worth is no matter of signals
    known = np.flatnonzero(~np.isnan(said))
    if not len(known) or not len(gathered.names):
        return None
    said = WRONG + (1 - 2 * WRONG) * said
    counts = np.zeros(len(said))
    counts[known] = np.minimum(1.0, SPAN / np.bincount(span[known])[span[known]])
    freedom = _choose_freedom(gathered, said, counts, span)
    log_odds, odds, doubt = _weigh(gathered, said, counts, freedom)
    total = gathered.totals(log_odds)[gathered.noisy]

    def mean(at: float) -> float:
        return float(_probability(at + total).mean())

    share = GoodShare(mean(odds), mean(odds - 1.96 * doubt), mean(odds + 1.96 * doubt))
    used = log_odds.any(1)
    # what is added to the odds is those of the share: signals carry the rest
    log_odds[used] += (odds - share.odds[0]) / max(int(used.sum()), 1)
    total = gathered.totals(log_odds)[gathered.noisy]
    before = gathered.totals(gathered.log_odds)[gathered.noisy]
    under = [(before <= level).mean() for level in gathered.idling]
    if not gathered.log_odds.any():  # nothing was heard before: there is no place to keep
        under = [IDLING, WAITING]
    return Told(log_odds, share, np.quantile(total, under))


def rewrite(evidence: Evidence, gathered: Gathered, told: Told | None) -> None:
    """Put what was learned from labels into the evidence; without any, what was there before."""
    log_odds = gathered.log_odds if told is None else told.log_odds
    share = gathered.share if told is None else told.share
    idling = gathered.idling if told is None else told.idling
    for name, middles, odds in zip(gathered.names, gathered.middles, log_odds, strict=True):
        i = STEP_SIGNALS.index(name)
        evidence.log_odds[i] = torch.from_numpy(odds)
        if odds.any():
            evidence.middles[i] = torch.from_numpy(middles)
    point = [share.point, share.low, share.high]
    evidence.good_share.copy_(torch.tensor(point, dtype=torch.float64))
    evidence.idling.copy_(torch.from_numpy(idling))
    evidence.caps.copy_(evidence.doing.idle.any() & bool(log_odds.any()))


def judge_again(
    judged: CrossJudged | None, gathered: Gathered, before: Evidence, after: Evidence
) -> CrossJudged | None:
    """By folds, each probability moved by as much as labels move the step's log-odds."""
    if judged is None:
        return None
    rows = [STEP_SIGNALS.index(name) for name in gathered.names]
    moved = []
    for evidence in (before, after):
        total = gathered.totals(evidence.log_odds[rows].numpy())
        total[~gathered.acts] = float(evidence.idling[0])
        moved.append(evidence.share().odds[0] + total)
    change = moved[1] - moved[0]

    def move(good: Array, by: Array) -> Array:
        p = np.clip(good.astype(float), 1e-3, 1 - 1e-3)
        return _probability(np.log(p / (1 - p)) + by).astype(np.float16)

    clean = judged.clean
    return CrossJudged(
        move(judged.good, change[gathered.n_clean :]),
        judged.fold,
        judged.fingerprint,
        None if clean is None else move(clean, change[: gathered.n_clean]),
    )


def _choose_freedom(gathered: Gathered, said: Array, counts: Array, span: Array) -> float:
    """How far weights may move: as far as serves answers that are left out, in turn."""
    spans = np.unique(span[counts > 0])
    if len(spans) < _PARTS:
        return _FREEDOMS[0]
    found = np.zeros((len(_FREEDOMS), len(spans)))
    for part in range(_PARTS):
        mine = np.arange(len(spans)) % _PARTS == part
        out = np.isin(span, spans[mine]) & (counts > 0)
        fewer, some = np.where(out, np.nan, said), np.where(out, 0.0, counts)
        for i, freedom in enumerate(_FREEDOMS):
            log_odds, odds, _ = _weigh(gathered, fewer, some, freedom)
            p = WRONG + (1 - 2 * WRONG) * _probability(odds + gathered.totals(log_odds)[out])
            good = (said[out] - WRONG) / (1 - 2 * WRONG)
            likely = counts[out] * (good * np.log(p) + (1 - good) * np.log(1 - p))
            found[i, mine] = [likely[span[out] == one].sum() for one in spans[mine]]
    gain = found - found[0]
    sure = gain.mean(1) - gain.std(1) / np.sqrt(len(spans))  # a standard error under the mean
    return _FREEDOMS[int(sure.argmax())]


def _weigh(
    gathered: Gathered, said: Array, counts: Array, freedom: float
) -> tuple[Array, float, float]:
    """What bins are worth (S, N_BINS), the odds of "good" and how unsure these are. With no freedom
    signals are weighed as before, and the odds alone are learned."""
    known = np.flatnonzero(counts > 0)
    heard = np.asarray(gathered.log_odds.any(1))
    bins = _weigh_bins(gathered, said, counts) if freedom else gathered.log_odds
    ranks = np.tile(np.linspace(-1, 1, N_BINS), (len(bins), 1))
    each = [x[known] for table in (bins, ranks) for x in gathered.each(table)]
    away = np.concatenate([np.where(heard, _SPREAD, 0.0), np.where(heard, _RANKS, _UNHEARD)])
    first = np.concatenate([np.where(heard, 1.0, 0.0), np.zeros(len(heard))])
    weights, odds, doubt = _regress(
        np.stack(each),
        said[known],
        counts[known],
        first,
        np.maximum(freedom * away, 1e-6),
        gathered.share,
    )
    by_bins, by_ranks = np.split(weights, 2)
    log_odds = bins * by_bins[:, None] + ranks * by_ranks[:, None]
    log_odds[~heard & (np.ptp(log_odds, axis=1) < _HEARD)] = 0.0
    return log_odds, odds, doubt


def _weigh_bins(gathered: Gathered, said: Array, counts: Array) -> Array:
    """What each bin of the heard signals is worth, labelled steps known. (S, N_BINS)"""
    clean = np.flatnonzero(gathered.acts[: gathered.n_clean])
    clean = clean[~(said[clean] < 0.5)]  # a clean step that a person calls bad is no example
    noisy, signals = gathered.noisy, gathered.signals.astype(float)
    heard = np.flatnonzero(gathered.log_odds.any(1))
    found = np.zeros((len(signals), N_BINS))
    if len(heard):
        found[heard] = weigh_signals(
            [signals[i][clean] for i in heard],
            [signals[i][noisy] for i in heard],
            float(np.clip(gathered.share.point, 0.02, 0.98)),
            known=said[noisy],
            count=_KNOWN * counts[noisy],
        )
    return found


def _regress(
    each: Array, said: Array, counts: Array, before: Array, away: Array, share: GoodShare
) -> tuple[Array, float, float]:
    """Weights of the inputs (F,), the odds of "good" and how unsure these are, from inputs (F, L)
    and what people say (L,) of labelled steps. Weights were `before` (F,), and may be `away`."""
    from scipy.optimize import minimize

    low, high = share.odds[1:]
    width = max((high - low) / (2 * 1.96), _SURE)
    first, spread = np.append(before, share.odds[0]), np.append(away, width)
    inputs = np.vstack([each, np.ones(len(said))])

    def cost(far: Array) -> tuple[float, Array]:  # in standard deviations from what was before
        p = _probability((first + spread * far) @ inputs)
        answers = WRONG + (1 - 2 * WRONG) * p  # how often a person will say good
        good = (said - WRONG) / (1 - 2 * WRONG)
        loss = -(good * np.log(answers) + (1 - good) * np.log(1 - answers))
        slope = (answers - good) / (answers * (1 - answers)) * (1 - 2 * WRONG) * p * (1 - p)
        value = float((counts * loss).sum() + 0.5 * (far**2).sum())
        return value, spread * (inputs @ (counts * slope)) + far

    bounds = [(-b / s, None) for b, s in zip(before, away, strict=True)] + [(None, None)]
    found = minimize(cost, np.zeros(len(first)), jac=True, bounds=bounds, method="L-BFGS-B")
    x = first + spread * found.x
    p = _probability(x @ inputs)
    doubt = 1.0 / np.sqrt(1.0 / width**2 + float((counts * p * (1 - p)).sum()))
    return x[:-1], float(x[-1]), float(doubt)


def _probability(log_odds: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))
