"""What a record says of skills: who uses them, what each does, and whether they last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.explanation.record import Embedding, FixedSkill, JudgedEpisodes, Skills
from sdil.explanation.stability import compare_runs
from sdil.explanation.world import Walk, World
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.scores import StepScores
from sdil.spaces import Array

_SAMPLE = 1_000  # steps in a t-SNE
_WALKS = 50  # per skill (paper, Fig. 9)
_CLIP = 40  # frames of a skill's clip
_STABLE = 0.5  # the adjusted Rand index below which skills are not the same


def describe_skills(
    policy: HierarchicalPolicy,
    judged: list[StepScores],
    episodes: JudgedEpisodes,
    n_kinds: int,
) -> Skills:
    """Who uses which skill, how good it is, and what it does."""
    means = np.stack([s.skill_probs.mean(0) for s in judged if s.skill_probs is not None])  # (E, K)
    skill = np.concatenate([s.skill for s in judged if s.skill is not None])
    counts = np.zeros((means.shape[1], n_kinds))
    np.add.at(counts, (skill, episodes.actions), 1)
    return Skills(
        clean_share=means[episodes.is_clean].mean(0),
        noisy_share=(
            means[~episodes.is_clean].mean(0)
            if not episodes.is_clean.all()
            else np.full(means.shape[1], np.nan)
        ),
        optimality=policy.skill_optimality.double().numpy().copy(),
        action_probs=counts / counts.sum(1, keepdims=True).clip(1),
    )


def embed_steps(policy: HierarchicalPolicy, demos: Demonstrations, seed: int) -> Embedding:
    """Some steps and all prototypes in one plane (paper, Fig. 10)."""
    from sklearn.manifold import TSNE

    everything = demos.all
    n = min(_SAMPLE, everything.n_steps)
    rng = np.random.default_rng(seed)
    steps = np.sort(rng.choice(everything.n_steps, n, replace=False))
    prototypes = policy.prototypes
    together = np.concatenate([policy.embeddings(everything, steps), prototypes])
    plane = TSNE(
        perplexity=min(30.0, (len(together) - 1) / 3),
        init="pca",
        max_iter=500,
        random_state=seed,
        n_jobs=1,
    ).fit_transform(together.astype(np.float32))
    weight = policy.hyperparameters.get("mi_weight")
    return Embedding(
        label=policy.learner if weight is None else f"lambda {weight:g}",
        points=plane[:n].astype(np.float32),
        steps=steps,
        prototypes=plane[n:].astype(np.float32),
    )


def walk_by_skill(
    policy: HierarchicalPolicy, skills: Skills, world: World, seed: int
) -> list[FixedSkill]:
    """What each skill does on its own, the best liked first (paper, Fig. 9)."""
    order = np.argsort(-(skills.clean_share - skills.noisy_share), kind="stable")
    walks = world.walk(policy, order, per_skill=_WALKS, seed=seed)
    judged = policy.score([w.trajectory for w in walks])
    found = []
    for k in order:
        own = [(w, s.skill == k) for w, s in zip(walks, judged, strict=True) if w.skill == k]
        found.append(_fixed_skill(int(k), own, world, skills.action_probs.shape[1]))
    return found


def _fixed_skill(
    skill: int, own: list[tuple[Walk, Array]], world: World, n_actions: int
) -> FixedSkill:
    """Of its walks, with the steps where it is the most probable skill marked."""
    actions = np.concatenate([walk.trajectory.actions for walk, _ in own])
    counts = np.bincount(actions, minlength=n_actions)
    if world.plan is None:
        clearest = max(own, key=lambda pair: pair[1].sum())[0] if world.table else own[0][0]
        return FixedSkill(
            skill, np.zeros((0, 3), np.int16), counts, frames=world.clip(clearest, _CLIP)
        )
    shown = np.concatenate([mark for _, mark in own])
    places = [world.plan.positions(walk.trajectory.observations) for walk, _ in own]
    before = np.concatenate([p[:-1] for p in places])[shown]
    moves = np.concatenate([np.diff(p, axis=0) for p in places])[shown]
    steps = np.column_stack([before, actions[shown]]).astype(np.int16)
    return FixedSkill(skill, steps, counts, moves=moves.astype(np.int8))


def compare_seeds(
    name: str,
    judged: list[StepScores],
    also: Mapping[str, HierarchicalPolicy],
    demos: Demonstrations,
) -> dict[str, Any]:
    """How alike the skills and scores of runs are that differ in the seed."""
    by_run = {name: judged, **{other: p.score(demos.all) for other, p in also.items()}}
    return compare_runs(
        {
            run: np.concatenate([s.skill for s in j if s.skill is not None])
            for run, j in by_run.items()
        },
        {run: np.concatenate([s.optimality for s in j]) for run, j in by_run.items()},
    )


def warn_of_change(warnings: list[str], stability: dict[str, Any]) -> None:
    """Say so where skills are not the same from seed to seed."""
    indices = np.array(stability["agreement"])
    mean = float(indices[np.triu_indices(len(indices), 1)].mean())
    if mean < _STABLE:
        warnings.append(
            f"skills change with the seed (adjusted Rand index {mean:.2f}, 1 is the same): "
            "read little into a single one"
        )
