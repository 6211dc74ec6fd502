"""What was kept of a set: in figures, and as `sdil curate` prints it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdil.cli.console import print_table, show
from sdil.curation import Curated
from sdil.trajectories import Trajectories
from sdil.truth import Truth

_MOST_GROUPS = 12


def summarise(curated: Curated, original: Trajectories, truth: Truth | None) -> dict[str, Any]:
    """How many steps and episodes were kept, by group where there are groups, and how rightly."""
    kept = np.concatenate(curated.kept)
    shares = [float(mask.mean()) for mask in curated.kept]
    summary: dict[str, Any] = {
        "steps": _tally(kept) | {"too_short": curated.too_short},
        "episodes": {
            "before": len(shares),
            "whole": sum(s == 1 for s in shares),
            "cut": sum(0 < s < 1 for s in shares),
            "dropped": sum(s == 0 for s in shares),
            "after": len(curated.pieces),
        },
        "groups": {},
        "truth": None,
        "why_all": curated.why_all,
    }
    for group in dict.fromkeys(g for g in original.groups if g is not None):
        mine = [m for m, g in zip(curated.kept, original.groups, strict=True) if g == group]
        summary["groups"][group] = _tally(np.concatenate(mine))
    if truth is not None:
        labels = truth.noisy_good if curated.which == "noisy" else truth.clean_good
        good = np.concatenate(labels)
        summary["truth"] = {
            "good_before": float(good.mean()),
            "precision": float(good[kept].mean()),
            "recall": float(kept[good].mean()) if good.any() else None,
        }
    return summary


def _tally(kept: Any) -> dict[str, Any]:
    total, held = len(kept), int(kept.sum())
    return {"before": total, "kept": held, "dropped": total - held, "kept_share": held / total}


def show_kept(curated: Curated, summary: dict[str, Any], weights: bool) -> None:
    """The same as tables."""
    steps, episodes, known = summary["steps"], summary["episodes"], summary["truth"]
    chosen = "chosen" if weights else "kept"
    rows = [
        ["steps", str(steps["before"])],
        [f"  {chosen}", f"{steps['kept']} ({steps['kept_share']:.1%})"],
        [f"  not {chosen}" if weights else "  dropped", str(steps["dropped"])],
        ["    of them in too short runs", str(steps["too_short"])],
        ["episodes", str(episodes["before"])],
        [f"  {chosen} whole", str(episodes["whole"])],
        [f"  {chosen} in part", str(episodes["cut"])],
        [f"  not {chosen}" if weights else "  dropped", str(episodes["dropped"])],
        ["episodes written", str(episodes["after"])],
    ]
    if known is not None:
        rows += [
            ["good steps (truth), before", f"{known['good_before']:.1%}"],
            [f"good among the {chosen} (precision)", f"{known['precision']:.1%}"],
            [f"{chosen} among the good (recall)", _percent(known["recall"])],
        ]
    print_table(f"{curated.which} set", ["", "before and after"], rows)
    groups = sorted(summary["groups"].items(), key=lambda item: item[1]["kept_share"])
    if groups:
        print_table(
            "by group, least first",
            ["group", "steps", chosen, "share"],
            [
                [name, str(g["before"]), str(g["kept"]), _percent(g["kept_share"])]
                for name, g in groups[:_MOST_GROUPS]
            ],
        )
        if len(groups) > _MOST_GROUPS:
            print(f"and {len(groups) - _MOST_GROUPS} more groups: see curated.json")
    if weights:
        print("every step is written; how much each should weigh stands in scores.parquet")
        print("(of --out), and in what --to writes")


def _percent(share: float | None) -> str:
    return show(share) if share is None else f"{share:.1%}"
