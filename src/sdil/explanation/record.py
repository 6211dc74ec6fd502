"""What an explanation of a run holds. Figures and the page render this and nothing else.

On disk a folder with `record.json` (everything that is text or a single number) and `arrays.npz`.
Steps of all episodes lie one after the other, clean episodes first: those of episode e are
`offsets[e]` to `offsets[e + 1]`. N steps, E episodes, K skills, A actions.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from sdil.errors import InputError
from sdil.files import new_folder, read_json, write_json
from sdil.spaces import Array

FORMAT_VERSION = 1
_TEXT = "record.json"
_ARRAYS = "arrays.npz"


@dataclass(frozen=True, eq=False)
class JudgedEpisodes:
    """The demonstrations that were judged."""

    ids: list[str]
    """The name of each. E of them"""
    groups: list[str | None]
    """Patient, operator, ...; None where not known. E of them"""
    is_clean: Array
    """(E,) bool"""
    offsets: Array
    """Where the steps of each begin; the last entry is N. (E + 1,)"""
    actions: Array
    """(N,) integers"""
    good: Array | None
    """The truth of each step: 1 good, 0 bad, -1 not known; None where no truth is known. (N,)"""
    positions: Array | None
    """Where a task has a fixed map: column and row of the agent before each step. (N, 2)"""
    moves: Array | None = None
    """And by how many columns and rows the step moves it; 0, 0 for a turn or a bump. (N, 2)"""
    features: Array | None = None
    """Entries of what was seen before each step, `about["features"]` names them. (N, F)"""
    rewards: Array | None = None
    """What each step was paid; NaN where not known. (N,)"""
    place: Array | None = None
    """Two features that are a place, `about["place"]` names them. (N, 2)"""


@dataclass(frozen=True, eq=False)
class Scores:
    """What the policy says of each step."""

    optimality: Array
    """In [-1, 1]. (N,)"""
    segment: Array
    """The number of the segment within its episode, from 0. (N,)"""
    skill: Array | None
    """The most probable skill. (N,)"""
    parts: dict[str, Array]
    """The signals behind `optimality`, by name, each in [-1, 1]; empty where there is one. (N,)"""
    spread: Array | None
    """How unsure the score is: standard deviation over its estimates. (N,)"""
    quality: Array | None = None
    """How well it goes around each step, in [-1, 1]; the mean: how well an episode went. (N,)"""
    integrity: Array | None = None
    """How well the next state fits the action, in [0, 1]; NaN where it is not known. (N,)"""

    def of_episodes(self, offsets: Array) -> Array:
        """How well each episode went: the mean of `quality`, or of `optimality`. (E,)"""
        of_steps = self.optimality if self.quality is None else self.quality
        sums: Array = np.add.reduceat(np.nan_to_num(of_steps), offsets[:-1])
        return sums / np.diff(offsets)


@dataclass(frozen=True, eq=False)
class Skills:
    """What is known of each skill; only for learners that have some."""

    clean_share: Array
    """Selection probability in clean demonstrations, p_k^clean. (K,)"""
    noisy_share: Array
    """In noisy ones. (K,)"""
    optimality: Array
    """s_k^op; NaN where there was no noisy data. (K,)"""
    action_probs: Array
    """The mean action distribution of the steps where the skill is the most probable; zeros where
    there are none. (K, A)"""


@dataclass(frozen=True, eq=False)
class Embedding:
    """t-SNE of transition embeddings and skill prototypes, of one discovery (paper, Fig. 10)."""

    label: str
    """Such as "lambda 1"."""
    points: Array
    """(S, 2)"""
    steps: Array
    """Which step each point is. (S,)"""
    prototypes: Array
    """(K, 2)"""


@dataclass(frozen=True, eq=False)
class FixedSkill:
    """The agent run with one skill held fixed, the model as it stood after discovery (Fig. 9)."""

    skill: int
    steps: Array
    """Column, row and action of each step where this skill is the most probable; on a fixed map.
    (n, 3)"""
    action_counts: Array
    """How often it took each action, over all its steps. (A,)"""
    frames: list[str] = field(default_factory=list)
    """One rendered episode as PNG data URIs, for tasks without a fixed map."""
    moves: Array | None = None
    """By how many columns and rows each of `steps` moves the agent. (n, 2)"""


@dataclass(frozen=True)
class Strip:
    """Pictures of an episode as one camera saw it, row by row in one image."""

    image: str
    """A WebP data URI."""
    width: int
    """Of one picture, in pixels."""
    height: int
    count: int
    columns: int
    """Pictures in a row."""
    every: int
    """Steps from one picture to the next: step t is seen in picture t // every."""
    drawn: bool = False
    """Whether it is of few colours, each pixel kept as it was, and no photograph."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Everything a report needs."""

    about: dict[str, Any]
    """JSON: what was trained (learner, hyperparameters, seed, versions), on what (task, data,
    counts, fingerprint), how good (evaluation, comparison with the truth), how sure (intervals)."""
    action_names: list[str]
    """A of them"""
    episodes: JudgedEpisodes
    scores: Scores
    skills: Skills | None = None
    walls: Array | None = None
    """The fixed map of a task, True for a wall. (rows, columns)"""
    embeddings: list[Embedding] = field(default_factory=list)
    fixed_skills: list[FixedSkill] = field(default_factory=list)
    frames: dict[str, list[str]] = field(default_factory=dict)
    """Rendered frames of some episodes as PNG data URIs, by "clean/ID" or "noisy/ID". Step t of T
    is seen in frame t * n // T of n."""
    strips: dict[str, dict[str, Strip]] = field(default_factory=dict)
    """What cameras saw in some episodes, by "clean/ID" or "noisy/ID" and the camera's name, which
    is empty where observations are pictures and nothing else."""
    stability: dict[str, Any] = field(default_factory=dict)
    """Agreement across seeds, see `stability.py`: {"runs": [...], "agreement": [[...]],
    "accuracy": [[...]], "scores": [[...]], "matched": [[...]]}."""
    studies: dict[str, Any] = field(default_factory=dict)
    """Curves of finished studies, by study name: {"x": [...], "xlabel", "ylabel", "series":
    {name: {"mean": [...], "low": [...], "high": [...]}}}."""

    def known_steps(self) -> tuple[Array, Array]:
        """Scores and truth of the noisy steps whose truth is known. (n,) each"""
        episodes = self.episodes
        if episodes.good is None:
            return np.empty(0), np.empty(0, bool)
        noisy = np.repeat(~episodes.is_clean, np.diff(episodes.offsets))
        chosen = noisy & (episodes.good >= 0)
        return self.scores.optimality[chosen], episodes.good[chosen] > 0

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write `record.json` and `arrays.npz` to a new folder, whole or not at all."""
        text: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "about": self.about,
            "action_names": self.action_names,
            "ids": self.episodes.ids,
            "groups": self.episodes.groups,
            "parts": list(self.scores.parts),
            "embeddings": [e.label for e in self.embeddings],
            "fixed_skills": [{"skill": f.skill, "frames": f.frames} for f in self.fixed_skills],
            "frames": self.frames,
            "strips": {
                name: {camera: asdict(strip) for camera, strip in found.items()}
                for name, found in self.strips.items()
            },
            "stability": self.stability,
            "studies": self.studies,
        }
        given: dict[str, Array | None] = {"walls": self.walls}
        for name in _OF_EPISODES:
            given[f"episodes.{name}"] = getattr(self.episodes, name)
        for name in _OF_SCORES:
            given[f"scores.{name}"] = getattr(self.scores, name)
        for i, part in enumerate(self.scores.parts.values()):
            given[f"scores.part.{i}"] = part
        for name in _OF_SKILLS if self.skills is not None else ():
            given[f"skills.{name}"] = getattr(self.skills, name)
        for i, embedding in enumerate(self.embeddings):
            given |= {f"embedding.{i}.{n}": getattr(embedding, n) for n in _OF_EMBEDDING}
        for i, fixed in enumerate(self.fixed_skills):
            given |= {f"fixed.{i}.{n}": getattr(fixed, n) for n in _OF_FIXED}
        arrays = {name: np.asarray(a) for name, a in given.items() if a is not None}
        with new_folder(Path(folder).absolute(), overwrite=overwrite, marker=_TEXT) as temporary:
            np.savez_compressed(temporary / _ARRAYS, allow_pickle=False, **arrays)
            write_json(temporary / _TEXT, text)

    @staticmethod
    def load(folder: str | Path) -> Explanation:
        """Read what `save` wrote."""
        folder = Path(folder)
        text = read_json(folder / _TEXT, what="the record of an explanation")
        version = text.get("format") if isinstance(text, dict) else None
        if version != FORMAT_VERSION:
            raise InputError(
                f"{folder / _TEXT}: format {version!r} is not the one this version reads "
                f"({FORMAT_VERSION}); write the report anew"
            )
        path = folder / _ARRAYS
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
            raise InputError(f"{path}: cannot be read ({error})") from None
        try:
            return _check(_build(text, arrays))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(
                f"{folder}: record.json and arrays.npz are damaged ({error!r})"
            ) from None


_OF_EPISODES = (
    "is_clean",
    "offsets",
    "actions",
    "good",
    "positions",
    "moves",
    "features",
    "rewards",
    "place",
)
_OF_SCORES = ("optimality", "segment", "skill", "spread", "quality", "integrity")
_OF_SKILLS = ("clean_share", "noisy_share", "optimality", "action_probs")
_OF_EMBEDDING = ("points", "steps", "prototypes")
_OF_FIXED = ("steps", "action_counts", "moves")


def _build(text: dict[str, Any], arrays: dict[str, Array]) -> Explanation:
    def those(prefix: str, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: arrays.get(f"{prefix}.{name}") for name in names}

    return Explanation(
        about=text["about"],
        action_names=text["action_names"],
        episodes=JudgedEpisodes(
            ids=text["ids"], groups=text["groups"], **those("episodes", _OF_EPISODES)
        ),
        scores=Scores(
            **those("scores", _OF_SCORES),
            parts={name: arrays[f"scores.part.{i}"] for i, name in enumerate(text["parts"])},
        ),
        skills=(Skills(**those("skills", _OF_SKILLS)) if "skills.clean_share" in arrays else None),
        walls=arrays.get("walls"),
        embeddings=[
            Embedding(label=label, **those(f"embedding.{i}", _OF_EMBEDDING))
            for i, label in enumerate(text["embeddings"])
        ],
        fixed_skills=[
            FixedSkill(skill=f["skill"], frames=f["frames"], **those(f"fixed.{i}", _OF_FIXED))
            for i, f in enumerate(text["fixed_skills"])
        ],
        frames=text["frames"],
        strips={
            name: {camera: Strip(**strip) for camera, strip in found.items()}
            for name, found in text.get("strips", {}).items()  # records of before have none
        },
        stability=text["stability"],
        studies=text["studies"],
    )


def _check(explanation: Explanation) -> Explanation:
    """The same, or a ValueError where its parts do not fit together."""
    episodes, scores = explanation.episodes, explanation.scores
    n_episodes, n = len(episodes.ids), int(episodes.offsets[-1])
    if (
        not len(episodes.groups)
        == len(episodes.is_clean)
        == len(episodes.offsets) - 1
        == n_episodes
    ):
        raise ValueError(f"not everything is there for each of the {n_episodes} episodes")
    steps = [episodes.actions, scores.optimality, scores.segment, *scores.parts.values()]
    optional = [episodes.good, episodes.positions, episodes.moves]
    optional += [episodes.features, episodes.rewards, episodes.place]
    optional += [scores.skill, scores.spread, scores.quality, scores.integrity]
    steps += [a for a in optional if a is not None]
    if any(len(a) != n for a in steps):
        raise ValueError(f"not everything is there for each of the {n} steps")
    return explanation
