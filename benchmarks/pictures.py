"""How quickly tasks are drawn, and how large the page of filmed demonstrations is.

    python benchmarks/pictures.py
    python benchmarks/pictures.py --tasks pick-place     # needs sdil[control], and OpenGL

PushT is drawn from made-up states: what it shows costs nothing. `stepping` is an environment with
random actions, its pictures included; where there is none, or it is not installed, a dash.

The page is of made-up photographs, 160 x 120 with a grain, of several cameras: hard to compress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import tyro

from common.report import Target, begin, finish, print_table
from sdil import Demonstrations, Trajectory, get_task
from sdil.scores import StepScores
from sdil.spaces import Array, Spaces

Name = Literal["fourrooms", "doorkey-5x5", "doorkey-6x6", "doorkey-8x8", "pusht", "pick-place"]
ALL: tuple[Name, ...] = ("fourrooms", "doorkey-5x5", "doorkey-6x6", "pusht", "pick-place")
WANTED = {"fourrooms": 1e4, "doorkey-5x5": 1e4, "doorkey-6x6": 1e4, "pusht": 25_650 / 60}


def main(
    tasks: tuple[Name, ...] = ALL,
    pictures: int = 20_000,
    filmed: int = 100,
    steps: int = 150,
    cameras: int = 2,
    seed: int = 0,
    json: Path | None = None,
) -> None:
    """Measure, and print a table.

    Args:
        tasks: Which to draw.
        pictures: Of each; of pick-place a hundredth of it.
        filmed: Demonstrations on the page.
        steps: Of each of them.
        cameras: That saw them.
        seed: What is drawn follows from it.
        json: Save everything to this file.
    """
    about = begin(
        seed=seed,
        sizes=f"{pictures} pictures each, of pick-place {pictures // 100}; a page of {filmed} "
        f"demonstrations of {steps} steps and {cameras} cameras",
    )
    rows: list[dict[str, Any]] = []
    for task in tasks:
        draw, count = drawer(task, np.random.default_rng(seed), pictures)
        draw(min(count, 100))  # what is made once is not counted
        spent, shape = cpu(lambda: draw(count))  # noqa: B023  # called at once
        rows.append(
            {
                "task": task,
                "shape": shape,
                "per_second": count / spent,
                "stepping": stepped(task, min(count, 2_000)),
            }
        )
    print_table(
        ["task", "picture", "pictures/s", "steps/s"],
        [
            [
                r["task"],
                "x".join(map(str, r["shape"])),
                f"{r['per_second']:,.0f}",
                "-" if r["stepping"] is None else f"{r['stepping']:,.0f}",
            ]
            for r in rows
        ],
    )
    targets = [
        Target(f"{r['task']}: pictures/s", r["per_second"], at_least=WANTED[r["task"]])
        for r in rows
        if r["task"] in WANTED
    ]
    page = page_of(filmed, steps, cameras, np.random.default_rng(seed))
    rows.append(page)
    print(
        f"page {page['megabytes']:.1f} MB, strips {page['strips']:.1f} MB of it, a picture every "
        f"{page['every']:.1f} steps, {page['pixels']} pixels wide, made in {page['seconds']:.0f} s "
        "of CPU\n"
    )
    targets.append(Target(f"page of {filmed} demonstrations, MB", page["megabytes"], at_most=15.0))
    finish(about, rows, targets, json)


def page_of(episodes: int, steps: int, n_cameras: int, rng: np.random.Generator) -> dict[str, Any]:
    """How large the page of so many demonstrations is."""
    from sdil.explanation.explain import explain
    from sdil.report.page import render

    texture = rng.normal(size=(120, 160, 3)).cumsum(0).cumsum(1)
    texture = 60 + 120 * (texture - texture.min()) / np.ptp(texture)
    rows, columns = np.indices((120, 160))

    class Filmed:
        cameras = tuple(f"camera {i}" for i in range(n_cameras))

        def look(self, kind: str, index: int, camera: str, steps: Array) -> Iterator[Array]:
            way = np.random.default_rng([index, len(kind), self.cameras.index(camera)])
            x, y = 80.0, 60.0
            for _ in steps:
                x, y = x + way.normal(0, 4), y + way.normal(0, 4)
                picture = texture + way.normal(0, 6, texture.shape)
                picture[(columns - x) ** 2 + (rows - y) ** 2 < 300] = (220, 60, 40)
                yield np.clip(picture, 0, 255).astype(np.uint8)

    def episode(i: int) -> Trajectory:
        states = rng.normal(size=(steps, 7)).astype(np.float32)
        return Trajectory(states, states[:, :2], id=f"episode {i}")

    every = [episode(i) for i in range(episodes)]
    fifth = max(episodes // 5, 1)
    demos = Demonstrations(clean=every[:fifth], noisy=every[fifth:])
    began = time.process_time()
    record = explain(Even(demos.spaces), demos, about={}, filmed=Filmed(), pictures=episodes)
    page = render(record)
    strips = [strip for found in record.strips.values() for strip in found.values()]
    return {
        "page": episodes,
        "megabytes": len(page.encode()) / 1e6,
        "strips": sum(len(strip.image) for strip in strips) / 1e6,
        "every": float(np.mean([strip.every for strip in strips])),
        "pixels": max(strip.width for strip in strips),
        "seconds": time.process_time() - began,
    }


class Even:
    """A judge that says nothing: the page is about pictures."""

    hyperparameters: Mapping[str, Any] = {}

    def __init__(self, spaces: Spaces) -> None:
        self.spaces = spaces

    def score(self, trajectories: Sequence[Trajectory]) -> list[StepScores]:
        return [StepScores(np.linspace(-1, 1, len(t))) for t in trajectories]


def drawer(
    task: Name, rng: np.random.Generator, pictures: int
) -> tuple[Callable[[int], tuple[int, ...]], int]:
    """What draws so many pictures and tells the shape of one, and how many there are to be."""
    if task == "pick-place":
        from sdil.tasks.sawyer import simulator

        world = simulator(task)
        moment = world.begin(0)

        def by_mujoco(n: int) -> tuple[int, ...]:
            *_, last = (world.picture(moment).shape for _ in range(n))
            return last

        return by_mujoco, max(pictures // 100, 1)
    if task == "pusht":
        from sdil.tasks.pusht import draw_states

        states = rng.uniform([0, 0, 100, 100, -3], [512, 512, 400, 400, 3], (pictures, 5))
        return lambda n: draw_states(states[:n]).shape[1:], pictures
    made = get_task(f"{task}-images")
    table = made.table()
    if table is None:
        raise SystemExit(f"{task} has no table: leave it out")
    seen: Array = rng.integers(len(table), size=pictures)

    def by_table(n: int) -> tuple[int, ...]:
        parts = np.array_split(seen[:n], max(n // 1_000, 1))  # as many as episodes run abreast
        *_, last = (table.observe(part).shape[1:] for part in parts)
        return last

    return by_table, pictures


def stepped(task: Name, steps: int) -> float | None:
    """Steps in a second of CPU, taken at random in the environment, each with its picture."""
    from sdil import InputError

    try:
        env = gym.make(f"sdil/{task}-images-v0", disable_env_checker=True)
        env.action_space.seed(0)
        env.reset(seed=0)
    except InputError:
        return None

    def walk() -> tuple[int, ...]:
        for i in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset(seed=i)
        return ()

    spent, _ = cpu(walk)
    env.close()
    return steps / spent


def cpu(work: Callable[[], tuple[int, ...]]) -> tuple[float, tuple[int, ...]]:
    """Seconds of CPU, and what came of it."""
    began = time.process_time()
    answer = work()
    return time.process_time() - began, answer


if __name__ == "__main__":
    tyro.cli(main)
