"""Which demonstrations a page shows where there are too many for a browser.

The worst and the best of either set, those with pictures, and an even draw of the others. Whatever
is counted or measured is of all of them; what is left out is said.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdil.explanation.record import Embedding, Explanation, JudgedEpisodes, Scores
from sdil.spaces import Array

MOST_STEPS = 100_000
"""However little is known of each."""
_ROOM = 9_800_000  # bytes for what is known of steps on a page of 15 MB; Plotly takes five of these
_ENDS = 50  # of the worst, and of the best


def sample(explanation: Explanation, most: int | None = None) -> Explanation:
    """The same with at most so many steps (and one demonstration of each set at the least); where
    nobody says how many, as many as keep a page under 15 MB."""
    episodes = explanation.episodes
    if most is None:
        room = max(_ROOM - _bytes_of_pictures(explanation), _ROOM // 4)
        most = min(MOST_STEPS, int(room / _bytes_of_a_step(explanation)))
    lengths = np.diff(episodes.offsets)
    if lengths.sum() <= most:
        return explanation
    chosen = _choose(explanation, lengths, most)
    steps = np.flatnonzero(np.repeat(np.isin(np.arange(len(lengths)), chosen), lengths))
    left = (
        f"this page shows {len(chosen):,} of {len(lengths):,} demonstrations ({len(steps):,} of "
        f"{lengths.sum():,} steps): the worst, the best and an even draw of the others; figures of "
        "single steps are of these, counts and measures of all; `sdil score --out` writes all"
    )
    warnings = [*explanation.about.get("warnings", ()), left]
    names = ("clean", "noisy")
    keys = {
        f"{names[int(not clean)]}/{episodes.ids[i]}"
        for i, clean in zip(chosen.tolist(), episodes.is_clean[chosen].tolist(), strict=True)
    }
    return replace(
        explanation,
        about=explanation.about | {"warnings": warnings},
        episodes=_episodes(episodes, chosen, steps, lengths),
        scores=_scores(explanation.scores, steps),
        embeddings=[_embedding(each, steps) for each in explanation.embeddings],
        frames={name: f for name, f in explanation.frames.items() if name in keys},
        strips={name: s for name, s in explanation.strips.items() if name in keys},
    )


def _bytes_of_pictures(explanation: Explanation) -> int:
    return sum(
        len(strip.image) for found in explanation.strips.values() for strip in found.values()
    )


def _bytes_of_a_step(explanation: Explanation) -> float:
    """How much room a step takes on a page, at most as a rule: whole numbers are small ones."""
    episodes, scores = explanation.episodes, explanation.scores
    as_they_are = (
        *(episodes.actions, episodes.good, episodes.positions, episodes.features),
        *(episodes.rewards, episodes.place, scores.optimality, scores.segment, scores.skill),
    )
    in_single = (*scores.parts.values(), scores.spread, scores.quality, scores.integrity)
    bare = 4 * sum(a is not None for a in in_single)
    for a in as_they_are:
        if a is not None:
            columns = int(np.prod(a.shape[1:], dtype=np.int64))
            bare += columns * (a.dtype.itemsize if a.dtype.kind == "f" else 2)
    return bare * 4 / 3  # as text, in base 64


def _choose(explanation: Explanation, lengths: Array, most: int) -> Array:
    """Numbers of demonstrations, in order."""
    episodes = explanation.episodes
    mean = explanation.scores.of_episodes(episodes.offsets)
    first: list[int] = []
    rest: list[Array] = []
    rng = np.random.default_rng(0)
    for is_clean in (True, False):
        mine = np.flatnonzero(episodes.is_clean == is_clean)
        ranked = mine[np.argsort(mean[mine], kind="stable")]
        ends = np.stack([ranked, ranked[::-1]], 1).ravel()  # worst, best, second worst, ...
        ends = ends[np.sort(np.unique(ends, return_index=True)[1])]
        first += ends[: 2 * _ENDS].tolist()
        rest.append(ends[2 * _ENDS :])
    wanted = [*first, *rng.permutation(np.concatenate(rest)).tolist()]
    fits = np.array(wanted)[np.cumsum(lengths[wanted]) <= most]
    always = [
        some[0] for some in (_of(wanted, episodes, True), _of(wanted, episodes, False)) if some
    ]
    return np.unique([*fits.tolist(), *always])


def _of(wanted: list[int], episodes: JudgedEpisodes, is_clean: bool) -> list[int]:
    return [i for i in wanted if episodes.is_clean[i] == is_clean]


def _episodes(
    episodes: JudgedEpisodes, chosen: Array, steps: Array, lengths: Array
) -> JudgedEpisodes:
    return JudgedEpisodes(
        ids=[episodes.ids[i] for i in chosen],
        groups=[episodes.groups[i] for i in chosen],
        is_clean=episodes.is_clean[chosen],
        offsets=np.concatenate([[0], np.cumsum(lengths[chosen])]),
        actions=episodes.actions[steps],
        good=_at(episodes.good, steps),
        positions=_at(episodes.positions, steps),
        moves=_at(episodes.moves, steps),
        features=_at(episodes.features, steps),
        rewards=_at(episodes.rewards, steps),
        place=_at(episodes.place, steps),
    )


def _scores(scores: Scores, steps: Array) -> Scores:
    return Scores(
        optimality=scores.optimality[steps],
        segment=scores.segment[steps],
        skill=_at(scores.skill, steps),
        parts={name: part[steps] for name, part in scores.parts.items()},
        spread=_at(scores.spread, steps),
        quality=_at(scores.quality, steps),
        integrity=_at(scores.integrity, steps),
    )


def _embedding(embedding: Embedding, steps: Array) -> Embedding:
    """Its points of the steps that are shown, which have other numbers now."""
    place = np.searchsorted(steps, embedding.steps)
    there = steps[np.minimum(place, len(steps) - 1)] == embedding.steps
    return replace(embedding, points=embedding.points[there], steps=place[there])


def _at(values: Array | None, steps: Array) -> Array | None:
    return None if values is None else values[steps]
