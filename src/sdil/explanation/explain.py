"""A run and its data become a record: what each skill does, and how good each step is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from sdil.clustering import fit_clusters
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.evaluation.calibration import calibration_of_scores
from sdil.evaluation.rollout import check_spaces
from sdil.evaluation.scores import compare_with_truth
from sdil.explanation.pictures import MOST, Filmed, Observed, strips_of
from sdil.explanation.record import (
    Explanation,
    JudgedEpisodes,
    Scores,
)
from sdil.explanation.seen import Names, Seen, what_was_seen
from sdil.explanation.skills import (
    compare_seeds,
    describe_skills,
    embed_steps,
    walk_by_skill,
    warn_of_change,
)
from sdil.explanation.world import World
from sdil.judging import JudgesSteps
from sdil.nested import column_names, has_parts
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.observations import has_images
from sdil.policy import Policy
from sdil.scores import StepScores
from sdil.segmentation import segments_of
from sdil.spaces import Array
from sdil.trajectories import Trajectories
from sdil.truth import Truth

Progress = Callable[[int, int, str], None]

_KINDS, _NAMED = 8, 4  # clusters of real-valued actions, and entries in their names
_LONGEST_RECORDED = 120  # frames of a demonstration
_DRAWN = {"clean": 5, "noisy": 10}  # demonstrations drawn, of the best and as many of the worst
_DEAD = 0.01  # a skill with a smaller share in both sets is as good as unused


def explain(
    judge: JudgesSteps,
    demos: Demonstrations,
    *,
    about: dict[str, Any],
    environment: str | None = None,
    truth: Truth | None = None,
    compare: Sequence[Policy] = (),
    also: Mapping[str, Policy] | None = None,
    studies: dict[str, Any] | None = None,
    names: Names | None = None,
    show: Sequence[str] = (),
    place: Sequence[str] = (),
    filmed: Filmed | None = None,
    pictures: int = MOST,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> Explanation:
    """What `judge` makes of `demos`, and what its skills do in `environment`.

    `about` says where all this comes from; counts, the comparison with the truth and warnings are
    added to it. `compare` are runs whose embeddings are shown beside this one's, such as one with
    lambda 0; `also` are runs that differ in the seed, by name. Only SDIL's policy has skills;
    other policies, and judges, have scores. `environment` is a task's name or a Gymnasium id;
    None: the records alone. `names`, `show` and `place` are those of `what_was_seen`. `filmed`
    tells what cameras saw, by default the pictures among observations; at most so many
    demonstrations have `pictures`.
    """
    name = str(about.get("run", "this run"))
    if also and name in also:
        raise InputError(f"{name} is the run itself; compare it with others")
    others = [_with_skills(each, "a run to compare with", demos) for each in compare]
    seeds = {name: _with_skills(each, name, demos) for name, each in (also or {}).items()}
    tell = _Teller(4 + len(compare), on_progress)
    check_spaces(judge, demos.spaces)
    judged = judge.score(demos.all)
    optimality = np.concatenate([s.optimality for s in judged])
    tell("looking at the environment")
    world = None if environment is None else World(environment)
    try:
        called = names or Names()
        kinds, kind_names = _kinds_of_actions(demos, world, called.action, seed)
        drawn = world is not None and (world.plan is not None or world.can_draw)
        seen = what_was_seen(demos, called, show=show, place=place, drawn=drawn)
        about = {**about, "features": seen.names, "place": seen.place_names}
        episodes = _episodes(demos, kinds, truth, world, seen)
        policy = judge if isinstance(judge, HierarchicalPolicy) else None
        scores = _scores(judged, with_skills=policy is not None)
        record: dict[str, Any] = {
            "about": _complete(about, demos, episodes, optimality, judged),
            "action_names": kind_names,
            "episodes": episodes,
            "scores": scores,
            "walls": None if world is None or world.plan is None else world.plan.walls,
            "studies": studies or {},
        }
        if policy is not None:
            record["skills"] = skills = describe_skills(policy, judged, episodes, len(kind_names))
            record["embeddings"] = []
            for each in (policy, *others):
                tell("embedding steps")
                record["embeddings"].append(embed_steps(each, demos, seed))
            tell("running each skill")
            if world is not None:
                record["fixed_skills"] = walk_by_skill(policy, skills, world, seed)
            if seeds:
                record["stability"] = compare_seeds(name, judged, seeds, demos)
                warn_of_change(record["about"]["warnings"], record["stability"])
        tell("drawing demonstrations")
        if filmed is None and has_images(demos.spaces.observation):
            filmed = Observed(demos)
        if filmed is not None:
            means = scores.of_episodes(episodes.offsets)
            record["strips"], record["about"]["pictures"] = strips_of(
                filmed, demos, means, most=pictures, on_progress=tell.within("drawing pictures")
            )
        elif world is not None:
            record["frames"] = _frames(demos, optimality, episodes, world)
    finally:
        if world is not None:
            world.close()
    tell("done")
    return Explanation(**record)


class _Teller:
    """Says which of so many parts comes next."""

    def __init__(self, total: int, on_progress: Progress | None) -> None:
        self.done, self.total, self.on_progress = 0, total, on_progress

    def __call__(self, what: str) -> None:
        if self.on_progress is not None:
            self.on_progress(min(self.done, self.total), self.total, what)
        self.done += 1

    def within(self, what: str) -> Callable[[int, int], None] | None:
        """Says how far a long part is."""
        on_progress = self.on_progress
        return on_progress and (lambda done, total: on_progress(done, total, what))


def _with_skills(policy: Policy, name: str, demos: Demonstrations) -> HierarchicalPolicy:
    if not isinstance(policy, HierarchicalPolicy):
        raise InputError(f"{name}: {policy.learner} has no skills to compare with")
    check_spaces(policy, demos.spaces)
    return policy


def _episodes(
    demos: Demonstrations, kinds: Array, truth: Truth | None, world: World | None, seen: Seen
) -> JudgedEpisodes:
    everything = demos.all
    n_clean, lengths = len(demos.clean), everything.lengths
    good = None
    if truth is not None:
        parts = [*truth.clean_good, *truth.noisy_good]
        if [len(p) for p in parts] != lengths.tolist():
            raise InputError("truth.npz does not fit the demonstrations step by step")
        good = np.concatenate(parts).astype(np.int8)
    positions, moves = _places(everything, world)
    return JudgedEpisodes(
        ids=list(everything.ids),
        groups=list(everything.groups),
        is_clean=np.arange(len(everything)) < n_clean,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        actions=kinds,
        good=good,
        positions=positions,
        moves=moves,
        features=seen.features,
        rewards=seen.rewards,
        place=seen.place,
    )


def _places(trajectories: Trajectories, world: World | None) -> tuple[Array | None, Array | None]:
    """Where the agent is before each step, and how far the step takes it. (N, 2) each"""
    if world is None or world.plan is None:
        return None, None
    rows = trajectories.rows()
    before = world.plan.positions(trajectories.observations[rows])
    last = np.cumsum(trajectories.lengths) - 1
    following = rows + 1
    following[last[~trajectories.has_final]] -= 1  # not known: as if it had not moved
    after = world.plan.positions(trajectories.observations[following])
    return before, (after - before).astype(np.int8)


def _scores(judged: list[StepScores], *, with_skills: bool) -> Scores:
    optimality = np.concatenate([s.optimality for s in judged])
    skill = _joined(judged, "skill")
    more = {name: _joined(judged, name) for name in ("spread", "quality", "integrity")}
    lengths = [[s.stop - s.start for s in segments_of(scores)] for scores in judged]
    return Scores(
        optimality=optimality.astype(np.float32),
        segment=np.concatenate([np.repeat(np.arange(len(n)), n) for n in lengths]).astype(np.int32),
        skill=None if skill is None or not with_skills else skill.astype(np.int16),
        parts={
            name: np.concatenate([s.parts[name] for s in judged]).astype(np.float32)
            for name in judged[0].parts
        },
        **{name: None if a is None else a.astype(np.float32) for name, a in more.items()},
    )


def _joined(judged: list[StepScores], name: str) -> Array | None:
    if getattr(judged[0], name) is None:
        return None
    return np.concatenate([getattr(s, name) for s in judged])


def _complete(
    about: dict[str, Any],
    demos: Demonstrations,
    episodes: JudgedEpisodes,
    optimality: Array,
    judged: list[StepScores],
) -> dict[str, Any]:
    n_clean = demos.clean.n_steps
    warnings = list(about.get("warnings", ()))
    probs = _joined(judged, "skill_probs")
    if probs is not None:
        both = [part.mean(0) for part in (probs[:n_clean], probs[n_clean:]) if len(part)]
        dead = int((np.max(both, 0) < _DEAD).sum())
        if dead:
            warnings.append(f"{dead} of {probs.shape[1]} skills are hardly used")
    truth = None
    silent = "step" in (about.get("unknown") or {})
    if episodes.good is not None and len(demos.noisy) and not silent:
        truth = _against_truth(optimality[n_clean:], episodes.good[n_clean:])
        if truth is not None and truth["auroc"] is not None and truth["auroc"] < 0.5:
            warnings.append(
                f"on the noisy set the scores contradict the truth (AUROC {truth['auroc']:.2f})"
            )
    return {
        **about,
        "n_clean": len(demos.clean),
        "n_noisy": len(demos.noisy),
        "n_steps_clean": n_clean,
        "n_steps_noisy": demos.noisy.n_steps,
        "truth": truth,
        "warnings": warnings,
    }


def _against_truth(optimality: Array, truth: Array) -> dict[str, float | None] | None:
    """Scores of noisy steps as probabilities of being good, (1 + o) / 2, against the truth.

    Steps of unknown truth (-1) are left out; None where no step is left.
    """
    known = truth >= 0
    if not known.any():
        return None
    optimality, good = optimality[known], truth[known] > 0
    auroc, precision = compare_with_truth(optimality, good)
    measured = calibration_of_scores(optimality, good)
    return {
        "auroc": auroc,
        "average_precision": precision,
        "share_good": float(good.mean()),
        "ece": measured.ece,
        "brier": measured.brier,
        "brier_skill": measured.brier_skill,
    }


def _kinds_of_actions(
    demos: Demonstrations, world: World | None, called: Sequence[str], seed: int
) -> tuple[Array, list[str]]:
    """The kind of each step's action (N,), and how kinds are called: counted actions as they are;
    of real numbers clusters, called by their middles, and by what the data calls their entries."""
    everything, space = demos.all, demos.spaces.action
    actions = everything.actions[everything.steps()]
    if listed := demos.spaces.listed:
        names = list(called) or (None if world is None else world.action_names)
        if names is None or len(names) != listed:
            names = [f"action {i}" for i in range(listed)]
        return actions.astype(np.int16), names
    flat, rows = torch.from_numpy(actions.reshape(len(actions), -1)), torch.arange(len(actions))
    clusters = fit_clusters(flat, rows, _KINDS, seed)
    middles = clusters.centres[:, :_NAMED].tolist()
    more = ", ..." if flat.shape[1] > _NAMED else ""
    entries = list(called) or (column_names(space) if has_parts(space) else [])
    if len(entries) == flat.shape[1]:  # what stands out is enough of a name
        named = [
            ", ".join(f"{n} {x:.2g}" for n, x in zip(entries, middle, strict=False)) + more
            for middle in middles
        ]
    else:
        named = [f"({', '.join(f'{x:.2g}' for x in middle)}{more})" for middle in middles]
    return clusters.labels(flat, rows).numpy().astype(np.int16), named


def _frames(
    demos: Demonstrations, optimality: Array, episodes: JudgedEpisodes, world: World
) -> dict[str, list[str]]:
    """Pictures of the best and the worst demonstrations of each set."""
    lengths = np.diff(episodes.offsets)
    means = np.add.reduceat(optimality, episodes.offsets[:-1]) / lengths
    found = {}
    first = 0
    for name, trajectories in (("clean", demos.clean), ("noisy", demos.noisy)):
        order = np.argsort(means[first : first + len(trajectories)], kind="stable")
        each = _DRAWN[name]
        for i in np.unique(np.concatenate([order[:each], order[-each:]])).tolist():
            frames = world.recorded(trajectories[i], _LONGEST_RECORDED)
            if frames:
                found[f"{name}/{trajectories.ids[i]}"] = frames
        first += len(trajectories)
    return found
