"""One cell measured: demonstrations, a policy, and everything that is measured of it.

Every learner of a seed sees the same demonstrations, validation set, test set and episodes. Only
this module decides what a record says, so it imports nothing that merely arranges cells.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sdil.acting import (
    DEFAULT,
    GREEDY,
    ListenToValue,
    NotStuck,
    Sample,
    WithoutCircles,
    act_by,
    describe_acting,
)
from sdil.demonstrations import Demonstrations
from sdil.evaluation.metrics import RealMetrics, measure_recorded
from sdil.evaluation.rollout import Evaluation, evaluate
from sdil.policy import Policy, Rule
from sdil.spaces import Array

if TYPE_CHECKING:
    from sdil.algorithms.shared import Shared

TEST = 300  # clean test trajectories
SIMULATED = 100  # test trajectories and episodes where actions are real numbers: physics take long
LEAST_VALID = 10  # validation takes half as many trajectories as training, at least these
_VALID, _EPISODES, _TEST, _EXPERTS = 10_000, 20_000, 30_000, 40_000  # added to the seed


@dataclass(frozen=True)
class Pool:
    """What a cell's learner is given, and what it is measured on."""

    train: Demonstrations
    valid: Demonstrations
    test: Demonstrations
    noisy_good: list[Array] | None
    """Of each noisy trajectory, which steps are good, where it is known. (T,) each"""
    environment: Any
    """What it may practise in: a table, a Gymnasium id, or nothing."""


