"""An arm at a table: pick-place and drawer-open of Meta-World 3.1 (McLean et al. 2025).

The action is (4,): where the hand goes, by 1 cm along each axis for 1.0, and how hard it grips.
Seen are 10 numbers: hand (3), how far the fingers are apart, object (3), goal (3), in metres; that
is what Meta-World's scripted policies look at. An episode ends when the object is where it should
be (Meta-World's `success`) and then earns `1 - 0.9 * steps / 200`; its shaped reward is not used.
The simulator is Meta-World's own (`sdil[control]`). Where things lie follows from the seed. How it
is demonstrated is in `sawyer_people.py`.

With `images`, seen is one camera instead, 64 x 64: MuJoCo renders, without shadows and reflections,
which take most of the time. That needs OpenGL without a display, by `MUJOCO_GL=egl` (the default
here) or `MUJOCO_GL=osmesa`; where a driver draws another pixel, so does an observation.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.spaces import Array, Spaces

TaskName = Literal["pick-place", "drawer-open"]
MAX_STEPS = 200
TIME_COST = 0.9
NEAR = {"pick-place": 0.07, "drawer-open": 0.03}  # how near the goal counts as there: Meta-World's
_VIEW = ((-0.5, 0.5), (0.35, 1.05), (0.0, 0.5))  # what is drawn along x, y and z
_PIXELS = 160  # for a metre
PICTURE = 64  # pixels a side
_CAMERA = {"azimuth": 225.0, "elevation": -35.0, "distance": 0.85}  # over the free front corner
_LOOKS_AT = (0.0, 0.7, 0.12)  # the middle of where the puck and its goal may be


@dataclass(frozen=True, eq=False)
class Moment:
    """All there is to know at one moment; a step makes another one of it."""

    physics: Array
    """MuJoCo's whole state."""
    place: Array
    """Where the cupboard stands; without one, zeros. (3,)"""
    seen: Array
    """(10,)"""

    def arrived(self, task: TaskName) -> bool:
        return float(np.linalg.norm(self.seen[4:7] - self.seen[7:])) <= NEAR[task]


@cache
def simulator(task: TaskName) -> Simulator:
    """The one simulator of a task: models are large, moments are small."""
    return Simulator(task)


class Simulator:
    """Meta-World's environment as a function from moments and actions to moments."""

    def __init__(self, task: TaskName) -> None:
        try:
            import mujoco
            from metaworld.envs import SawyerDrawerOpenEnvV3, SawyerPickPlaceEnvV3
        except ImportError as error:
            raise InputError(
                f'{task} needs Meta-World and MuJoCo: pip install "sdil[control]" ({error})'
            ) from None
        self.mujoco = mujoco
        self.drawer = task == "drawer-open"
        self.env: Any = SawyerDrawerOpenEnvV3() if self.drawer else SawyerPickPlaceEnvV3()
        self.env._set_task_called, self.env._freeze_rand_vec = True, False
        self.env.seeded_rand_vec = True
        self.kind = mujoco.mjtState.mjSTATE_INTEGRATION
        self.size = mujoco.mj_stateSize(self.env.model, self.kind)

    def begin(self, seed: int) -> Moment:
        """The start of the episode with this seed."""
        self.env.seed(seed)
        self.env.reset()
        self.mujoco.mj_forward(self.env.model, self.env.data)  # the cupboard was moved
        return self._now(np.asarray(self.env._target_pos))

    def step(self, moment: Moment, action: Array) -> Moment:
        """What comes of an action."""
        model, data = self.env.model, self.env.data
        if self.drawer:
            model.body("drawer").pos = moment.place
        self.mujoco.mj_setState(model, data, moment.physics, self.kind)
        push = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        self.env.set_xyz_action(push[:3])
        self.env.do_simulation([push[3], -push[3]], n_frames=self.env.frame_skip)
        return self._now(moment.seen[7:])

    def picture(self, moment: Moment) -> Array:
        """What the camera sees of a moment. (64, 64, 3) uint8"""
        model, data = self.env.model, self.env.data
        model.site("goal").pos = moment.seen[7:]
        self.mujoco.mj_setState(model, data, moment.physics, self.kind)
        self.mujoco.mj_forward(model, data)
        renderer, camera = self._camera
        renderer.update_scene(data, camera=camera)
        seen: Array = renderer.render()
        return seen

    @cached_property
    def _camera(self) -> tuple[Any, Any]:
        self.env.model.vis.quality.offsamples = 0
        by = os.environ.get("MUJOCO_GL") or "egl"
        try:
            if by == "egl":  # MuJoCo reads MUJOCO_GL when it is imported, and would open a window
                from mujoco import egl, gl_context

                gl_context.GLContext = egl.GLContext
            renderer = self.mujoco.Renderer(self.env.model, PICTURE, PICTURE)
        except Exception as error:  # OpenGL's, MuJoCo's, or an AttributeError: a missing library
            raise InputError(
                f"MuJoCo cannot draw pictures here by MUJOCO_GL={by}: install EGL (Debian: "
                "libegl1), or OSMesa (libosmesa6) and set MUJOCO_GL=osmesa "
                f"({type(error).__name__}: {error})"
            ) from None
        atexit.register(renderer.close)  # before OpenGL itself is gone
        for flag in ("mjRND_SHADOW", "mjRND_REFLECTION"):
            renderer.scene.flags[getattr(self.mujoco.mjtRndFlag, flag)] = 0
        camera = self.mujoco.MjvCamera()
        camera.lookat[:] = _LOOKS_AT
        for name, value in _CAMERA.items():
            setattr(camera, name, value)
        return renderer, camera

    def _now(self, goal: Array) -> Moment:
        physics = np.empty(self.size)
        self.mujoco.mj_getState(self.env.model, self.env.data, physics, self.kind)
        place = self.env.model.body("drawer").pos.copy() if self.drawer else np.zeros(3)
        hand_and_object = self.env._get_curr_obs_combined_no_goal()[:7]
        return Moment(physics, place, np.concatenate([hand_and_object, goal]))


