"""What is measured on steps that were held out: how well they are predicted, and how surely.

A network has outputs for windows, and its head says how likely they make the recorded actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from sdil.heads import ActionHead
from sdil.windows import Window, Windows


def mean_nll(
    outputs: Callable[[Window], Tensor],
    head: ActionHead,
    windows: Windows,
    temperature: float = 1.0,
) -> Tensor:
    """The negative log-likelihood of the recorded actions, mean over all steps."""
    total = torch.zeros((), dtype=torch.float64, device=windows.rows.device)
    with torch.no_grad():
        for index in windows.parts():
            actions = windows.actions_at(index)
            total += head.nll(outputs(windows.at(index)), actions, "sum", temperature)
    return total / len(windows)


TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
"""By which the logits of a network are divided that is too sure of itself; it acts the same."""


def best_temperature(
    outputs: Callable[[Window], Tensor], head: ActionHead, held_out: Windows
) -> float:
    """That of `TEMPERATURES` by which these steps are predicted best."""
    return min(TEMPERATURES, key=lambda t: float(mean_nll(outputs, head, held_out, t)))


def worse_than_usual(
    outputs: Callable[[Window], Tensor], head: ActionHead, clean: Windows, held_out: Windows
) -> bool:
    """Whether clean actions that were held out are told better by how often clean steps take each
    action: by likelihood, and surely by what is likeliest."""
    seen, asked = (w.actions[w.steps] for w in (clean, held_out))
    usual = head.usual(seen).expand(len(asked), -1)
    with torch.no_grad():
        parts = held_out.parts()
        error = torch.cat([head.error(outputs(held_out.at(i)), asked[i]) for i in parts])
        usual_error, usual_nll = head.error(usual, asked).mean(), head.nll(usual, asked, "mean")
    luck = error.std(correction=0) / math.sqrt(len(error))
    surely = error.mean() - luck > usual_error
    return bool(surely) and bool(mean_nll(outputs, head, held_out) > usual_nll)
