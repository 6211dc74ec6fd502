"""What an explanation of a run holds. Figures and the page render this and nothing else.

On disk a folder with `record.json` (everything that is text or a single number) and `arrays.npz`.
Steps of all episodes lie one after the other, clean episodes first: those of episode e are
`offsets[e]` to `offsets[e + 1]`. N steps, E episodes, K skills, A actions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sdil.spaces import Array


@dataclass(frozen=True, eq=False)
class Episodes:
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
    """The mean action distribution of the steps where the skill is the most probable. (K, A)"""


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


@dataclass(frozen=True, eq=False)
class Explanation:
    """Everything a report needs."""

    about: dict[str, Any]
    """JSON: what was trained (learner, hyperparameters, seed, versions), on what (task, data,
    counts, fingerprint), how good (evaluation, comparison with the truth), how sure (intervals)."""
    action_names: list[str]
    """A of them"""
    episodes: Episodes
    scores: Scores
    skills: Skills | None = None
    walls: Array | None = None
    """The fixed map of a task, True for a wall. (rows, columns)"""
    embeddings: list[Embedding] = field(default_factory=list)
    fixed_skills: list[FixedSkill] = field(default_factory=list)
    frames: dict[str, list[str]] = field(default_factory=dict)
    """Rendered frames of some episodes as PNG data URIs, by "clean/ID" or "noisy/ID"."""
    stability: dict[str, Any] = field(default_factory=dict)
    """Agreement of skills across seeds: {"runs": [...], "agreement": [[...]], "matched": [...]}."""
    studies: dict[str, Any] = field(default_factory=dict)
    """Curves of finished studies, by study name: {"x": [...], "series": {name: {...}}}."""
