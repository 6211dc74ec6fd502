"""How many bad steps may be drawn? By what `MOST_BAD` of `algorithms/trust.py` was chosen.

    python benchmarks/trusting.py                              # development seeds, for docs/sdil.md

Scored BC trusts its noisy set until this share of what it draws is bad, by its judge. Its policies
are followed through recorded validation transitions, as in `walks.py`, greedily and without
circles: no reward takes part. Settings are those of `judging.py`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import sdil
import sdil.algorithms.trust as trust
from common.report import begin, finish, markdown, measure_all
from judging import collect
from sdil.acting import WithoutCircles
from sdil.policy import Policy
from sdil.ways import Way
from walks import World

WAYS = {"greedy": (), "without circles": (WithoutCircles(),)}


def run_cell(
    setting: str, shares: tuple[float, ...], noisy: int, recorded: int, seed: int
) -> list[dict[str, Any]]:
    """All shares on one seed."""
    torch.set_num_threads(1)
    demos, _ = collect(setting, noisy, seed)
    judge = sdil.Judge().fit(demos, seed=seed)
    seen, _ = sdil.get_task("fourrooms").collect(
        clean=recorded // 5, noisy=recorded, seed=60_000 + seed, noisy_random_steps=0.5
    )
    world = World.of(seen)
    learned: dict[str, Policy] = {}
    cells = []
    for share in shares:
        trust.MOST_BAD = share
        found = trust.find_trust(demos, judge, None, sdil.ScoredBC(), seed=seed)
        if found.sentence not in learned:
            learned[found.sentence] = sdil.ScoredBC().fit(demos, judge=judge, seed=seed)
        for way, rules in WAYS.items():
            walked = world.walk(learned[found.sentence].acting_by(rules))
            cells.append(
                {
                    "setting": setting,
                    "seed": seed,
                    "share": share,
                    "exponent": told(found.way),
                    "way": way,
                    **walked,
                }
            )
    return cells


def told(way: Way) -> str:
    """The exponent, and to how much of the clean ones' weight noisy steps are held."""
    if way.exponent is None:
        return "none"
    return f"{way.exponent:g}" + ("" if way.at_most == math.inf else f"<={way.at_most:g}")


def main(
    settings: tuple[str, ...] = (
        "fourrooms:5",
        "fourrooms:10",
        "fourrooms:30",
        "detours:5",
        "detours:10",
    ),
    shares: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.3),
    noisy: int = 600,
    recorded: int = 3_000,
    seeds: tuple[int, ...] = (200, 201, 202, 203),
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        settings: Noisy sets of FourRooms and numbers of clean demonstrations.
        shares: At most so much of what is drawn may be bad.
        noisy: Noisy demonstrations to learn from.
        recorded: Noisy demonstrations of the validation set that is walked through.
        seeds: Development seeds, which no table uses.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(settings=list(settings), noisy=noisy, recorded=recorded, seeds=list(seeds))
    asked = [(setting, shares, noisy, recorded, seed) for setting in settings for seed in seeds]
    cells = [cell for some in measure_all(run_cell, asked, workers) for cell in some]
    table = []
    for setting in settings:
        for share in shares:
            mine = [c for c in cells if (c["setting"], c["share"]) == (setting, share)]
            exponents = " ".join(c["exponent"] for c in mine if c["way"] == "greedy")
            figures = [
                f"{np.mean([c[what] for c in mine if c['way'] == way]):.1f}"
                for way in WAYS
                for what in ("arrived", "steps")
            ]
            table.append((setting, f"{share:g}", exponents, *figures))
    titles = ("noisy set : clean", "bad at most", "exponents")
    columns = [f"{what}, {way}" for way in WAYS for what in ("arrived %", "steps")]
    print(markdown((*titles, *columns), table))
    means = [
        (f"{share:g}", *(f"{_mean_steps(cells, share, way):.1f}" for way in WAYS))
        for share in shares
    ]
    print(markdown(("bad at most", *(f"steps, {way}" for way in WAYS)), means))
    finish(about, cells, [], json)


def _mean_steps(cells: list[dict[str, Any]], share: float, way: str) -> float:
    """Over all settings and seeds."""
    return float(np.mean([c["steps"] for c in cells if (c["share"], c["way"]) == (share, way)]))


if __name__ == "__main__":
    tyro.cli(main)
