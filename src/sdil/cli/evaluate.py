"""`sdil evaluate`: a policy in its environment, in each way of acting, and on recorded steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from sdil.cli.chosen import print_chosen
from sdil.cli.console import (
    check_seed,
    parse,
    print_json,
    print_table,
    print_wrapped,
    progress,
    set_threads,
)
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.files import write_json
from sdil.formats.data import absolute, load_demonstrations, origin_of

if TYPE_CHECKING:
    from sdil.evaluation.metrics import ActionMetrics, RealMetrics
    from sdil.evaluation.rollout import Evaluation
    from sdil.policy import Policy

ALL = "all"


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(evaluate, arguments, "evaluate")


def evaluate(
    run: tyro.conf.Positional[Path],
    episodes: int | None = None,
    seed: int = 0,
    env: str | None = None,
    acting: Literal[
        "all", "default", "greedy", "sampled", "without-circles", "not-stuck", "value"
    ] = "all",
    data: Annotated[str | None, tyro.conf.arg(metavar="PATH")] = None,
    clean: str | None = None,
    n_envs: int = 64,
    out: Path | None = None,
    threads: int = 1,
    device: Literal["auto", "cpu", "cuda"] = "cpu",
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Measure a policy: reward over seeded episodes, and how well it predicts recorded actions.

    Compare learners in one way of acting only: not going round in circles lifts most of them more
    than any learner does. How well actions are predicted does not depend on it.

    Args:
        run: A run folder that `sdil train` wrote, or what `policy.save` wrote.
        episodes: Number of episodes; 0 leaves the environment out. If not given 1,000; in sepsis
            10,000, or none for a policy that sees only the state: it is evaluated exactly.
        seed: The episodes follow from it.
        env: A task's name or a Gymnasium id; by default where the demonstrations came from.
        acting: The way of acting; all: each that applies, side by side.
        data: A folder whose clean set the policy is compared with, or other people's data, read
            where it lies: accuracy, macro-F, AUROC, likelihood.
        clean: Of data in another format: which episodes it is compared with, as `sdil import`
            takes it; without --data, of what the run was made of.
        n_envs: Environments stepped side by side; the result does not depend on it, but for
            sampled actions.
        out: Also write the answer to this JSON file.
        threads: CPU threads.
        device: Where pictures are encoded; auto: on a GPU where there is one.
        as_json: Print the answer as JSON.
    """
    # PyTorch: --help need not wait for it
    from sdil.acting import NotStuck, WithoutCircles, describe_acting
    from sdil.algorithms import load_policy
    from sdil.arguments import read_run
    from sdil.cli.answers import data_for
    from sdil.evaluation.floors import UNIFORM, blind_policies, floors_on
    from sdil.evaluation.rollout import evaluate as run_episodes
    from sdil.simulators import is_ours, trusted_environment

    check_seed(seed)
    set_threads(threads)
    policy = load_policy(run)
    if data is not None or clean is not None:
        data = data_for(run, data, clean)
    answer: dict[str, Any] = {"run": str(run)}
    saved_by_hand = not (run / "run.json").exists()  # policy.save: it has no run.json
    from_file = None if saved_by_hand else read_run(run).get("environment")
    only_records = (env or from_file) is None and episodes is None and data is not None
    ran: dict[str, Evaluation] = {}
    beside: dict[str, Evaluation] = {}
    demos = None if saved_by_hand else _learned_from(read_run(run)["data"])
    if (episodes is None or episodes > 0) and not only_records:
        where = env or trusted_environment(from_file, run / "run.json")
        if where is None:
            raise InputError(
                f"no environment is known for {run}; pass --env (such as fourrooms), "
                "or --data with recorded episodes to compare with"
            )
        ways = ways_of(policy) if acting == ALL else {acting: acting}
        blind = blind_policies(policy.spaces, None if demos is None else demos.clean)
        with progress(f"running {where}") as update:
            for floor in blind if acting == ALL else ():
                beside[floor.learner] = run_episodes(
                    floor,
                    where,
                    episodes=episodes,
                    seed=seed,
                    n_envs=n_envs,
                    acting="sampled" if floor.learner == UNIFORM else "greedy",
                    on_progress=partial(update, description=f"running {where}, {floor.learner}"),
                )
            for label, way in ways.items():
                ran[label] = run_episodes(
                    policy,
                    where,
                    episodes=episodes,
                    seed=seed,
                    n_envs=n_envs,
                    acting=way,
                    device=device,
                    on_progress=partial(update, description=f"running {where}, {label}"),
                )
        answer["environment"] = {
            "id": where,
            **summarise(next(iter(ran.values()))),
            "default": describe_acting(policy),
            "acting": {label: summarise(each) for label, each in ran.items()},
            "not_called_for": dict(policy.why_not),
            "beside": {label: summarise(each) for label, each in beside.items()},
        }
    metrics, floors = None, []
    if data is not None:
        recorded = load_demonstrations(data)
        metrics = measure_on(policy, recorded)
        seen = recorded.clean if demos is None else demos.clean
        floors = floors_on(recorded.clean, blind_policies(policy.spaces, seen))
        answer["data"] = {
            "folder": str(data),
            **asdict(metrics),
            "beside": [asdict(floor) for floor in floors],
        }
    if not ran and metrics is None:
        raise InputError("nothing to measure: give --episodes or --data")
    if out is not None:
        write_json(out, answer)
    if as_json:
        print_json(answer)
        return
    if ran:
        ours = is_ours(answer["environment"]["id"])
        print_table(
            f"{run}: {policy.learner}",
            ["acting", "reward x100" if ours else "reward", "success, %", "mean length"],
            [
                *[[_marked(label, policy), *describe(each, ours)] for label, each in ran.items()],
                *[[f"beside it: {label}", *describe(each, ours)] for label, each in beside.items()],
            ],
        )
        run_through = [each for each in ran.values() if not each.exact]
        if run_through:
            n, seed = run_through[0].n_episodes, run_through[0].seed
            print(f"{n} episodes (seed {seed}); ± standard error, 95% interval")
        if len(run_through) < len(ran):
            print("without ±: computed from transition probabilities, nothing sampled")
        rule = WithoutCircles.name if policy.spaces.listed else NotStuck.name
        if rule in policy.why_not:
            print_wrapped(f"{rule} is not called for: {policy.why_not[rule]}")
    if metrics is not None:
        assert data is not None
        print_chosen(data, recorded)
        rows = describe_metrics(metrics, _entries_of(data))
        rows += [
            [f"beside it: {f.name}", f"accuracy {100 * f.accuracy:.1f}, NLL {f.nll:.3f}"]
            for f in floors
        ]
        learned = not saved_by_hand and absolute(data) == read_run(run)["data"]
        title = "recorded steps, those it learned from" if learned else "recorded steps"
        print_table(title, ["measure", "value"], rows)


