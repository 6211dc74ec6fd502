"""A small world of real-valued actions: a point in the plane that is to come to the middle."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from sdil import Demonstrations, Trajectory


class Reaching(gym.Env):
    """The point moves by a fifth of the action; within 0.2 of the middle the episode ends."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        angle = self.np_random.uniform(0, 2 * np.pi)
        self.at = 1.5 * np.array([np.cos(angle), np.sin(angle)], np.float32)
        self.clock = 0
        return self.at.copy(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.at = np.clip(self.at + 0.2 * action, -9, 9).astype(np.float32)
        self.clock += 1
        there = bool(np.linalg.norm(self.at) < 0.2)
        return self.at.copy(), float(there), there, self.clock >= 20, {"is_success": there}


def expert(at):
    return np.clip(-2.0 * at, -1, 1).astype(np.float32)


def demonstrate(n, seed, wrong=0.0, name="e"):
    """Episodes in which a share of steps go anywhere."""
    env, rng, episodes = Reaching(), np.random.default_rng(seed), []
    for i in range(n):
        seen, actions, over = [env.reset(seed=seed * 1000 + i)[0]], [], False
        while not over:
            action = expert(seen[-1])
            if rng.random() < wrong:
                action = rng.uniform(-1, 1, 2).astype(np.float32)
            else:
                action = np.clip(action + 0.1 * rng.normal(size=2), -1, 1).astype(np.float32)
            after, _, ended, cut, _ = env.step(action)
            seen.append(after)
            actions.append(action)
            over = ended or cut
        episodes.append(Trajectory(np.stack(seen), np.stack(actions), None, ended, f"{name}{i}"))
    return episodes


def reaching_demos(clean=8, noisy=12, seed=0):
    return Demonstrations(demonstrate(clean, seed), demonstrate(noisy, seed + 1, 0.5, "n"))
