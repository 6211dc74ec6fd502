"""Our judge: a step score from several signals, what each of them says and all of them together.

Goes past the paper, whose score is in `pu.py`. No signal sees the truth, a reward or an
environment: likelihood, progress and value, each in a file of its own. They fail in different
places. Which of them is heard is decided here, once, and remembered; `joining.py` weighs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from sdil.demonstrations import Demonstrations, hold_out
from sdil.errors import InputError
from sdil.judges.ensemble import MEMBERS
from sdil.judges.joining import N_BINS, separation, weigh_signals, worth
from sdil.judges.likelihood import Likelihood
from sdil.judges.progress import WAYPOINTS, Progress
from sdil.judges.value import RecordedGraph, Value
from sdil.judging import NONE_LEFT, FittedJudge, Signal, check_judge
from sdil.limits import Count, PartialShare, Positive, Some, Weight
from sdil.networks.encoders import Standardise
from sdil.scores import JudgedSteps
from sdil.spaces import Array, Spaces
from sdil.training import OnEpoch, Stages, State, generator_of
from sdil.trajectories import Trajectories
from sdil.windows import Windows, varying_inputs

SIGNALS = ("likelihood", "progress", "value")


@dataclass(frozen=True)
class Judge:
    """Judges steps by evidence: likelihood, progress and value."""

    signals: Annotated[str, Some("likelihood", "progress", "value")] = "likelihood+progress+value"
    """The kinds of evidence."""
    good_share: PartialShare = 0.5
    """The share of noisy steps assumed to be good; the data cannot tell it."""
    clone_updates: Count = 400
    """Updates of the clean clones behind the likelihood."""
    distance_updates: Count = 2_000
    """Updates of the temporal distance behind progress."""
    hidden: Count = 64
    """Width of the hidden layers."""
    learning_rate: Positive = 1e-3
    """Adam's step size."""
    weight_decay: Weight = 5e-4
    """L2 penalty on the weights of the clones."""
    batch_size: Count = 256
    """Steps per update."""

    name: ClassVar[str] = "evidence"
    reference: ClassVar[str] = "ours"

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> EvidenceJudge:
        """Learn the signals, decide which are heard, and weigh them."""
        check_judge(demos, self, seed)
        train, held_out = hold_out(demos, valid, seed=seed)
        if not len(train.noisy):
            raise InputError(NONE_LEFT)
        inputs = varying_inputs(train.all)
        generator = generator_of(seed)
        evidence = self._gather(
            Windows(train.all, 0, inputs),
            train.clean.n_steps,
            Windows(held_out, 0, inputs),
            _n_actions(demos.spaces),
            Stages(self, generator, on_epoch, resume),
            generator,
        )
        return EvidenceJudge(
            demos.spaces,
            evidence,
            inputs,
            random_state=generator.get_state(),
            hyperparameters=asdict(self),
            seed=seed,
        )

    def _gather(
        self,
        windows: Windows,
        n_clean: int,
        held_out: Windows,
        n_actions: int,
        stages: Stages,
        generator: torch.Generator,
    ) -> Evidence:
        """From the steps of `windows`, whose first `n_clean` are the clean ones; `held_out` are
        clean steps that are not among them."""
        chosen = self.signals.split("+")
        index = torch.arange(len(windows))
        following, exists = windows.next_states_at(index)
        states = windows.at(index).state
        is_last = torch.cat([windows.times[1:] == 0, torch.ones(1, dtype=torch.bool)])
        last_of = index[is_last][torch.searchsorted(index[is_last], index)]  # of its episode (N,)
        clean = index[:n_clean]
        unit = n_clean / float(is_last[:n_clean].sum())  # mean length of a clean demonstration
        pointed = clean[exists[:n_clean]]
        pointed = pointed[torch.randperm(len(pointed), generator=generator)[:WAYPOINTS]]
        ends = (is_last & exists)[:n_clean].nonzero()[:, 0]
        graph = (
            RecordedGraph.of(windows, following, exists, ends, n_actions)
            if "value" in chosen
            else None
        )
        compared = states[:0] if graph is None else graph.states[graph.several]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
            evidence = Evidence(
                (states.shape[1], n_actions),
                members=MEMBERS,
                hidden=self.hidden,
                waypoints=len(pointed),
                states=len(compared),
            )
        evidence.value.states.copy_(compared)
        evidence.standardise.fit(windows)
        evidence.progress.waypoints.copy_(evidence.standardise(following[pointed]))
        evidence.progress.remaining.copy_((last_of - index)[pointed] / unit)
        if "likelihood" in chosen:
            evidence.likelihood.learn(
                windows,
                n_clean,
                evidence.standardise,
                stages,
                generator,
                batch_size=self.batch_size,
                updates=self.clone_updates,
            )
        if "progress" in chosen and len(pointed):
            evidence.progress.learn(
                windows,
                n_clean,
                evidence.standardise,
                last_of,
                unit,
                stages,
                generator,
                batch_size=self.batch_size,
                updates=self.distance_updates,
            )
        told, heard = {}, {}
        for name in (name for name in SIGNALS if name in chosen):  # progress comes before value
            if name == "value" and graph is not None and len(compared):
                to_go = evidence.to_go if "progress" in heard else None
                advantage = graph.advantage(to_go, unit)
                evidence.value.advantage.copy_(torch.from_numpy(advantage[graph.several]))
            told[name] = evidence.tell(name, windows)[n_clean:].numpy()
            area, least = separation(evidence.tell(name, held_out).numpy(), told[name])
            evidence.separation[SIGNALS.index(name)] = torch.tensor([area, least])
            if area > least:
                heard[name] = told[name]
        edges, log_odds = weigh_signals(list((heard or told).values()), self.good_share)
        for name, some_edges, some_odds in zip(heard or told, edges, log_odds, strict=True):
            evidence.edges[SIGNALS.index(name)] = torch.from_numpy(some_edges)
            evidence.log_odds[SIGNALS.index(name)] = torch.from_numpy(some_odds)
        evidence.prior.fill_(np.log(self.good_share / (1 - self.good_share)))
        return evidence