def _learned_from(folder: str) -> Demonstrations | None:
    """What a run was trained on, where it is still there."""
    try:
        return load_demonstrations(folder)
    except InputError:
        return None


def ways_of(policy: Policy) -> dict[str, str]:
    """The ways of acting to look at, by how they are called; the default one first."""
    from sdil.acting import DEFAULT, GREEDY, NotStuck, Sample, WithoutCircles, describe_acting

    others = [GREEDY, Sample.name]
    rule = WithoutCircles.name if policy.spaces.listed else NotStuck.name
    if rule not in policy.why_not:
        others.append(rule)
    default = describe_acting(policy)
    return {default: DEFAULT} | {way: way for way in others if way != default}


def _marked(way: str, policy: Policy) -> str:
    from sdil.acting import describe_acting

    return f"{way} (default)" if way == describe_acting(policy) else way


def measure_on(policy: Policy, demos: Demonstrations) -> ActionMetrics | RealMetrics:
    """Compare the policy with the clean set of `demos`, step by step."""
    from sdil.evaluation.metrics import measure_recorded  # scikit-learn: seconds
    from sdil.evaluation.rollout import check_spaces

    check_spaces(policy, demos.spaces)
    return measure_recorded(policy, demos.clean)


def summarise(result: Evaluation) -> dict[str, Any]:
    """An evaluation without its single episodes."""
    fields = result.__dataclass_fields__
    return {name: getattr(result, name) for name in fields if name != "episodes"}


