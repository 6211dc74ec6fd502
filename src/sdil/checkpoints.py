"""What a run folder keeps of a training while it lasts: epochs, and checkpoints to go on from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

from sdil.errors import InputError
from sdil.evaluation.scores import compare_with_truth
from sdil.files import new_file, read_json
from sdil.spaces import Array
from sdil.states import State
from sdil.training import Epoch


class Listener:
    """Hears each epoch: keeps its figures, writes a checkpoint, compares scores with the truth.

    The truth is recorded beside the losses and used for nothing.
    """

    def __init__(
        self,
        out: Path,
        before: list[dict[str, Any]],
        good: Array | None,
        *,
        tensorboard: bool,
    ) -> None:
        """`good` is the truth about each noisy training step, where it is known. (N,)"""
        self.epochs = list(before)
        self._out, self._good = out, good
        self._board = _tensorboard(out) if tensorboard else None

    def hear(self, epoch: Epoch) -> None:
        entry = {
            "phase": epoch.phase,
            "epoch": epoch.index,
            "kept": epoch.kept,
            **epoch.losses,
            **epoch.figures,
        }
        if self._good is not None and epoch.scores is not None:
            entry["score_auroc"], entry["score_average_precision"] = compare_with_truth(
                epoch.scores.numpy(), self._good
            )
        if epoch.bad is not None:
            entry["bad_steps"] = len(epoch.bad)
            if self._good is not None and len(epoch.bad):
                entry["bad_steps_precision"] = float(1 - self._good[epoch.bad].mean())
        self.epochs.append(entry)
        if self._board is not None:
            for name, value in entry.items():
                if name not in ("phase", "epoch", "kept") and isinstance(value, int | float):
                    self._board.add_scalar(f"{epoch.phase}/{name}", value, epoch.index)
        save_checkpoint(self._out, len(self.epochs), epoch.state, self.epochs)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def _tensorboard(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard needs: pip install 'sdil[tensorboard]'") from None
    return SummaryWriter(str(out / "tensorboard"))


def save_checkpoint(
    out: Path, number: int, state: Callable[[], State], epochs: list[dict[str, Any]]
) -> None:
    """Keep a state and what was said before it; the last two are enough."""
    tensors = state()
    size = sum(tensor.nbytes for tensor in tensors.values())
    with new_file(out / f"checkpoint-{number}.safetensors", size=size) as temporary:
        save_file(tensors, temporary, metadata={"epochs": json.dumps(epochs)})
    for file in checkpoints(out)[:-2]:
        file.unlink()


def checkpoints(out: Path) -> list[Path]:
    """All checkpoints, the latest last; whatever else is called so is none of ours."""

    def number(path: Path) -> str:
        return path.stem.partition("-")[2]

    found = [path for path in out.glob("checkpoint-*.safetensors") if number(path).isdecimal()]
    return sorted(found, key=lambda path: int(number(path)))


def last_checkpoint(out: Path) -> tuple[State | None, list[dict[str, Any]]]:
    """The state to go on from, and the epochs before it."""
    saved = checkpoints(out)
    if not saved:
        return None, []
    try:
        with safe_open(saved[-1], framework="pt") as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            before = json.loads(file.metadata()["epochs"])
        if not isinstance(before, list) or not all(isinstance(e, dict) for e in before):
            raise ValueError("its epochs are no list")
    except Exception as error:  # safetensors raises its own kind
        raise InputError(
            f"{saved[-1]}: damaged ({error}); delete it to use the one before"
        ) from None
    return state, before


def read_epochs(folder: Path) -> list[dict[str, Any]]:
    """What was said after each epoch of a finished run."""
    path = folder / "epochs.json"
    epochs = read_json(path, what="a finished run")
    needed = {"phase", "epoch", "kept"}
    if not isinstance(epochs, list) or not all(
        isinstance(e, dict) and needed <= set(e) for e in epochs
    ):
        raise InputError(f"{path}: damaged (a list of epochs with {', '.join(needed)} is needed)")
    return epochs


def kept_of_each_phase(epochs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What was said of the weights that each phase keeps, and how many epochs it took."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for epoch in epochs:
        phases.setdefault(epoch["phase"], []).append(epoch)
    return {
        phase: {**([e for e in said if e["kept"]] or said)[-1], "epochs": said[-1]["epoch"]}
        for phase, said in phases.items()
    }
