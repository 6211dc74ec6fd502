"""What every learner returns: a policy that acts like Stable-Baselines3's.

The look-back history travels in `state`, so `stable_baselines3`'s `evaluate_policy` and any
Gymnasium loop work unchanged. Saved as safetensors and JSON, never as pickle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from sdil.errors import InputError
from sdil.files import new_file, read_json, write_json
from sdil.spaces import Array, Spaces, element_shape
from sdil.windows import Window, cut

FORMAT_VERSION = 1


@dataclass(frozen=True)
class History:
    """The last M steps of n episodes that are being acted in, newest at the end."""

    states: Tensor
    """(n, M, *observation)"""
    actions: Tensor
    """(n, M, *action)"""
    ages: Tensor
    """How many steps each episode has behind it. (n,)"""

    @staticmethod
    def none(spaces: Spaces, n: int, look_back: int) -> History:
        """What n episodes that begin now have behind them."""
        observation, action = spaces.observation, spaces.action
        states = np.zeros((n, look_back, *element_shape(observation)), observation.dtype)
        actions = np.zeros((n, look_back, *element_shape(action)), action.dtype)
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
            return History(self.states, self.actions, self.ages + 1)
        return History(
            torch.cat([self.states[:, 1:], observations[:, None]], 1),
            torch.cat([self.actions[:, 1:], actions[:, None]], 1),
            self.ages + 1,
        )

    def keep(self, episodes: Array) -> History:
        """The part that belongs to these episodes."""
        chosen = torch.from_numpy(episodes)
        return History(self.states[chosen], self.actions[chosen], self.ages[chosen])

    def restarted(self, episode_start: Tensor) -> History:
        """The same, with nothing behind the episodes that start now."""
        return History(self.states, self.actions, torch.where(episode_start, 0, self.ages))


class Policy(ABC):
    """A policy over discrete actions. `spaces` and `look_back` say what it expects."""

    kind: ClassVar[str]
    """The name its class is saved under."""
    spaces: Spaces
    look_back: int
    learner: str
    """The name of the learner that made it, and its hyper-parameters: for the record only."""
    hyperparameters: dict[str, Any]

    @abstractmethod
    def action_probs(self, window: Window) -> Tensor:
        """`p(a | window)`. (B, number of actions), in double precision.

        Double, so that what a policy does cannot depend on how many episodes run side by side:
        the order in which a matrix product is summed varies with the batch.
        """

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Everything that was learned, by name."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """What, beside `tensors`, is needed to build it again; JSON."""

    @classmethod
    @abstractmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> Policy:
        """The inverse of `configuration` and `tensors`."""

    def predict(
        self,
        observation: Array,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, Any]:
        """Actions for one observation or a batch, and the state to pass in next time.

        `state` None means that all episodes start now; `episode_start` (n,) marks those that do.
        With `deterministic` False, actions are drawn with torch's global generator.
        """
        shape = element_shape(self.spaces.observation)
        batch = np.asarray(observation, self.spaces.observation.dtype)
        single = batch.shape == shape
        if single:
            batch = batch[None]
        if batch.shape[1:] != shape:
            raise InputError(
                f"this policy expects observations of shape {shape} or (n, *{shape}), "
                f"not {np.shape(observation)}"
            )
        seen = torch.from_numpy(np.ascontiguousarray(batch))
        history = History.none(self.spaces, len(batch), self.look_back) if state is None else state
        if not isinstance(history, History) or len(history.ages) != len(batch):
            raise InputError(
                "`state` must be what predict returned for the same number of episodes"
            )
        if state is not None and episode_start is not None:
            starts = torch.from_numpy(np.atleast_1d(np.asarray(episode_start, bool)))
            history = history.restarted(starts)
        with torch.no_grad():
            probs = self.action_probs(history.window(seen))  # (n, A)
        chosen = probs.argmax(1) if deterministic else torch.multinomial(probs, 1)[:, 0]
        actions = chosen.numpy()
        history = history.after(seen, chosen)
        return (actions[0] if single else actions), history

    def save(self, folder: str | Path) -> None:
        """Write `policy.safetensors` and `policy.json` into a folder."""
        folder = Path(folder)
        with new_file(folder / "policy.safetensors") as temporary:
            save_file({k: v.contiguous() for k, v in self.tensors().items()}, temporary)
        write_json(
            folder / "policy.json",
            {
                "format": FORMAT_VERSION,
                "kind": self.kind,
                "learner": self.learner,
                "hyperparameters": self.hyperparameters,
                "spaces": self.spaces.to_json(),
                "configuration": self.configuration(),
            },
        )


def read_policy(folder: str | Path, kinds: dict[str, type[Policy]]) -> Policy:
    """Build the policy saved in `folder`; `kinds` maps the saved name to its class."""
    folder = Path(folder)
    if not folder.exists():
        raise InputError(f"{folder} does not exist; `sdil train` makes a run folder")
    path = folder / "policy.json"
    about = read_json(path, what="a finished run (or it was interrupted)")
    version = about.get("format") if isinstance(about, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: format {version!r} is not the one this version reads ({FORMAT_VERSION}); "
            "use the sdil it was trained with, or train again"
        )
    try:
        tensors = load_file(folder / "policy.safetensors")
        policy = kinds[about["kind"]].build(
            Spaces.from_json(about["spaces"]), about["configuration"], tensors
        )
        policy.learner, policy.hyperparameters = about["learner"], about["hyperparameters"]
    except Exception as error:  # safetensors, torch and dictionaries each have their own
        raise InputError(
            f"{folder}: policy.safetensors and policy.json are damaged or do not belong together "
            f"({type(error).__name__}: {error})"
        ) from None
    return policy


def require_vectors_and_discrete_actions(spaces: Spaces, who: str) -> None:
    """Raise where the spaces are not what our networks take."""
    if not isinstance(spaces.action, gym.spaces.Discrete):
        raise InputError(f"{who} needs discrete actions, but the data has {spaces.action}")
    if spaces.action.start != 0:
        raise InputError(f"{who} needs actions that count from 0, but the data has {spaces.action}")
    if not isinstance(spaces.observation, gym.spaces.Box) or len(spaces.observation.shape) != 1:
        raise InputError(
            f"{who} needs vector observations, but the data has {spaces.observation}; "
            "gymnasium.wrappers.FlattenObservation makes them"
        )
