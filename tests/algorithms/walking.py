"""A square that walks along a corridor, seen as a picture of 12 x 12: to the right is good."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from sdil import Demonstrations, Spaces, Trajectory

SIDE, STEPS = 12, 8
KINDS = ("last", "first", "grey", "parts")


def picture(place: int) -> np.ndarray:
    seen = np.zeros((SIDE, SIDE, 3), np.uint8)
    seen[5:7, place : place + 2] = (255, 200, 0)
    return seen


def as_kind(pictures: np.ndarray, kind: str) -> Any:
    """Pictures (T, H, W, 3) with channels last, first, grey, or as a part beside a number."""
    if kind == "first":
        return np.ascontiguousarray(np.moveaxis(pictures, -1, 1))
    if kind == "grey":
        return np.ascontiguousarray(pictures[..., 0])
    if kind == "parts":
        place = pictures[:, 5, :, 0].argmax(1).astype(np.float32)[:, None]
        return {"camera": pictures, "place": place}
    return pictures


def walks(kind: str = "last", clean: int = 6, noisy: int = 12, seed: int = 0) -> Demonstrations:
    """Clean ones walk right, noisy ones as they like."""
    rng = np.random.default_rng(seed)

    def walk(good: bool, name: str) -> Trajectory:
        place, seen, taken = int(rng.integers(0, 5)), [], []
        for _ in range(STEPS):
            seen.append(picture(place))
            action = 1 if good and rng.random() < 0.9 else int(rng.integers(2))
            taken.append(action)
            place = min(SIDE - 2, max(0, place + 2 * action - 1))
        seen.append(picture(place))
        return Trajectory(as_kind(np.stack(seen), kind), np.array(taken), id=name)

    return Demonstrations(
        [walk(True, f"clean-{i}") for i in range(clean)],
        [walk(False, f"noisy-{i}") for i in range(noisy)],
    )


class Corridor(gym.Env):
    """Where they walk."""

    observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place, self.clock = int(self.np_random.integers(5)), 0
        return picture(self.place), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.place = min(SIDE - 2, max(0, self.place + 2 * int(action) - 1))
        self.clock += 1
        done = self.place == SIDE - 2
        return picture(self.place), float(done), done, self.clock >= STEPS, {"is_success": done}


def spaces() -> Spaces:
    return Spaces(Corridor.observation_space, Corridor.action_space)
