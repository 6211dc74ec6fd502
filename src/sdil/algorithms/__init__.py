"""The registry: every learner by name, and every kind of policy they save."""

from __future__ import annotations

from pathlib import Path

from sdil.algorithms.acil import ACIL
from sdil.algorithms.airl import AIRL
from sdil.algorithms.bc import BC
from sdil.algorithms.density_irl import DensityIRL
from sdil.algorithms.gail import GAIL
from sdil.algorithms.sdil import SDIL
from sdil.algorithms.training import Learner
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.networks.policies import PlainPolicy
from sdil.policy import Policy, read_policy

LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner for learner in (SDIL, BC, DensityIRL, AIRL, GAIL, ACIL)
}

_KINDS: dict[str, type[Policy]] = {
    policy.kind: policy for policy in (HierarchicalPolicy, PlainPolicy)
}


def load_policy(folder: str | Path) -> Policy:
    """Read a policy that `policy.save` or `sdil train` wrote."""
    return read_policy(folder, _KINDS)
