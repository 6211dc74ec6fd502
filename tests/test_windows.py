from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sdil.windows as windows_module
from sdil import Demonstrations, Trajectory
from sdil.policy import Policy
from sdil.spaces import find_fault
from sdil.windows import (
    STEPS_AT_ONCE,
    STEPS_IN_CACHE,
    DistinctStates,
    Windows,
    steps_at_once,
    varying_inputs,
)


def plain(trajectory: Trajectory, t: int, look_back: int):
    """A window by the book: one step at a time, in plain Python."""
    size = trajectory.observations.shape[1]
    states, actions, mask = np.zeros((look_back, size)), np.zeros(look_back), [False] * look_back
    for slot, past in enumerate(range(t - look_back, t)):
        if past >= 0:
            states[slot], actions[slot] = trajectory.observations[past], trajectory.actions[past]
            mask[slot] = True
    return trajectory.observations[t], states, actions, mask


@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    finals=st.lists(st.booleans(), min_size=5, max_size=5),
    look_back=st.integers(0, 6),
    seed=st.integers(0, 99),
)
def test_windows_equal_the_plain_definition(lengths, finals, look_back, seed):
    rng = np.random.default_rng(seed)
    items = [
        Trajectory(
            rng.normal(size=(n + final, 3)).astype(np.float32), rng.integers(0, 5, n), id=str(i)
        )
        for i, (n, final) in enumerate(zip(lengths, finals, strict=False))
    ]
    demos = Demonstrations(clean=items)
    subset = demos.clean.subset(rng.permutation(len(items)))
    windows = Windows(subset, look_back)
    assert len(windows) == sum(lengths)
    index = torch.arange(len(windows))
    batch, (following, exists) = windows.at(index), windows.next_states_at(index)
    actions = windows.actions_at(index)
    at = 0
    for trajectory in subset:
        for t in range(len(trajectory)):
            state, states, past_actions, mask = plain(trajectory, t, look_back)
            np.testing.assert_array_equal(batch.state[at], state)
            np.testing.assert_array_equal(batch.past_states[at], states)
            np.testing.assert_array_equal(batch.past_actions[at], past_actions)
            assert batch.mask[at].tolist() == mask
            assert actions[at] == trajectory.actions[t]
            known = t + 1 < len(trajectory.observations)
            assert bool(exists[at]) == known
            np.testing.assert_array_equal(
                following[at], trajectory.observations[t + 1] if known else 0 * state
            )
            at += 1


@pytest.mark.parametrize("look_back", [0, 1, 3])
def test_actions_that_are_vectors_are_looked_back_at_whole(look_back):
    rng = np.random.default_rng(0)
    items = [
        Trajectory(rng.normal(size=(n, 2)), rng.normal(size=(n, 4)), id=str(n)) for n in (3, 5)
    ]
    windows = Windows(Demonstrations(clean=items).clean, look_back)
    batch = windows.at(torch.arange(8))
    assert batch.past_states.shape == (8, look_back, 2)
    assert batch.past_actions.shape == (8, look_back, 4)
    for slot in range(look_back):
        past = 4 - look_back + slot  # of the second episode's last step
        np.testing.assert_array_equal(batch.past_actions[7, slot], items[1].actions[past])
        np.testing.assert_array_equal(batch.past_states[7, slot], items[1].observations[past])


def test_a_stretch_ends_with_a_change_or_with_its_episode():
    """Entry 0 changes all the time, entry 1 with steps 1 and 3 of the first episode."""
    first = np.array([[0, 5], [1, 5], [2, 6], [3, 6], [4, 5], [5, 5]], np.float32)
    other = np.array([[9, 5], [8, 5]], np.float32)  # its last observation is not known
    demos = Demonstrations(
        [Trajectory(first, np.zeros(5, int)), Trajectory(other, np.zeros(2, int))]
    )
    windows = Windows(demos.clean, 0)
    assert windows.stretch_ends(torch.tensor([1])).tolist() == [1, 1, 3, 3, 4, 6, 6]
    assert windows.stretch_ends(torch.tensor([0, 1])).tolist() == [0, 1, 2, 3, 4, 5, 6]
    states, exists = windows.until_change(torch.tensor([1])).next_states_at(torch.arange(7))
    assert states[:, 0].tolist() == [2, 2, 4, 4, 5, 0, 0]
    assert exists.tolist() == [True] * 5 + [False] * 2
    assert windows.next_states_at(torch.arange(7))[0][:, 0].tolist() == [1, 2, 3, 4, 5, 8, 0]


