"""An update that a GPU repeats by itself: a CUDA graph of all its operations.

Networks this small keep a GPU waiting for the next operation; recorded once, all of them are begun
by a single one. The first updates are done one by one, and count: so nothing is computed twice.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

_ONE_BY_ONE = 3  # before it is recorded: libraries set themselves up in the first ones

Update = Callable[[Tensor], dict[str, Tensor]]
"""Does an update with the samples of these numbers (B,), always as many; figures to be kept."""


class Repeated:
    """The same update on a GPU, over and over."""

    def __init__(self, update: Update, generator: torch.Generator) -> None:
        """`generator` is the one that the update draws from, on the GPU."""
        self._update, self._generator = update, generator
        self._done = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._index, self._told = torch.empty(0), dict[str, Tensor]()
        self._cannot = False

    def __call__(self, index: Tensor) -> dict[str, Tensor]:
        if self._cannot:
            return self._update(index)
        if self._done < _ONE_BY_ONE:
            self._done += 1
            return self._aside(index)
        if self._graph is None:
            try:
                self._record(index)
            except RuntimeError as error:
                warnings.warn(f"updates are not recorded on this GPU: {error}", stacklevel=2)
                self._cannot = True
                return self._update(index)
        assert self._graph is not None
        self._index.copy_(index)
        self._graph.replay()
        return {name: value.clone() for name, value in self._told.items()}

    def _aside(self, index: Tensor) -> dict[str, Tensor]:
        """On a stream of its own, as recording needs it."""
        aside, usual = torch.cuda.Stream(), torch.cuda.current_stream()
        aside.wait_stream(usual)
        with torch.cuda.stream(aside):
            told = self._update(index)
        usual.wait_stream(aside)
        return told

    def _record(self, index: Tensor) -> None:
        """What is recorded is not done."""
        self._index = index.clone()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._generator)
        with torch.cuda.graph(graph):
            self._told = self._update(self._index)
        self._graph = graph
