"""An encoder of pictures learns to see, from all demonstrations and without a word on quality.

Two questions are asked of what it makes of a frame: what did the frame look like (at a low
resolution, each pixel in units of how much it varies, so that a small thing that moves counts as
much as a large one), and, of a frame and the next, which action led from one to the other. No
frame's own action is asked for: an encoder that knew it by heart would tell it to every judge and
learner after it, of clean and noisy steps alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from sdil.cores import wanted_device
from sdil.demonstrations import Demonstrations
from sdil.fetching import Fetching
from sdil.heads import make_head
from sdil.networks.encoders import mlp
from sdil.networks.eyes import Eye, Eyes, low_resolution
from sdil.networks.observing import BYTES_AT_ONCE, ObservationEncoder, brought
from sdil.observations import has_images, part_of
from sdil.spaces import Array
from sdil.states import State
from sdil.training import Budget, Convergence, OnEpoch, Optimisation, seeded
from sdil.windows import Windows, as_tensor

PHASE = "look"
_AN_EPOCH = 50  # updates
_SAMPLE = 2_048  # frames from which means and spreads are taken
_RESIDENT = 0.5  # of the free memory of a GPU, which frames may take
_LEAST_SPREAD = 0.02  # of a pixel, from 0 to 1: what varies less is not blown up further


@dataclass(frozen=True)
class Looking:
    """How an encoder is trained."""

    updates: int = 300
    """Updates altogether."""
    batch_size: int = 32
    """Steps per update: twice as many frames."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    weight_decay: float = 0.0
    """L2 penalty on the weights."""
    hidden: int = 256
    """Width of the hidden layers that answer the questions."""
    side: int = 32
    """Pixels along the longer side of the frame that is asked for."""
    dynamics: float = 1.0
    """Weight of the question for the action between two frames."""


class Frames:
    """Raw observations by row: on a GPU where they fit, otherwise where they lie."""

    def __init__(self, observations: Array, device: torch.device) -> None:
        self._device = device
        self._rows = as_tensor(observations)
        self._fetch = Fetching(observations)
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if observations.nbytes <= _RESIDENT * free:
                everything = torch.empty(self._rows.shape, dtype=self._rows.dtype, device=device)
                at, size = 0, max(1, BYTES_AT_ONCE // max(1, observations[0].nbytes))
                for block in brought(observations, np.arange(len(observations)), size, device):
                    everything[at : at + len(block)] = block
                    at += len(block)
                self._rows = everything

    def at(self, rows: Tensor) -> Tensor:
        """On the device. (B, *kept)"""
        if self._device.type == "cpu":
            self._fetch(rows.numpy())
            return self._rows.index_select(0, rows)
        if self._rows.is_cuda:
            return self._rows.index_select(0, rows.to(self._device, non_blocking=True))
        self._fetch(rows.numpy())
        found = self._rows.index_select(0, rows)
        return found.pin_memory().to(self._device, non_blocking=True)


class _Student(nn.Module):
    """Eyes, and those who ask them."""

    def __init__(self, space: gym.Space[Any], action: gym.Space[Any], looking: Looking) -> None:
        super().__init__()
        self.eyes, self._side = Eyes(space), looking.side
        self.head = make_head(action)
        self.seen = self.eyes.outputs * len(self.eyes.images)
        self.between = mlp(2 * self.seen, looking.hidden, 1, self.head.size)
        self.means, self.scales = nn.ParameterList(), nn.ParameterList()
        self.looks = nn.ModuleList()
        for part in self.eyes.images:
            height, width, channels = part.image_shape
            blank = low_resolution(torch.zeros(1, channels, height, width), looking.side)
            self.looks.append(mlp(self.eyes.outputs, looking.hidden, 1, blank.shape[1]))
            for each in (self.means, self.scales):
                each.append(nn.Parameter(torch.ones(blank.shape[1]), requires_grad=False))

    @torch.no_grad()
    def look_at(self, rows: Tensor) -> None:
        """Take means and spreads of pixels from these observations."""
        self.eyes.look_at(rows)
        for i, frames in enumerate(self._low(rows)):
            self.means[i].copy_(frames.mean(0))
            spread = frames.std(0, correction=0)
            self.scales[i].copy_(1.0 / spread.clamp(min=_LEAST_SPREAD))

    def _low(self, rows: Tensor) -> list[Tensor]:
        """Of each camera the frames at a low resolution. (n, pixels)"""
        found = []
        for part, eye in zip(self.eyes.images, self.eyes.each, strict=True):
            assert isinstance(eye, Eye)
            found.append(low_resolution(eye.pixels(part_of(rows, part)), self._side))
        return found

    def losses(
        self, frames: Tensor, actions: Tensor, follows: Tensor, looking: Looking
    ) -> dict[str, Tensor]:
        """Of frames and those that follow (2 B, *kept), with the actions between them (B, ...) and
        whether there is a next one (B,)."""
        features = self.eyes(frames)[:, : self.seen]
        blank = []
        for i, (of_part, low) in enumerate(
            zip(features.split(self.eyes.outputs, 1), self._low(frames), strict=True)
        ):
            asked = (low - self.means[i]) * self.scales[i]
            blank.append((self.looks[i](of_part) - asked).square().mean())
        now, after = features.tensor_split(2)
        nll = self.head.nll(self.between(torch.cat([now, after], 1)), actions)
        between = (nll * follows).sum() / follows.sum().clamp(min=1)
        return {"frame": sum(blank) / len(blank), "action": looking.dynamics * between}


def learn_to_see(
    demos: Demonstrations,
    *,
    seed: int = 0,
    looking: Looking | None = None,
    on_epoch: OnEpoch | None = None,
    resume: State | None = None,
) -> ObservationEncoder:
    """The encoder of these demonstrations, clean and noisy; the same for the same seed."""
    looking = Looking() if looking is None else looking
    if not has_images(demos.spaces.observation):  # numbers, one after the other
        return ObservationEncoder(demos.spaces.observation)
    device, everything = wanted_device(), demos.all
    windows = Windows(everything, 0)
    with seeded(seed) as generator:
        student = _Student(demos.spaces.observation, demos.spaces.action, looking)
    frames = Frames(everything.observations, device)
    student.head.fit(windows.actions[windows.steps])
    student.to(device)
    draw = torch.Generator().manual_seed(seed)  # its own: a run that goes on looks at the same
    sample = torch.randperm(len(windows), generator=draw)[:_SAMPLE].sort().values
    student.look_at(frames.at(windows.rows[sample]))

    def loss(index: Tensor) -> dict[str, Tensor]:
        step = torch.randint(len(windows), (len(index),), generator=generator)
        rows, exists = windows.rows[step], windows.has_next[step]
        both = torch.cat([rows, torch.where(exists, rows + 1, rows)])
        actions = windows.actions_at(step)
        return student.losses(
            frames.at(both), actions.to(device), exists.to(device).float(), looking
        )

    Convergence(
        PHASE,
        Optimisation(
            {"student": student},
            learning_rate=looking.learning_rate,
            weight_decay=looking.weight_decay,
            generator=generator,
        ),
        loss=loss,
        valid_loss=None,
        n_samples=_AN_EPOCH * looking.batch_size,
        batch_size=looking.batch_size,
        budget=Budget(looking.updates, looking.updates, looking.updates),
    ).run(on_epoch, resume)
    eyes = student.eyes.cpu().requires_grad_(False)
    return ObservationEncoder(demos.spaces.observation, eyes)