def test_windows_do_not_copy_the_data(demos):
    windows = Windows(demos.all, 5)
    assert np.shares_memory(windows.observations.numpy(), demos.clean.observations)
    assert np.shares_memory(windows.actions.numpy(), demos.noisy.actions)


class Recorder(Policy):
    """Acts at random and keeps every window it was shown."""

    kind = "recorder"

    def __init__(self, spaces, look_back):
        self.spaces, self.look_back, self.seen = spaces, look_back, []
        self.generator = torch.Generator().manual_seed(0)

    def action_probs(self, window):
        self.seen.append(window)
        probs = torch.rand(len(window), 7, generator=self.generator, dtype=torch.float64)
        return probs / probs.sum(1, keepdim=True)

    def tensors(self):
        return {}

    def configuration(self):
        return {}

    @classmethod
    def build(cls, spaces, configuration, tensors):
        raise AssertionError


@pytest.mark.parametrize("look_back", [0, 1, 5])
def test_acting_sees_the_windows_that_training_would_cut(demos, look_back):
    """Three environments side by side, episodes of different lengths, restarted on the way."""
    policy = Recorder(demos.spaces, look_back)
    envs = [gym.make("sdil/fourrooms-v0", max_episode_steps=n).unwrapped for n in (100, 100, 100)]
    limits, recorded = [4, 9, 13], []
    observations = np.stack([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    open_ = [([o.copy()], []) for o in observations]
    where = {}  # (episode id, t) -> (call, slot)
    names = ["0", "1", "2"]
    state, starts = None, np.ones(3, bool)
    for call in range(40):
        actions, state = policy.predict(observations, state, starts)
        starts = np.zeros(3, bool)
        for slot, env in enumerate(envs):
            states, taken = open_[slot]
            where[names[slot], len(taken)] = (call, slot)
            observation, *_ = env.step(actions[slot])
            states.append(observation)
            taken.append(actions[slot])
            if len(taken) == limits[slot]:
                recorded.append(Trajectory(np.stack(states), np.array(taken), id=names[slot]))
                names[slot] = f"{slot}-{call}"
                observation, _ = env.reset(seed=call)
                open_[slot], starts[slot] = ([observation], []), True
            observations[slot] = observation
    made = Demonstrations(clean=recorded, spaces=demos.spaces)
    windows = Windows(made.clean, look_back)
    at = 0
    for trajectory in made.clean:
        for t in range(len(trajectory)):
            call, slot = where[trajectory.id, t]
            seen, expected = policy.seen[call], windows.at(torch.tensor([at]))
            for name in ("state", "past_states", "past_actions", "mask"):
                torch.testing.assert_close(
                    getattr(seen, name)[slot], getattr(expected, name)[0], rtol=0, atol=0
                )
            at += 1
    assert at == len(windows) > 80


def test_steps_beyond_65_536_are_numbered_right():
    """Numbers of steps and rows need more than 16 bits."""
    n = 70_000
    observations = np.arange(2 * (n + 1), dtype=np.float64).reshape(-1, 1)
    episodes = [
        Trajectory(observations[: n + 1], np.arange(n) % 3),
        Trajectory(observations[n + 1 :], np.arange(n) % 3),
    ]
    made = Demonstrations(episodes)
    windows = Windows(made.clean, 2)
    assert len(windows) == 2 * n
    late = torch.tensor([65_535, 65_536, 65_537, 2 * n - 1])
    window = windows.at(late)
    assert window.state[:, 0].tolist() == [65_535, 65_536, 65_537, 2 * n]
    assert window.past_states[:, 1, 0].tolist() == [65_534, 65_535, 65_536, 2 * n - 1]
    assert windows.actions_at(late).tolist() == [0, 1, 2, (n - 1) % 3]
    assert torch.cat(windows.parts()).tolist() == list(range(2 * n))
    assert find_fault(observations, made.spaces.observation) is None
    observations = observations.copy()
    observations[66_000] = np.nan
    (row, _), _ = find_fault(observations, made.spaces.observation)
    assert row == 66_000


def test_all_numbers_of_a_precision_go_together():
    assert steps_at_once(torch.float32) == STEPS_AT_ONCE
    assert steps_at_once(torch.float64) == STEPS_IN_CACHE


def test_a_window_can_be_shorter_and_see_less():
    seen = np.arange(15.0).reshape(5, 3)
    windows = Windows(Demonstrations([Trajectory(seen, [0, 1, 2, 3])]).clean, 3)
    window = windows.at(torch.tensor([3, 1]))
    short = window.latest(2)
    assert short.state.tolist() == window.state.tolist()
    assert short.past_states[0].tolist() == [[3, 4, 5], [6, 7, 8]]
    assert short.past_states[1].tolist() == [[0, 0, 0], [0, 1, 2]]
    assert short.past_actions.tolist() == [[1, 2], [0, 0]]
    assert short.mask.tolist() == [[True, True], [False, True]]
    less = window.only(torch.tensor([2, 0]))
    assert less.state.tolist() == [[11, 9], [5, 3]]
    assert less.past_states[0].tolist() == [[2, 0], [5, 3], [8, 6]]
    assert less.past_actions.tolist() == window.past_actions.tolist()
    assert less.mask.tolist() == window.mask.tolist()


def test_windows_with_some_inputs_are_those_of_all_with_the_others_left_out():
    seen = np.random.default_rng(0).normal(size=(6, 3))
    clean = Demonstrations([Trajectory(seen, [0, 1, 2, 0, 1])]).clean
    every = torch.arange(5)
    whole = Windows(clean, 2)
    inputs = torch.tensor([0, 2])
    for less in (Windows(clean, 2, inputs), whole.only(inputs)):
        assert less.observations.shape == (6, 2)
        assert torch.equal(less.at(every).state, whole.at(every).state[:, inputs])
        assert torch.equal(less.at(every).past_states, whole.at(every).past_states[..., inputs])
    assert whole.observations.shape == (6, 3)
    both = Windows(clean, 2, torch.arange(3))  # all of them: nothing is copied
    assert np.shares_memory(both.observations.numpy(), clean.observations)


def test_actions_ahead_end_with_their_episode():
    clean = Demonstrations(
        [Trajectory(np.zeros((4, 1)), [1, 2, 3]), Trajectory(np.zeros((2, 1)), [4])]
    ).clean
    found, exists = Windows(clean, 0).actions_ahead(torch.tensor([0, 1, 2, 3]), 3)
    assert exists.sum(1).tolist() == [3, 2, 1, 1]
    assert exists[:, 0].all()
    assert exists[0].all()
    assert found[0].tolist() == [1, 2, 3]
    assert found[1, :2].tolist() == [2, 3]
    assert found[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("seen", "inputs"),
    [
        ([[1, 5, 0], [1, 6, 0], [1, 5, 0]], [1]),
        ([[1, 5, 0], [1, 5, 0], [2, 5, 7]], [0, 1, 2]),  # the last state is nobody's: none varies
        ([[1, 5, 0], [1, 5, 9], [2, 5, 0]], [2]),
        ([[3, 4, 5]], [0, 1, 2]),
    ],
)
def test_inputs_that_vary_are_found_and_all_where_none_does(seen, inputs):
    seen = np.array(seen, float)
    actions = [0] * max(1, len(seen) - 1)
    clean = Demonstrations([Trajectory(seen, actions)]).clean
    assert varying_inputs(clean).tolist() == inputs


def test_states_are_numbered_as_they_first_appear():
    states = DistinctStates(np.array([[1.0, 0.0], [2.0, 2.0], [1.0, -0.0], [3.0, 0.0], [2.0, 2.0]]))
    assert len(states) == 3
    assert states.of_rows.tolist() == [0, 1, 0, 2, 1]
    assert states.first.tolist() == [0, 1, 3]
    assert states.of(np.array([[2.0, 2.0], [9.0, 9.0], [-0.0, 0.0], [3.0, -0.0]])).tolist() == [
        1,
        -1,
        -1,
        2,
    ]


@pytest.mark.parametrize("look_back", [0, 1, 3])
@pytest.mark.parametrize("final", [False, True])
def test_the_smallest_set_has_windows(look_back, final):
    """One step, of which not even the last observation need be known."""
    one = Trajectory(np.full((1 + final, 2), 5.0), [3], terminated=final)
    windows = Windows(Demonstrations([one]).clean, look_back)
    assert len(windows) == 1
    window = windows.at(torch.tensor([0]))
    assert window.state.tolist() == [[5.0, 5.0]]
    assert window.past_states.tolist() == [[[0.0, 0.0]] * look_back]
    assert window.past_actions.tolist() == [[0] * look_back]
    assert window.mask.tolist() == [[False] * look_back]
    assert window.mask.dtype == torch.bool
    states, exists = windows.next_states_at(torch.tensor([0]))
    assert exists.tolist() == [final]
    assert states.tolist() == [[5.0 * final] * 2]
    found, there = windows.actions_ahead(torch.tensor([0]), 2)
    assert found[0, 0] == 3
    assert there.tolist() == [[True, False]]
    assert (windows.left.tolist(), windows.ended.tolist()) == ([0], [final])
    assert windows.stretch_ends(torch.tensor([0])).tolist() == [0]


def test_only_the_last_step_ends_an_episode_and_only_where_the_task_did():
    seen = np.zeros((4, 1))
    clean = Demonstrations(
        [
            Trajectory(seen, [0, 0, 0], id="ended"),
            Trajectory(seen, [0, 0, 0], terminated=False, id="cut off"),
            Trajectory(seen[:3], [0, 0, 0], id="its last observation is not known"),
        ]
    ).clean
    windows = Windows(clean, 1)
    assert windows.ended.tolist() == [False, False, True] + [False] * 5 + [True]
    assert windows.left.tolist() == [2, 1, 0] * 3
    assert windows.has_next.tolist() == [True] * 8 + [False]


class Memory:
    """So much of a GPU is free."""

    def __init__(self, monkeypatch, free):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10 * free))


