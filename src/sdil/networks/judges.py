"""Judges: what a learner has found out about the quality of single steps, and a policy with one.

A judge gives each step a number in [-1, 1]. Most are a logit x of "as an expert would", and
`tanh(x / 2) = 2 sigmoid(x) - 1`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict
from typing import Any, ClassVar

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.demonstrations import pack_given
from sdil.errors import InputError
from sdil.networks.encoders import Standardise, mlp
from sdil.networks.evidence import Evidence, Judgement
from sdil.networks.policies import Architecture, PlainNetwork
from sdil.policy import Policy
from sdil.scores import StepScores
from sdil.spaces import Spaces, element_shape
from sdil.trajectories import Trajectory
from sdil.windows import Window, Windows

_STEPS_AT_ONCE = 8_192


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
        assert isinstance(spaces.action, gym.spaces.Discrete)
        (observation_size,) = element_shape(spaces.observation)
        self.n_actions = int(spaces.action.n) if sees_action else 0
        self.standardise = Standardise(observation_size)
        self.body = mlp(observation_size + self.n_actions + extra, hidden, layers, outputs)

    def forward(
        self, states: Tensor, actions: Tensor | None = None, extra: Tensor | None = None
    ) -> Tensor:
        """(B,), or (B, outputs) where there are several."""
        parts = [self.standardise(states)]
        if self.n_actions:
            assert actions is not None
            parts.append(F.one_hot(actions.long(), self.n_actions).to(parts[0].dtype))
        if extra is not None:
            parts.append(extra[:, None])
        out: Tensor = self.body(torch.cat(parts, 1))
        return out[:, 0] if out.shape[1] == 1 else out


class Judge(nn.Module):
    """Judges steps, given the policy network it was trained with."""

    kind: ClassVar[str]
    """The name its class is saved under."""

    def __init__(self, **configuration: Any) -> None:
        super().__init__()
        self.configuration = configuration

    @abstractmethod
    def optimality(self, windows: Windows, network: PlainNetwork) -> Tensor:
        """How good each step is, in [-1, 1]. (N,)"""

    def judge(self, windows: Windows, network: PlainNetwork) -> Judgement:
        """The same, and what is behind it where there is more to say."""
        return Judgement(self.optimality(windows, network).numpy())


class PairJudge(Judge):
    """A logit of (s, a)."""

    kind = "pair"

    def __init__(self, spaces: Spaces, *, hidden: int, layers: int) -> None:
        super().__init__(hidden=hidden, layers=layers)
        self.logit = StepNetwork(spaces, hidden, layers)

    def optimality(self, windows: Windows, network: PlainNetwork) -> Tensor:
        return _in_parts(windows, lambda w, a, _: torch.tanh(self.logit(w.state, a) / 2))


class LikelihoodJudge(Judge):
    """The probability of the action under a policy cloned from the clean set."""

    kind = "likelihood"

    def __init__(self, spaces: Spaces, *, look_back: int, hidden: int, layers: int) -> None:
        super().__init__(look_back=look_back, hidden=hidden, layers=layers)
        self.clean = PlainNetwork(spaces, Architecture(look_back, hidden, layers))

    def probability(self, window: Window, actions: Tensor) -> Tensor:
        """(B,)"""
        return self.clean(window).softmax(1).gather(1, actions.long()[:, None])[:, 0]

    def optimality(self, windows: Windows, network: PlainNetwork) -> Tensor:
        return _in_parts(windows, lambda w, a, _: 2 * self.probability(w, a) - 1)


class DiscriminatorJudge(Judge):
    """`d(s, a, log pi(a | s))` of DWBC, clipped."""

    kind = "discriminator"

    def __init__(
        self, spaces: Spaces, *, hidden: int, layers: int, least: float, most: float
    ) -> None:
        super().__init__(hidden=hidden, layers=layers, least=least, most=most)
        self.logit = StepNetwork(spaces, hidden, layers, extra=1)
        self.least, self.most = least, most

    def forward(self, states: Tensor, actions: Tensor, log_pi: Tensor) -> Tensor:
        """d, (B,)"""
        return self.logit(states, actions, log_pi).sigmoid().clamp(self.least, self.most)

    def optimality(self, windows: Windows, network: PlainNetwork) -> Tensor:
        def judge(window: Window, actions: Tensor, _: Tensor) -> Tensor:
            log_pi = -F.cross_entropy(network(window), actions.long(), reduction="none")
            return torch.tanh(self.logit(window.state, actions, log_pi) / 2)

        return _in_parts(windows, judge)


class AdvantageJudge(Judge):
    """DemoDICE's weight: `exp(A / (1 + alpha))`, A = r(s, a) + gamma nu(s') - nu(s)."""

    kind = "advantage"

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

    def optimality(self, windows: Windows, network: PlainNetwork) -> Tensor:
        return _in_parts(windows, lambda _w, _a, i: torch.tanh(self.log_weight(windows, i) / 2))


class ExpertiseJudge(Judge):
    """ILEED: expertise `rho = sigmoid(f(s) . omega)`, with an omega for each demonstration.

    That of a new demonstration is the one under which it is most likely.
    """

    kind = "expertise"

    def __init__(self, spaces: Spaces, *, hidden: int, layers: int, size: int) -> None:
        super().__init__(hidden=hidden, layers=layers, size=size)
        assert isinstance(spaces.action, gym.spaces.Discrete)
        self.n_actions = int(spaces.action.n)
        self.embedding = StepNetwork(
            spaces, hidden, layers, sees_action=False, outputs=size + 1
        )  # the last one is a bias, so that even one number suffices

    def expertise(self, states: Tensor, omega: Tensor) -> Tensor:
        """The logit of rho. (B,)"""
        embedded = self.embedding(states)  # (B, size + 1)
        return (embedded[:, :-1] * omega).sum(1) + embedded[:, -1]

    def optimality(self, windows: Windows, network: PlainNetwork) -> Tensor:
        probs = _in_parts(
            windows, lambda w, a, _: network(w).softmax(1).gather(1, a.long()[:, None])[:, 0]
        )
        embedded = _in_parts(windows, lambda w, _a, _i: self.embedding(w.state))
        trajectory = (windows.times == 0).cumsum(0) - 1  # (N,)
        omega = torch.zeros(int(trajectory[-1]) + 1, embedded.shape[1] - 1, dtype=probs.dtype)
        with torch.enable_grad():
            omega.requires_grad_()
            optimiser = torch.optim.Adam([omega], lr=0.1)
            for _ in range(100):
                logit = (embedded[:, :-1] * omega[trajectory]).sum(1) + embedded[:, -1]
                likelihood = mixture_likelihood(logit, probs, self.n_actions)
                loss = -likelihood.log().sum() + 0.5 * omega.square().sum()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        found = omega.detach()
        logit = (embedded[:, :-1] * found[trajectory]).sum(1) + embedded[:, -1]
        return torch.tanh(logit / 2)


class EvidenceJudge(Judge):
    """Several signals together (`networks/evidence.py`)."""

    kind = "evidence"

    inputs: Tensor
    """The entries of an observation that the evidence looks at. (I,)"""

    def __init__(
        self, spaces: Spaces, *, inputs: int, members: int, hidden: int, waypoints: int, states: int
    ) -> None:
        super().__init__(
            inputs=inputs, members=members, hidden=hidden, waypoints=waypoints, states=states
        )
        assert isinstance(spaces.action, gym.spaces.Discrete)
        self.register_buffer("inputs", torch.zeros(inputs, dtype=torch.int64))
        self.evidence = Evidence(
            (inputs, int(spaces.action.n)),
            members=members,
            hidden=hidden,
            waypoints=waypoints,
            states=states,
        )

    @staticmethod
    def of(evidence: Evidence, inputs: Tensor, spaces: Spaces) -> EvidenceJudge:
        """A judge by this evidence, which looks at these entries of an observation."""
        members, _, hidden = evidence.clones.weights[0].shape
        judge = EvidenceJudge(
            spaces,
            inputs=len(inputs),
            members=members,
            hidden=hidden,
            waypoints=len(evidence.waypoints),
            states=len(evidence.states),
        )
        judge.inputs.copy_(inputs)
        judge.evidence.load_state_dict(evidence.state_dict())
        return judge

    def optimality(self, windows: Windows, network: PlainNetwork) -> Tensor:
        return torch.from_numpy(self.judge(windows, network).optimality)

    def judge(self, windows: Windows, network: PlainNetwork) -> Judgement:
        return self.evidence.judge(windows.only(self.inputs))


def mixture_likelihood(logit: Tensor, probs: Tensor, n_actions: int) -> Tensor:
    """`rho pi(a | s) + (1 - rho) / A`. (B,)"""
    rho = logit.sigmoid()
    return rho * probs + (1 - rho) / n_actions


def _in_parts(windows: Windows, judge: Callable[[Window, Tensor, Tensor], Tensor]) -> Tensor:
    """Judge all steps, some thousands at a time. `judge` sees windows, actions, step numbers."""
    with torch.no_grad():
        parts = torch.arange(len(windows)).split(_STEPS_AT_ONCE)
        return torch.cat([judge(windows.at(i), windows.actions_at(i), i) for i in parts])


JUDGES: dict[str, type[Judge]] = {
    judge.kind: judge
    for judge in (
        PairJudge,
        LikelihoodJudge,
        DiscriminatorJudge,
        AdvantageJudge,
        ExpertiseJudge,
        EvidenceJudge,
    )
}


class JudgingPolicy(Policy):
    """Acts with a `PlainNetwork`, and judges steps."""

    kind = "judging"

    def __init__(
        self,
        spaces: Spaces,
        architecture: Architecture,
        network: PlainNetwork,
        judge: Judge,
        *,
        saw_noisy: bool,
        learner: str = "",
        hyperparameters: dict[str, Any] | None = None,
    ) -> None:
        self.spaces = spaces
        self.look_back = architecture.look_back
        self.learner = learner
        self.hyperparameters = hyperparameters or {}
        self._architecture = architecture
        self._saw_noisy = saw_noisy
        self._parts = nn.ModuleDict({"network": network, "judge": judge})
        self._acting = deepcopy(network).double().requires_grad_(False)
        self._judge = deepcopy(judge).double().requires_grad_(False)

    def action_probs(self, window: Window) -> Tensor:
        probs: Tensor = self._acting(window).softmax(1)
        return probs

    def score(self, trajectories: Sequence[Trajectory]) -> list[StepScores]:
        """How good each step of any trajectories is."""
        if not self._saw_noisy:
            raise InputError(
                "this policy was trained without noisy demonstrations, so it cannot tell good "
                "steps from bad ones; train it on a clean and a noisy set"
            )
        if not len(trajectories):
            return []
        packed = pack_given(trajectories, self.spaces)
        windows = Windows(packed, self.look_back)
        return self._judge.judge(windows, self._acting).by_trajectory(packed.split_steps)

    def tensors(self) -> dict[str, Tensor]:
        return self._parts.state_dict()

    def configuration(self) -> dict[str, Any]:
        judge = self._parts["judge"]
        assert isinstance(judge, Judge)
        return {
            "architecture": asdict(self._architecture),
            "judge": {"kind": judge.kind, **judge.configuration},
            "saw_noisy": self._saw_noisy,
        }

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> JudgingPolicy:
        architecture = Architecture(**configuration["architecture"])
        about = dict(configuration["judge"])
        network = PlainNetwork(spaces, architecture)
        judge = JUDGES[about.pop("kind")](spaces=spaces, **about)
        nn.ModuleDict({"network": network, "judge": judge}).load_state_dict(tensors)
        return cls(spaces, architecture, network, judge, saw_noisy=configuration["saw_noisy"])