def measure(inputs: Mapping[str, Any], data: str | None = None) -> tuple[dict[str, Any], float]:
    """What `record.json` says of a cell, and the CPU seconds of `fit`, were it alone.

    `inputs` are those of `Cell.inputs`; `data` is the folder of the task "mimic".
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            measures, seconds = _measure(inputs, data)
    finally:
        torch.set_num_threads(before)
    said = sorted({str(w.message) for w in told if issubclass(w.category, UserWarning)})
    return {"inputs": dict(inputs), "measures": measures, "warnings": said}, seconds


def _measure(inputs: Mapping[str, Any], data: str | None) -> tuple[dict[str, Any], float]:
    from sdil.algorithms import find_learner, make_judge
    from sdil.algorithms.shared import sharing
    from sdil.training import Epoch

    pool = demonstrations(inputs, data)
    learner = find_learner(inputs["learner"])(**inputs["fields"])
    more: dict[str, Any] = {}
    if learner.takes_truth:
        more["truth"] = pool.noisy_good
    if learner.environment != "never" and not inputs["offline"]:
        more["env"] = pool.environment
    epochs: list[Epoch] = []
    given = pool.valid if inputs["valid"] else None
    shared = _shared()
    began, spared = time.process_time(), shared.spared
    if inputs["judge"] is not None and len(pool.train.noisy):
        judge = make_judge(inputs["judge"], **inputs["judge_fields"])
        more["judge"] = judge.fit(pool.train, valid=given, seed=inputs["seed"])
    with sharing(shared) if inputs["judge"] is None else nullcontext():
        policy = learner.fit(
            pool.train, valid=given, seed=inputs["seed"], on_epoch=epochs.append, **more
        )
    seconds = time.process_time() - began + shared.spared - spared
    on_valid = measure_recorded(policy, pool.valid.clean)
    measures: dict[str, Any] = {
        "valid_nll": on_valid.nll,
        "valid_acc": None if isinstance(on_valid, RealMetrics) else on_valid.accuracy,
    }
    if inputs["measured"] == "validation":
        return measures, seconds
    measures |= _predicted(policy, pool.test)
    if inputs["task"] != "mimic":
        measures |= _acted(policy, inputs["task"], _EPISODES + inputs["seed"])
    if pool.noisy_good:
        measures["bad_steps"] = float(1 - np.concatenate(pool.noisy_good).mean())
        if learner.judges_steps:
            from sdil.studies.step_scores import judged

            measures |= judged(policy, pool.train.noisy, pool.noisy_good)
    discovered = [epoch for epoch in epochs if epoch.phase == "discover"]
    if discovered:
        measures["perplexity"] = discovered[-1].losses["perplexity"]
        if len(pool.train.noisy):
            mixed = [epoch.losses.get("survived_clean_noisy", 0.0) for epoch in discovered]
            estimated = mixed[inputs["fields"]["pu_interval"] :]  # none are dropped before
            measures["least_mixed_pairs"] = min(estimated, default=None)
    return measures, seconds


def _predicted(policy: Policy, test: Demonstrations) -> dict[str, Any]:
    """How well it predicts clean test actions; what needs a list of actions is else unknown."""
    tested = measure_recorded(policy, test.clean)
    if isinstance(tested, RealMetrics):
        unknown = dict.fromkeys(("acc", "macro_f", "macro_auroc", "micro_auroc"))
        return {**unknown, "test_nll": tested.nll, "relative_error": tested.relative_error}
    return {
        "acc": tested.accuracy,
        "macro_f": tested.macro_f,
        "macro_auroc": tested.macro_auroc,
        "micro_auroc": tested.micro_auroc,
    }


def _acted(policy: Policy, task: str, seed: int) -> dict[str, Any]:
    """What the policy earns greedily, the one way in which all are compared, and in others."""
    out_of_it = WithoutCircles.name if policy.spaces.listed else NotStuck.name
    may = policy.spaces.listed or any(rule.name == out_of_it for rule in policy.offers)
    ways = [GREEDY, *([out_of_it] if may and policy.act_on == 1 else []), Sample.name, DEFAULT]
    if policy.judge is not None and policy.judge.advice() is not None:
        ways.append(ListenToValue.name)
    episodes = None if policy.spaces.listed else SIMULATED
    ran: dict[str, Evaluation] = {}
    by_rules: list[tuple[Sequence[Rule], Evaluation]] = []  # the default is mostly among them
    with warnings.catch_warnings():  # here it does not matter whether a rule is called for
        warnings.filterwarnings("ignore", "acting ")
        for way in ways:
            rules = act_by(policy, way).rules
            known = next((each for others, each in by_rules if others == rules), None)
            ran[way] = known or evaluate(policy, task, episodes=episodes, seed=seed, acting=way)
            by_rules.append((rules, ran[way]))
    greedy = ran.pop(GREEDY)
    return {
        "reward": greedy.reward_mean,
        "success": greedy.success_rate,
        "success_interval": greedy.success_interval and list(greedy.success_interval),
        "episodes": greedy.n_episodes,
        "acting": describe_acting(policy),
        **{f"reward_{way.replace('-', '_')}": each.reward_mean for way, each in ran.items()},
    }


def demonstrations(inputs: Mapping[str, Any], data: str | None) -> Pool:
    """The demonstrations that a cell asks for."""
    if inputs["task"] == "mimic":
        return _recorded(inputs, str(data))
    from sdil.tasks import get_task

    task, clean, noisy, seed = (inputs[name] for name in ("task", "clean", "noisy", "seed"))
    train, truth = _collected(
        task, clean, noisy, seed, inputs["noise"], inputs["noisy_random_steps"]
    )
    valid, _ = _collected(task, max(clean // 2, LEAST_VALID), 0, _VALID + seed)
    test, _ = _collected(task, TEST if train.spaces.listed else SIMULATED, 0, _TEST + seed)
    good = truth.noisy_good
    experts = round(inputs["expert_share"] * noisy)
    if experts:
        more, of_experts = _collected(task, experts, 0, _EXPERTS + seed)
        mixed = [*list(train.noisy)[experts:], *more.clean]
        train = Demonstrations(list(train.clean), mixed, train.spaces)
        good = [*good[experts:], *of_experts.clean_good]
    chosen = get_task(task)
    return Pool(train, valid, test, good, chosen.table() or chosen.environment)


@cache
def _shared() -> Shared:
    """What the learners of one cell after the other have in common."""
    from sdil.algorithms.shared import Shared

    return Shared()


@lru_cache(maxsize=12)
def _collected(
    task: str,
    clean: int,
    noisy: int,
    seed: int,
    noise: Any = "paper",
    noisy_random_steps: float | None = None,
) -> tuple[Demonstrations, Any]:
    from sdil.tasks import get_task

    return get_task(task).collect(
        clean=clean, noisy=noisy, seed=seed, noise=noise, noisy_random_steps=noisy_random_steps
    )


def _recorded(inputs: Mapping[str, Any], data: str) -> Pool:
    split = _loaded(data).split(seed=inputs["seed"])
    train = split.train
    if inputs["clean"] is not None:
        train = train.take_clean(inputs["clean"], seed=inputs["seed"])
    if inputs["noisy"] is not None:
        train = Demonstrations(train.clean, train.noisy[: inputs["noisy"]], train.spaces)
    return Pool(train, split.valid, split.test, None, None)


@lru_cache(maxsize=1)
def _loaded(data: str) -> Demonstrations:
    from sdil.formats.folder import load_demonstrations

    return load_demonstrations(data)
