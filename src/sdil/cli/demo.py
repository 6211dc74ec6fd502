"""`sdil demo`: the whole way on FourRooms, from nothing to a table and a page to look at."""

from __future__ import annotations

import shutil
from pathlib import Path
from shlex import quote

from sdil.acting import GREEDY, WithoutCircles
from sdil.algorithms.bc import BC
from sdil.algorithms.sdil import SDIL
from sdil.cli.collect import collect
from sdil.cli.console import check_seed, parse, plain, print_table, progress, set_threads
from sdil.cli.fitting import telling
from sdil.cli.report import report
from sdil.evaluation.rollout import evaluate
from sdil.files import refuse_existing, write_json
from sdil.formats.folder import load_demonstrations
from sdil.policy import Policy
from sdil.runs import train as train_run

_RUNS: dict[str, tuple[str, BC | SDIL, bool]] = {
    "bc-clean": ("BC, clean only", BC(), True),
    "bc-all": ("BC, clean + noisy", BC(), False),
    "sdil": ("SDIL, clean + noisy", SDIL(), False),
}


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(demo, arguments, "demo")


def demo(
    out: Path = Path("demo"),
    clean: int = 30,
    noisy: int = 300,
    episodes: int = 1000,
    seed: int = 0,
    overwrite: bool = False,
) -> None:
    """Collect demonstrations of FourRooms, train on them, measure and explain what was learned.

    Args:
        out: The folder to write; it must not exist.
        clean: Number of clean (trusted) episodes to learn from.
        noisy: Number of noisy episodes to learn from.
        episodes: Episodes per evaluation.
        seed: Everything random follows from it.
        overwrite: Replace the folder if a demo wrote it before.
    """
    check_seed(seed)
    set_threads(1)
    refuse_existing(out, overwrite=overwrite, marker="demo.json")
    if out.exists():
        shutil.rmtree(out)
    write_json(out / "demo.json", {"clean": clean, "noisy": noisy, "seed": seed})
    train, test = out / "demos" / "train", out / "demos" / "test"
    print("1. Collecting demonstrations: clean ones of an expert, noisy ones with another aim")
    collect("fourrooms", train, clean=clean, noisy=noisy, seed=seed)
    print("\n   and, apart, clean ones to test on")
    collect("fourrooms", test, clean=100, noisy=0, seed=seed + 1)
    print("\n2. Training behaviour cloning, without and with the noisy set, and SDIL")
    from sdil.evaluation.metrics import action_metrics, predict_recorded  # scikit-learn: seconds

    rows = []
    for name, (label, learner, clean_only) in _RUNS.items():
        run = out / "runs" / name
        with telling(f"training {label}", run, "train") as on_epoch:
            done = train_run(
                learner, train, run, clean_only=clean_only, seed=seed, on_epoch=on_epoch
            )
        print(f"   {label}: {done.epochs} epochs in {done.seconds:.1f} s")
        policy = done.result
        assert isinstance(policy, Policy)
        rewards = []
        with progress(f"evaluating {label}") as update:
            for way in (GREEDY, WithoutCircles.name):
                ran = evaluate(
                    policy,
                    "fourrooms",
                    episodes=episodes,
                    seed=seed,
                    acting=way,
                    on_progress=update,
                )
                rewards.append(f"{100 * ran.reward_mean:.1f} ± {100 * ran.reward_sem:.1f}")
        metrics = action_metrics(*predict_recorded(policy, load_demonstrations(test).clean))
        rows.append(
            [label, *rewards, f"{100 * metrics.accuracy:.1f}", f"{100 * metrics.macro_f:.1f}"]
        )
    earned = [t.rewards.sum() for t in load_demonstrations(test).clean if t.rewards is not None]
    rows.append(["the expert itself", f"{100 * sum(earned) / len(earned):.1f}", "", "", ""])
    print(f"\n3. {episodes} episodes each (reward x100 ± standard error), and 100 test episodes\n")
    columns = ["learner", "greedy", "without circles", "ACC", "macro-F"]
    print_table("FourRooms, reward in two ways of acting", columns, rows)
    print("\n4. Explaining the SDIL run: its skills, and which steps it takes for good")
    page = out / "report.html"
    report(out / "runs" / "sdil", data=str(train), out=page, seed=seed)
    data, ours = quote(str(train)), quote(str(out / "runs" / "sdil"))
    print()
    print(plain(f"demonstrations  {train}  (look: sdil inspect {data})"))
    print(plain(f"trained runs    {out / 'runs'}  (again: sdil evaluate {ours})"))
    print(plain(f"good steps?     sdil score {ours} --data {data} --out scores.parquet"))
    print(plain(f"open {page} in a browser to see what it learned"))