class Evidence(nn.Module):
    """The signals, and what each of their values is worth."""

    edges: Tensor
    """Where the bins of each signal meet. (signals, N_BINS - 1)"""
    log_odds: Tensor
    """What a bin is worth. (signals, N_BINS)"""
    prior: Tensor
    """The log-odds of a noisy step before anything is known of it. ()"""
    separation: Tensor
    """How well each signal rates held-out clean steps above noisy ones, as an area under the ROC
    curve, and the area beyond which it is heard; NaN where it was not asked. (signals, 2)"""

    def __init__(
        self,
        sizes: tuple[int, int],
        *,
        members: int,
        hidden: int,
        waypoints: int = 0,
        states: int = 0,
    ) -> None:
        """`sizes` are the number of inputs and of actions."""
        super().__init__()
        n_inputs, n_actions = sizes
        self.standardise = Standardise(n_inputs)
        self.likelihood = Likelihood(members, n_inputs, hidden, n_actions)
        self.progress = Progress(members, n_inputs, hidden, waypoints)
        self.value = Value(states, n_inputs, n_actions)
        self.register_buffer("edges", torch.zeros(len(SIGNALS), N_BINS - 1))
        self.register_buffer("log_odds", torch.zeros(len(SIGNALS), N_BINS))
        self.register_buffer("prior", torch.zeros(()))
        unknown = torch.full((len(SIGNALS), 2), torch.nan, dtype=torch.float64)
        self.register_buffer("separation", unknown)

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor]) -> Evidence:
        """The inverse of `state_dict`."""
        members, n_inputs, hidden = tensors["likelihood.clones.weights.0"].shape
        with torch.random.fork_rng(devices=[]):  # its weights are replaced at once
            evidence = Evidence(
                (n_inputs, tensors["value.advantage"].shape[1]),
                members=members,
                hidden=hidden,
                waypoints=len(tensors["progress.waypoints"]),
                states=len(tensors["value.states"]),
            )
        evidence.load_state_dict(dict(tensors))
        return evidence

    @torch.no_grad()
    def tell(self, name: str, windows: Windows) -> Tensor:
        """What a signal says of each step. (N,)"""
        if name == "likelihood":
            return self.likelihood(windows, self.standardise)
        return (
            self.progress(windows, self.standardise) if name == "progress" else self.value(windows)
        )

    @torch.no_grad()
    def to_go(self, states: Tensor) -> Tensor:
        """How far it is from these states to the end of a clean demonstration. (B,)"""
        return self.progress.to_go(states, self.standardise)

    def worth(self, name: str, signal: Array) -> Array:
        """The log-odds of "good" that values of a signal stand for."""
        i = SIGNALS.index(name)
        return worth(signal, self.edges[i].numpy(), self.log_odds[i].numpy())

    def judge(self, windows: Windows) -> JudgedSteps:
        """All signals together."""
        told = torch.stack([self.tell(name, windows) for name in SIGNALS]).numpy()
        prior = float(self.prior)
        each = np.stack([self.worth(name, told[i]) for i, name in enumerate(SIGNALS)])
        used = [i for i in range(len(SIGNALS)) if self.log_odds[i].any()]
        total = prior + each.sum(0)  # log-odds (N,)
        without = np.stack([_probability(total - each[i]) for i in used] or [_probability(total)])
        return JudgedSteps(
            optimality=2 * _probability(total) - 1,
            parts={SIGNALS[i]: 2 * _probability(prior + each[i]) - 1 for i in used},
            spread=2 * without.std(0),
        )