def spaces(*, images: bool = False) -> Spaces:
    """Those of both tasks."""
    numbers = gym.spaces.Box(-np.inf, np.inf, (10,), np.float32)
    pictures = gym.spaces.Box(0, 255, (PICTURE, PICTURE, 3), np.uint8)
    return Spaces(
        pictures if images else numbers,
        gym.spaces.Box(-1.0, 1.0, (4,), np.float32),
    )


def reward_at(step: int) -> float:
    """What arriving with this step earns."""
    return 1.0 - TIME_COST * step / MAX_STEPS


class Sawyer(gym.Env[Array, Array]):
    """One episode at the table."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  # Gymnasium's form

    def __init__(
        self, task: TaskName, render_mode: str | None = None, *, images: bool = False
    ) -> None:
        self.task, self.render_mode, self.images = task, render_mode, images
        self.simulator = simulator(task)
        ours = spaces(images=images)
        self.observation_space, self.action_space = ours.observation, ours.action
        self.moment: Moment | None = None
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.moment = self.simulator.begin(int(self.np_random.integers(2**31)))
        self.steps = 0
        return self._look(self.moment), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if self.moment is None:
            raise InputError("the episode has not begun: call reset")
        self.moment = self.simulator.step(self.moment, action)
        self.steps += 1
        arrived = self.moment.arrived(self.task)
        over = not arrived and self.steps >= MAX_STEPS
        info = {"is_success": arrived} if arrived or over else {}
        reward = reward_at(self.steps) if arrived else 0.0
        return self._look(self.moment), reward, arrived, over, info

    def _look(self, moment: Moment) -> Array:
        return self.simulator.picture(moment) if self.images else moment.seen.astype(np.float32)

    def render(self) -> Array:
        if self.moment is None:
            raise InputError("the episode has not begun: call reset")
        return self.draw(self.moment.seen)

    @staticmethod
    def draw(observation: Array) -> Array:
        """What is seen, drawn from above and, under it, from the side. (height, width, 3)"""
        views = []
        for across, up in ((0, 1), (0, 2)):
            low = np.array([_VIEW[across][0], _VIEW[up][0]])
            size = (np.array([_VIEW[across][1], _VIEW[up][1]]) - low) * _PIXELS
            picture = np.full((round(size[1]), round(size[0]), 3), 245, np.uint8)
            rows, columns = np.indices(picture.shape[:2])
            for first, radius, colour in (
                (7, 0.03, (90, 180, 100)),
                (4, 0.025, (200, 60, 50)),
                (0, 0.02 + 0.02 * float(observation[3]), (40, 90, 200)),
            ):
                x, y = (np.asarray(observation)[[first + across, first + up]] - low) * _PIXELS
                away = np.hypot(columns - x, picture.shape[0] - 1 - rows - y) / _PIXELS
                hand = first == 0  # a ring: what it holds stays in sight
                picture[
                    (away <= radius) & (away >= radius - 0.012 * hand - radius * (not hand))
                ] = colour
            picture[-1] = 160
            views.append(picture)
        return np.concatenate(views)
