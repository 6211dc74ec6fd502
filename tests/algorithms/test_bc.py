from __future__ import annotations

import numpy as np
import pytest

import sdil
from sdil import BC


@pytest.mark.parametrize("look_back", [0, 5])
def test_it_learns_to_cross_the_rooms(look_back):
    demos, _ = sdil.get_task("fourrooms").collect(clean=200, noisy=0, seed=0)
    policy = BC(look_back=look_back).fit(demos, seed=0)
    result = sdil.evaluate(policy, "fourrooms", episodes=300)
    assert result.success_rate > (0.85 if look_back == 0 else 0.5)


def test_noisy_steps_are_cloned_too(fourrooms):
    """With the noisy set, BC walks to the decoy; without it, it does not."""
    demos, _ = sdil.get_task("fourrooms").collect(clean=60, noisy=300, seed=0)
    rewards = [
        sdil.evaluate(BC().fit(d, seed=0), "fourrooms", episodes=200).reward_mean
        for d in (demos.clean_only(), demos)
    ]
    assert rewards[0] > rewards[1] + 0.2


def test_golden_run():
    """Guards against silent change; the tolerance is for processors that round differently."""
    demos, _ = sdil.get_task("fourrooms").collect(clean=20, noisy=0, seed=0)
    epochs = []
    valid, _ = sdil.get_task("fourrooms").collect(clean=5, noisy=0, seed=1)
    BC(max_updates=200).fit(demos, valid=valid, seed=0, on_epoch=epochs.append)
    last = epochs[-1].losses
    np.testing.assert_allclose([last["imitation"], last["valid_nll"]], GOLDEN, rtol=0.02)


GOLDEN = [0.12411, 0.42350]
