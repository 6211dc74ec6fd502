"""What is seen, as vectors: every raw observation is encoded once, and all else works on vectors.

An `ObservationEncoder` turns observations of any space that we know into rows of numbers. Pictures
go through a small convolutional network that `looking.py` trained on all demonstrations, or through
features that the user gives. It computes in double precision and rounds at the end: so a frame has
the same numbers, whoever is beside it in a batch and, but for ties of rounding, whatever device
computes them, and signals that know a state by its return still do.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy, deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from sdil.cores import wanted_device
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.named import find_imported, is_import_path
from sdil.networks.eyes import Eyes
from sdil.observations import observation_shape, observation_type, part_of
from sdil.saved import NeedsFeaturesError
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectories
from sdil.windows import Window

Features = Callable[[Array], Any]
"""A user's own: pictures (n, *shape) of bytes to numbers (n, F)."""

BYTES_AT_ONCE = 2**26
"""Of raw observations that are brought to the device together."""
FRAMES_AT_ONCE = 1_024
"""That go through the network together on a GPU,"""
FRAMES_IN_CACHE = 32
"""and on a CPU."""
READERS = 4
"""Threads that read frames ahead for a GPU."""
_REMEMBERED = 2**26  # bytes of features of frames that were seen before


class ObservationEncoder:
    """Raw observations to vectors. It holds for any spaces with the same observations."""

    def __init__(
        self,
        space: gym.Space[Any],
        eyes: Eyes | None = None,
        *,
        features: Features | str | None = None,
        size: int | None = None,
    ) -> None:
        """Pictures are seen by `eyes`, or by `features`: any callable, or where one is
        ("module:name"), which makes `size` numbers of each picture."""
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
            self.space, self.eyes = space, Eyes(space) if eyes is None else eyes
        self.named = features if isinstance(features, str) else None
        self.features = _found(features) if isinstance(features, str) else features
        own = self.eyes.size
        if self.features is not None:
            assert size is not None
            own += (size - self.eyes.outputs) * len(self.eyes.images)
        self._own = size
        self.vectors = gym.spaces.Box(-np.inf, np.inf, (own,), np.float32)
        """The space of what it makes."""
        self._exact: dict[torch.device, Eyes] = {}
        self._known: dict[bytes, Array] = {}

    def spaces(self, spaces: Spaces) -> Spaces:
        """Those of what it makes."""
        return Spaces(self.vectors, spaces.action)

    def is_raw(self, rows: Array | Tensor) -> bool:
        """Whether these are observations, not yet what it makes of them."""
        return tuple(rows.shape[1:]) == observation_shape(self.space) and str(rows.dtype).endswith(
            str(observation_type(self.space))
        )

    def window(self, window: Window) -> Window:
        """The same windows, of vectors; as they are where they are that already."""
        if not self.is_raw(window.state):
            return window
        n, look_back = window.mask.shape
        rows = [window.state, window.past_states.flatten(0, 1)]
        found = torch.from_numpy(self(torch.cat(rows).cpu().numpy()))
        past = found[n:].view(n, look_back, found.shape[1]) * window.mask[..., None].to(found.dtype)
        return Window(found[:n], past, window.past_actions, window.mask)

    def trajectories(self, some: Trajectories) -> Trajectories:
        """The same trajectories, of vectors; as they are where they are that already."""
        return self._encoded(some)[0] if self.is_raw(some.observations) else some

    def demonstrations(self, demos: Demonstrations) -> Demonstrations:
        """The same demonstrations, of vectors."""
        clean, noisy = self._encoded(demos.clean, demos.noisy)
        return Demonstrations(clean, noisy, self.spaces(demos.spaces))

    def _encoded(self, *sets: Trajectories) -> list[Trajectories]:
        """Over one new array of all rows that any of them has, whatever else lies between."""
        ends = [np.stack([s.first_row, s.lengths + s.has_final]) for s in sets]
        first, count = np.concatenate(ends, 1)
        begins = np.cumsum(count) - count
        rows = np.repeat(first - begins, count) + np.arange(int(count.sum()))
        seen = self._rows(sets[0].observations, rows)
        seen.flags.writeable = False
        edges = np.cumsum([len(s) for s in sets])[:-1]
        made = []
        for some, begin in zip(sets, np.split(begins, edges), strict=True):
            other = copy(some)
            other.observations, other.first_row, other.digests = seen, begin, None
            made.append(other)
        return made

    def __call__(self, rows: Array) -> Array:
        """Raw observations (n, *kept) to (n, size), single precision."""
        return self._rows(rows, np.arange(len(rows)))

    def _rows(self, observations: Array, rows: Array) -> Array:
        """Those at these places, some megabytes at a time."""
        out = np.empty((len(rows), *self.vectors.shape), np.float32)
        if not len(rows):
            return out
        device = wanted_device()
        size = max(1, BYTES_AT_ONCE // max(1, observations[0].nbytes))
        if device.type == "cuda" and self.features is None and len(rows) > FRAMES_IN_CACHE:
            self._on_device(observations, rows, size, device, out)
            return out
        for begin in range(0, len(rows), size):
            block = take_rows(observations, rows[begin : begin + size])
            self._distinct(block, out[begin : begin + size])
        return out

    def _distinct(self, block: Array, out: Array) -> None:
        """Each different observation once: frames come again, and those of a grid world often."""
        flat = np.ascontiguousarray(block).reshape(len(block), -1).view(np.uint8)
        names = [hashlib.blake2b(row.data, digest_size=16).digest() for row in flat]
        if len(self._known) * self.vectors.shape[0] * 4 > _REMEMBERED:
            self._known.clear()
        places: dict[bytes, int] = {}
        for i, name in enumerate(names):
            if name not in self._known:
                places.setdefault(name, i)
        new = list(places.values())
        if new:
            found = self._compute(block[new])
            self._known.update(zip(places, found, strict=True))
        for i, name in enumerate(names):
            out[i] = self._known[name]

    def _compute(self, rows: Array) -> Array:
        if self.features is not None:
            return self._by_features(rows)
        eyes, found = self._eyes(torch.device("cpu")), []
        with torch.no_grad():
            for some in torch.from_numpy(rows).split(FRAMES_IN_CACHE):
                found.append(eyes(some).float())
        return torch.cat(found).numpy()

    def _by_features(self, rows: Array) -> Array:
        assert self.features is not None
        tensor, seen = torch.from_numpy(rows), []
        for part in self.eyes.images:
            images = part_of(tensor, part)
            with torch.no_grad():
                module = isinstance(self.features, nn.Module)
                given: Any = images if module else images.numpy()
                found = self.features(given)
            if isinstance(found, Tensor):
                found = found.detach().cpu().numpy()
            found = np.asarray(found, np.float32)
            if found.shape != (len(rows), self._own) or not np.isfinite(found).all():
                raise InputError(
                    f"features of {len(rows)} pictures {part.name!r} must be finite numbers of "
                    f"shape {(len(rows), self._own)}, not {found.shape}"
                )
            seen.append(found)
        with torch.no_grad():
            told = [t.numpy().astype(np.float32) for t in self.eyes.told(tensor)]
        return np.concatenate([*seen, *told], 1)

    def _on_device(
        self, observations: Array, rows: Array, size: int, device: torch.device, out: Array
    ) -> None:
        """Blocks are read and pinned by a thread while the ones before are computed."""
        eyes = self._eyes(device)
        results = torch.empty(len(rows), out.shape[1], device=device)
        begin = 0
        with torch.no_grad():
            for block in brought(observations, rows, size, device):
                for some in block.split(FRAMES_AT_ONCE):
                    results[begin : begin + len(some)] = eyes(some).float()
                    begin += len(some)
        torch.from_numpy(out).copy_(results)

    def _eyes(self, device: torch.device) -> Eyes:
        """In double precision, on this device."""
        if device not in self._exact:
            exact = deepcopy(self.eyes).double().requires_grad_(False).to(device)
            self._exact[device] = exact.eval()
        return self._exact[device]

    def tensors(self) -> dict[str, Tensor]:
        """All that was learned; on the CPU."""
        return {k: v.detach().cpu() for k, v in self.eyes.state_dict().items()}

    def configuration(self) -> dict[str, Any]:
        """What `build` needs beside; JSON."""
        named = self.named
        if self.features is not None and named is None:
            named = getattr(self.features, "__qualname__", type(self.features).__name__)
        own = {} if self.features is None else {"features": named, "size": self._own}
        return {
            "outputs": self.eyes.outputs,
            "width": self.eyes.width,
            **own,
        }

    @staticmethod
    def build(
        spaces: Spaces,
        configuration: dict[str, Any],
        tensors: dict[str, Tensor],
        features: Features | str | None = None,
    ) -> ObservationEncoder:
        """The inverse. `features` are the user's own, which no file can bring back."""
        space = spaces.observation
        with torch.random.fork_rng(devices=[]):  # its weights are replaced at once
            eyes = Eyes(space, int(configuration["outputs"]), int(configuration["width"]))
        eyes.load_state_dict(tensors)
        if "features" not in configuration:
            return ObservationEncoder(space, eyes)
        if features is None:
            raise NeedsFeaturesError(
                f"it sees pictures by features of yours ({configuration['features']}), which are "
                "in no file; load it with features=..."
            )
        return ObservationEncoder(space, eyes, features=features, size=configuration["size"])

    def __deepcopy__(self, _: Any) -> ObservationEncoder:
        return self  # nothing in it ever changes


def take_rows(observations: Array, rows: Array) -> Array:
    """These rows; a view where they lie one after the other."""
    first, n = int(rows[0]), len(rows)
    if int(rows[-1]) - first == n - 1 and (n < 3 or bool((np.diff(rows) == 1).all())):
        return observations[first : first + n]
    return observations[rows]


def brought(observations: Array, rows: Array, size: int, device: torch.device) -> Iterator[Tensor]:
    """These rows on a GPU, `size` at a time, in their order: threads read ahead into pinned
    memory, which is written to again only when its copy has arrived."""
    shape = (min(size, len(rows)), *observations.shape[1:])
    number = torch.from_numpy(np.zeros(0, observations.dtype)).dtype
    free = [torch.empty(shape, dtype=number, pin_memory=True) for _ in range(2 * READERS)]
    reading: deque[tuple[Future[None], Tensor, int]] = deque()
    sent: deque[tuple[torch.cuda.Event, Tensor]] = deque()

    def read(block: Tensor, some: Array) -> None:
        np.copyto(block.numpy()[: len(some)], take_rows(observations, some))

    with ThreadPoolExecutor(READERS) as pool:
        begin = 0
        while begin < len(rows) or reading:
            while begin < len(rows) and (free or len(sent) > 1):
                if not free:
                    arrived, block = sent.popleft()
                    arrived.synchronize()
                    free.append(block)
                block, some = free.pop(), rows[begin : begin + size]
                reading.append((pool.submit(read, block, some), block, len(some)))
                begin += size
            done, block, n = reading.popleft()
            done.result()
            there = block[:n].to(device, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
            sent.append((arrived, block))
            yield there


def _found(name: str) -> Features:
    if not is_import_path(name):
        raise InputError(f"features are named module:function, not {name!r}")
    found = find_imported(name)
    if not callable(found):
        raise InputError(f"{name} cannot be called: features take pictures and give numbers")
    return found


def measure_features(features: Features, eyes: Eyes, rows: Array) -> int:
    """How many numbers a user's own make of a picture."""
    sizes = set()
    for part in eyes.images:
        images = part_of(torch.from_numpy(np.array(rows[:1])), part)
        given: Any = images if isinstance(features, nn.Module) else images.numpy()
        found = features(given)
        shape = tuple(found.shape) if hasattr(found, "shape") else np.shape(found)
        if len(shape) != 2 or shape[0] != 1:
            raise InputError(
                f"features of one picture {tuple(given.shape)} must have the shape (1, F), "
                f"not {shape}"
            )
        sizes.add(int(shape[1]))
    if len(sizes) != 1:
        raise InputError(f"features must make as many numbers of every picture, not {sizes}")
    return sizes.pop()
