"""Who runs errands, and what is true of their steps: which are good, and which sub-skill each is.

A sub-skill is a walk, by moves alone, that ends with one `use`: open the door, switch on the heat,
fetch the cup, fetch the bread, bring what is carried to the table, bring it to the oven. Clean
demonstrations are those of four operators, who differ in the order of the three errands, in whether
they open the door or go round by the passage, and in how they turn corners. Noisy ones are made of
the same six sub-skills in other sequences, with things mostly brought to the wrong place, and of
aimless walks between them; they never get done.

A step is good if it brings closer the end of the sub-skill that one of the four operators would
be at in this state. So fetching the bread first is as good as fetching the cup first, though one of
them takes longer; carrying the cup to the oven is not good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.spaces import Array
from sdil.table import Table, TableWalk
from sdil.tasks.errands import DOOR, HELD, IN_OVEN, MOVES, ON_TABLE, USE, State, table
from sdil.tasks.experts import ExpertKind
from sdil.tasks.task import NoiseKind, Progress, check_counts, check_share
from sdil.trajectories import Trajectory
from sdil.truth import Truth

SKILL_NAMES = (
    *("open the door", "switch on the heat", "fetch the cup", "fetch the bread"),
    *("bring to the table", "bring to the oven", "aimless"),
)
OPEN_DOOR, SWITCH_ON, FETCH_CUP, FETCH_BREAD, TO_TABLE, TO_OVEN, AIMLESS = range(7)

# Set once, before any learner of ours was tried on the task but BC; not to be changed.
CARELESS = 0.05  # share of random steps, clean and noisy
SUB_SKILLS = (4, 8)  # of a noisy demonstration: at least, and fewer than
AIMLESS_SHARE = 0.2  # of its sub-skills
ASTRAY = 0.8  # how often what it carries goes to the wrong place
AIMLESS_STEPS = (4, 11)  # of an aimless walk: at least, and fewer than


@dataclass(frozen=True)
class Operator:
    """A way of running the errands."""

    order: tuple[int, int, int]
    """Of the errands: FETCH_CUP, FETCH_BREAD and SWITCH_ON. All want the oven hot before they fetch
    the bread."""
    by_the_door: bool
    """Whether the door is opened for carrying things through; else the way is the passage."""
    across_first: bool
    """Of two moves that lead as close: left or right before up or down."""

    def sub_skill(self, state: State) -> int:
        """What is done next."""
        if state.full:
            cup = state.cup == HELD
            elsewhere = state.x < DOOR[0] if cup else state.x > DOOR[0]
            if self.by_the_door and not state.door and elsewhere:
                return OPEN_DOOR
            return TO_TABLE if cup else TO_OVEN
        done = {
            FETCH_CUP: state.cup == ON_TABLE,
            FETCH_BREAD: state.bread == IN_OVEN,
            SWITCH_ON: state.heat == 1,
        }
        return next((errand for errand in self.order if not done[errand]), FETCH_CUP)


CUP_FIRST, BREAD_FIRST = (FETCH_CUP, SWITCH_ON, FETCH_BREAD), (SWITCH_ON, FETCH_BREAD, FETCH_CUP)
OPERATORS = (
    Operator(CUP_FIRST, by_the_door=True, across_first=False),
    Operator(BREAD_FIRST, by_the_door=False, across_first=True),
    Operator(CUP_FIRST, by_the_door=False, across_first=True),
    Operator(BREAD_FIRST, by_the_door=True, across_first=False),
)


@cache
def sub_skill_table(skill: int) -> Table:
    """The rooms as someone at this sub-skill sees them: they move, and one `use` is the end."""
    rooms, states = table(), all_states()
    after = rooms.next_state.copy()
    end = np.zeros(after.shape, bool)
    end[:, USE] = [_ends(skill, a, states[n]) for a, n in zip(states, after[:, USE], strict=True)]
    after[:, USE] = np.arange(len(rooms))
    return replace(rooms, next_state=after, end=end, reward=end.astype(float))


def _ends(skill: int, state: State, after: State) -> bool:
    """Whether a `use` that leads from one state to the other is the end of this sub-skill."""
    put = (after.cup if state.cup == HELD else after.bread) if state.full else HELD
    return {
        OPEN_DOOR: after.door > state.door,
        SWITCH_ON: after.heat > state.heat,
        FETCH_CUP: after.cup == HELD != state.cup,
        FETCH_BREAD: after.bread == HELD != state.bread,
        TO_TABLE: put == ON_TABLE,
        TO_OVEN: put == IN_OVEN,
    }[skill]


@cache
def all_states() -> tuple[State, ...]:
    """Those of the table, by their number."""
    return tuple(State(*state) for state in table().states)  # type: ignore[misc]


@cache
def next_sub_skills(operator: Operator) -> Array:
    """The sub-skill that an operator is at in each state. (S,)"""
    return np.array([operator.sub_skill(state) for state in all_states()])


@cache
def good() -> Array:
    """Which steps bring one of the operators closer to the end of what it is at. (S, A)"""
    closer = np.stack([sub_skill_table(skill).good for skill in range(AIMLESS)])  # (6, S, A)
    at = np.arange(len(table()))
    found: Array = np.any([closer[next_sub_skills(o), at] for o in OPERATORS], 0)
    return found & ~table().end.all(1, keepdims=True)


@cache
def way(skill: int, across_first: bool) -> Array:
    """The action of someone at this sub-skill in each state; -1 where it has no end. (S,)"""
    return _first(sub_skill_table(skill).good, across_first)


def _first(closer: Array, across_first: bool) -> Array:
    order = np.array([2, 3, 0, 1, USE] if across_first else range(len(MOVES) + 1))
    ordered = closer[:, order]
    return np.where(ordered.any(1), order[np.argmax(ordered, 1)], -1)


@dataclass(frozen=True, eq=False)
class ErrandsTask:
    """Clean: four operators, a little careless. Noisy: the same sub-skills to no end."""

    name: str = "errands"
    environment: str = "sdil/errands-v0"
    noises: tuple[NoiseKind, ...] = ("paper",)

    @property
    def table(self) -> Callable[[], Table]:
        return table

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
        """Demonstrations, and of every step whether it was good and which sub-skill it was.

        Operators take turns. An episode is a group of its own: with four operators, leaving one out
        would leave out a way of doing it.
        """
        check_counts(clean, noisy)
        if expert != "planner":
            raise InputError(f"errands has no {expert} agent; its planner is exact")
        if noise != "paper":
            raise InputError(f"errands has no noise {noise!r}; its noisy set runs other errands")
        made: dict[str, list[_Walk]] = {"clean": [], "noisy": []}
        shares = (clean_random_steps, noisy_random_steps)
        for which, (name, count) in enumerate((("clean", clean), ("noisy", noisy))):
            share = CARELESS if shares[which] is None else check_share(float(shares[which] or 0.0))
            draw = np.random.default_rng([seed, which])
            for i in range(count):
                start = int(draw.integers(2**31))
                rng = np.random.default_rng(draw.integers(2**63))
                walk = _Walk(table().start_state(start), OPERATORS[i % len(OPERATORS)], share, rng)
                walk.run_errands() if name == "clean" else walk.run_others()
                made[name].append(walk)
                if on_progress is not None:
                    on_progress(len(made["clean"]) + len(made["noisy"]), clean + noisy)
        demos = Demonstrations(
            clean=[walk.trajectory(f"clean-{i}") for i, walk in enumerate(made["clean"])],
            noisy=[walk.trajectory(f"noisy-{i}") for i, walk in enumerate(made["noisy"])],
            spaces=table().spaces,
        )
        return demos, Truth(
            clean_good=[walk.good for walk in made["clean"]],
            noisy_good=[walk.good for walk in made["noisy"]],
            clean_skill=[np.array(walk.skills, np.int8) for walk in made["clean"]],
            noisy_skill=[np.array(walk.skills, np.int8) for walk in made["noisy"]],
            skill_names=SKILL_NAMES,
        )


class _Walk:
    """One episode in the making."""

    def __init__(
        self, start: int, operator: Operator, careless: float, rng: np.random.Generator
    ) -> None:
        self.operator, self.careless, self.rng = operator, careless, rng
        self.walk = TableWalk(table(), start)
        self.states, self.actions = [start], list[int]()
        self.rewards, self.skills = list[float](), list[int]()
        self.ended = False

    @property
    def over(self) -> bool:
        return self.ended or bool(self.walk.out_of_time)

    @property
    def good(self) -> Array:
        return good()[self.states[:-1], self.actions]

    def step(self, action: int, skill: int) -> None:
        """This action, or carelessly another one that does not end the episode."""
        at = self.states[-1]
        if self.rng.random() < self.careless:
            others = np.flatnonzero(~table().end[at])
            action = int(self.rng.choice(others))
        earned, ended, _ = self.walk.step(action)
        self.ended = bool(ended)
        self.actions.append(action)
        self.rewards.append(float(earned))
        self.skills.append(skill)
        self.states.append(int(self.walk.at))

    def run_errands(self) -> None:
        """As the operator does it, to the end."""
        doing = next_sub_skills(self.operator)
        while not self.over:
            skill = int(doing[self.states[-1]])
            action = int(way(skill, self.operator.across_first)[self.states[-1]])
            self.step(action, skill)

    def run_others(self) -> None:
        """Some of the same sub-skills, and aimless walks between them; never to the end."""
        for _ in range(int(self.rng.integers(*SUB_SKILLS))):
            aimless = self.rng.random() < AIMLESS_SHARE
            skill = AIMLESS if aimless else self._other_sub_skill()
            if skill == AIMLESS:
                self._stroll(int(self.rng.integers(*AIMLESS_STEPS)))
            else:
                self._follow(skill)

    def _stroll(self, steps: int) -> None:
        """Straight on, and another way where that is blocked."""
        heading = int(self.rng.integers(len(MOVES)))
        for _ in range(steps):
            at = self.states[-1]
            free = np.flatnonzero(table().next_state[at, :USE] != at)
            if heading not in free:
                heading = int(self.rng.choice(free))
            if not self.over:
                self.step(heading, AIMLESS)

    def _other_sub_skill(self) -> int:
        """One that can be done here, drawn; what is carried mostly goes to the wrong place."""
        at, state = self.states[-1], all_states()[self.states[-1]]
        if state.full and (state.door or self.rng.random() < 0.5):
            right, wrong = (TO_TABLE, TO_OVEN) if state.cup == HELD else (TO_OVEN, TO_TABLE)
            return wrong if self.rng.random() < ASTRAY else right
        choice = (OPEN_DOOR,) if state.full else (OPEN_DOOR, SWITCH_ON, FETCH_CUP, FETCH_BREAD)
        possible = [skill for skill in choice if way(skill, False)[at] >= 0]
        if not possible:
            return AIMLESS
        return int(self.rng.choice(possible))

    def _follow(self, skill: int) -> None:
        """Until the sub-skill is done; but the last step of all is never taken."""
        actions, ends = way(skill, self.operator.across_first), sub_skill_table(skill).end
        while not self.over:
            at = self.states[-1]
            action = int(actions[at])
            if action < 0 or table().end[at, action]:
                return
            self.step(action, skill)
            if ends[at, self.actions[-1]]:
                return

    def trajectory(self, name: str) -> Trajectory:
        return Trajectory(
            observations=table().observe(np.array(self.states)),
            actions=np.array(self.actions, np.int64),
            rewards=np.array(self.rewards),
            terminated=self.ended,
            id=name,
        )


TASK = ErrandsTask()
