"""sdil: imitation learning from a few trusted demonstrations and many doubtful ones."""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # MiniGrid's pygame greets on stdout

from sdil.tasks import get_task as get_task  # registers our environments with Gymnasium

if TYPE_CHECKING:
    from sdil.acting import ListenToValue as ListenToValue
    from sdil.acting import NotStuck as NotStuck
    from sdil.acting import Sample as Sample
    from sdil.acting import WithoutCircles as WithoutCircles
    from sdil.algorithms import load_judge as load_judge
    from sdil.algorithms import load_policy as load_policy
    from sdil.algorithms.acil import ACIL as ACIL
    from sdil.algorithms.airl import AIRL as AIRL
    from sdil.algorithms.bc import BC as BC
    from sdil.algorithms.cail import CAIL as CAIL
    from sdil.algorithms.demodice import DemoDICE as DemoDICE
    from sdil.algorithms.density_irl import DensityIRL as DensityIRL
    from sdil.algorithms.dwbc import DWBC as DWBC
    from sdil.algorithms.gail import GAIL as GAIL
    from sdil.algorithms.ileed import ILEED as ILEED
    from sdil.algorithms.isw_bc import ISWBC as ISWBC
    from sdil.algorithms.mce_irl import MCEIRL as MCEIRL
    from sdil.algorithms.oracle import Oracle as Oracle
    from sdil.algorithms.scored_bc import ScoredBC as ScoredBC
    from sdil.algorithms.sdil import SDIL as SDIL
    from sdil.algorithms.weighted_bc import WeightedBC as WeightedBC
    from sdil.cores import threads as threads
    from sdil.curation import curate as curate
    from sdil.demonstrations import Demonstrations as Demonstrations
    from sdil.errors import InputError as InputError
    from sdil.evaluation.comparisons import paired as paired
    from sdil.evaluation.helped import did_it_help as did_it_help
    from sdil.evaluation.metrics import action_metrics as action_metrics
    from sdil.evaluation.rollout import evaluate as evaluate
    from sdil.formats.folder import load_demonstrations as load_demonstrations
    from sdil.formats.folder import load_truth as load_truth
    from sdil.formats.folder import save_demonstrations as save_demonstrations
    from sdil.formats.reading import read as read
    from sdil.formats.recognise import open_source as open_source
    from sdil.judges.asking import first_questions as first_questions
    from sdil.judges.deminf import DemInf as DemInf
    from sdil.judges.judge import Judge as Judge
    from sdil.judges.pu import PU as PU
    from sdil.labels import Label as Label
    from sdil.labels import clean_from_labels as clean_from_labels
    from sdil.labels import load_labels as load_labels
    from sdil.labels import save_labels as save_labels
    from sdil.nested import flatten_actions as flatten_actions
    from sdil.observations import pack_observations as pack_observations
    from sdil.observations import unpack_observations as unpack_observations
    from sdil.runs import judge as judge
    from sdil.runs import resume as resume
    from sdil.runs import train as train
    from sdil.several import TellTask as TellTask
    from sdil.several import join_tasks as join_tasks
    from sdil.spaces import Spaces as Spaces
    from sdil.trajectories import Trajectory as Trajectory

__version__ = version("sdil")

_HOMES = {
    "ACIL": "sdil.algorithms.acil",
    "AIRL": "sdil.algorithms.airl",
    "BC": "sdil.algorithms.bc",
    "CAIL": "sdil.algorithms.cail",
    "DWBC": "sdil.algorithms.dwbc",
    "DemoDICE": "sdil.algorithms.demodice",
    "ILEED": "sdil.algorithms.ileed",
    "ISWBC": "sdil.algorithms.isw_bc",
    "Oracle": "sdil.algorithms.oracle",
    "WeightedBC": "sdil.algorithms.weighted_bc",
    "MCEIRL": "sdil.algorithms.mce_irl",
    "DensityIRL": "sdil.algorithms.density_irl",
    "GAIL": "sdil.algorithms.gail",
    "SDIL": "sdil.algorithms.sdil",
    "ScoredBC": "sdil.algorithms.scored_bc",
    "Demonstrations": "sdil.demonstrations",
    "DemInf": "sdil.algorithms",
    "Judge": "sdil.algorithms",
    "Label": "sdil.labels",
    "ListenToValue": "sdil.acting",
    "PU": "sdil.algorithms",
    "Sample": "sdil.acting",
    "NotStuck": "sdil.acting",
    "WithoutCircles": "sdil.acting",
    "judge": "sdil.runs",
    "load_judge": "sdil.algorithms",
    "open_source": "sdil.formats.recognise",
    "read": "sdil.formats.reading",
    "resume": "sdil.runs",
    "train": "sdil.runs",
    "InputError": "sdil.errors",
    "Spaces": "sdil.spaces",
    "TellTask": "sdil.several",
    "flatten_actions": "sdil.nested",
    "join_tasks": "sdil.several",
    "pack_observations": "sdil.observations",
    "unpack_observations": "sdil.observations",
    "Trajectory": "sdil.trajectories",
    "curate": "sdil.curation",
    "did_it_help": "sdil.evaluation.helped",
    "action_metrics": "sdil.evaluation.metrics",
    "evaluate": "sdil.evaluation.rollout",
    "paired": "sdil.evaluation.comparisons",
    "load_demonstrations": "sdil.formats.folder",
    "clean_from_labels": "sdil.labels",
    "first_questions": "sdil.judges.asking",
    "load_labels": "sdil.labels",
    "load_policy": "sdil.algorithms",
    "load_truth": "sdil.formats.folder",
    "save_demonstrations": "sdil.formats.folder",
    "save_labels": "sdil.labels",
    "threads": "sdil.cores",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: PyTorch takes seconds."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sdil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
