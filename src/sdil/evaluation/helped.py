"""Did curating help? Behaviour cloning with and without it, on clean steps that it has not seen.

The same small network is cloned from the clean set alone, with all noisy steps, with those that
were kept, with all of them weighed, and with as much dropped at random, and measured on clean
groups that were left out (`cross_fitting`). Differences are paired by group. Where the judge says
what it would have said without the groups left out, that is what is tried on them.

How to weigh is told by the same groups: a step weighs a power of how probably it is good, or all of
them together half as much as the clean ones, so that many doubtful ones do not outvote those; each
group is measured with the way that is best for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit  # `scipy.stats.t.ppf`, which takes a second to import

from sdil.cores import steadily
from sdil.curation import Curated
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.evaluation.comparisons import Estimate, mean_interval
from sdil.held_out import TEMPERATURES
from sdil.networks.cross_fitting import Progress, cross_fit
from sdil.networks.folds import MOST_FOLDS, Folds
from sdil.networks.seeing import needs_encoder, see
from sdil.progress import counting
from sdil.spaces import Array
from sdil.training import check_seed
from sdil.ways import Way

WORTH = 0.01
"""The least gain in NLL that counts: where the interval holds none so large, it did not help."""
WAYS = (Way(0.5), Way(1.5), Way(5.0), Way(1.0, 0.5))
"""How noisy steps may be weighed: the larger the power, the surer a step must be. By fewer groups
than there are folds, the first one counts that is not surely worse than the best."""
DRAWS = 3
"""How often `random` is drawn; the luckiest is what a judgement has to beat."""
LABELS = {
    "clean": "clean alone",
    "all": "clean + all noisy",
    "curated": "clean + curated",
    "weighted": "clean + weighted",
    "random": "clean + random",
}
"""What each row learns from, in words."""
ErrorIn = Literal["shares", "standard deviations"]
Verdict = Literal["helped", "did not help", "cannot tell", "not measured"]


@dataclass(frozen=True)
class Row:
    """Behaviour cloning from one choice of noisy steps, on clean steps that it has not seen."""

    name: str
    """One of `LABELS`."""
    noisy_steps: float
    """How many noisy steps it learns from, by weight."""
    nll: Estimate
    """Negative log-likelihood per step, mean over clean groups, with Student's 95% interval."""
    error: Estimate
    """How far the likeliest action is from the recorded one (`Helped.error_in`); likewise."""
    minus_all: Estimate | None
    """Its NLL minus that of `all`, paired by group."""
    minus_random: Estimate | None
    """Its NLL minus that of `random`, paired by group."""


@dataclass(frozen=True)
class Helped:
    """The answer, and what it rests on."""

    verdict: Verdict
    sentence: str
    """The verdict with its figures, in words."""
    recommended: str | None
    """What to learn from: `weighted`, or that of `clean` and `all` whose NLL is lower by more than
    the standard error of the difference; without `weighted` the row with the lowest, `random`
    aside."""
    power: float | None
    """In `weighted` a step weighs ((1 + optimality) / 2) ** power; None where it is not there."""
    at_most: float | None
    """And all steps together weigh at most so many times what clean ones do; None: no matter."""
    rows: tuple[Row, ...]
    groups: int
    """Clean groups that were left out in turn."""
    folds: int
    seed: int
    error_in: ErrorIn = "shares"
    """What errors are: shares of steps at which another action is the likeliest; or, of actions
    that cannot be listed, standard deviations of the data (of a place that follows where something
    is, of what is left), mean over entries (of a counted entry 1 where it is another)."""


