"""What our judge knows of steps and stretches: its signals, what is heard of them, three answers.

Goes past the paper, whose score is in `pu.py`. No signal sees the truth, a reward or an
environment. Each is in a file of its own, and they fail in different places. `gathering.py` learns
them and decides, on groups that they never saw, which are heard (`hearing.py`) and what they are
worth (`joining.py`, `episodes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from sdil.heads import ActionHead, counts_actions, make_head
from sdil.judges.distance import states_ahead
from sdil.judges.doing import Doing
from sdil.judges.efficiency import efficiency
from sdil.judges.episodes import Episodes, Pace, rates_of
from sdil.judges.expected import Expected
from sdil.judges.integrity import Integrity
from sdil.judges.joining import N_BINS, worth
from sdil.judges.learned_value import LearnedValue
from sdil.judges.lessons import Lessons
from sdil.judges.likelihood import Clones
from sdil.judges.likeness import Looks, Seen
from sdil.judges.neighbours import told_by_neighbours
from sdil.judges.progress import Progress
from sdil.judges.typical import Typical
from sdil.judges.value import Value
from sdil.judging import GoodShare
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.scores import JudgedSteps
from sdil.spaces import Array
from sdil.states import below, nest
from sdil.windows import Windows, steps_at_once

OUTCOMES = ("progress", "efficiency")
"""Signals that look at what came of a step, and for the step answer at what is to be expected."""
REAL_OUTCOMES = (*OUTCOMES, "value")
"""The same where actions are real numbers."""
STEP_SIGNALS = ("likelihood", "consensus", "progress", "value", "efficiency", "doing", "typical")
EPISODE_SIGNALS = ("likelihood", "progress", "efficiency", "pace", "doing", "steps")
SIGNALS = (*STEP_SIGNALS, "pace", "steps")


class Evidence(nn.Module):
    """The signals, what each of their values is worth, and how each fared on its ground."""

    middles: Tensor
    """The middle of each bin of each step signal. (S, N_BINS)"""
    log_odds: Tensor
    """What a bin is worth; 0 throughout where the signal is not heard. (S, N_BINS)"""
    good_share: Tensor
    """The share of noisy steps that are good: point, lowest and highest. (3,)"""
    persistence: Tensor
    """How far a noisy step is as the one before it (`neighbours.py`). ()"""
    trust: Tensor
    """How much what signals and neighbours say counts, of real actions: what they repeat counts
    once. Labels have their own (`likeness.py`). ()"""
    idling: Tensor
    """The log-odds that a step which idles is worth as a step, and for its episode; the second
    is also the most that a step is worth which acts and moves nothing. (2,)"""
    caps: Tensor
    """Whether it is looked at whether a step moves anything. ()"""
    step_grounds: Tensor
    """Figure, chance and groups of each step signal; NaN: not asked. (S, 3)"""
    episode_grounds: Tensor
    """The same of each episode signal. (E, 3)"""
    strangers: Tensor
    """Step signals that are about something else than the others. (S,) booleans"""

    def __init__(
        self,
        head: ActionHead,
        standardise: Standardise,
        doing: Doing,
        clones: Clones,
        consensus: Clones,
        distance: Ensemble,
        progress: Progress,
        value: Value,
        expected: Expected,
        integrity: Integrity,
        pace: Pace,
        episodes: Episodes,
        learned: LearnedValue | None = None,
        lessons: Lessons | None = None,
        typical: Typical | None = None,
    ) -> None:
        """`learned` values states where there is no graph of them; `lessons` are those of labels,
        where people gave any; `typical` there is of real actions alone."""
        super().__init__()
        self.head, self.standardise, self.doing = head, standardise, doing
        self.clones, self.consensus = clones, consensus
        self.distance, self.progress, self.value = distance, progress, value
        self.expected, self.integrity = expected, integrity
        self.pace, self.episodes, self.learned = pace, episodes, learned
        self.lessons, self.typical = lessons, typical
        self.outcomes = OUTCOMES if learned is None else REAL_OUTCOMES
        n = len(STEP_SIGNALS)
        double = torch.float64
        self.register_buffer("middles", torch.full((n, N_BINS), torch.nan, dtype=double))
        self.register_buffer("log_odds", torch.zeros(n, N_BINS, dtype=double))
        self.register_buffer("good_share", torch.tensor([0.5, 0.0, 1.0], dtype=double))
        self.register_buffer("persistence", torch.zeros((), dtype=double))
        self.register_buffer("trust", torch.ones((), dtype=double))
        self.register_buffer("idling", torch.zeros(2, dtype=double))
        self.register_buffer("caps", torch.zeros((), dtype=torch.bool))
        self.register_buffer("step_grounds", torch.full((n, 3), torch.nan, dtype=double))
        self.register_buffer("strangers", torch.zeros(n, dtype=torch.bool))
        several = torch.full((len(EPISODE_SIGNALS), 3), torch.nan, dtype=double)
        self.register_buffer("episode_grounds", several)

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor], action: gym.Space[Any]) -> Evidence:
        """The inverse of `state_dict`; `action` is the space of actions."""
        zero = torch.zeros((), dtype=torch.float64)
        state = {"persistence": zero, "trust": zero + 1, **tensors}  # before: none, and all
        state |= {name: _with_all_signals(state[name], fill) for name, fill in _OF_SIGNALS.items()}
        n_inputs = len(state["standardise.mean"])
        idle = state["doing.idle"]
        of_value = below(state, "learned.networks")
        learned = LearnedValue(Ensemble.of_tensors(of_value)) if of_value else None
        outcomes = OUTCOMES if learned is None else REAL_OUTCOMES
        lessons, typical = below(state, "lessons"), below(state, "typical")
        evidence = Evidence(
            make_head(action),
            Standardise(n_inputs),
            Doing(n_inputs, len(idle)),
            Clones(Ensemble.of_tensors(below(state, "clones.networks")), idle),
            Clones(Ensemble.of_tensors(below(state, "consensus.networks")), idle),
            Ensemble.of_tensors(below(state, "distance")),
            Progress(state["progress.waypoints"], state["progress.remaining"]),
            Value(state["value.states"], state["value.advantage"]),
            Expected(Ensemble.of_tensors(below(state, "expected.networks")), len(outcomes)),
            Integrity(Ensemble.of_tensors(below(state, "integrity.networks"))),
            Pace(len(state["pace.mean"])),
            Episodes(EPISODE_SIGNALS),
            learned,
            Lessons.of_tensors(lessons) if lessons else None,
            Typical.of_tensors(typical, below(typical, "networks")) if typical else None,
        )
        if evidence.lessons is not None:  # those of before lack some
            state |= nest("lessons", evidence.lessons.state_dict())
        evidence.load_state_dict(state)
        return evidence

    @torch.no_grad()
    def table(self, name: str, windows: Windows, index: Tensor) -> Tensor:
        """What a step signal says of every counted action at these steps; NaN: nothing. (B, A)"""
        parts = []
        for some in index.split(steps_at_once(self.standardise.mean.dtype)):
            observed = windows.at(some).state
            states = self.standardise(observed)
            if name == "likelihood":
                said = self.clones(states)
            elif name == "consensus":  # beside the clean clones, not instead of them
                said = (self.clones(states) + self.consensus(states)) / 2
            elif name == "value":
                said = self.value(observed)
            else:
                said = self.expected(states)[:, OUTCOMES.index(name)]
            parts.append(said.double())
        found = torch.cat(parts)
        found[:, self.doing.idle] = torch.nan
        return found

    @torch.no_grad()
    def rate(self, name: str, windows: Windows, index: Tensor, actions: Tensor) -> Tensor:
        """What a step signal says of these actions (B, D, *action) at these steps. (B, D)"""
        if counts_actions(self.head):
            return self.table(name, windows, index).gather(1, actions.long())
        parts = []
        at_once = steps_at_once(self.standardise.mean.dtype)
        for some, taken in zip(index.split(at_once), actions.split(at_once), strict=True):
            states = self.standardise(windows.at(some).state)
            if name == "likelihood":
                said = self.clones.of(states, taken, self.head)
            elif name == "consensus":
                said = self.clones.of(states, taken, self.head)
                said = (said + self.consensus.of(states, taken, self.head)) / 2
            elif name == "typical":
                assert self.typical is not None
                said = self.typical.of(states, self.head.encode(taken).to(states.dtype))
            else:
                encoded = self.head.encode(taken).to(states.dtype)
                said = self.expected.of(states, encoded)[:, self.outcomes.index(name)]
            parts.append(said.double())
        return torch.cat(parts)

    @torch.no_grad()
    def tell(self, name: str, windows: Windows, index: Tensor) -> Tensor:
        """What a step signal says of the action of each step; of one that idles nothing. (B,)"""
        if name == "doing":  # here what came of it is all there is to know
            found = self.doing(windows, index)
            found[self.doing.idles(windows, index)] = torch.nan
            return found
        return self.rate(name, windows, index, windows.actions_at(index)[:, None])[:, 0]

    @torch.no_grad()
    def outcome(self, name: str, windows: Windows, index: Tensor) -> Tensor:
        """What came of each step; `index` holds whole episodes. (B,)"""
        if name == "progress":
            return self.progress(windows, index, self.distance, self.standardise)
        if name == "doing":
            return self.doing(windows, index)
        if name == "value":
            assert self.learned is not None
            return self.learned(windows, index, self.standardise)
        ahead = states_ahead(windows)[index]
        return efficiency(windows, index, ahead, self.distance, self.standardise)

    @torch.no_grad()
    def to_go(self, states: Tensor) -> Tensor:
        """How far it is from these states to the end of a clean demonstration. (B,)"""
        return self.progress.to_go(states, self.distance, self.standardise)

    @torch.no_grad()
    def look(
        self,
        looks: Looks,
        windows: Windows,
        index: Tensor,
        told: Callable[[str], Array] | None = None,
    ) -> Seen:
        """These steps as likeness looks at them; `told` is what step signals say of them."""
        told = told or (lambda name: self.tell(name, windows, index).numpy())
        signals = {name: told(name) for name in (STEP_SIGNALS[i] for i in looks.which.tolist())}
        said = np.zeros(len(index))
        for name in self.weighed:
            said += self.worth(name, told(name))
        odds = self._before_labels + float(looks.trust) * said
        ranks, parts, begin = looks.ranks(np.stack(list(signals.values()))), [], 0
        for some in index.split(steps_at_once(self.standardise.mean.dtype)):
            here = slice(begin, begin := begin + len(some))
            states = self.standardise(windows.at(some).state)
            actions = windows.actions_at(some)
            parts.append(looks.see(states, actions, self.head, ranks[here], odds[here]))
        return Seen.together(parts)

    @property
    def _before_labels(self) -> float:
        """The log-odds of "good" that steps have beforehand, before people said anything."""
        return self.share().odds[0] if self.lessons is None else float(self.lessons.before)

    def _amounts(self, windows: Windows, told: Callable[[str], Array]) -> tuple[Array, Array]:
        """What is known of all steps, in log-odds beside those beforehand: what step signals say,
        labels teach and the steps on either side add; and how much signals count in it. (N,) each
        """
        every, counts = torch.arange(len(windows)), np.full(len(windows), float(self.trust))
        joined = np.sum(
            [np.zeros(len(windows)), *(self.worth(n, told(n)) for n in self.weighed)], 0
        )
        if self.lessons is None:
            return self.with_neighbours(windows, every, joined), counts
        seen = self.look(self.lessons.looks, windows, every, told)
        change, counts = self.lessons(seen)
        if self.lessons.shift is not None:  # of before: neighbours knew nothing of labels
            apart = change + float(self.lessons.shift)
            return self.with_neighbours(windows, every, joined) + apart, counts
        taught = counts * (seen.odds + change) - self.share().odds[0]
        return self.with_neighbours(windows, every, taught), counts * float(
            self.lessons.looks.trust
        )

    @property
    def heard(self) -> list[str]:
        """The step signals that are heard."""
        return [*self.weighed, "doing"] if self.caps else self.weighed

    @property
    def weighed(self) -> list[str]:
        """Those of them that are weighed against one another."""
        used = self.log_odds.any(1).tolist()
        return [name for name, is_used in zip(STEP_SIGNALS, used, strict=True) if is_used]

    def worth(self, name: str, signal: Array) -> Array:
        """The log-odds of "good" that values of a step signal stand for."""
        i = STEP_SIGNALS.index(name)
        return worth(signal, self.middles[i].numpy(), self.log_odds[i].numpy())

    def share(self) -> GoodShare:
        return GoodShare(*self.good_share.tolist())

    def judge(self, windows: Windows, answers: frozenset[str]) -> JudgedSteps:
        """The answers that are asked for: step, episode, integrity."""
        found: dict[str, Any] = {"optimality": np.zeros(len(windows))}
        every = torch.arange(len(windows))
        tell = cache(lambda name: self.tell(name, windows, every).numpy())  # asked more than once
        amounts = cache(lambda: self._amounts(windows, tell))
        if "step" in answers and (self.heard or self.lessons is not None):
            found |= self._judge_steps(windows, tell, *amounts())
        if "episode" in answers and self.episodes.heard:
            told = self.of_episodes(windows, self.episodes.heard, tell, lambda: amounts()[0])
            quality, alone = self.episodes(told, windows.times.numpy())
            found |= {"quality": quality, "quality_parts": alone}
        if "integrity" in answers:
            with torch.no_grad():
                index = torch.arange(len(windows))
                sound = self.integrity(windows, index, self.standardise, self.head).numpy()
            found["integrity"] = sound
        return JudgedSteps(**found)

    def _judge_steps(
        self, windows: Windows, tell: Callable[[str], Array], amounts: Array, counts: Array
    ) -> dict[str, Any]:
        each = {n: self.worth(n, tell(n)) for n in self.weighed}
        settle = self.settling(windows, torch.arange(len(windows)))
        total = settle(amounts)
        prior, low, high = self.share().odds
        without = [_probability(prior + settle(amounts - counts * part)) for part in each.values()]
        between = (_probability(high + total) - _probability(low + total)) / (2 * 1.96)
        hangs = np.std(without, axis=0) if len(without) > 1 else 0.0
        parts = {name: _score(prior + settle(part)) for name, part in each.items()}
        if self.caps:
            parts["doing"] = _score(prior + settle(np.zeros(len(windows))))
        return {
            "optimality": _score(prior + total),
            "parts": parts,
            "spread": 2 * np.hypot(hangs, between),
        }

    def with_neighbours(self, windows: Windows, index: Tensor, log_odds: Array) -> Array:
        """Joined log-odds of these steps (B,), of whole episodes, with what the acting steps beside
        each say of it; what was said more than once counts once."""
        acts = ~self.doing.idles(windows, index).numpy()
        episode = (windows.times[index] == 0).cumsum(0).numpy()
        apart = self.lessons is not None and self.lessons.shift is not None
        odds = self._before_labels if apart else self.share().odds[0]
        share = float(_probability(np.asarray(odds)))
        said = log_odds[acts], episode[acts], share, float(self.persistence)
        found = log_odds.copy()
        found[acts] += told_by_neighbours(*said)
        return found * float(self.trust) if self.lessons is None else found

    def settling(
        self, windows: Windows, index: Tensor, *, waiting: bool = False
    ) -> Callable[[Array], Array]:
        """Turns joined log-odds of these steps (B,) into what they are worth all told: a step that
        idles has its own worth, and one that acts and moves nothing is among the least."""
        least, lowest = float(self.idling[int(waiting)]), float(self.idling[1])
        idles = self.doing.idles(windows, index).numpy()
        nothing = np.zeros(len(index), bool)
        if self.caps:
            nothing = self.tell("doing", windows, index).numpy() == 0

        def settle(log_odds: Array) -> Array:
            capped = np.where(nothing, np.minimum(log_odds, lowest), log_odds)
            return np.where(idles, least, capped)

        return settle

    def of_episodes(
        self,
        windows: Windows,
        names: list[str],
        tell: Callable[[str], Array],
        amounts: Callable[[], Array],
    ) -> dict[str, Array]:
        """What each episode signal says of each step, by what step signals `tell` of all and what
        they amount to. (N,)"""
        index = torch.arange(len(windows))
        told = {}
        for name in names:
            if name == "pace":
                told[name] = self.pace(rates_of(windows, self.head))
            elif name == "steps":
                told[name] = self.settling(windows, index, waiting=True)(amounts())
            elif name == "likelihood":
                told[name] = tell(name)
            else:
                told[name] = self.outcome(name, windows, index).numpy()
        return told


_OF_SIGNALS = {"middles": torch.nan, "log_odds": 0.0, "step_grounds": torch.nan, "strangers": False}
"""What is known of each step signal, and of one that was not there yet."""


def _with_all_signals(known: Tensor, fill: float) -> Tensor:
    """What a judge knows that was saved when there were fewer step signals. (S, ...)"""
    more = known.new_full((len(STEP_SIGNALS) - len(known), *known.shape[1:]), fill)
    return torch.cat([known, more])


def _score(log_odds: Array) -> Array:
    return 2 * _probability(log_odds) - 1


def _probability(log_odds: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))
