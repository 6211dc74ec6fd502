"""`sdil inspect`: what a folder of demonstrations, or other people's data, holds."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from sdil.cli.console import WIDTH, parse, plain, print_json, print_table, print_wrapped, show
from sdil.cli.looking import look_at
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.files import read_json, refuse_missing
from sdil.formats.data import is_source, with_choices
from sdil.formats.folder import describe, load_demonstrations, load_truth
from sdil.formats.mapping import are_frames_checked
from sdil.formats.reading import open_reading
from sdil.formats.recognise import NAMES, Address, parse_address
from sdil.trajectories import Trajectories
from sdil.truth import Truth


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(inspect, arguments, "inspect")


def inspect(
    folder: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PATH")],
    clean: str | None = None,
    noisy: str | None = None,
    features: str | None = None,
    actions: str | None = None,
    every: int | None = None,
    image_size: str | None = None,
    task: str | None = None,
    group: str | None = None,
    format: Annotated[str | None, tyro.conf.arg(metavar="{" + ",".join(NAMES) + "}")] = None,
    table: str | None = None,
    episode: str | None = None,
    time: str | None = None,
    check: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Say what a folder of demonstrations holds, after checking every value in it; or what a data
    set in another format holds, what is odd in it, and the command that imports it.

    Args:
        folder: A folder that `sdil collect`, `sdil import`, `sdil mimic build` or
            `sdil.save_demonstrations` wrote; or the path or address of LeRobot, robomimic, ALOHA,
            D4RL, Zarr, Minari or NumPy data, or of a table (CSV, Parquet, DuckDB, PostgreSQL).
        clean: Of other data: which episodes would be trusted, as `sdil import` takes it.
        noisy: Which would be doubtful; by default all others.
        features: What is seen.
        actions: What is done.
        every: Each n-th frame.
        image_size: The size of pictures, where cameras are among the features.
        task: Which of several tasks.
        group: The column of episodes whose values a split keeps together.
        format: How to read it, where it is not recognised.
        table: Which table of a database.
        episode: The column of a table that numbers the episodes.
        time: The column of a table that orders the steps.
        check: Of a folder of demonstrations: compare every frame with what was written, however
            many there are. Without it that is done of up to 256 MB of them.
        as_json: Print the answer as JSON.
    """
    chosen = {
        **{"clean": clean, "noisy": noisy, "features": features, "actions": actions},
        **{"every": None if every is None else str(every), "task": task, "group": group},
        "image_size": image_size,
        **{"table": table, "episode": episode, "time": time},
    }
    if format is not None or is_source(folder):
        given = parse_address(folder)
        address = Address(given.location, format or given.format, given.choices)
        look_at(open_reading(address.with_choices(**chosen)), as_json=as_json)
        return
    refuse_missing(Path(folder), "check the path")
    with_choices(folder, **chosen)  # refuses what is for other people's data
    _inspect_folder(Path(folder), as_json, check)


def _inspect_folder(folder: Path, as_json: bool, check: bool) -> None:
    report = _find_report(folder)
    if report is not None and not (folder / "sdil.json").exists():  # the parts lie in folders below
        if as_json:
            print_json({"folder": str(folder), "quality": report})
            return
        _show_report(report)
        parts = [p.parent for p in sorted(folder.glob("*/sdil.json"))]
        print_wrapped(f"sets of demonstrations: {', '.join(map(str, parts))}")
        return
    about, demos = describe(folder), load_demonstrations(folder, check=check)
    truth = load_truth(folder)
    summary = summarise(demos, truth)
    head = {key: about[key] for key in ("task", "environment", "origin")}
    if as_json:
        quality = {} if report is None else {"quality": report}
        checked = about["fingerprint"] is not None and (check or are_frames_checked(about))
        print_json({"folder": str(folder), **head, **summary, "checked": checked, **quality})
        return
    made = ", ".join(f"{k} {v}" for k, v in about["origin"].items() if v is not None)
    known = [f"{key} {about[key]}" for key in ("task", "environment") if about[key] is not None]
    print_wrapped(f"{folder}: {', '.join(known) or 'no task or environment is known'}")
    if made:
        print_wrapped(f"made with {made}")
    _print_space("observation", demos.spaces.observation)
    _print_space("action     ", demos.spaces.action)
    print()
    names = ("clean", "noisy")
    rows = [
        [label, *(show(summary[name][key]) for name in names)]
        for key, label in _LABELS.items()
        if any(summary[name][key] is not None for name in names)
    ]
    print_table("sets", ["", *names], rows)
    shares = [summary[name]["action_share"] for name in names]
    if shares[0] is not None:
        rows = [[str(a), *(_percent(s, a) for s in shares)] for a in range(len(shares[0]))]
        print_table("actions", ["action", *names], rows)
    if report is not None:
        _show_report(report)
    print(plain(f"fingerprint {summary['fingerprint'][:16]}"))
    if about["fingerprint"] is None:
        print("not checked: the folder is of a version that wrote no fingerprint")
    elif not (check or are_frames_checked(about)):
        print_wrapped(
            "checked but for the frames: all else is what was written; --check reads them too"
        )
    else:  # or it would not have been loaded
        print("checked: the data is what was written")