@steadily
def did_it_help(
    demos: Demonstrations,
    curated: Curated,
    *,
    seed: int = 0,
    on_progress: Progress | None = None,
    progress: bool | None = None,
) -> Helped:
    """Does behaviour cloning gain by what `curate(demos, ...)` made of the noisy set?

    `random` drops as much as was dropped, in stretches of the same kind; where steps were weighed,
    it gives the same weights to other steps. It is the best of `DRAWS` draws: intervals are over
    clean groups, and know nothing of how lucky a draw is. `progress` shows how far it is; where
    None, in a notebook alone.
    """
    check_seed(seed)
    groups = demos.n_clean_groups
    if curated.which == "clean":
        return _not_measured("the clean set is what others are measured on", groups, seed)
    if [len(mask) for mask in curated.kept] != demos.noisy.lengths.tolist():
        raise InputError("give the demonstrations that were curated, as they were before")
    if groups < 2:
        return _not_measured(
            "there is one clean group (or episode), and none is left to measure on", groups, seed
        )
    if needs_encoder(demos):
        demos = see(demos, seed=seed).demos
    of_folds = curated.by_fold
    folds = (
        Folds.deal(demos, seed=seed)
        if of_folds is None
        else Folds.of_episodes(demos, of_folds.fold)
    )
    halved = folds.halved()
    weights = _weights(curated, folds, halved, seed)
    drawn = np.stack([weight for of_row in weights.values() for weight in of_row])
    with counting("does it help?", on_progress, progress) as count:
        found = cross_fit(
            demos,
            halved,
            drawn,
            temperatures=TEMPERATURES,
            clones=2 * MOST_FOLDS,
            seed=seed,
            on_progress=count,
        )
    names = [name for name, of_row in weights.items() for _ in of_row]
    order = np.argsort(found.nll.mean(1))[::-1]  # the best of a name comes last, and stays
    at = {names[i]: int(i) for i in order}
    nll = {name: found.nll[at[name]] for name in weights}
    error = {name: found.error[at[name]] for name in weights}
    way: Way | None = None
    if "weighted" in weights:
        tried = [i for i, name in enumerate(names) if name == "weighted"]
        at["weighted"] = tried[_best_way(found.nll[tried], few=groups < MOST_FOLDS)]
        way = _ways(curated)[tried.index(at["weighted"])]
        by_others = _best_of_others(found.nll[tried], halved)
        nll["weighted"], error["weighted"] = (
            np.choose(by_others, list(of[tried])) for of in (found.nll, found.error)
        )

    def minus(name: str, other: str) -> Estimate | None:
        return mean_interval(nll[name] - nll[other]) if other in nll and other != name else None

    rows = {
        name: Row(
            name=name,
            noisy_steps=float((drawn[at[name]] * halved.noisy).sum(1).mean()),
            nll=mean_interval(nll[name]),
            error=mean_interval(error[name]),
            minus_all=minus(name, "all"),
            minus_random=minus(name, "random"),
        )
        for name in weights
    }
    chosen = "weighted" if curated.by == "weights" else "curated"
    told = _tell(rows, chosen, minus(chosen if chosen in nll else "all", "clean"))
    best = _recommend(nll)
    error_in: ErrorIn = "shares" if demos.spaces.listed else "standard deviations"
    power = None if way is None else way.exponent
    at_most = None if way is None or way.at_most == np.inf else way.at_most
    of_rows = tuple(rows.values())
    return Helped(*told, best, power, at_most, of_rows, groups, len(halved), seed, error_in)


def _not_measured(why: str, groups: int, seed: int) -> Helped:
    return Helped("not measured", f"not measured: {why}", None, None, None, (), groups, 0, seed)


def _best_of_others(nll: Array, folds: Folds) -> Array:
    """Which of several weightings (W, G) is best for the groups outside the fold of each. (G,)"""
    few = nll.shape[1] < MOST_FOLDS
    best = np.zeros(nll.shape[1], np.int64)
    for fold in range(len(folds)):
        mine = folds.of_group == fold
        others = ~mine if len(folds) > 2 else np.ones_like(mine)  # one fold says too little
        best[mine] = _best_way(nll[:, others], few=few)
    return best


def _best_way(nll: Array, *, few: bool) -> int:
    """Which of several weightings (W, G) is best; of few groups the first that may be, by Student's
    95%: hardly anything that three groups say is sure."""
    best = int(nll.mean(1).argmin())
    if not few:
        return best
    errors = float(stdtrit(max(nll.shape[1] - 1, 1), 0.95))
    return next(i for i, of in enumerate(nll) if i == best or not _surely(of - nll[best], errors))


def _recommend(nll: dict[str, Array]) -> str:
    """Weights bend least, and need not be surely better than the rest: groups are few, and clones
    of clean ones alone are those that gain most by the groups that are left out here. What was
    curated is weights, too, of 0 and 1, by borders drawn by who had seen these groups: it never
    stands for weights that are told without them."""
    rows = [name for name in nll if name != "random"]
    if "weighted" in nll:
        others = [name for name in rows if name != "curated"]
        rows = [name for name in others if _surely(nll["weighted"] - nll[name])]
        rows.append("weighted")
    return min(rows, key=lambda name: float(nll[name].mean()))


def _surely(gain: Array, errors: float = 1.0) -> bool:
    """Whether groups gain more than so many times what their mean may err."""
    of_mean = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else 0.0
    return bool(gain.mean() > errors * of_mean)


def _ways(curated: Curated) -> tuple[Way, ...]:
    """How `weighted` weighs: as it was asked for, or in several ways, of which the best counts."""
    if curated.by != "weights":
        return WAYS
    return (Way(curated.power, np.inf if curated.at_most is None else curated.at_most),)


