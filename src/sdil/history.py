"""What episodes that are being acted in have behind them, and what was planned for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sdil.observations import observation_shape, observation_type
from sdil.spaces import Array, Spaces, element_shape, element_type
from sdil.windows import Window, cut


@dataclass(frozen=True)
class History:
    """The last M steps of n episodes that are being acted in, newest at the end."""

    states: Tensor
    """(n, M, *observation)"""
    actions: Tensor
    """(n, M, *action)"""
    ages: Tensor
    """How many steps each episode has behind it. (n,)"""
    planned: Tensor | None = None
    """What it will do next, where a policy acts on several predictions. (n, K, *action)"""
    pending: Tensor | None = None
    """How many of the last of these are still to be done. (n,)"""

    @staticmethod
    def none(spaces: Spaces, n: int, look_back: int) -> History:
        """What n episodes that begin now have behind them."""
        observation, action = spaces.observation, spaces.action
        states = np.zeros(
            (n, look_back, *observation_shape(observation)), observation_type(observation)
        )
        actions = np.zeros((n, look_back, *element_shape(action)), element_type(action))
        ages = torch.zeros(n, dtype=torch.int64)
        return History(torch.from_numpy(states), torch.from_numpy(actions), ages)

    def window(self, observations: Tensor) -> Window:
        """What a policy sees now; cut by the same code as the windows it was trained on."""
        n, look_back = self.actions.shape[:2]
        states = torch.cat([self.states, observations[:, None]], 1)  # (n, M+1, *observation)
        numbers = torch.arange(n)
        return cut(
            states.flatten(0, 1),
            self.actions.flatten(0, 1),
            rows=numbers * (look_back + 1) + look_back,
            steps=numbers * look_back + look_back,
            times=self.ages,
            look_back=look_back,
        )

    def after(self, observations: Tensor, actions: Tensor) -> History:
        """The history one step later."""
        if self.actions.shape[1] == 0:
            return replace(self, ages=self.ages + 1)
        return replace(
            self,
            states=torch.cat([self.states[:, 1:], observations[:, None]], 1),
            actions=torch.cat([self.actions[:, 1:], actions[:, None]], 1),
            ages=self.ages + 1,
        )

    def keep(self, episodes: Array) -> History:
        """The part that belongs to these episodes."""
        chosen = torch.from_numpy(episodes)
        planned, pending = (
            None if part is None else part[chosen] for part in (self.planned, self.pending)
        )
        return History(
            self.states[chosen], self.actions[chosen], self.ages[chosen], planned, pending
        )

    def restarted(self, episode_start: Tensor) -> History:
        """The same, with nothing behind the episodes that start now."""
        pending = None if self.pending is None else torch.where(episode_start, 0, self.pending)
        return replace(self, ages=torch.where(episode_start, 0, self.ages), pending=pending)
