"""PushT: people push a T-shaped block onto a target (Chi et al. 2023). Nothing is bundled.

`read` makes demonstrations of a Zarr store that the user has (Diffusion Policy's
`pusht_cchi_v7_replay`): clean are the quickest episodes, noisy the others. Seen are 6 numbers:
hand (x, y), block (x, y), cosine and sine of the block's angle; the action is where the hand is
sent (x, y); all in pixels of 512. Nobody labelled the steps; what the block covers of the target
follows from the states, and whether it rises or falls is for measuring only.

The environment is `gym-pusht`'s physics, where that is installed. It pulls in pygame, which
overwrites pygame-ce, so: `pip install --no-deps gym-pusht pymunk==6.11.1` and
`pip install cffi shapely opencv-python-headless`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectory

ENVIRONMENT = "sdil/pusht-v0"
CLEAN = 40
SIZE = 512.0
BOXES = ((-60.0, 0.0, 60.0, 30.0), (-15.0, 30.0, 15.0, 120.0))  # the T: low x, y, high x, y
AREA = 6300.0
TARGET = (256.0, 256.0, np.pi / 4)
COVERED = 0.77  # people ended between this and 0.90
MAX_STEPS = 300
_FIELDS = ("data/state", "data/action", "meta/episode_ends")


@dataclass(frozen=True, eq=False)
class People:
    """What people did, and what came of it."""

    demos: Demonstrations
    clean_coverage: list[Array]
    """Per clean episode (T,): the share of the target that is covered at each step's beginning."""
    noisy_coverage: list[Array]


def read(path: str | Path, *, clean: int = CLEAN, noisy: int | None = None) -> People:
    """Demonstrations of a store: the `clean` quickest episodes, and `noisy` others or all."""
    state, action, ends = _load(Path(path))
    starts = np.concatenate([[0], ends[:-1]])
    lengths = ends - starts
    if not 1 <= clean <= len(ends):
        raise InputError(f"{path} has {len(ends)} episodes: {clean} of them cannot be clean")
    if noisy is not None and not 0 <= noisy <= len(ends) - clean:
        raise InputError(f"{path} has {len(ends)} episodes: {noisy} cannot be noisy beside {clean}")
    order = np.argsort(lengths, kind="stable")
    quick, others = order[:clean], np.sort(order[clean:])
    others = others if noisy is None else others[:noisy]
    covered = coverage(state)

    def cut(i: int) -> Trajectory:
        steps = slice(int(starts[i]), int(ends[i]))
        return Trajectory(
            see(state[steps]),
            np.clip(action[steps], 0.0, SIZE).astype(np.float32),
            id=f"people-{i}",
        )

    demos = Demonstrations(
        clean=[cut(i) for i in quick], noisy=[cut(i) for i in others], spaces=spaces()
    )
    parts = {i: covered[starts[i] : ends[i]] for i in range(len(ends))}
    return People(demos, [parts[i] for i in quick], [parts[i] for i in others])


def _load(path: Path) -> tuple[Array, Array, Array]:
    try:
        import zarr
    except ImportError as error:
        raise InputError(f"reading {path} needs Zarr: pip install zarr ({error})") from None
    try:
        store: Any = zarr.open_group(str(path), mode="r")
        state, action, ends = (np.asarray(store[name][:]) for name in _FIELDS)
    except Exception as error:  # Zarr has many of its own
        raise InputError(f"{path} is no Zarr store with {', '.join(_FIELDS)}: {error}") from None
    rows = len(state)
    if state.shape != (rows, 5) or action.shape != (rows, 2) or ends.ndim != 1 or not len(ends):
        raise InputError(
            f"{path}: data/state {state.shape} must be (N, 5), data/action {action.shape} (N, 2) "
            f"and meta/episode_ends {ends.shape} a list of ends"
        )
    ends = ends.astype(np.int64)
    if np.any(np.diff(ends, prepend=0) < 1) or ends[-1] != rows:
        raise InputError(f"{path}: meta/episode_ends must rise from above 0 to {rows}")
    for name, values in (("data/state", state), ("data/action", action)):
        bad = np.flatnonzero(~np.isfinite(values).all(1))
        if len(bad):
            raise InputError(f"{path}: {name}, row {bad[0]} is not a number")
    return state.astype(np.float64), action.astype(np.float64), ends


def see(state: Array) -> Array:
    """What is seen of states (n, 5): angles by cosine and sine. (n, 6)"""
    angle = state[:, 4:5]
    return np.concatenate([state[:, :4], np.cos(angle), np.sin(angle)], 1).astype(np.float32)


def spaces() -> Spaces:
    """Those of the task."""
    return Spaces(
        gym.spaces.Box(-np.inf, np.inf, (6,), np.float32),
        gym.spaces.Box(0.0, SIZE, (2,), np.float32),
    )


