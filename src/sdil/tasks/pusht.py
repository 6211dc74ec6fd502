"""PushT: people push a T-shaped block onto a target (Chi et al. 2023). Nothing is bundled.

`read` makes demonstrations of a Zarr store that the user has (Diffusion Policy's
`pusht_cchi_v7_replay`): clean are the quickest episodes, noisy the others. Seen are 6 numbers:
hand (x, y), block (x, y), cosine and sine of the block's angle; the action is where the hand is
sent (x, y); all in pixels of 512. Or seen is a picture, `images=True`: 96 x 96, drawn from the
recorded states. Nobody labelled the steps; what the block covers of the target
follows from the states, and whether it rises or falls is for measuring only.

The environment is `gym-pusht`'s physics, where that is installed. It pulls in pygame, which
overwrites pygame-ce, so: `pip install --no-deps gym-pusht pymunk==6.11.1` and
`pip install cffi shapely opencv-python-headless`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectory

CLEAN = 40
SIZE = 512.0
BOXES = ((-60.0, 0.0, 60.0, 30.0), (-15.0, 30.0, 15.0, 120.0))  # the T: low x, y, high x, y
AREA = 6300.0
TARGET = (256.0, 256.0, np.pi / 4)
COVERED = 0.77  # people ended between this and 0.90
MAX_STEPS = 300
PICTURE = 96  # pixels a side
_PAPER, _TARGET, _BLOCK, _HAND = (245, 245, 245), (140, 200, 150), (120, 130, 150), (40, 90, 200)
_HAND_RADIUS = 15.0
_BLOCK_REACH = 124.0  # from where it is held to the end of its stem
_AT_ONCE = 512  # pictures drawn at a time
_FIELDS = ("data/state", "data/action", "meta/episode_ends")


@dataclass(frozen=True, eq=False)
class People:
    """What people did, and what came of it."""

    demos: Demonstrations
    clean_coverage: list[Array]
    """Per clean episode (T,): the share of the target that is covered at each step's beginning."""
    noisy_coverage: list[Array]


def read(
    path: str | Path, *, clean: int = CLEAN, noisy: int | None = None, images: bool = False
) -> People:
    """Demonstrations of a store: the `clean` quickest episodes, and `noisy` others or all.

    With `images`, an observation is a picture of the state instead of 6 numbers of it.
    """
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
    look = draw_states if images else see

    def cut(i: int) -> Trajectory:
        steps = slice(int(starts[i]), int(ends[i]))
        return Trajectory(
            look(state[steps]),
            np.clip(action[steps], 0.0, SIZE).astype(np.float32),
            id=f"people-{i}",
        )

    demos = Demonstrations(
        clean=[cut(i) for i in quick], noisy=[cut(i) for i in others], spaces=spaces(images=images)
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


def spaces(*, images: bool = False) -> Spaces:
    """Those of the task."""
    numbers = gym.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    pictures = gym.spaces.Box(0, 255, (PICTURE, PICTURE, 3), np.uint8)
    return Spaces(
        pictures if images else numbers,
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


def draw_states(state: Array) -> Array:
    """States (n, 5) from above: target, block and hand. (n, 96, 96, 3) uint8

    Edges are smooth: a pixel's share of a shape follows from how far the edge is from its middle.
    """
    pictures = np.empty((len(state), PICTURE, PICTURE, 3), np.uint8)
    for begin in range(0, len(state), _AT_ONCE):
        some = state[begin : begin + _AT_ONCE].astype(np.float32)
        drawn = np.repeat(_empty_table()[None], len(some), 0)
        _paint(drawn, _outside_block, some[:, 2:5], _BLOCK_REACH, _BLOCK)
        _paint(drawn, _outside_hand, some[:, :2], _HAND_RADIUS, _HAND)
        pictures[begin : begin + _AT_ONCE] = drawn
    return pictures


@cache
def _empty_table() -> Array:
    """The target on paper. (96, 96, 3)"""
    drawn = np.full((1, PICTURE, PICTURE, 3), _PAPER, np.uint8)
    target = np.array([TARGET], np.float32)
    _paint(drawn, _outside_block, target, _BLOCK_REACH, _TARGET)
    return drawn[0]


def _paint(
    drawn: Array,
    outside: Callable[[Array, Array], Array],
    pose: Array,
    reach: float,
    colour: tuple[int, ...],
) -> None:
    """Paint a shape at poses (n, 2 or 3) into n pictures, in a window around it of its own size.

    `outside` says how far places (n, m, 2) lie outside of the shape, negative inside. (n, m)
    """
    pixel = SIZE / PICTURE
    side = min(2 * int(np.ceil(reach / pixel)) + 3, PICTURE)
    first = np.clip(
        np.rint(pose[:, :2] / pixel).astype(int) - side // 2, 0, PICTURE - side
    )  # (n, 2)
    columns, rows = (first[:, axis, None] + np.arange(side) for axis in (0, 1))  # (n, side)
    shape = (len(drawn), side, side)
    x, y = (np.broadcast_to(a, shape) for a in (columns[:, None, :], rows[:, :, None]))
    places = (np.stack([x, y], -1, dtype=np.float32) + np.float32(0.5)) * np.float32(pixel)
    away = outside(places.reshape(len(drawn), -1, 2), pose).reshape(shape)
    share = np.clip(0.5 - away / pixel, 0.0, 1.0)[..., None]
    window = np.arange(len(drawn))[:, None, None], rows[:, :, None], columns[:, None, :]
    under = drawn[window]
    drawn[window] = np.rint(under + share * (np.array(colour, np.float32) - under))


def _outside_hand(places: Array, hand: Array) -> Array:
    """How far places (n, m, 2) lie outside of the hand at (n, 2). (n, m)"""
    away: Array = np.hypot(*np.moveaxis(places - hand[:, None], -1, 0)) - _HAND_RADIUS
    return away


def _outside_block(places: Array, pose: Array) -> Array:
    """How far places (n, m, 2) lie outside of the T at poses (n, 3). (n, m)"""
    x, y = np.moveaxis(_local(places, pose), -1, 0)
    bars = [
        np.maximum(abs(x - (x0 + x1) / 2) - (x1 - x0) / 2, abs(y - (y0 + y1) / 2) - (y1 - y0) / 2)
        for x0, y0, x1, y1 in BOXES
    ]
    away: Array = np.minimum(*bars)
    return away


class PushT(gym.Env[Array, Array]):
    """gym-pusht's physics; what an episode earns is the most of the target it ever covered."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # Gymnasium's form

    def __init__(self, render_mode: str | None = None, *, images: bool = False) -> None:
        try:
            from gym_pusht.envs.pusht import PushTEnv
        except ImportError as error:
            raise InputError(
                "pusht needs gym-pusht, pymunk, shapely and OpenCV, installed without what "
                f"gym-pusht asks for: docs/control.md says how ({error})"
            ) from None
        self.render_mode = render_mode
        self.world: Any = PushTEnv(obs_type="state")
        ours = spaces(images=images)
        self.observation_space, self.action_space = ours.observation, ours.action
        self.look = draw_states if images else see
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
        return self.look(self.state()[None])[0], {}

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
        return self.look(self.state()[None])[0], gain, False, over, info

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
