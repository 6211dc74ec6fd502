"""The plain policy network that every baseline uses, and the policy that acts with it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from sdil.heads import FLOOR, MODES, Distribution, Reduction, make_head
from sdil.judging import FittedJudge
from sdil.networks.encoders import WindowFeatures, mlp
from sdil.observations import observation_shape
from sdil.policy import Policy
from sdil.spaces import Spaces
from sdil.windows import Window, Windows


@dataclass(frozen=True)
class Architecture:
    """The size of a plain network."""

    look_back: int
    """Past steps seen beside `s_t`."""
    hidden: int
    """Width of the hidden layers."""
    layers: int
    """Number of hidden layers."""
    regression: bool = False
    """Whether real-valued actions are told by least squares, not by a mixture of Gaussians."""
    modes: int = MODES
    """Gaussians, or ways of acting, side by side."""
    floor: float = FLOOR
    """The least standard deviation of a Gaussian, in standard deviations of the data."""
    chunk: int = 1
    """Actions that are predicted at once: that of now and those that follow."""
    act_on: int = 1
    """As many of them are done before it looks again."""


class PlainNetwork(nn.Module):
    """Window in; out come the outputs that its head takes: of counted actions logits."""

    def __init__(self, spaces: Spaces, architecture: Architecture) -> None:
        super().__init__()
        (observation_size,) = observation_shape(spaces.observation)
        self.head = make_head(
            spaces.action,
            regression=architecture.regression,
            modes=architecture.modes,
            floor=architecture.floor,
        )
        self.chunk = architecture.chunk
        self.features = WindowFeatures(observation_size, self.head, architecture.look_back)
        sizes = architecture.hidden, architecture.layers, self.chunk * self.head.size
        self.body = mlp(self.features.size, *sizes)

    def fit_to(self, windows: Windows) -> None:
        """Take the scale of states and actions from the training steps."""
        self.features.standardise.fit(windows)
        self.head.fit(windows.actions[windows.steps])

    def forward(self, window: Window) -> Tensor:
        """Of the action of now. (B, head.size)"""
        outputs: Tensor = self.body(self.features(window))
        return outputs if self.chunk == 1 else outputs[:, : self.head.size]

    def ahead(self, window: Window) -> Tensor:
        """Of the action of now and of those that follow. (B, chunk, head.size)"""
        outputs: Tensor = self.body(self.features(window))
        return outputs.unflatten(1, (self.chunk, self.head.size))

    def nll(self, windows: Windows, index: Tensor, reduction: Reduction = "none") -> Tensor:
        """`-log pi(a_t | window)` of these steps (B,), or their mean or sum; where it predicts
        several at once, the mean over those that the episode still has."""
        if self.chunk == 1:
            actions = windows.actions_at(index)
            return self.head.nll(self(windows.at(index)), actions, reduction)
        actions, exists = windows.actions_ahead(index, self.chunk)
        each = self.head.nll(self.ahead(windows.at(index)), actions) * exists
        of_step = each.sum(1) / exists.sum(1)
        if reduction == "none":
            return of_step
        return of_step.mean() if reduction == "mean" else of_step.sum()

    def soften(self, temperature: float) -> None:
        """Make it less sure of the same, for good."""
        self.head.soften(self.body, temperature)


class PlainPolicy(Policy):
    """Acts with a `PlainNetwork`."""

    kind = "plain"
    temperature = 1.0
    """By which its logits were divided, or its spread widened, after training; of one that was just
    trained."""

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
        self.act_on = architecture.act_on
        self.judge = judge
        self.learner = learner
        self.hyperparameters = hyperparameters or {}
        self._architecture = architecture
        self._network = network
        self._acting = deepcopy(network).double().requires_grad_(False)

    def distribution(self, window: Window) -> Distribution:
        return Distribution(self._acting.head, self._acting(window))

    def plan(self, window: Window) -> Distribution:
        return Distribution(self._acting.head, self._acting.ahead(window)[:, : self.act_on])

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
