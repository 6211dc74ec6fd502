"""The signal "doing": does the step change anything that its demonstrator's actions move?

People wait, and a game ticks faster than they press keys: half of their steps and more may be
"stay", which every clone finds likely. So idling is found and kept apart. With a partner in the
room other things change all the time; what counts are the features that one's own actions move:
whether they change depends on the action, and there is an action that leaves them alone. Features
that tremble by themselves, as real-valued sensors do, are none, and then nobody idles. Where the
place decides on the action, much of what an action moves is not seen to hang on it; so an action
idles only if what changes under it, and hardly under others, is far less than what others change.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from sdil.windows import STEPS_AT_ONCE, Windows

IDLING = 0.3
"""A step that idles is worth what this share of acting ones are under;"""
WAITING = 0.1
"""and this share where it is asked how well an episode went: waiting gets nowhere."""
_SEEN = 30  # steps with an action before its effect is known
_EXPLAINED = 0.05  # share of a feature's changes (variance) that the action must explain
_LEAVES_ALONE = 0.005  # how often a feature may change under the action that moves it least
_MORE = 2.0  # times as often as under the other actions: then these, or this one, may move it
_LITTLE = 1 / 3  # an action that idles moves at most so many features for each that others move
_IDLE = 0.05  # an action idles that moves something so seldom in clean demonstrations,
_COMMON = 0.05  # and that is so common in them: what no expert does is not idling


class Doing(nn.Module):
    """Which features one's own actions move, and which actions move none."""

    own: Tensor
    """Features. (I,) booleans"""
    idle: Tensor
    """Actions. (A,) booleans"""

    def __init__(self, n_inputs: int, n_actions: int) -> None:
        super().__init__()
        self.register_buffer("own", torch.zeros(n_inputs, dtype=torch.bool))
        self.register_buffer("idle", torch.zeros(n_actions, dtype=torch.bool))

    def learn(self, windows: Windows, n_clean: int) -> None:
        """From how often each feature changes under each action in clean demonstrations: noisy
        ones may push against walls all day."""
        n_actions, n_inputs = len(self.idle), len(self.own)
        if not n_actions:  # real numbers: none is an action that idles
            return
        count, changes = torch.zeros(n_actions), torch.zeros(n_actions, n_inputs)
        for index in torch.arange(n_clean).split(STEPS_AT_ONCE):
            following, exists = windows.next_states_at(index)
            changed = (following != windows.at(index).state)[exists].float()
            actions = windows.actions_at(index).long()[exists]
            count.index_add_(0, actions, torch.ones(len(actions)))
            changes.index_add_(0, actions, changed)
        seen = count >= _SEEN
        if int(seen.sum()) < 2:
            return
        rate = changes[seen] / count[seen, None]
        weight = count[seen, None] / count[seen].sum()
        whole = (weight * rate).sum(0)
        variance = (whole * (1 - whole)).clamp(min=1e-9)
        explained = 1 - (weight * rate * (1 - rate)).sum(0) / variance
        explained[whole == 0] = 0.0  # nobody moves what never changes
        self.own.copy_((explained > _EXPLAINED) & (rate.min(0).values <= _LEAVES_ALONE))
        if not bool(self.own.any()):
            return
        mine = changes / count[:, None].clamp(min=1)
        theirs = (changes.sum(0) - changes) / (count.sum() - count)[:, None].clamp(min=1)
        moved, left_alone = mine > _MORE * theirs, theirs > _MORE * mine  # (A, I)
        little = (mine * moved).sum(1) <= _LITTLE * (theirs * left_alone).sum(1)
        index = torch.arange(n_clean)
        actions = windows.actions_at(index).long()[windows.has_next[:n_clean]]
        moves = self.changes(windows, index)[windows.has_next[:n_clean]]
        taken = torch.bincount(actions, minlength=n_actions)
        moving = torch.bincount(actions, moves.float(), n_actions) / taken.clamp(min=1)
        common = (taken >= _COMMON * max(len(actions), 1)) & (taken > 0)
        self.idle.copy_(common & (moving <= _IDLE) & little)

    def changes(self, windows: Windows, index: Tensor) -> Tensor:
        """Whether a step changes one of these features; False where nobody knows. (B,)"""
        parts = []
        for some in index.split(STEPS_AT_ONCE):
            following, exists = windows.next_states_at(some)
            changed = (following != windows.at(some).state)[:, self.own].any(1)
            parts.append(changed & exists)
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.bool)

    def forward(self, windows: Windows, index: Tensor) -> Tensor:
        """1 for a step that does something, 0 for one that does not; NaN where nobody knows, and
        everywhere where nobody idles. (B,)"""
        if not bool(self.idle.any()):
            return torch.full((len(index),), torch.nan, dtype=torch.float64)
        idles = self.idles(windows, index)
        does = (self.changes(windows, index) & ~idles).double()
        does[~windows.has_next[index] & ~idles] = torch.nan
        return does

    def idles(self, windows: Windows, index: Tensor) -> Tensor:
        """Whether the action of a step is one that idles. (B,)"""
        if not len(self.idle):
            return torch.zeros(len(index), dtype=torch.bool)
        return self.idle[windows.actions_at(index).long()]

    def __str__(self) -> str:
        return f"idle actions {np.flatnonzero(self.idle.numpy()).tolist()}"
