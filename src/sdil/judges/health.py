"""Whether scores mean anything on these demonstrations, said before anything else is.

A score of a step is worth something where clean steps that the judge never saw outrank noisy ones.
Tests count groups (people, patients, trials), never steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdil.demonstrations import Demonstrations, split_groups
from sdil.judges.hearing import of_groups
from sdil.judging import FittedJudge, GoodShare
from sdil.spaces import Array

CHANCE = 0.05
"""How often chance alone may set clean groups as far above noisy ones where they surely differ."""
RARELY = 0.10
"""The same for a threshold of a judge that never abstains."""
Separates = Literal["yes", "not surely", "no", "unknown"]
Refit = Callable[[Demonstrations], tuple[list[Array], list[FittedJudge]]]
"""Gives clean episodes by position, part by part, and judges that never saw that part."""


@dataclass(frozen=True)
class Health:
    """What to know before trusting a score."""

    separates: Separates
    """Whether clean groups that the judge never saw stand above noisy ones."""
    area: float | None
    """The area under the ROC curve of clean groups against noisy ones; 0.5 is chance."""
    chance: float | None
    """How often chance alone gives as much."""
    groups: int
    """Clean groups that were looked at."""
    heard: tuple[str, ...]
    """The signals that the score of a step rests on."""
    good_share: GoodShare | None
    """The estimated share of good noisy steps."""
    threshold: float
    clean_steps: int
    """Clean steps that the judge had not seen when it scored them."""
    clean_under: int
    """How many of them score under the threshold."""
    skills: int
    in_use: float
    """How many skills are in use: the perplexity of how often each is."""
    clean_quantiles: tuple[float, ...] = ()
    """Scores of held-out clean steps from the lowest to the highest, a hundredth apart."""
    cautious: bool = True
    """Whether the judge itself abstains where it cannot tell."""
    unknown: str = ""
    """Why nothing is said of steps, where that is so."""

    @property
    def bears_a_threshold(self) -> bool:
        """Whether steps may be dropped by their score. Under a judge that never abstains chance
        must rarely give as much; one that abstains has passed such a test already."""
        rarely = self.cautious or (self.chance is not None and self.chance < RARELY)
        return self.separates in ("yes", "unknown") or (self.separates == "not surely" and rarely)

    @property
    def drops_most(self) -> bool:
        """Whether most clean steps that the judge had not seen score under the threshold."""
        tells = self.separates in ("yes", "not surely")
        return tells and self.clean_under > self.clean_steps / 2

    @property
    def collapsed(self) -> bool:
        """Whether less than half of the skills are in use, of which training warns too."""
        return self.in_use < self.skills / 2

    @property
    def sentences(self) -> list[str]:
        """All of it in plain words, the verdict first."""
        found = [_VERDICTS[self.separates].format(**_words(self))]
        if self.heard:
            found.append(f"signals heard for steps: {', '.join(self.heard)}")
        share = self.good_share
        if share is not None and share.low == share.high:
            found.append(f"share of good noisy steps, as it was given: {share.point:.0%}")
        elif share is not None:
            found.append(
                f"estimated share of good noisy steps: {share.point:.0%} ({share.low:.0%} to "
                f"{share.high:.0%})"
            )
        if self.clean_steps and self.separates != "unknown":
            found.append(
                f"of {self.clean_steps:,} held-out clean steps, {self.clean_under:,} "
                f"({self.clean_under / self.clean_steps:.0%}) score under {self.threshold:g}: "
                "about that share of the good steps would be dropped"
            )
        if self.drops_most:
            found.append(
                f"{self.threshold:g} is no line between good and bad steps here: most of what "
                "clean demonstrators do is under it. Scores still rank steps: weigh by them (sdil "
                "curate --weights), or keep those above a lower threshold"
            )
        if self.collapsed:
            found.append(
                f"skills collapsed: only {self.in_use:.1f} of {self.skills} are in use; raise "
                "usage_weight, lower n_skills, or give more data"
            )
        return found

    def as_json(self) -> dict[str, Any]:
        """For the page and for programs."""
        share = self.good_share
        return {
            "separates": self.separates,
            "area": self.area,
            "chance": self.chance,
            "groups": self.groups,
            "heard": list(self.heard),
            "good_share": None if share is None else [share.point, share.low, share.high],
            "threshold": self.threshold,
            "clean_steps": self.clean_steps,
            "clean_under": self.clean_under,
            "skills": self.skills,
            "in_use": self.in_use,
            "clean_quantiles": list(self.clean_quantiles),
            "sentences": self.sentences,
        }


_VERDICTS = {
    "yes": "healthy: clean groups that the judge never saw stand above noisy ones ({figures})",
    "not surely": (
        "doubtful: clean groups that the judge never saw stand above noisy ones, but chance alone "
        "does as much ({figures}); the noisy set may be as good, or the clean groups too few"
    ),
    "no": (
        "unhealthy: clean groups that the judge never saw do not stand above noisy ones "
        "({figures}), so the scores say nothing of this noisy set"
    ),
    "unknown": "health: not known whether clean and noisy steps can be told apart{why}",
}


def _words(health: Health) -> dict[str, str]:
    nothing = "the judge held no clean steps out" if health.good_share is None else ""
    why = f": {health.unknown or nothing}" if health.unknown or nothing else ""
    if health.area is None or health.chance is None:
        return {"figures": "", "why": why}
    by_chance = "under 0.1%" if health.chance < 0.001 else f"{health.chance:.1%}"
    figures = f"AUROC {health.area:.2f} over {health.groups} clean groups; by chance {by_chance}"
    return {"figures": figures, "why": why}


def health_of(
    fitted: FittedJudge,
    demos: Demonstrations,
    *,
    fitted_to_these: bool,
    threshold: float = 0.0,
    refit: Refit | None = None,
) -> Health:
    """`fitted_to_these`: the judge was fitted to these demonstrations, so that it has seen the
    clean ones, unless it judged them by folds. `refit` then gives judges that did not; without it
    nothing is known."""
    noisy = fitted.score(demos.noisy)
    usage = [s.skill_probs for s in noisy if s.skill_probs is not None]
    heard = tuple(s.name for s in fitted.signals if s.heard and s.output == "step")
    silent = fitted.unknown.get("step", "")
    held: tuple[Array, Array] | None = None
    told: Sequence[Array] = [s.optimality for s in noisy]
    if not silent and len(demos.noisy):
        held, told = _held_out(fitted, demos, told, fitted_to_these, refit)
    ground = None
    if held is not None and len(held[0]):
        groups = _numbers(demos)
        of_noisy = np.repeat(groups[len(demos.clean) :], demos.noisy.lengths)
        ground = of_groups(held[0], held[1], np.concatenate(told), of_noisy)
    known = ground is not None and not np.isnan(ground.figure)
    separates: Separates = "unknown"
    if ground is not None and known:
        above = ground.figure > 0.5
        separates = "no" if not above else "yes" if ground.chance < CHANCE else "not surely"
    return Health(
        separates=separates,
        area=ground.figure if ground is not None and known else None,
        chance=ground.chance if ground is not None and known else None,
        groups=0 if ground is None else ground.groups,
        heard=heard,
        good_share=None if silent or not fitted_to_these else fitted.good_share,
        threshold=threshold,
        clean_steps=0 if held is None else len(held[0]),
        clean_under=0 if held is None else int((held[0] < threshold).sum()),
        skills=usage[0].shape[1] if usage else 0,
        in_use=_in_use(fitted, demos, usage) if usage else 0.0,
        clean_quantiles=()
        if held is None or not len(held[0])
        else tuple(np.quantile(held[0], np.linspace(0, 1, 101)).round(4).tolist()),
        cautious=fitted.cautious,
        unknown=silent,
    )


def _held_out(
    fitted: FittedJudge,
    demos: Demonstrations,
    noisy: Sequence[Array],
    fitted_to_these: bool,
    refit: Refit | None,
) -> tuple[tuple[Array, Array] | None, Sequence[Array]]:
    """Scores of clean steps that were not seen and the groups of these, and of noisy steps."""
    groups, lengths = _numbers(demos)[: len(demos.clean)], demos.clean.lengths
    if not fitted_to_these:
        clean = np.concatenate([s.optimality for s in fitted.score(demos.clean)])
        return (clean, np.repeat(groups, lengths)), noisy
    crossed = fitted.cross_judged
    if crossed is not None and crossed.clean is not None:
        if crossed.fingerprint != demos.fingerprint(rewards=False):
            return None, noisy
        clean = 2.0 * crossed.clean.astype(np.float64) - 1.0
        return (clean, np.repeat(groups, lengths)), noisy
    if refit is None or demos.n_clean_groups < 2:
        return None, noisy
    parts, again = refit(demos)
    scores, of_noisy = np.zeros(demos.clean.n_steps), np.zeros(demos.noisy.n_steps)
    at, chosen = np.repeat(np.arange(len(lengths)), lengths), []
    for held, judge in zip(parts, again, strict=True):
        if "step" in judge.unknown:
            return None, noisy
        mine = np.isin(at, held)
        found = judge.score(demos.clean.subset(held))
        scores[mine] = np.concatenate([s.optimality for s in found])
        of_noisy += np.concatenate([s.optimality for s in judge.score(demos.noisy)]) / len(parts)
        chosen.append(mine)
    seen = np.any(chosen, 0)
    of_steps = np.repeat(groups, lengths)[seen]
    return (scores[seen], of_steps), demos.noisy.split_steps(of_noisy)


def in_halves(demos: Demonstrations, seed: int) -> list[tuple[Array, Demonstrations]]:
    """Each half of the clean groups by position, and the demonstrations without it."""
    parts = split_groups(demos.clean.groups, (1.0, 1.0), seed=seed)
    return [
        (held, Demonstrations(demos.clean.subset(seen), demos.noisy, demos.spaces))
        for held, seen in (parts, parts[::-1])
    ]


def _numbers(demos: Demonstrations) -> Array:
    """The number of each episode's group, clean ones first. (E,)"""
    everything = demos.all
    names = [i if g is None else g for i, g in enumerate(everything.groups)]
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names])


def _in_use(fitted: FittedJudge, demos: Demonstrations, noisy: Sequence[Array]) -> float:
    clean = [s.skill_probs for s in fitted.score(demos.clean) if s.skill_probs is not None]
    share = np.concatenate([*clean, *noisy]).mean(0)
    return float(np.exp(-(share * np.log(np.maximum(share, 1e-12))).sum()))