def _print_space(name: str, space: object) -> None:
    """A space, whose own lines stay and are wrapped, too."""
    for line in f"{name} {plain(space, lines=True)}".split("\n"):
        print(textwrap.fill(line, WIDTH, subsequent_indent=" " * 12) or line)


def _find_report(folder: Path) -> dict[str, Any] | None:
    """The quality report of a MIMIC-IV build: in the folder itself, or above one of its parts."""
    for path in (folder / "quality.json", folder.absolute().parent / "quality.json"):
        if path.is_file():
            report = read_json(path, what="a folder with a quality report")
            if not isinstance(report, dict) or not report.keys() >= _REPORT_KEYS:
                raise InputError(f"{path}: damaged; build the demonstrations again")
            return report
    return None


_REPORT_KEYS = {"cells", "flow", "missingness", "actions", "outcome_by_sofa"}


def _show_report(report: dict[str, Any]) -> None:
    print_table("cohort", ["", "stays"], [[k, str(v)] for k, v in report["flow"].items()])
    kinds = ("measured", "held", "imputed")
    rows = [
        [name, *(v if isinstance(v := shares[k], str) else f"{v:.1%}" for k in kinds)]
        for name, shares in report["missingness"].items()
    ]
    print_table("states: share measured in the last step, held, imputed", ["", *kinds], rows)
    steps = report["actions"]["steps"]
    rows = [[f"fluid {i}", *map(str, row)] for i, row in enumerate(steps)]
    print_table("steps by action", ["", *(f"pressor {i}" for i in range(len(steps)))], rows)
    rows = [
        [band["sofa"], str(band["stays"]), str(band["died"])] for band in report["outcome_by_sofa"]
    ]
    print_table("outcome by highest SOFA around onset", ["SOFA", "stays", "died"], rows)
    print_wrapped(report["cells"])


_MOST_ACTIONS_SHOWN = 10_000

_LABELS = {
    "episodes": "episodes",
    "steps": "steps",
    "length_mean": "mean length",
    "length_range": "shortest - longest",
    "reward_mean": "mean reward",
    "distinct_starts": "distinct starts",
    "terminated": "ended by the task",
    "groups": "groups",
    "without_rewards": "without rewards",
    "without_final_observation": "without final observation",
    "good_share": "good steps (truth)",
}


def summarise(demos: Demonstrations, truth: Truth | None) -> dict[str, Any]:
    """Counts and shares of both sets."""
    goods = (None, None) if truth is None else (truth.clean_good, truth.noisy_good)
    listed, first = demos.spaces.listed, getattr(demos.spaces.action, "start", 0)
    n_actions = listed if 0 < listed <= _MOST_ACTIONS_SHOWN and first == 0 else None
    sets = {
        name: _summarise_set(trajectories, good, n_actions)
        for name, trajectories, good in zip(
            ("clean", "noisy"), (demos.clean, demos.noisy), goods, strict=True
        )
    }
    return {**sets, "fingerprint": demos.fingerprint()}


def _summarise_set(
    trajectories: Trajectories, good: list[Any] | None, n_actions: int | None
) -> dict[str, Any]:
    if not len(trajectories):
        empty = dict.fromkeys(_LABELS)
        share = None if n_actions is None else [0.0] * n_actions
        return {**empty, "episodes": 0, "steps": 0, "action_share": share}
    lengths = trajectories.lengths
    first = trajectories.observations[trajectories.first_row]
    earned = [t.rewards.sum() for t in trajectories if t.rewards is not None]
    actions = trajectories.actions[trajectories.steps()]
    groups = {g for g in trajectories.groups if g is not None}
    return {
        "episodes": len(trajectories),
        "steps": trajectories.n_steps,
        "length_mean": float(lengths.mean()),
        "length_range": f"{lengths.min()} - {lengths.max()}",
        "reward_mean": float(np.mean(earned)) if earned else None,
        "distinct_starts": len({row.tobytes() for row in first})
        if first.dtype == np.uint8
        else len(np.unique(first, axis=0)),
        "terminated": int(trajectories.terminated.sum()),
        "groups": len(groups) or None,
        "without_rewards": int((~trajectories.has_rewards).sum()) or None,
        "without_final_observation": int((~trajectories.has_final).sum()) or None,
        "good_share": float(np.concatenate(good).mean()) if good else None,
        "action_share": (
            None
            if n_actions is None
            else (np.bincount(actions, minlength=n_actions) / len(actions)).tolist()
        ),
    }


def _percent(shares: list[float], action: int) -> str:
    return f"{shares[action]:.1%}" if shares[action] else "-"
