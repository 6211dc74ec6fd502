"""`sdil evaluate`: a policy in its environment and on recorded steps."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import tyro

from sdil.algorithms import load_policy
from sdil.cli.console import check_seed, parse, print_json, print_table, progress, set_threads
from sdil.cli.run import read_run
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.evaluation.rollout import Evaluation, check_spaces
from sdil.evaluation.rollout import evaluate as run_episodes
from sdil.files import write_json
from sdil.formats.folder import load_demonstrations
from sdil.policy import Policy
from sdil.windows import Windows

if TYPE_CHECKING:
    from sdil.evaluation.metrics import ActionMetrics

_STEPS_AT_ONCE = 16_384


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(evaluate, arguments, "evaluate")


def evaluate(
    run: tyro.conf.Positional[Path],
    episodes: int | None = None,
    seed: int = 0,
    env: str | None = None,
    data: Path | None = None,
    n_envs: int = 64,
    out: Path | None = None,
    threads: int = 1,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Measure a policy: reward over seeded episodes, and how well it predicts recorded actions.

    Args:
        run: A run folder that `sdil train` wrote.
        episodes: Number of episodes; 0 leaves the environment out. If not given 1,000; in sepsis
            10,000, or none for a policy that sees only the state: it is evaluated exactly.
        seed: The episodes follow from it.
        env: A task's name or a Gymnasium id; by default where the demonstrations came from.
        data: A folder whose clean set the policy is compared with: accuracy, macro-F, AUROC.
        n_envs: Environments stepped side by side; the result does not depend on it.
        out: Also write the answer to this JSON file.
        threads: CPU threads.
        as_json: Print the answer as JSON.
    """
    check_seed(seed)
    set_threads(threads)
    policy = load_policy(run)
    answer: dict[str, Any] = {"run": str(run)}
    saved_by_hand = not (run / "run.json").exists()  # policy.save: it has no run.json
    where = env or (None if saved_by_hand else read_run(run)["environment"])
    rows = []
    only_records = where is None and episodes is None and data is not None
    if (episodes is None or episodes > 0) and not only_records:
        if where is None:
            raise InputError(
                f"{run} does not say where its data came from; pass --env, "
                "or --data with recorded episodes to compare with"
            )
        with progress(f"running {where}") as update:
            result = run_episodes(
                policy, where, episodes=episodes, seed=seed, n_envs=n_envs, on_progress=update
            )
        answer["environment"] = {"id": where, **summarise(result)}
        rows += describe(result)
    if data is not None:
        metrics = measure_on(policy, load_demonstrations(data))
        answer["data"] = {"folder": str(data), **asdict(metrics)}
        rows += describe_metrics(metrics)
    if not rows:
        raise InputError("nothing to measure: give --episodes or --data")
    if out is not None:
        write_json(out, answer)
    if as_json:
        print_json(answer)
        return
    print_table(f"{run}: {policy.learner}", ["measure", "value"], rows)


def measure_on(policy: Policy, demos: Demonstrations) -> ActionMetrics:
    """Compare the policy with the clean set of `demos`, step by step."""
    from sdil.evaluation.metrics import action_metrics  # scikit-learn takes seconds

    check_spaces(policy, demos.spaces)
    windows = Windows(demos.clean, policy.look_back)
    with torch.no_grad():
        index = torch.arange(len(windows)).split(_STEPS_AT_ONCE)
        probs = torch.cat([policy.action_probs(windows.at(i)) for i in index])
    actions = windows.actions_at(torch.arange(len(windows)))
    return action_metrics(probs.numpy(), actions.numpy())


def summarise(result: Evaluation) -> dict[str, Any]:
    """An evaluation without its single episodes."""
    fields = result.__dataclass_fields__
    return {name: getattr(result, name) for name in fields if name != "episodes"}


def describe(result: Evaluation) -> list[list[str]]:
    """Rows for a table."""
    if result.exact:
        return [
            ["reward x100", f"{100 * result.reward_mean:.2f} (exact)"],
            ["success", f"{result.success_rate:.2%} (exact)"],
            ["mean length", f"{result.length_mean:.1f}"],
            ["episodes", "none: computed from transition probabilities"],
        ]
    rows = [["reward x100", f"{100 * result.reward_mean:.1f} ± {100 * result.reward_sem:.1f} (SE)"]]
    if result.success_rate is not None and result.success_interval is not None:
        low, high = result.success_interval
        rows.append(["success", f"{result.success_rate:.1%} (95%: {low:.1%} - {high:.1%})"])
    rows.append(["mean length", f"{result.length_mean:.1f}"])
    rows.append(["episodes", f"{result.n_episodes} (seed {result.seed})"])
    return rows


def describe_metrics(metrics: ActionMetrics) -> list[list[str]]:
    """Rows for a table."""
    rows = []
    for name, value in (
        ("accuracy", metrics.accuracy),
        ("macro-F", metrics.macro_f),
        ("macro-AUROC", metrics.macro_auroc),
        ("micro-AUROC", metrics.micro_auroc),
    ):
        rows.append([name, "only one action occurs" if value is None else f"{100 * value:.1f}"])
    absent = ", ".join(map(str, metrics.absent_classes)) or "none"
    rows.append(["recorded steps", str(metrics.steps)])
    rows.append(["actions that never occur", absent])
    return rows