@pytest.mark.parametrize(("free", "moved"), [(128, True), (127, False), (10**9, True), (0, False)])
def test_observations_go_to_a_device_where_they_leave_half_of_it(monkeypatch, free, moved):
    """A device without numbers stands for a GPU."""
    seen = np.arange(8.0).reshape(4, 2)  # 64 bytes
    windows = Windows(Demonstrations([Trajectory(seen, [0, 1, 2])]).clean, 1)
    assert windows.to(torch.device("cpu")) is windows
    Memory(monkeypatch, free)
    there = windows.to(torch.device("meta"))
    assert there is not windows
    for name in ("rows", "steps", "times", "left", "actions", "has_next", "following", "ended"):
        assert getattr(there, name).device.type == "meta"
        assert getattr(windows, name).device.type == "cpu"
    assert there.observations.device.type == ("meta" if moved else "cpu")
    assert (there.look_back, len(there)) == (1, 3)
    assert there.to(torch.device("meta")) is there


class Elsewhere:
    """Numbers of rows that lie on another device, as far as `_take` can tell."""

    device = "a GPU"

    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def to(self, device):
        self.asked.append(device)
        return self.rows


def test_rows_are_brought_to_the_device_of_their_numbers(monkeypatch):
    brought = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    to = torch.Tensor.to
    monkeypatch.setattr(
        torch.Tensor,
        "to",
        lambda self, *where, **how: (
            (brought.append((where, how)), self)[1] if "a GPU" in where else to(self, *where, **how)
        ),
    )
    seen = torch.arange(6.0).view(3, 2)
    rows = Elsewhere(torch.tensor([2, 0]))
    assert windows_module._take(seen, rows).tolist() == [[4, 5], [0, 1]]
    assert brought == [(("a GPU",), {"non_blocking": True})]
    assert rows.asked == [seen.device]
    brought.clear()
    assert windows_module._take(seen, torch.tensor([1])).tolist() == [[2, 3]]
    assert brought == []


