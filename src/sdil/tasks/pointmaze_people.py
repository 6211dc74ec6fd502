"""Who demonstrates PointMaze: a planner with an unsteady hand, and what goes wrong with it.

The planner takes the shortest way round the walls at a pace of its own. The truth of a step is
exact: it is good if it shortens the way to the goal by at least half of what the best push can,
which is 0.2 (|u_x| + |u_y|) where the way heads towards u.

The strengths below were fixed before any judge was tried (2026-11-17, seeds 100 and up). The aim:
the log-likelihood of clones of 10 clean episodes alone tells good steps with an AUROC of 0.75 to
0.85, and cloning both sets earns less than half of what cloning the good steps does;
docs/control.md has what was measured. They are not to be changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.spaces import Array
from sdil.tasks.experts import ExpertKind
from sdil.tasks.pointmaze import (
    GOAL_RADIUS,
    GOALS,
    MAX_STEPS,
    OTHER_GOALS,
    STEP,
    draw_episode,
    maze,
    push_all,
    reward_at,
    spaces,
)
from sdil.tasks.task import NoiseKind, Progress, check_counts
from sdil.trajectories import Trajectory
from sdil.truth import Truth

SEGMENT_NAMES = ("good", "detour", "hesitation", "tremor")
_GOOD, _DETOUR, _HESITATION, _TREMOR = range(4)

GOOD_GAIN = 0.5  # of the best possible gain
PACE = (0.75, 1.0)  # of a full push, drawn once for an episode
UNSTEADY = 0.2  # standard deviation of the hand, in pushes
LINGERING = 0.8  # how much of its deviation is left a step later
INTERRUPTIONS = (3, 6)  # up to, not including, the last: likewise below
GOOD_STEPS = (5, 15)  # of a good stretch
DETOUR_STEPS = (40, 100)  # towards the other goal
OTHER_STEPS = (20, 60)  # of hesitation or tremor
KINDS = (0.5, 0.25, 0.25)  # how often a bad stretch is a detour, hesitation, tremor
HESITANT_PACE = (0.0, 0.1)  # of one's own pace, drawn at every step
HESITANT_HAND = 0.05
TREMBLING_PACE = 0.3
TREMBLING_HAND = 0.7  # here nothing lingers


@dataclass(frozen=True, eq=False)
class _Script:
    """What one demonstrator means to do at each step, whatever comes of it."""

    start: Array
    goal: Array
    aim: Array
    """Where they head. (MAX_STEPS, 2)"""
    pace: Array
    """(MAX_STEPS,)"""
    hand: Array
    """What is added to their pushes. (MAX_STEPS, 2)"""
    segment: Array
    """(MAX_STEPS,)"""


@dataclass(frozen=True)
class PointMazeTask:
    """Clean: the planner. Noisy: it heads to other goals, or is interrupted."""

    name: str = "pointmaze"
    environment: str = "sdil/pointmaze-v0"
    noises: tuple[NoiseKind, ...] = ("paper", "segments")

    def table(self) -> None:
        """There is none: places are real numbers."""

    def collect(
        self,
        *,
        clean: int,
        noisy: int,
        seed: int,
        expert: ExpertKind = "planner",
        noise: NoiseKind = "paper",
        clean_random_steps: float | None = None,
        noisy_random_steps: float | None = None,
        on_progress: Progress | None = None,
    ) -> tuple[Demonstrations, Truth]:
        """Demonstrations of this task, and for every step whether it was good.

        "paper" is the noise of the paper's FourRooms: they head to other goals. "segments": good
        stretches between detours to the other goal, hesitation and tremor.
        """
        check_counts(clean, noisy)
        if expert != "planner":
            raise InputError(f"pointmaze has no {expert} agent; its planner is exact")
        if noise not in self.noises:
            raise InputError(f"pointmaze has no noise {noise!r}; it has {', '.join(self.noises)}")
        if clean_random_steps is not None or noisy_random_steps is not None:
            raise InputError("pointmaze has no share of random steps: its noise is fixed")
        made = []
        for which, (kind, count) in enumerate((("clean", clean), (noise, noisy))):
            # a stream per episode: the first ones are the same however many are asked for
            seeds = np.random.default_rng([seed, which]).integers(2**63, size=count)
            scripts = [_write(kind, np.random.default_rng(s)) for s in seeds]
            made.append(_perform(scripts, "noisy" if which else "clean", kind == "paper"))
            if on_progress is not None:
                on_progress(clean + which * noisy, clean + noisy)
        demos = Demonstrations(
            clean=[e.trajectory for e in made[0]],
            noisy=[e.trajectory for e in made[1]],
            spaces=spaces(),
        )
        known = noise == "segments"
        return demos, Truth(
            clean_good=[e.good for e in made[0]],
            noisy_good=[e.good for e in made[1]],
            noisy_segment=[e.segments for e in made[1]] if known else None,
            segment_names=SEGMENT_NAMES if known else (),
        )


def _write(kind: str, rng: np.random.Generator) -> _Script:
    """A script: who heads where, how fast and how steadily."""
    start, goal = draw_episode(rng)
    pace = rng.uniform(*PACE)
    aim, paces = np.tile(goal, (MAX_STEPS, 1)), np.full(MAX_STEPS, pace)
    segment = np.zeros(MAX_STEPS, np.int8)
    steady, fresh = rng.normal(size=(MAX_STEPS, 2)), rng.normal(size=(MAX_STEPS, 2))
    for t in range(1, MAX_STEPS):
        steady[t] = LINGERING * steady[t - 1] + (1 - LINGERING**2) ** 0.5 * steady[t]
    hand = UNSTEADY * steady
    if kind == "paper":
        aim[:] = _another(OTHER_GOALS, start, goal, rng)
    elif kind == "segments":
        at = 0
        for _ in range(int(rng.integers(*INTERRUPTIONS))):
            at += int(rng.integers(*GOOD_STEPS))
            bad = int(rng.choice([_DETOUR, _HESITATION, _TREMOR], p=KINDS))
            length = int(rng.integers(*(DETOUR_STEPS if bad == _DETOUR else OTHER_STEPS)))
            stretch = slice(at, at + length)
            segment[stretch] = bad
            if bad == _DETOUR:
                aim[stretch] = _another(GOALS, None, goal, rng)
            elif bad == _HESITATION:
                paces[stretch] = pace * rng.uniform(*HESITANT_PACE, MAX_STEPS)[stretch]
                hand[stretch] = HESITANT_HAND * steady[stretch]
            else:
                paces[stretch] = pace * TREMBLING_PACE
                hand[stretch] = TREMBLING_HAND * fresh[stretch]
            at += length
    return _Script(start, goal, aim, paces, hand, segment)


def _another(
    cells: tuple[tuple[int, int], ...], start: Array | None, goal: Array, rng: np.random.Generator
) -> Array:
    """The centre of one of these cells that is neither the goal nor where one is."""
    places = [maze().centre(*cell) for cell in cells]
    avoid = [goal] if start is None else [goal, start]
    apart = [p for p in places if all(np.linalg.norm(p - a) > 2 * GOAL_RADIUS for a in avoid)]
    return apart[int(rng.integers(len(apart)))]


@dataclass(frozen=True, eq=False)
class _Episode:
    trajectory: Trajectory
    good: Array
    segments: Array


def _perform(scripts: list[_Script], name: str, ends_at_aim: bool) -> list[_Episode]:
    """All scripts abreast; an episode is over where its goal, or its aim, is reached."""
    n = len(scripts)
    places = np.zeros((MAX_STEPS + 1, n, 2))
    actions = np.zeros((MAX_STEPS, n, 2), np.float32)
    good = np.zeros((MAX_STEPS, n), bool)
    lengths = np.full(n, MAX_STEPS)
    goals = np.array([script.goal for script in scripts]).reshape(n, 2)
    places[0] = np.array([script.start for script in scripts]).reshape(n, 2)
    running = np.arange(n)
    if n:
        left, heading = maze().look(places[0], _towards(scripts, 0))
    for t in range(MAX_STEPS):
        if not len(running):
            break
        here = places[t, running]
        mine = [scripts[i] for i in running]
        towards = heading[:, 1] / np.abs(heading[:, 1]).max(1, keepdims=True)
        slow = np.minimum(left[:, 1:] / STEP, 1.0)  # at an aim that is no goal one stays
        pace = np.array([script.pace[t] for script in mine])[:, None] * slow
        hand = np.array([script.hand[t] for script in mine])
        actions[t, running] = np.clip(pace * towards + hand, -1.0, 1.0)
        after = places[t + 1, running] = push_all(here, actions[t, running])
        then, heading_then = maze().look(after, _towards(mine, min(t + 1, MAX_STEPS - 1)))
        best = STEP * np.abs(heading[:, 0]).sum(1)
        good[t, running] = left[:, 0] - then[:, 0] >= GOOD_GAIN * best
        ends = np.array([script.aim[t] for script in mine]) if ends_at_aim else goals[running]
        over = np.linalg.norm(after - ends, axis=1) <= GOAL_RADIUS
        lengths[running[over]] = t + 1
        running, left, heading = running[~over], then[~over], heading_then[~over]
    episodes = []
    for i, length in enumerate(lengths):
        path = places[: length + 1, i]
        arrived = bool(np.linalg.norm(path[-1] - goals[i]) <= GOAL_RADIUS)
        rewards = np.zeros(length)
        rewards[-1] = reward_at(int(length)) if arrived else 0.0
        seen = np.concatenate([path, np.tile(goals[i], (len(path), 1))], 1).astype(np.float32)
        trajectory = Trajectory(
            seen, actions[:length, i], rewards=rewards, terminated=arrived, id=f"{name}-{i}"
        )
        episodes.append(_Episode(trajectory, good[:length, i], scripts[i].segment[:length]))
    return episodes


def _towards(scripts: list[_Script], t: int) -> Array:
    """The goal and the present aim of each. (n, 2, 2)"""
    return np.array([(script.goal, script.aim[t]) for script in scripts])


TASK = PointMazeTask()
