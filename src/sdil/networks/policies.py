"""The plain policy network that every baseline uses, and the policy that acts with it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium as gym
from torch import Tensor, nn

from sdil.judging import FittedJudge
from sdil.networks.encoders import WindowFeatures, mlp, soften
from sdil.policy import Policy
from sdil.spaces import Spaces, element_shape
from sdil.windows import Window


@dataclass(frozen=True)
class Architecture:
    """The size of a plain network."""

    look_back: int
    """Past steps seen beside `s_t`."""
    hidden: int
    """Width of the hidden layers."""
    layers: int
    """Number of hidden layers."""


class PlainNetwork(nn.Module):
    """Window in, action logits out."""

    def __init__(self, spaces: Spaces, architecture: Architecture) -> None:
        super().__init__()
        assert isinstance(spaces.action, gym.spaces.Discrete)
        (observation_size,) = element_shape(spaces.observation)
        n_actions = int(spaces.action.n)
        self.features = WindowFeatures(observation_size, n_actions, architecture.look_back)
        self.body = mlp(self.features.size, architecture.hidden, architecture.layers, n_actions)

    def forward(self, window: Window) -> Tensor:
        logits: Tensor = self.body(self.features(window))  # (B, n_actions)
        return logits

    def soften(self, temperature: float) -> None:
        """Divide the logits by it, for good."""
        soften(self.body, temperature)


class PlainPolicy(Policy):
    """Acts with a `PlainNetwork`."""

    kind = "plain"
    temperature = 1.0
    """By which its logits were divided after training; of one that was just trained."""

    def __init__(
        self,
        spaces: Spaces,
        architecture: Architecture,
        network: PlainNetwork,
        *,
        judge: FittedJudge | None = None,
        learner: str = "",
        hyperparameters: dict[str, Any] | None = None,
    ) -> None:
        self.spaces = spaces
        self.look_back = architecture.look_back
        self.judge = judge
        self.learner = learner
        self.hyperparameters = hyperparameters or {}
        self._architecture = architecture
        self._network = network
        self._acting = deepcopy(network).double().requires_grad_(False)

    def action_probs(self, window: Window) -> Tensor:
        probs: Tensor = self._acting(window).softmax(1)
        return probs

    def tensors(self) -> dict[str, Tensor]:
        return self._network.state_dict()

    def configuration(self) -> dict[str, Any]:
        return asdict(self._architecture)

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> PlainPolicy:
        architecture = Architecture(**configuration)
        network = PlainNetwork(spaces, architecture)
        network.load_state_dict(tensors)
        return cls(spaces, architecture, network)