def describe(result: Evaluation, ours: bool) -> list[str]:
    """Reward, success and length, as a row of a table; the reward x100 where the task is ours."""
    if result.exact:
        return [
            f"{100 * result.reward_mean:.2f}" if ours else plain_reward(result.reward_mean),
            f"{100 * (result.success_rate or 0.0):.2f}",
            f"{result.length_mean:.1f}",
        ]
    success = "-"
    if result.success_rate is not None and result.success_interval is not None:
        low, high = result.success_interval
        success = f"{100 * result.success_rate:.1f} ({100 * low:.1f}-{100 * high:.1f})"
    mean, error = result.reward_mean, result.reward_sem
    reward = f"{100 * mean:.1f} ± {100 * error:.1f}" if ours else plain_reward(mean, error)
    return [reward, success, f"{result.length_mean:.1f}"]


def plain_reward(mean: float, error: float | None = None) -> str:
    """A reward of any size, to two digits of its standard error; without one to three of its
    own."""
    if not math.isfinite(mean) or not math.isfinite(error or 0.0):
        return f"{mean} ± {error}"
    sure = error is None or error <= 1e-9 * abs(mean)  # what rounding leaves is no error
    least = abs(mean) / 10 if error is None or sure else error
    digits = min(max(0, 1 - math.floor(math.log10(least))), 12) if least else 1
    shown = f"{mean:.{digits}f}"
    return shown if error is None else f"{shown} ± {error:.{digits}f}"


def _entries_of(data: str) -> tuple[str, ...]:
    """What other people's data calls the numbers of an action."""
    origin = origin_of(data)
    return () if origin is None else origin.action


def describe_metrics(
    metrics: ActionMetrics | RealMetrics, entries: Sequence[str] = ()
) -> list[list[str]]:
    """Rows for a table; `entries`: what the numbers of an action are called, if known."""
    from sdil.evaluation.metrics import RealMetrics  # whoever has metrics has loaded it

    rows = []
    if isinstance(metrics, RealMetrics):
        names = entries if len(entries) == len(metrics.entries) else metrics.entries
        each = zip(metrics.error, metrics.mean_action_error, strict=True)
        rows = [["error, in standard deviations", f"{metrics.relative_error:.3f}"]]
        rows.append(["the same of the mean action", f"{metrics.mean_action_relative_error:.3f}"])
        rows.append(["NLL per step, in nats", f"{metrics.nll:.3f}"])
        rows += [
            [f"error of entry {name} (of the mean action)", f"{mine:.4g} ({mean:.4g})"]
            for name, (mine, mean) in zip(names, each, strict=True)
        ]
        return [*rows, ["recorded steps", str(metrics.steps)]]
    for name, value in (
        ("accuracy", metrics.accuracy),
        ("macro-F", metrics.macro_f),
        ("macro-AUROC", metrics.macro_auroc),
        ("micro-AUROC", metrics.micro_auroc),
    ):
        rows.append([name, "only one action occurs" if value is None else f"{100 * value:.1f}"])
    rows.append(["NLL per step, in nats", f"{metrics.nll:.3f}"])
    absent = ", ".join(map(str, metrics.absent_classes)) or "none"
    rows.append(["recorded steps", str(metrics.steps)])
    rows.append(["actions that never occur", absent])
    return rows