def _weights(curated: Curated, folds: Folds, halved: Folds, seed: int) -> dict[str, list[Array]]:
    """What each noisy step weighs in each row and each of its draws. (halved folds, noisy steps)"""
    kept, of_folds = np.concatenate(curated.kept), curated.by_fold

    def by_fold(told: Array) -> Array:
        """What goes for all folds, or for both halves of one."""
        every = np.broadcast_to(told, folds.noisy.shape).astype(np.float64)
        return np.repeat(every, len(halved) // len(folds), 0)

    rng, dropped = np.random.default_rng(seed), int((~kept).sum())
    rows = {"clean": [by_fold(np.zeros(len(kept)))], "all": [by_fold(np.ones(len(kept)))]}
    by_rule = by_fold(kept if of_folds is None or of_folds.kept is None else of_folds.kept)
    if dropped:
        rows["curated"] = [by_rule]
    if curated.weighing is not None:
        good = np.concatenate(curated.weighing) if of_folds is None else of_folds.weighing
        chosen = by_rule if curated.by == "weights" else np.ones_like(by_rule)
        of_step = halved.of_group[halved.group_of_step]
        n_clean = (of_step != np.arange(len(halved))[:, None]).sum(1, keepdims=True)
        seen = halved.noisy * chosen
        rows["weighted"] = [
            chosen * way.weigh(by_fold(good), n_clean, seen) for way in _ways(curated)
        ]
    if curated.by == "weights":
        (given,) = rows["weighted"]
        rows["random"] = [given[:, rng.permutation(len(kept))] for _ in range(DRAWS)]
    elif dropped:
        rows["random"] = [
            by_fold(left_at_random(curated.stretches, dropped, rng)) for _ in range(DRAWS)
        ]
    return rows


def left_at_random(stretches: Array, dropped: int, rng: np.random.Generator) -> Array:
    """Which steps are left when stretches are dropped at random, about so many steps. (N,)"""
    order = rng.permutation(len(stretches))
    total = np.concatenate([[0], np.cumsum(stretches[order])])
    left = np.ones(len(stretches), bool)
    left[order[: int(np.abs(total - dropped).argmin())]] = False
    return np.repeat(left, stretches)


def _tell(rows: dict[str, Row], chosen: str, minus_clean: Estimate | None) -> tuple[Verdict, str]:
    """The verdict on a row, and a sentence: it also says where clean steps alone are surely better.

    `minus_clean` is the row's NLL minus that of `clean`, paired by group (that of `all`, where
    nothing was dropped).
    """
    verdict, sentence = _verdict(rows, chosen)
    if minus_clean is None or _ends(minus_clean)[0] <= 0:
        return verdict, sentence
    link = "; but" if verdict == "helped" else "; and"
    learned = LABELS[chosen if chosen in rows else "all"]
    return verdict, (
        f"{sentence}{link} BC on {LABELS['clean']} is surely better than on {learned} "
        f"(NLL {rows['clean'].nll.value:.3f}, difference {_show(minus_clean)})"
    )


def _verdict(rows: dict[str, Row], chosen: str) -> tuple[Verdict, str]:
    """The verdict on a row, and a sentence with its figures."""
    row, everything = rows.get(chosen), rows["all"]
    if row is None or row.minus_all is None or row.minus_random is None:
        return "did not help", "it did not help: nothing was dropped"
    (low, high), (low_of_luck, high_of_luck) = _ends(row.minus_all), _ends(row.minus_random)
    than_all = (
        f"than on all (NLL {row.nll.value:.3f} against {everything.nll.value:.3f}, "
        f"difference {_show(row.minus_all)})"
    )
    luck = "the same weights on other steps" if chosen == "weighted" else "as much left out"
    than_luck = f"than with {luck} at random (difference {_show(row.minus_random)})"
    says = f"BC on {LABELS[chosen]} predicts held-out clean steps"
    if high < 0 and high_of_luck < 0:
        return "helped", f"it helped: {says} better {than_all} and {than_luck}"
    for least, how in ((0.0, "worse"), (-WORTH, "no better")):
        for lowest, than in ((low, than_all), (low_of_luck, than_luck)):
            if lowest > least:
                return "did not help", f"it did not help: {says} {how} {than}"
    not_sure = f"better {than_all}, but not surely" if high < 0 else "not surely better"
    than = than_luck if high < 0 else than_all
    return "cannot tell", f"cannot tell: {says} {not_sure} {than}: the interval holds 0"


def _ends(interval: Estimate) -> tuple[float, float]:
    return (
        -np.inf if interval.low is None else interval.low,
        np.inf if interval.high is None else interval.high,
    )


def _show(difference: Estimate) -> str:
    low, high = _ends(difference)
    return f"{difference.value:+.3f}, {low:+.3f} to {high:+.3f}"