def test_rows_of_a_file_are_asked_for_with_those_before_them(monkeypatch):
    windows = Windows(Demonstrations([Trajectory(np.zeros((6, 1)), [0] * 5)]).clean, 2)
    asked = []

    class Asking:
        lies_in_file = True

        def __call__(self, rows, before=0):
            asked.append((rows.tolist(), before))

    windows.at(torch.tensor([1]))  # nothing lies in a file
    windows.fetch = Asking()
    windows.at(torch.tensor([3, 4]))
    windows.next_states_at(torch.tensor([0, 4]))
    assert asked == [([3, 4], 2), ([1, 5], 0)]
    Asking.lies_in_file = False
    windows.at(torch.tensor([3, 4]))
    assert len(asked) == 2


def test_all_steps_of_a_large_set_come_in_parts_of_a_size():
    n = STEPS_AT_ONCE + 5
    windows = Windows(Demonstrations([Trajectory(np.zeros((n, 1)), np.zeros(n, int))]).clean, 0)
    assert [len(part) for part in windows.parts()] == [STEPS_AT_ONCE, 5]


@pytest.mark.parametrize("rows", [1, 4])
def test_pictures_and_rows_of_bytes_are_masked_whole(rows):
    seen = np.full((rows + 1, 2, 3), 7, np.uint8)
    windows = Windows(Demonstrations([Trajectory(seen, np.ones((rows, 2)))]).clean, 2)
    window = windows.at(torch.arange(rows))
    assert window.past_states.shape == (rows, 2, 2, 3)
    assert window.past_states.dtype == torch.uint8
    past = window.past_states.flatten(2)
    assert (past == 7 * window.mask[..., None]).all()
    assert (window.past_actions == window.mask[..., None]).all()
    assert window.mask.sum(1).tolist() == [min(t, 2) for t in range(rows)]
    states, exists = windows.next_states_at(torch.arange(rows))
    assert (states == 7).all()
    assert exists.all()
