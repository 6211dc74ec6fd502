"""Reference numbers for MCE IRL, made by `imitation` on random tabular problems.

    .venv-imitation/bin/python tools/mce_reference.py tests/algorithms/mce_reference.npz

`benchmarks/training_speed.py` makes `.venv-imitation`, with imitation 1.0.1. This file imports
nothing of ours. `tests/algorithms/test_mce_irl.py` reads what it writes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

SIZES = ((3, 2, 1), (5, 3, 7), (8, 4, 20), (12, 7, 50))
"""States, actions and horizon of the problems."""


def main(file: str) -> None:
    """Draw the problems, solve them, save both."""
    from imitation.algorithms.mce_irl import mce_occupancy_measures, mce_partition_fh
    from seals.base_envs import TabularModelPOMDP

    arrays: dict[str, Any] = {}
    for number, (n_states, n_actions, horizon) in enumerate(SIZES):
        rng = np.random.default_rng(number)
        for kind in ("stochastic", "deterministic"):
            if kind == "stochastic":
                transition = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
            else:
                transition = np.eye(n_states)[rng.integers(n_states, size=(n_states, n_actions))]
            problem = {
                "transition": transition,
                "reward": 2.0 * rng.standard_normal(n_states),
                "start": rng.dirichlet(np.ones(n_states)),
            }
            env = TabularModelPOMDP(
                transition_matrix=transition,
                observation_matrix=np.eye(n_states),
                reward_matrix=problem["reward"],
                horizon=horizon,
                initial_state_dist=problem["start"],
            )
            V, Q, pi = mce_partition_fh(env)
            D, D_sum = mce_occupancy_measures(env)
            solved = {"V": V, "Q": Q, "pi": pi, "D": D, "D_sum": D_sum}
            arrays |= {f"{number}.{kind}.{k}": v for k, v in {**problem, **solved}.items()}
    np.savez_compressed(file, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
