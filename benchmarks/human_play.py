"""How right is a judge on people's play? Two kitchens of a cooking game, beside simple references.

    python benchmarks/human_play.py                        # the tables of docs/score.md
    python benchmarks/human_play.py --judges evidence deminf iswbc
    python benchmarks/human_play.py --random-choices 40    # how often chance alone is heard

The data is not ours to bundle: `--data` is a folder that holds it, and `measure.py`, which says how
a score is judged. Clean are three of the best four trials, in windows of 100 steps, trials kept
together; the fourth is held out, and spans of its actions are replaced to see whether the step
score finds them: by random ones, or by others of the same trial, in recorded observations, from the
states and the action alone (the integrity answer is shown apart). Scores of spans are smoothed
over 11 steps. Where a judge has no episode answer, or it is unknown, stretches are ranked by the
step score instead. "One bad": the worst trial stands among the clean ones.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import begin, finish, markdown, measure_all
from sdil.algorithms import make_judge

KITCHENS = ("cramped_room.npz", "asymmetric_advantages.npz")
STAY, OWN, WINDOW, SMOOTHED = 4, 9, 100, 11
REFERENCES = ("not staying", "own state changed", "dropping at random")
COLUMNS = ("score", "segments", "trials", "steps", "moving steps", "random span", "borrowed span")


def cut(trials: Any, measure: Any) -> list[sdil.Trajectory]:
    """Windows of each trial, none much shorter than the others."""
    found = []
    for name, observations, actions in trials:
        starts = [a for a in range(0, len(actions), WINDOW) if len(actions) - a >= WINDOW // 2]
        for a, b in zip(starts, [*starts[1:], len(actions)], strict=True):
            found.append(
                sdil.Trajectory(
                    observations=np.asarray(observations[a : b + 1], np.float32),
                    actions=np.asarray(actions[a:b], np.int64),
                    terminated=False,
                    id=f"{name}/{a}",
                    group=measure.trial_of(name),
                )
            )
    return found


def smooth(values: Any, lengths: list[int]) -> Any:
    kernel, parts = np.ones(SMOOTHED), np.split(values, np.cumsum(lengths)[:-1])
    return np.concatenate(
        [
            np.convolve(p, kernel, "same") / np.convolve(np.ones(len(p)), kernel, "same")
            for p in parts
        ]
    )


def run_cell(data: str, kitchen: str, seed: int, judge: str, one_bad: bool) -> dict[str, Any]:
    """One choice of the held-out trial."""
    import torch
    from sklearn.metrics import roc_auc_score

    torch.set_num_threads(1)
    sys.path.insert(0, data)
    measure: Any = import_module("measure")

    play = measure.load(Path(data) / kitchen)
    clean, held_out, noisy = measure.split(play, seed)
    if one_bad:
        worst = min(play, key=lambda name: (play[name]["final_score"], name))
        bad = [t for t in noisy if measure.trial_of(t[0]) == measure.trial_of(worst)]
        noisy = [t for t in noisy if measure.trial_of(t[0]) != measure.trial_of(worst)]
        clean = clean + bad
    cell: dict[str, Any] = {"kitchen": kitchen, "seed": seed, "judge": judge, "one_bad": one_bad}
    begun = time.process_time()
    if judge in REFERENCES:
        rng = np.random.default_rng(seed)

        def scored(trials: Any) -> list[Any]:
            return [
                a != STAY
                if judge == "not staying"
                else (np.abs(np.diff(o[:, :OWN], axis=0)) > 0).any(1)
                if judge == "own state changed"
                else rng.random(len(a))
                for _, o, a in trials
            ]

        steps = quality = sound = scored
    else:
        demos = sdil.Demonstrations(clean=cut(clean, measure), noisy=cut(noisy, measure))
        fitted = make_judge(judge).fit(demos, seed=seed)
        cell["heard"] = [f"{s.output}:{s.name}" for s in fitted.signals if s.heard]
        cell["odd"] = sorted(getattr(fitted, "odd", {}))

        def asked(trials: Any) -> Any:
            return fitted.score(
                [
                    sdil.Trajectory(
                        np.asarray(o, np.float32), np.asarray(a, np.int64), None, False, n
                    )
                    for n, o, a in trials
                ]
            )

        def steps(trials: Any) -> list[Any]:
            return [s.optimality for s in asked(trials)]

        def quality(trials: Any) -> list[Any]:
            return [s.optimality if s.quality is None else s.quality for s in asked(trials)]

        def sound(trials: Any) -> list[Any]:
            return [
                s.optimality if s.integrity is None else np.nan_to_num(s.integrity, nan=1.0)
                for s in asked(trials)
            ]

    names = [name for name, _, _ in noisy]
    of_steps = list(measure.measure(play, dict(zip(names, steps(noisy), strict=True))).values())
    of_episodes = list(
        measure.measure(play, dict(zip(names, quality(noisy), strict=True))).values()
    )
    cell |= dict(zip(COLUMNS[1:5], [*of_episodes[:2], *of_steps[2:]], strict=True))
    for borrowed, column in ((False, "random span"), (True, "borrowed span")):
        rng = np.random.default_rng(seed)
        spoilt, replaced = [], []
        for name, observations, actions in held_out:
            other, mask = measure.replace_actions(actions, rng, borrowed=borrowed)
            spoilt.append((name, observations, other))
            replaced.append(mask)
        lengths, found = [len(m) for m in replaced], np.concatenate(replaced)
        for key, tell in ((column, steps), (f"{column}, integrity", sound)):
            values = smooth(np.concatenate(tell(spoilt)).astype(float), lengths)
            cell[key] = float(roc_auc_score(~found, values))
    cell["seconds"] = time.process_time() - begun
    return cell


def heard_by_chance(data: str, kitchen: str, seed: int) -> dict[str, Any]:
    """What the episode output hears where the clean trials are three at random."""
    import torch

    torch.set_num_threads(1)
    sys.path.insert(0, data)
    measure: Any = import_module("measure")

    play = measure.load(Path(data) / kitchen)
    trials = sorted({measure.trial_of(name) for name in play})
    chosen = set(np.random.default_rng(seed).permutation(trials)[:3].tolist())
    parts: dict[bool, list[Any]] = {True: [], False: []}
    for name, p in play.items():
        parts[measure.trial_of(name) in chosen].append((name, p["observations"], p["actions"]))
    demos = sdil.Demonstrations(clean=cut(parts[True], measure), noisy=cut(parts[False], measure))
    fitted = sdil.Judge().fit(demos, seed=seed)
    return {s.name: s.heard for s in fitted.signals if s.output == "episode"}


def main(
    data: Path = Path("../shared/data/overcooked-human"),
    judges: tuple[str, ...] = ("evidence", *REFERENCES),
    seeds: tuple[int, ...] = (0, 1, 2, 3),
    random_choices: int = 0,
    one_bad: bool = True,
    workers: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, and print Markdown tables.

    Args:
        data: Folder of the kitchens, with measure.py.
        judges: Judges, and references of one line.
        seeds: Choices of the held-out trial.
        random_choices: In how many random choices of clean trials to look at what is heard; then
            nothing else is measured.
        one_bad: Also with the worst trial among the clean ones.
        workers: Processes.
        json: Save everything to this file.
    """
    if not (data / "measure.py").is_file():
        sys.exit(f"{data} has no measure.py; the play of people is not ours to bundle")
    place = str(data.resolve())
    about = begin(judges=list(judges), seeds=list(seeds))
    if random_choices:
        choices = [(place, KITCHENS[i % 2], i) for i in range(random_choices)]
        found = measure_all(heard_by_chance, choices, workers)
        lines = [[name, f"{np.mean([f[name] for f in found]):.1%}"] for name in found[0]]
        print(markdown(("episode signal", f"heard in {random_choices} random choices"), lines))
        finish(about, found, [], json)
        return
    jobs = [
        (place, kitchen, seed, judge, bad)
        for judge in judges
        for bad in ((False, True) if one_bad and judge not in REFERENCES else (False,))
        for kitchen in KITCHENS
        for seed in seeds
    ]
    cells = measure_all(run_cell, jobs, workers)
    columns = (*COLUMNS, "random span, integrity", "borrowed span, integrity", "seconds")
    lines = []
    for judge in judges:
        for bad in (False, True):
            mine = [c for c in cells if c["judge"] == judge and c["one_bad"] == bad]
            if mine:
                means = [float(np.mean([c[key] for c in mine])) for key in columns[1:]]
                label = f"{judge}, one bad" if bad else judge
                lines.append([label, *(f"{value:.2f}" for value in means)])
    print(markdown(columns, lines))
    for cell in cells:
        if "heard" in cell:
            where = f"{cell['kitchen']}, {cell['seed']}{', one bad' if cell['one_bad'] else ''}"
            print(f"- {cell['judge']}, {where}: {', '.join(cell['heard'])}; odd: {cell['odd']}")
    finish(about, cells, [], json)


if __name__ == "__main__":
    tyro.cli(main)
