"""The plain policy network that every baseline uses, and the policy that acts with it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sdil.heads import FLOOR, MODES, Distribution, Reduction, make_head
from sdil.judging import FittedJudge
from sdil.networks.encoders import WindowFeatures, mlp
from sdil.networks.eyes import Eyes
from sdil.networks.leaning import Leaning
from sdil.observations import is_vector, observation_shape
from sdil.policy import Policy
from sdil.spaces import Spaces
from sdil.windows import Window, Windows

_LOOKED_AT = 2_048  # frames from which the scale of pictures is taken


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
        self.eyes = None if is_vector(spaces.observation) else Eyes(spaces.observation)
        if self.eyes is None:
            (observation_size,) = observation_shape(spaces.observation)
        else:
            observation_size = self.eyes.size
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
        self.leaning = Leaning.of(self.head)

    def fit_to(self, windows: Windows, *, leans: bool = True) -> None:
        """Take the scale of states and actions from the training steps, and unless told otherwise
        which actions follow which states."""
        self.head.fit(windows.actions[windows.steps])
        if self.eyes is None:
            self.features.standardise.fit(windows)
            if self.leaning is not None and leans:
                self.leaning.fit(windows, self.features.standardise, self.head)
            return
        every = max(1, len(windows) // _LOOKED_AT)
        rows = windows.observations.index_select(0, windows.rows[::every][:_LOOKED_AT])
        self.eyes.look_at(rows)
        with torch.no_grad():  # as its eyes begin; what they make of it changes
            seen = torch.cat([self.eyes(some) for some in rows.split(64)])
        self.features.standardise.take(seen)

    def forward(self, window: Window, shift: Tensor | None = None) -> Tensor:
        """Of the action of now; with `shift` (B, 2), pictures are moved by so many pixels.
        (B, head.size)"""
        features = self.features(self._seen(window, shift))
        outputs: Tensor = self.body(features)
        return self._lean(outputs if self.chunk == 1 else outputs[:, : self.head.size], features)

    def ahead(self, window: Window, shift: Tensor | None = None) -> Tensor:
        """Of the action of now and of those that follow. (B, chunk, head.size)"""
        features = self.features(self._seen(window, shift))
        outputs: Tensor = self.body(features).unflatten(1, (self.chunk, self.head.size))
        return self._lean(outputs, features[:, None])

    def _lean(self, outputs: Tensor, features: Tensor) -> Tensor:
        if self.leaning is None:
            return outputs
        return self.leaning(outputs, features[..., : self.features.observation_size], self.head)

    def _seen(self, window: Window, shift: Tensor | None) -> Window:
        """What its own eyes make of the window, where it has any."""
        if self.eyes is None:
            return window
        n, look_back = window.mask.shape
        if not look_back:
            state = self.eyes(window.state, shift)
            past = state.new_empty(n, 0, state.shape[1])
            return Window(state, past, window.past_actions, window.mask)
        rows = torch.cat([window.state, window.past_states.flatten(0, 1)])
        if shift is not None:
            shift = torch.cat([shift, shift.repeat_interleave(look_back, 0)])
        found = self.eyes(rows, shift)
        past = found[n:].view(n, look_back, found.shape[1]) * window.mask[..., None].to(found.dtype)
        return Window(found[:n], past, window.past_actions, window.mask)

    def nll(
        self,
        windows: Windows,
        index: Tensor,
        reduction: Reduction = "none",
        shift: Tensor | None = None,
    ) -> Tensor:
        """`-log pi(a_t | window)` of these steps (B,), or their mean or sum; where it predicts
        several at once, the mean over those that the episode still has."""
        if self.chunk == 1:
            actions = windows.actions_at(index)
            return self.head.nll(self(windows.at(index), shift), actions, reduction)
        actions, exists = windows.actions_ahead(index, self.chunk)
        each = self.head.nll(self.ahead(windows.at(index), shift), actions) * exists
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
        return Distribution(self._acting.head, self._acting(self.seen_window(window)))

    def plan(self, window: Window) -> Distribution:
        outputs = self._acting.ahead(self.seen_window(window))
        return Distribution(self._acting.head, outputs[:, : self.act_on])

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
