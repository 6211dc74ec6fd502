from __future__ import annotations

import pytest
import torch

from sdil import Demonstrations, Trajectory
from sdil.heads import Categorical
from sdil.networks.encoders import RecordedFeatures, WindowFeatures
from sdil.windows import Windows, varying_inputs


@pytest.mark.parametrize("look_back", [0, 1, 5])
@pytest.mark.parametrize("sees_next", [True, False])
def test_features_made_once_equal_those_of_each_window(demos, look_back, sees_next):
    inputs = varying_inputs(demos.all)
    windows = Windows(demos.all, look_back, inputs)
    features = WindowFeatures(len(inputs), Categorical(7), look_back, sees_next=sees_next)
    features.standardise.fit(windows)
    index = torch.arange(0, len(windows), 3)
    found, steps = RecordedFeatures(windows, features).at(index)
    window = windows.at(index)
    torch.testing.assert_close(found, features(window, windows.next_states_at(index)))
    torch.testing.assert_close(steps[:, : len(inputs)], features.standardise(window.state))
    one_hot = torch.nn.functional.one_hot(windows.actions_at(index), 7).float()
    assert torch.equal(steps[:, len(inputs) :], one_hot)


def test_features_of_a_set_that_ends_without_a_final_state(demos):
    """What lies behind the last state belongs to the next trajectory."""
    t = demos.noisy[0]
    cut = [Trajectory(t.observations[: len(t)], t.actions, id=name) for name in ("a", "b")]
    windows = Windows(Demonstrations(clean=cut, spaces=demos.spaces).clean, 2)
    features = WindowFeatures(t.observations.shape[1], Categorical(7), 2, sees_next=True)
    index = torch.arange(len(windows))
    found, _ = RecordedFeatures(windows, features).at(index)
    assert torch.equal(found, features(windows.at(index), windows.next_states_at(index)))
    assert found[[len(t) - 1, -1], -1].tolist() == [0, 0]
