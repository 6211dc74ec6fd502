"""What was learned, on disk: tensors as safetensors, the rest as JSON beside them, never pickle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from safetensors.torch import load_file, save_file
from torch import Tensor

from sdil.errors import InputError
from sdil.files import new_file, read_json, waiting, write_json
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectories
from sdil.windows import Window

_ENCODER = "encoder"  # what its entries are called, in either file


class NeedsFeaturesError(InputError):
    """What was saved sees by features of the user's, which are in no file."""


class Encoder(Protocol):
    """What turns observations of any kind into vectors (`networks/observing.py`)."""

    def __call__(self, rows: Array) -> Array: ...
    def spaces(self, spaces: Spaces) -> Spaces: ...
    def is_raw(self, rows: Array) -> bool: ...
    def trajectories(self, some: Trajectories) -> Trajectories: ...
    def window(self, window: Window) -> Window: ...
    def tensors(self) -> dict[str, Tensor]: ...
    def configuration(self) -> dict[str, Any]: ...


class Saved(ABC):
    """A policy or a fitted judge: numbers that were learned, and what gives them their shape.

    All of them work on vectors. One that was fitted to pictures, or to observations of several
    parts, sees by its `encoder`: whatever it is asked about goes through that first.
    """

    kind: ClassVar[str]
    """The name its class is saved under."""
    spaces: Spaces
    """What it expects of observations and actions."""
    hyperparameters: dict[str, Any]
    """Of whatever made it: for the record only."""
    encoder: Encoder | None = None
    """What makes vectors of its observations; None where they are vectors."""

    @property
    def inner_spaces(self) -> Spaces:
        """Those that it works in: of vectors."""
        return self.spaces if self.encoder is None else self.encoder.spaces(self.spaces)

    def seeing_by(self, encoder: Encoder, spaces: Spaces) -> Self:
        """The same for raw observations of these spaces."""
        other = copy(self)
        other.encoder, other.spaces = encoder, spaces
        return other

    def seen(self, some: Trajectories) -> Trajectories:
        """Trajectories as it works on them: of vectors."""
        return some if self.encoder is None else self.encoder.trajectories(some)

    def seen_window(self, window: Window) -> Window:
        """Windows as it works on them: of vectors."""
        return window if self.encoder is None else self.encoder.window(window)

    def seen_rows(self, rows: Array) -> Array:
        """Observations as it works on them: vectors. (n, size)"""
        if self.encoder is None or not self.encoder.is_raw(rows):
            return rows
        return self.encoder(rows)

    def sight(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What its files say of its encoder, beside the rest: nothing where it has none."""
        if self.encoder is None:
            return {}, {}
        about = {**self.encoder.configuration(), "spaces": self.spaces.to_json()}
        tensors = {f"{_ENCODER}.{k}": v for k, v in self.encoder.tensors().items()}
        return {_ENCODER: about}, tensors

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Everything that was learned, by name."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """What, beside `tensors`, is needed to build it again; JSON."""

    @classmethod
    @abstractmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> Self:
        """The inverse of `configuration` and `tensors`."""


BuildEncoder = Callable[[Spaces, dict[str, Any], dict[str, Tensor]], Encoder]
"""Makes an encoder of raw spaces, its configuration and its tensors."""


def split_sight(
    about: dict[str, Any], tensors: dict[str, Tensor], build: BuildEncoder
) -> tuple[tuple[Encoder, Spaces] | None, dict[str, Tensor]]:
    """The inverse of `sight`: the encoder and the raw spaces, and the other tensors."""
    if _ENCODER not in about:
        return None, tensors
    prefix = f"{_ENCODER}."
    own = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
    spaces = Spaces.from_json(about[_ENCODER]["spaces"])
    rest = {k: v for k, v in tensors.items() if not k.startswith(prefix)}
    return (build(spaces, about[_ENCODER], own), spaces), rest


def write_saved(
    folder: Path,
    stem: str,
    about: dict[str, Any],
    tensors: dict[str, Tensor],
    *,
    version: int,
    over: bool = False,
) -> None:
    """Write `stem`.safetensors and `stem`.json into a folder, but not over those of a run unless
    that is what is meant."""
    if not over and (folder / "run.json").exists() and (folder / f"{stem}.json").exists():
        raise InputError(f"{folder} is a finished run; save into another folder")
    copies = {k: v.detach().clone().contiguous() for k, v in tensors.items()}
    size = sum(tensor.nbytes for tensor in copies.values())
    with new_file(folder / f"{stem}.safetensors", size=size) as temporary:
        save_file(copies, temporary)
    write_json(folder / f"{stem}.json", {"format": version, **about})


def read_saved(
    folder: Path, stem: str, *, version: int, what: str
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `write_saved` wrote; `what` the folder should have been, for complaints."""
    path = folder / f"{stem}.json"
    if not path.exists():
        _refuse_others(folder, stem)
    about = read_json(path, what=what)
    found = about.get("format") if isinstance(about, dict) else None
    if found != version:
        raise InputError(
            f"{path}: format {found!r} is not the one this version reads ({version}); "
            "use the sdil it was made with, or make it again"
        )
    try:
        return about, load_file(folder / f"{stem}.safetensors")
    except Exception as error:  # safetensors raises its own kind
        raise InputError(damaged(folder, stem, error)) from None


def _refuse_others(folder: Path, stem: str) -> None:
    """Say what a folder is that holds something else, or not yet what is asked for."""
    other = {"policy": "judge", "judge": "policy"}[stem]
    named = {"policy": "a run, with a policy", "judge": "a judgement, with no policy"}
    if (folder / f"{other}.json").exists():
        raise InputError(f"{folder} is {named[other]}; {named[stem]} is needed here")
    if (folder / "run.json").exists():
        about = read_json(folder / "run.json", what="a run folder")
        makes = about.get("makes") if isinstance(about, dict) else None
        command = "judge" if makes == "judge" else "train"
        raise InputError(
            f"{folder} was interrupted: {stem}.json is missing; go on with: sdil {command} "
            f"--resume {folder}{waiting(folder)}"
        )


def damaged(folder: Path, stem: str, error: Exception) -> str:
    """What is said where the two files make no sense."""
    return (
        f"{folder}: {stem}.safetensors and {stem}.json are damaged or do not belong together "
        f"({type(error).__name__}: {error})"
    )
