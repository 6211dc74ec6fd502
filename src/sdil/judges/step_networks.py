"""Judges that learners have inside: what was found out about single steps while learning to act.

A scorer gives each step a number in [-1, 1]. Most are a logit x of "as an expert would", and
`tanh(x / 2) = 2 sigmoid(x) - 1`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sdil.heads import make_head
from sdil.judging import FittedJudge, Signal
from sdil.networks.encoders import Standardise, mlp
from sdil.networks.policies import Architecture, PlainNetwork
from sdil.observations import observation_shape
from sdil.scores import JudgedSteps
from sdil.spaces import Spaces
from sdil.trajectories import Trajectories
from sdil.windows import Window, Windows


class StepNetwork(nn.Module):
    """`s_t`, and with `sees_action` also `a_t`, and `extra` numbers more, to `outputs` numbers."""

    def __init__(
        self,
        spaces: Spaces,
        hidden: int,
        layers: int,
        *,
        sees_action: bool = True,
        extra: int = 0,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        (observation_size,) = observation_shape(spaces.observation)
        self.standardise = Standardise(observation_size)
        self.head = make_head(spaces.action) if sees_action else None
        seen = 0 if self.head is None else self.head.encoded
        self.body = mlp(observation_size + seen + extra, hidden, layers, outputs)

    def scale_as(self, network: PlainNetwork) -> None:
        """See states and actions in the same units as the policy."""
        self.standardise.load_state_dict(network.features.standardise.state_dict())
        if self.head is not None:
            self.head.load_state_dict(network.head.state_dict())

    def forward(
        self, states: Tensor, actions: Tensor | None = None, extra: Tensor | None = None
    ) -> Tensor:
        """(B,), or (B, outputs) where there are several."""
        parts = [self.inputs(states, actions)]
        if extra is not None:
            parts.append(extra[:, None])
        out: Tensor = self.body(torch.cat(parts, 1))
        return out[:, 0] if out.shape[1] == 1 else out

    def inputs(self, states: Tensor, actions: Tensor | None = None) -> Tensor:
        """What the first layer sees: standardised states, and actions encoded. (B, inputs)"""
        parts = [self.standardise(states)]
        if self.head is not None:
            assert actions is not None
            parts.append(self.head.encode(actions).to(parts[0].dtype))
        return torch.cat(parts, 1)


class StepScorer(nn.Module):
    """Scores steps."""

    kind: ClassVar[str]
    """The name its class is saved under."""
    says: ClassVar[str]
    """What its score means, in a sentence."""
    sees_policy: ClassVar[bool] = False
    """Whether it looks at the policy that it was trained beside."""

    def __init__(self, **configuration: Any) -> None:
        super().__init__()
        self.configuration = configuration

    @abstractmethod
    def optimality(self, windows: Windows, network: PlainNetwork | None) -> Tensor:
        """How good each step is, in [-1, 1]. (N,)"""


class PairScorer(StepScorer):
    """A logit of (s, a)."""

    kind = "pair"
    says = "how much rather a clean step than any other it looks, by a network of (s, a)"

    def __init__(self, spaces: Spaces, *, hidden: int, layers: int) -> None:
        super().__init__(hidden=hidden, layers=layers)
        self.logit = StepNetwork(spaces, hidden, layers)

    def optimality(self, windows: Windows, network: PlainNetwork | None) -> Tensor:
        return _in_parts(windows, lambda w, a, _: torch.tanh(self.logit(w.state, a) / 2))


class LikelihoodScorer(StepScorer):
    """The probability of the action under a policy cloned from the clean set."""

    kind = "likelihood"
    says = "how likely a clone of the clean set finds the action"

    def __init__(self, spaces: Spaces, *, look_back: int, hidden: int, layers: int) -> None:
        super().__init__(look_back=look_back, hidden=hidden, layers=layers)
        self.clean = PlainNetwork(spaces, Architecture(look_back, hidden, layers))

    def probability(self, window: Window, actions: Tensor) -> Tensor:
        """(B,)"""
        return self.clean.head.plausibility(self.clean(window), actions)

    def optimality(self, windows: Windows, network: PlainNetwork | None) -> Tensor:
        return _in_parts(windows, lambda w, a, _: 2 * self.probability(w, a) - 1)


class DiscriminatorScorer(StepScorer):
    """`d(s, a, log pi(a | s))` of DWBC, clipped."""

    kind = "discriminator"
    says = (
        "how much rather a clean step than a noisy one it looks, by a discriminator that "
        "also sees the policy"
    )
    sees_policy = True

    def __init__(
        self, spaces: Spaces, *, hidden: int, layers: int, least: float, most: float
    ) -> None:
        super().__init__(hidden=hidden, layers=layers, least=least, most=most)
        self.logit = StepNetwork(spaces, hidden, layers, extra=1)
        self.least, self.most = least, most

    def forward(self, states: Tensor, actions: Tensor, log_pi: Tensor) -> Tensor:
        """d, (B,)"""
        return self.logit(states, actions, log_pi).sigmoid().clamp(self.least, self.most)

    def optimality(self, windows: Windows, network: PlainNetwork | None) -> Tensor:
        assert network is not None

        def judge(window: Window, actions: Tensor, _: Tensor) -> Tensor:
            log_pi = network.head.log_prob(network(window), actions)
            return torch.tanh(self.logit(window.state, actions, log_pi) / 2)

        return _in_parts(windows, judge)


class AdvantageScorer(StepScorer):
    """DemoDICE's weight: `exp(A / (1 + alpha))`, A = r(s, a) + gamma nu(s') - nu(s)."""

    kind = "advantage"
    says = "its advantage under a reward that tells clean steps from all steps"

    def __init__(
        self, spaces: Spaces, *, hidden: int, layers: int, gamma: float, alpha: float
    ) -> None:
        super().__init__(hidden=hidden, layers=layers, gamma=gamma, alpha=alpha)
        self.logit = StepNetwork(spaces, hidden, layers)
        self.nu = StepNetwork(spaces, hidden, layers, sees_action=False)
        self.nu_end = nn.Parameter(torch.zeros(()))
        """nu of the absorbing state in which ended episodes go on."""
        self.gamma, self.alpha = gamma, alpha

    def log_weight(self, windows: Windows, index: Tensor) -> Tensor:
        """`A / (1 + alpha)` of these steps. (B,)"""
        states = windows.at(index).state
        reward = self.logit(states, windows.actions_at(index))  # log c / (1 - c)
        next_states, exists = windows.next_states_at(index)
        value = self.nu(next_states) * exists.to(reward.dtype)
        value = torch.where(windows.ended[index], self.nu_end, value)
        return (reward + self.gamma * value - self.nu(states)) / (1 + self.alpha)

    def log_weight_of_end(self, reward: float) -> Tensor:
        """The same of a moment in the absorbing state, which leads to itself."""
        return (reward + (self.gamma - 1.0) * self.nu_end) / (1 + self.alpha)

    def optimality(self, windows: Windows, network: PlainNetwork | None) -> Tensor:
        return _in_parts(windows, lambda _w, _a, i: torch.tanh(self.log_weight(windows, i) / 2))


class ExpertiseScorer(StepScorer):
    """ILEED: expertise `rho = sigmoid(f(s) . omega)`, with an omega for each demonstration.

    That of a new demonstration is the one under which it is most likely.
    """

    kind = "expertise"
    says = "how much of an expert its demonstration is, in that state"
    sees_policy = True

    def __init__(self, spaces: Spaces, *, hidden: int, layers: int, size: int) -> None:
        super().__init__(hidden=hidden, layers=layers, size=size)
        self.embedding = StepNetwork(
            spaces, hidden, layers, sees_action=False, outputs=size + 1
        )  # the last one is a bias, so that even one number suffices

    def expertise(self, states: Tensor, omega: Tensor) -> Tensor:
        """The logit of rho. (B,)"""
        embedded = self.embedding(states)  # (B, size + 1)
        return (embedded[:, :-1] * omega).sum(1) + embedded[:, -1]

    def optimality(self, windows: Windows, network: PlainNetwork | None) -> Tensor:
        assert network is not None
        head = network.head
        probs = _in_parts(windows, lambda w, a, _: head.log_prob(network(w), a).exp())
        embedded = _in_parts(windows, lambda w, _a, _i: self.embedding(w.state))
        trajectory = (windows.times == 0).cumsum(0) - 1  # (N,)
        omega = torch.zeros(int(trajectory[-1]) + 1, embedded.shape[1] - 1, dtype=probs.dtype)
        with torch.enable_grad():
            omega.requires_grad_()
            optimiser = torch.optim.Adam([omega], lr=0.1)
            for _ in range(100):
                logit = (embedded[:, :-1] * omega[trajectory]).sum(1) + embedded[:, -1]
                likelihood = mixture_likelihood(logit, probs, math.exp(head.log_uniform))
                loss = -likelihood.log().sum() + 0.5 * omega.square().sum()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        found = omega.detach()
        logit = (embedded[:, :-1] * found[trajectory]).sum(1) + embedded[:, -1]
        return torch.tanh(logit / 2)


def mixture_likelihood(logit: Tensor, probs: Tensor, uniform: float) -> Tensor:
    """`rho pi(a | s) + (1 - rho) / A`, where all actions alike have a probability of 1 / A. (B,)"""
    rho = logit.sigmoid()
    return rho * probs + (1 - rho) * uniform


def _in_parts(windows: Windows, judge: Callable[[Window, Tensor, Tensor], Tensor]) -> Tensor:
    """Judge all steps, some thousands at a time. `judge` sees windows, actions, step numbers."""
    with torch.no_grad():
        return torch.cat([judge(windows.at(i), windows.actions_at(i), i) for i in windows.parts()])


SCORERS: dict[str, type[StepScorer]] = {
    scorer.kind: scorer
    for scorer in (
        PairScorer,
        LikelihoodScorer,
        DiscriminatorScorer,
        AdvantageScorer,
        ExpertiseScorer,
    )
}


class NetworkJudge(FittedJudge):
    """Judges by what a learner has found out about single steps while it learned to act."""

    kind = "networks"

    def __init__(
        self,
        spaces: Spaces,
        architecture: Architecture,
        network: PlainNetwork,
        scorer: StepScorer,
        *,
        name: str = "",
        hyperparameters: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        """`network` is the policy that the scorer was trained beside."""
        self.spaces, self.name, self.seed = spaces, name, seed
        self.hyperparameters = hyperparameters or {}
        self._architecture = architecture
        self._parts = nn.ModuleDict({"scorer": scorer})
        if scorer.sees_policy:
            self._parts["network"] = network
        self._scorer = deepcopy(scorer).double().requires_grad_(False)
        self._network = deepcopy(network).double().requires_grad_(False)

    @property
    def signals(self) -> tuple[Signal, ...]:
        return (Signal(self._scorer.kind, True, self._scorer.says),)

    def judge(self, packed: Trajectories) -> JudgedSteps:
        windows = Windows(packed, self._architecture.look_back)
        return JudgedSteps(self._scorer.optimality(windows, self._network).numpy())

    def tensors(self) -> dict[str, Tensor]:
        return self._parts.state_dict()

    def configuration(self) -> dict[str, Any]:
        return {
            "architecture": asdict(self._architecture),
            "scorer": {"kind": self._scorer.kind, **self._scorer.configuration},
        }

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> NetworkJudge:
        architecture = Architecture(**configuration["architecture"])
        about = dict(configuration["scorer"])
        network = PlainNetwork(spaces, architecture)
        scorer = SCORERS[about.pop("kind")](spaces=spaces, **about)
        parts = nn.ModuleDict({"scorer": scorer})
        if scorer.sees_policy:
            parts["network"] = network
        parts.load_state_dict(tensors)
        return cls(spaces, architecture, network, scorer)
