"""From raw observations to numbers: a small convolutional network per camera, joined with the rest.

One module for both roads: features that are computed once (`observing.py`), and networks that are
trained together with a learner (`PlainNetwork`). Everything is made on the device of its inputs.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.observations import Part, part_of, parts_of

FEATURES = 64
"""Numbers that are made of one picture."""
WIDTH = 32
"""Channels of its convolutions; the first, which sees the most pixels, has half of them."""
LAST_MAP = 8
"""Convolutions halve a picture until its longer side is at most this."""
LEAK = 0.1
_FLAT = 1.0 / 255.0  # a pixel that varies less than a grey level does not vary


class Eye(nn.Module):
    """One camera: pictures (n, *shape) of bytes to (n, outputs)."""

    mean: Tensor
    """What is seen on average, of each pixel. (C, H, W)"""
    scale: Tensor
    """One over the spread of a pixel that varies. ()"""

    def __init__(self, part: Part, outputs: int = FEATURES, width: int = WIDTH) -> None:
        super().__init__()
        height, width_px, channels = part.image_shape
        self.axes, self.channels_first = len(part.shape), part.channels_first
        longest = max(height, width_px)
        halvings = max(2, math.ceil(math.log2(longest / LAST_MAP)))
        layers: list[nn.Module] = []
        before, h, w = channels, height, width_px
        for layer in range(halvings):
            after = width // 2 if layer == 0 else width
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.LeakyReLU(LEAK)]
            before, h, w = after, (h + 1) // 2, (w + 1) // 2
        self.early = nn.Sequential(*layers[:4])  # a quarter of the picture's size
        self.late = nn.Sequential(*layers[4:])
        self.places = outputs // 4  # each is three numbers: row, column, and what is there
        self.where = nn.Conv2d(width, 2 * self.places, 1)
        self.linear = nn.Linear(before * h * w, outputs - 3 * self.places)
        self.register_buffer("mean", torch.zeros(channels, height, width_px))
        self.register_buffer("scale", torch.ones(()))

    def pixels(self, images: Tensor) -> Tensor:
        """(n, C, H, W), from 0 to 1."""
        if self.axes == 2:
            images = images[..., None]
        if not self.channels_first:
            images = images.movedim(-1, -3)
        return images.to(self.mean.dtype) / 255.0

    def forward(self, images: Tensor) -> Tensor:
        with _reduced(images, self.mean):
            early = self.early((self.pixels(images) - self.mean) * self.scale)
            maps: Tensor = self.where(early)  # (n, 2 places, h, w)
            out: Tensor = self.linear(self.late(early).flatten(1))
        return torch.cat([_places(maps.to(self.mean.dtype)), out.to(self.mean.dtype)], 1)

    @torch.no_grad()
    def look_at(self, images: Tensor) -> None:
        """Take the mean of each pixel, and how far those go from it that vary, from these."""
        pixels = self.pixels(images)
        self.mean.copy_(pixels.mean(0))
        spread = pixels.std(0, correction=0)
        varies = spread > _FLAT
        found = spread[varies].mean() if varies.any() else spread.new_ones(())
        self.scale.copy_(1.0 / found.clamp(min=0.02))


class Eyes(nn.Module):
    """All parts of an observation: pictures each by its own `Eye`, then what else there is as it
    is; one row of numbers."""

    def __init__(self, space: gym.Space[Any], outputs: int = FEATURES, width: int = WIDTH) -> None:
        super().__init__()
        self.parts, self.outputs, self.width = parts_of(space), outputs, width
        self.images = [part for part in self.parts if part.is_image]
        self.numbers = [part for part in self.parts if not part.is_image]
        self.each = nn.ModuleList(Eye(part, outputs, width) for part in self.images)
        self.size = outputs * len(self.images) + sum(_count(part) for part in self.numbers)

    def forward(self, rows: Tensor, shift: Tensor | None = None) -> Tensor:
        """Raw observations (n, *kept) to (n, size); with `shift` (n, 2), pictures are moved by so
        many pixels."""
        seen = []
        for part, eye in zip(self.images, self.each, strict=True):
            images = part_of(rows, part)
            seen.append(eye(images if shift is None else moved(images, part, shift)))
        return torch.cat([*seen, *self.told(rows)], 1)

    def told(self, rows: Tensor) -> list[Tensor]:
        """The parts that are numbers. (n, any) each"""
        number = next(self.parameters()).dtype if len(self.each) else torch.float32
        return [part_of(rows, part).reshape(len(rows), -1).to(number) for part in self.numbers]

    def look_at(self, rows: Tensor) -> None:
        """Take the scale of pictures from these observations."""
        for part, eye in zip(self.images, self.each, strict=True):
            assert isinstance(eye, Eye)
            eye.look_at(part_of(rows, part))

    def names(self) -> list[str]:
        """What each number is called: "camera 0", "state 3"."""
        widths = [(part, self.outputs) for part in self.images]
        widths += [(part, _count(part)) for part in self.numbers]
        return [f"{p.name or 'image'} {i}" for p, n in widths for i in range(n)]


def moved(images: Tensor, part: Part, shift: Tensor) -> Tensor:
    """The same pictures, each moved by so many pixels (n, 2), its edges repeated."""
    height, width, _ = part.image_shape
    rows = (torch.arange(height, device=images.device) + shift[:, :1]).clamp(0, height - 1)
    columns = (torch.arange(width, device=images.device) + shift[:, 1:]).clamp(0, width - 1)
    n = torch.arange(len(images), device=images.device)[:, None, None]
    at = (n, rows[:, :, None], columns[:, None, :])
    if part.channels_first:
        return images.movedim(1, -1)[at].movedim(-1, 1)
    return images[at]


def _places(maps: Tensor) -> Tensor:
    """Where each of the first K maps is highest, on average by its softmax: rows, then columns,
    from -1 to 1; then what the other K maps show there. Maps (n, 2 K, h, w) to (n, 3 K)."""
    height, width = maps.shape[2:]
    where, what = maps.tensor_split(2, 1)
    share = where.flatten(2).softmax(2).view_as(where)
    rows = torch.linspace(-1, 1, height, device=maps.device, dtype=maps.dtype)
    columns = torch.linspace(-1, 1, width, device=maps.device, dtype=maps.dtype)
    there = (share * what).sum((2, 3))
    return torch.cat([share.sum(3) @ rows, share.sum(2) @ columns, there], 1)


def low_resolution(pixels: Tensor, side: int) -> Tensor:
    """Pictures (n, C, H, W) with a longer side of at most `side`, flattened. (n, C * h * w)"""
    longest = max(pixels.shape[2:])
    if longest > side:
        size = [max(1, round(length * side / longest)) for length in pixels.shape[2:]]
        pixels = F.interpolate(pixels, size=size, mode="area")
    return pixels.flatten(1)


def _reduced(images: Tensor, weights: Tensor) -> AbstractContextManager[Any]:
    """Convolutions that learn on a GPU compute in bfloat16; what is kept or compared does not."""
    if images.device.type == "cuda" and weights.dtype == torch.float32:
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def _count(part: Part) -> int:
    return math.prod(part.shape)