def coverage(state: Array) -> Array:
    """The share of the target that the block covers in states (n, 5), exactly. (n,)

    The outline of what two boxes have in common is made of what either has of its own outline
    inside the other; its area follows from these lines.
    """
    target = np.tile(TARGET, (len(state), 1))
    block = state[:, 2:5]
    area = np.zeros(len(state))
    for one in BOXES:
        for other in BOXES:
            area += _outline_inside(one, block, other, target)
            area += _outline_inside(other, target, one, block)
    share: Array = area / AREA
    return share


def _outline_inside(
    one: tuple[float, ...], at: Array, other: tuple[float, ...], to: Array
) -> Array:
    """Half the sum of cross products of one box's edges, as far as they lie in the other. (n,)"""
    x0, y0, x1, y1 = one
    corners = _place(np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)]), at)  # (n, 4, 2)
    start, end = corners, np.roll(corners, -1, 1)
    inside_start, inside_end = _local(start, to), _local(end, to)
    way = inside_end - inside_start
    way = np.where(np.abs(way) < 1e-12, 1e-12, way)
    low = (np.array(other[:2]) - inside_start) / way
    high = (np.array(other[2:]) - inside_start) / way
    enters = np.clip(np.minimum(low, high).max(-1), 0.0, 1.0)  # (n, 4)
    leaves = np.clip(np.maximum(low, high).min(-1), 0.0, 1.0)
    leaves = np.maximum(enters, leaves)
    a = start + enters[..., None] * (end - start) - 256.0
    b = start + leaves[..., None] * (end - start) - 256.0
    half: Array = 0.5 * (a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]).sum(1)
    return half


def _place(points: Array, at: Array) -> Array:
    """Points (m, 2) turned and moved to poses (n, 3). (n, m, 2)"""
    turn = _turn(at[:, 2])
    return np.einsum("nij,mj->nmi", turn, points) + at[:, None, :2]


def _local(points: Array, at: Array) -> Array:
    """Points (n, m, 2) as seen from poses (n, 3). (n, m, 2)"""
    return np.einsum("nji,nmj->nmi", _turn(at[:, 2]), points - at[:, None, :2])


def _turn(angle: Array) -> Array:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)


class PushT(gym.Env[Array, Array]):
    """gym-pusht's physics; what an episode earns is the most of the target it ever covered."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # Gymnasium's form

    def __init__(self, render_mode: str | None = None) -> None:
        try:
            from gym_pusht.envs.pusht import PushTEnv
        except ImportError as error:
            raise InputError(
                "pusht needs gym-pusht, pymunk, shapely and OpenCV, installed without what "
                f"gym-pusht asks for: docs/control.md says how ({error})"
            ) from None
        self.render_mode = render_mode
        self.world: Any = PushTEnv(obs_type="state")
        self.observation_space, self.action_space = spaces().observation, spaces().action
        self.best, self.steps = 0.0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start anywhere, or in `options["state"]` (5,), the block turned before it is moved."""
        super().reset(seed=seed)
        self.world.reset(seed=int(self.np_random.integers(2**31)))
        if options is not None and "state" in options:
            self.set_state(np.asarray(options["state"], np.float64))
        self.best, self.steps = float(coverage(self.state()[None])[0]), 0
        return see(self.state()[None])[0], {}

    def set_state(self, state: Array) -> None:
        """The angle first: turning the block moves it, for it turns about its middle."""
        self.world.agent.position = list(state[:2])
        self.world.block.angle = float(state[4])
        self.world.block.position = list(state[2:4])
        self.world.space.step(self.world.dt)

    def state(self) -> Array:
        """Hand, block and the block's angle. (5,)"""
        world = self.world
        return np.array([*world.agent.position, *world.block.position, world.block.angle])

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.world.step(np.clip(np.asarray(action, np.float64), 0.0, SIZE))
        self.steps += 1
        covered = float(coverage(self.state()[None])[0])
        gain = max(covered - self.best, 0.0) + (self.best if self.steps == 1 else 0.0)
        self.best = max(self.best, covered)
        over = self.steps >= MAX_STEPS
        info = {"is_success": self.best >= COVERED} if over else {}
        return see(self.state()[None])[0], gain, False, over, info

    def render(self) -> Array:
        return self.draw(see(self.state()[None])[0])

    @staticmethod
    def draw(observation: Array) -> Array:
        """What is seen, drawn from above. (height, width, 3)"""
        picture = np.full((128, 128, 3), 245, np.uint8)
        rows, columns = np.indices((128, 128))
        pixels = (np.stack([columns.ravel(), rows.ravel()], 1) + 0.5) * 4.0  # (n, 2)
        angle = float(np.arctan2(observation[5], observation[4]))
        block = np.array([[observation[2], observation[3], angle]], float)
        for pose, colour in ((np.array([TARGET]), (140, 200, 150)), (block, (120, 130, 150))):
            local = _local(pixels[None], pose)[0]
            for x0, y0, x1, y1 in BOXES:
                inside = (local >= (x0, y0)).all(1) & (local <= (x1, y1)).all(1)
                picture[inside.reshape(128, 128)] = colour
        hand = np.hypot(*(pixels - observation[:2]).T).reshape(128, 128) <= 15.0
        picture[hand] = (40, 90, 200)
        return picture