class EvidenceJudge(FittedJudge):
    """Judges by evidence that was gathered."""

    kind = "evidence"

    def __init__(
        self,
        spaces: Spaces,
        evidence: Evidence,
        inputs: Tensor,
        *,
        random_state: Tensor | None = None,
        hyperparameters: dict[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        """`inputs` are the entries of an observation that vary: the others are not looked at."""
        self.spaces, self.name, self.seed = spaces, Judge.name, seed
        self.hyperparameters = hyperparameters or {}
        self.random_state = random_state
        self.evidence = evidence.requires_grad_(False)
        self._inputs = inputs
        self._double = Evidence.of_tensors(evidence.state_dict()).double().requires_grad_(False)

    @property
    def signals(self) -> tuple[Signal, ...]:
        asked = str(self.hyperparameters.get("signals", "+".join(SIGNALS))).split("+")
        areas = dict(zip(SIGNALS, self.evidence.separation.tolist(), strict=True))
        nobody = not any(area > least for area, least in areas.values())
        return tuple(
            _signal(name, area, least, name in asked, nobody)
            for name, (area, least) in areas.items()
        )

    def judge(self, packed: Trajectories) -> JudgedSteps:
        return self._double.judge(self._windows(packed))

    def optimality(self, packed: Trajectories) -> Tensor:
        return torch.from_numpy(self.evidence.judge(self._windows(packed)).optimality)

    def likelihood(self, packed: Trajectories) -> Tensor:
        return self.evidence.tell("likelihood", self._windows(packed))

    def advice(self) -> Callable[[Tensor], Tensor] | None:
        return self._advice

    @cached_property
    def _advice(self) -> Callable[[Tensor], Tensor] | None:
        if not any(signal.heard for signal in self.signals if signal.name == "value"):
            return None
        said = self.evidence.value.advice(lambda signal: self.evidence.worth("value", signal))
        return lambda observations: said(observations[:, self._inputs])

    def _windows(self, packed: Trajectories) -> Windows:
        return Windows(packed, 0, self._inputs)

    def tensors(self) -> dict[str, Tensor]:
        state = {} if self.random_state is None else {"random_state": self.random_state}
        return {**self.evidence.state_dict(), "inputs": self._inputs, **state}

    def configuration(self) -> dict[str, Any]:
        return {}

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> EvidenceJudge:
        own = dict(tensors)
        inputs, state = own.pop("inputs"), own.pop("random_state", None)
        return cls(spaces, Evidence.of_tensors(own), inputs, random_state=state)


def _signal(name: str, area: float, least: float, asked: bool, nobody: bool) -> Signal:
    """Whether a signal is heard, in words; `nobody` means that none is."""
    if not asked:
        return Signal(name, False, "not asked for")
    if np.isnan(area):
        return Signal(name, False, "it says nothing of these demonstrations")
    told = f"it rates held-out clean steps above noisy ones with an AUROC of {area:.2f}"
    if area > least:
        return Signal(name, True, f"{told}, and chance would stay under {least:.2f}")
    more = "; as none is better, it counts all the same" if nobody else ""
    return Signal(name, False, f"{told}, where {least:.2f} is needed{more}")


def _n_actions(spaces: Spaces) -> int:
    assert isinstance(spaces.action, gym.spaces.Discrete)
    return int(spaces.action.n)


def _probability(log_odds: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-log_odds))
