"""What a judge learns from people: labelled steps tell of those that are like them.

The judge keeps how it sees the steps that it was fitted to (`Gathered`), so labels are taken in
without training a network again: a Gaussian process (`lessons.py`) over what may change in the
log-odds of "good", by how alike steps are (`likeness.py`). The share of good steps is the mean
probability of noisy steps then.

A span counts as at most `SPAN` steps, since its steps have one answer. Unsure counts as nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sdil.judges.asking import SPAN
from sdil.judges.doing import IDLING, WAITING
from sdil.judges.evidence import STEP_SIGNALS, Evidence
from sdil.judges.joining import bin_middles, how_far_apart, worth
from sdil.judges.lessons import Lessons, Posterior, how_much_counts
from sdil.judges.likeness import STATES, Looks, Seen, quantile_grid, some_of
from sdil.judging import CrossJudged, GoodShare
from sdil.labels import Episodes, Label, told_steps
from sdil.spaces import Array
from sdil.states import below, nest
from sdil.windows import STEPS_AT_ONCE, Windows

_LOOKED_AT = 8  # steps of a span that are kept as examples
_EXAMPLES = 1_500  # altogether
_SAMPLE = 500  # noisy steps that tell how unsure the share is
_ARRAYS = ("log_odds", "idling", "acts", "place")


@dataclass(frozen=True, eq=False)
class Gathered:
    """How M steps are seen, reference clean ones first, and what came of it before labels."""

    log_odds: Array
    """What a bin of each signal is worth; 0 throughout where it is not heard. (S, N_BINS)"""
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
    looks: Looks
    """How steps are looked at."""
    seen: Seen
    """The steps: noisy ones by the final networks, which score them; clean ones by those that never
    saw their group. Of M."""

    def tensors(self) -> dict[str, Tensor]:
        """All of it, by name; what is text as the bytes of JSON."""
        about = {"episodes": [[*k, *v] for k, v in self.episodes.items()]}
        text = json.dumps(about).encode()
        share = [self.share.point, self.share.low, self.share.high]
        arrays = {
            **{name: getattr(self, name) for name in _ARRAYS},
            **{f"seen_{name}": value for name, value in vars(self.seen).items()},
            "share": np.array(share),
            "n_clean": np.array(self.n_clean),
            "about": np.frombuffer(text, np.uint8).copy(),
        }
        found = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        return found | nest("looks", self.looks.state_dict())

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Gathered | None:
        """The inverse of `tensors`; None of a judge of before, which did not look at steps."""
        if "seen_state" not in tensors:
            return None
        about = json.loads(bytes(tensors["about"].tolist()))
        return Gathered(
            share=GoodShare(*tensors["share"].tolist()),
            n_clean=int(tensors["n_clean"]),
            episodes={(a, b): (first, n) for a, b, first, n in about["episodes"]},
            looks=Looks.of_tensors(below(tensors, "looks")),
            seen=Seen.of_tensors(tensors, "seen_"),
            **{name: tensors[name].numpy() for name in _ARRAYS},
        )

    @property
    def noisy(self) -> Array:
        """Noisy steps that act."""
        return np.flatnonzero(self.acts & (np.arange(len(self.acts)) >= self.n_clean))

    def posterior(self, labels: Sequence[Label]) -> Posterior | None:
        """What labels teach; None where none says anything of a step that acts."""
        told, span = told_steps(labels, self.episodes)
        known = self.acts & (self.place >= 0)  # what idling is worth is no matter of likeness
        said = np.where(known, told[self.place], np.nan)
        steps = np.flatnonzero(~np.isnan(said))
        if not len(steps):
            return None
        span = span[self.place[steps]]
        length = np.bincount(span)
        most = max(1, min(_LOOKED_AT, _EXAMPLES // int((length > 0).sum())))
        kept = [some_of(steps[span == one], most) for one in np.flatnonzero(length)]
        counts = np.repeat([min(len(k), SPAN) / len(k) for k in kept], [len(k) for k in kept])
        examples = some_of(np.concatenate(kept), _EXAMPLES)
        counts = some_of(counts, _EXAMPLES)
        return Posterior.of(self.seen.at(examples), said[examples], counts)


def look_at(
    evidence: Evidence, windows: Windows, told: Mapping[str, Array], steps: Array, n_clean: int
) -> tuple[Looks, Seen]:
    """How steps are looked at, and these, reference clean ones first: noisy ones by the final
    networks, the others by what those said (N,) who never saw their group."""
    index = torch.from_numpy(steps)
    noisy = index[n_clean:]
    noisy = noisy[~evidence.doing.idles(windows, noisy)]
    which = [STEP_SIGNALS.index(name) for name in told]
    final = [evidence.tell(name, windows, noisy).numpy() for name in told]
    some = torch.from_numpy(some_of(noisy.numpy(), STATES))
    states = evidence.standardise(windows.at(some).state).numpy()
    signals = np.stack([np.asarray(said, float) for said in told.values()])
    unseen, clean = signals[:, noisy.numpy()], signals[:, steps[:n_clean]]
    said = np.zeros(clean.shape)
    for i, of_bins in enumerate(evidence.log_odds[which].numpy()):
        if of_bins.any():
            said[i] = worth(clean[i], bin_middles(unseen[i]), of_bins)
    trust = how_far_apart(said[:, ~np.isnan(clean).all(0)])
    looks = Looks.learn(which, np.stack(final), states, trust)
    parts = [evidence.look(looks, windows, part).small() for part in index.split(STEPS_AT_ONCE)]
    seen = Seen.together(parts)
    seen.ranks[:n_clean] = looks.ranks(clean, quantile_grid(unseen))
    seen.apart[:n_clean] = looks.part(seen.ranks[:n_clean].astype(float))
    seen.odds[:n_clean] = evidence.share().odds[0] + trust * said.sum(0)
    return looks, seen


@dataclass(frozen=True, eq=False)
class Told:
    """What takes the place of what was estimated without labels."""

    lessons: Lessons
    share: GoodShare
    idling: Array
    """(2,)"""


def learn_from(gathered: Gathered, labels: Sequence[Label]) -> Told | None:
    """None where no label says anything of a step that acts."""
    posterior = gathered.posterior(labels)
    if posterior is None:
        return None
    noisy, seen = gathered.noisy, gathered.seen
    steps = seen.at(noisy)
    change, variance = posterior.taught(steps)
    thought, counts = steps.odds.astype(float) + change, how_much_counts(variance)
    before = gathered.share.odds[0]
    sample = seen.at(some_of(noisy, _SAMPLE)).double()
    doubt = float(np.sqrt(max(posterior.covariance(sample, sample).mean(), 0.0)))

    def mean(more: float) -> float:
        return float(_probability(counts * (thought + more)).mean())

    share = GoodShare(mean(0.0), mean(-1.96 * doubt), mean(1.96 * doubt))
    trust = float(gathered.looks.trust)
    under = [(steps.odds - before <= trust * level).mean() for level in gathered.idling]
    if not gathered.log_odds.any():  # nothing was heard before: there is no place to keep
        under = [IDLING, WAITING]
    idling = np.quantile(counts * thought - share.odds[0], under)
    return Told(Lessons.of(gathered.looks, posterior, before), share, idling)


def rewrite(evidence: Evidence, gathered: Gathered, told: Told | None) -> None:
    """Put what was learned from labels into the evidence; without any, what was there before."""
    share = gathered.share if told is None else told.share
    idling = gathered.idling if told is None else told.idling
    point = [share.point, share.low, share.high]
    evidence.good_share.copy_(torch.tensor(point, dtype=torch.float64))
    evidence.idling.copy_(torch.from_numpy(idling))
    evidence.caps.copy_(evidence.doing.idle.any() & bool(evidence.log_odds.any() or told))
    evidence.lessons = None if told is None else told.lessons


def judge_again(
    judged: CrossJudged | None, gathered: Gathered | None, evidence: Evidence
) -> CrossJudged | None:
    """By folds, what was `judged` before labels, where what signals repeat counts once: each
    probability moved by as much as labels move the step's log-odds, and as near to one half as they
    leave it open."""
    if judged is None or gathered is None or evidence.lessons is None:
        return judged
    change, counts = evidence.lessons(gathered.seen)
    idles = evidence.share().odds[0] + float(evidence.idling[0])
    idles -= gathered.share.odds[0] + float(gathered.idling[0])
    change = np.where(gathered.acts, change, idles)
    counts = np.where(gathered.acts, counts, 1.0)
    before = gathered.share.odds[0]
    once = gathered.looks.trust / float(evidence.trust)  # which counts in what was judged already
    trust = np.where(gathered.acts, once, 1.0)

    def move(good: Array, some: slice) -> Array:
        p = np.clip(good.astype(float), 1e-3, 1 - 1e-3)
        said = before + trust[some] * (np.log(p / (1 - p)) - before)
        log_odds = counts[some] * (said + change[some])
        return _probability(log_odds).astype(np.float16)

    clean, n = judged.clean, gathered.n_clean
    return CrossJudged(
        move(judged.good, slice(n, None)),
        judged.fold,
        judged.fingerprint,
        None if clean is None else move(clean, slice(n)),
    )


def _probability(log_odds: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))
