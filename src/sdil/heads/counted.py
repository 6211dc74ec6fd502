"""The head of counted actions."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.heads.head import ActionHead, Considered, Reduction


class Categorical(ActionHead):
    """Outputs are logits."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.size = self.encoded = self.listed = n

    def log_prob(self, outputs: Tensor, actions: Tensor, temperature: float = 1.0) -> Tensor:
        return -self.nll(outputs, actions, t=temperature)

    def nll(
        self, outputs: Tensor, actions: Tensor, reduction: Reduction = "none", t: float = 1.0
    ) -> Tensor:
        softer = outputs if t == 1.0 else outputs / t
        found = F.cross_entropy(
            softer.flatten(0, -2), actions.long().flatten(), reduction=reduction
        )
        return found.view(actions.shape) if reduction == "none" else found

    def error(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return (outputs.argmax(-1) != actions).double()

    def apart(self, actions: Tensor, others: Tensor) -> Tensor:
        return (actions != others).double()[..., None]

    def square_distance(self, actions: Tensor, others: Tensor) -> Tensor:
        return 2.0 * (actions != others).float()

    def usual(self, actions: Tensor) -> Tensor:
        count = actions.long().bincount(minlength=self.size)
        return ((count + 1.0) / (len(actions) + self.size)).log()

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1)

    def sample(
        self, outputs: Tensor, generator: torch.Generator | None = None, t: float = 1.0
    ) -> Tensor:
        probs = (outputs / t).softmax(-1).flatten(0, -2)
        return torch.multinomial(probs, 1, generator=generator).view(outputs.shape[:-1])

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        return torch.empty((*shape, self.size)).exponential_(generator=generator)

    def pick(self, outputs: Tensor, noise: Tensor) -> Tensor:
        # the first of exponential clocks with these rates rings first with these odds
        return (outputs.softmax(-1) / noise).argmax(-1)

    def decode(self, picked: Tensor) -> Tensor:
        return picked

    def weigh(self, outputs: Tensor, picked: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = outputs.log_softmax(-1)
        taken = log_probs.gather(-1, picked.long()[..., None])[..., 0]
        return taken, -(log_probs.exp() * log_probs).sum(-1)

    def consider(self, outputs: Tensor, generator: torch.Generator, count: int) -> Considered:
        log_probs = outputs.log_softmax(1)
        every = torch.arange(self.size, device=outputs.device).expand(len(outputs), -1)
        return Considered(every, log_probs, log_probs.exp(), drawn=False)

    def encode(self, actions: Tensor) -> Tensor:
        return F.one_hot(actions.long(), self.encoded).float()

    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        return (log_weights[..., None] + outputs.log_softmax(-1)).logsumexp(-2)

    def plausibility(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return outputs.log_softmax(-1).gather(-1, actions.long()[..., None])[..., 0].exp()

    @property
    def log_uniform(self) -> float:
        return -math.log(self.size)

    @torch.no_grad()
    def soften(self, network: nn.Sequential, temperature: float) -> None:
        last = network[-1]
        assert isinstance(last, nn.Linear)
        last.weight.div_(temperature)
        last.bias.div_(temperature)
