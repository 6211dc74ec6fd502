"""The signal "likelihood": how likely clones of the clean set find the action.

Blind to where no clean demonstration has been, and to good ways that none of them shows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.judges.ensemble import MEMBERS, Ensemble
from sdil.networks.encoders import Standardise
from sdil.training import Stages
from sdil.windows import Windows


class Likelihood(nn.Module):
    """Clones of the clean set."""

    def __init__(self, members: int, n_inputs: int, hidden: int, n_actions: int) -> None:
        super().__init__()
        self.clones = Ensemble(members, n_inputs, hidden, n_actions)

    def forward(self, windows: Windows, standardise: Standardise) -> Tensor:
        """`p(a_t | s_t)`, the mean over the clones. (N,)"""
        parts = []
        for index in windows.parts():
            states = standardise(windows.at(index).state)
            probs = self.clones(states.expand(len(self.clones), -1, -1)).softmax(2).mean(0)
            parts.append(probs.gather(1, windows.actions_at(index).long()[:, None])[:, 0])
        return torch.cat(parts).double()

    def learn(
        self,
        windows: Windows,
        n_clean: int,
        standardise: Standardise,
        stages: Stages,
        generator: torch.Generator,
        *,
        batch_size: int,
        updates: int,
    ) -> None:
        """Behaviour cloning of the first `n_clean` steps, several times over."""

        def loss(_: Tensor) -> dict[str, Tensor]:
            drawn = torch.randint(n_clean, (MEMBERS * batch_size,), generator=generator)
            states = standardise(windows.at(drawn).state)
            logits = self.clones(states.view(MEMBERS, batch_size, -1))
            return {"imitation": F.cross_entropy(logits.flatten(0, 1), windows.actions_at(drawn))}

        stages.converge(
            "clone clean",
            {"clones": self.clones},
            loss=loss,
            valid_loss=None,
            n_samples=n_clean,
            updates=updates,
        )
