from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdil import Demonstrations, InputError, Spaces, Trajectory
from sdil.demonstrations import split_groups

SPACES = Spaces(gym.spaces.Box(-np.inf, np.inf, (3,), np.float32), gym.spaces.Discrete(4))


def test_trajectories_are_views_of_one_flat_array(make_episode):
    demos = Demonstrations(
        clean=[make_episode(4), make_episode(2, seed=1, id="b")], noisy=[make_episode(3)]
    )
    assert demos.clean.observations is demos.noisy.observations
    assert np.shares_memory(demos.clean[0].observations, demos.noisy[0].observations.base)
    assert demos.clean.lengths.tolist() == [4, 2]
    assert demos.noisy.first_step.tolist() == [6]
    assert demos.all.n_steps == 9
    with pytest.raises(ValueError, match="read-only"):
        demos.clean[0].actions[0] = 1


def test_any_iterable_is_taken_and_nothing_changes_afterwards(make_episode):
    made = [make_episode(n, seed=n, id=f"e{n}") for n in (2, 3, 4)]
    demos = Demonstrations((t for t in made[:2]), iter(made[2:]), SPACES)
    assert demos == Demonstrations(clean=made[:2], noisy=tuple(made[2:]), spaces=SPACES)
    with pytest.raises(FrozenInstanceError):
        demos.clean = demos.noisy
    fewer = replace(demos, clean=demos.clean[:1])
    assert fewer == Demonstrations(made[:1], made[2:], SPACES)
    assert fewer.clean.observations is demos.clean.observations  # nothing was copied
    assert repr(demos).startswith("Demonstrations(clean=Trajectories(2 episodes, 5 steps), noisy=")


def test_packing_keeps_every_value(make_episode):
    given_ = [make_episode(n, seed=n, id=f"e{n}", group="g", terminated=n > 2) for n in (1, 3, 5)]
    given_.append(
        Trajectory(np.zeros((2, 3), np.float32), np.array([0, 3]), id="no final, no reward")
    )
    demos = Demonstrations(clean=given_, spaces=SPACES)
    assert list(demos.clean) == given_
    assert not demos.clean[3].has_final_observation
    assert demos.clean[3].rewards is None
    assert demos.clean.rows().tolist() == [0, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13]
    assert demos.clean.times().tolist() == [0, 0, 1, 2, 0, 1, 2, 3, 4, 0, 1]


def test_spaces_are_read_off_the_data(make_episode):
    demos = Demonstrations(clean=[make_episode(9)], noisy=[make_episode(9, n_actions=7, seed=3)])
    assert demos.spaces.action == gym.spaces.Discrete(7)
    assert demos.spaces.observation.shape == (3,)
    continuous = Trajectory(np.zeros((3, 8, 8, 3), np.uint8), np.zeros((2, 2), np.float32))
    spaces = Demonstrations(clean=[continuous]).spaces
    assert spaces.observation.dtype == np.uint8
    assert spaces.action.shape == (2,)


def _wrong_action(make):
    t = make(4, id="x")
    return Demonstrations(
        clean=[Trajectory(t.observations, np.array([0, 1, 9, 1]), id="x")], spaces=SPACES
    )


def _nan(make, where="observations"):
    t = make(4, id="x")
    values = np.array(getattr(t, where), float)
    values[2] = np.inf if where == "rewards" else np.nan
    parts = {
        "observations": t.observations,
        "actions": t.actions,
        "rewards": t.rewards,
        where: values,
    }
    return Demonstrations(clean=[Trajectory(**parts, id="x")])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: Demonstrations(clean=[]), "clean set is empty"),
        (lambda m: Trajectory(np.zeros((1, 3)), np.zeros(0, int), id="x"), "'x' is empty"),
        (
            lambda m: Trajectory(np.zeros((7, 3)), np.zeros(4, int), id="x"),
            "7 observations do not fit 4",
        ),
        (
            lambda m: Trajectory(np.zeros((5, 3)), np.zeros(4, int), np.zeros(3)),
            "rewards have shape",
        ),
        (lambda m: Trajectory([[1.0], [1.0, 2.0]], [0]), "rectangular|inhomogeneous"),
        (lambda m: Trajectory([["a"], ["b"]], [0]), "array of numbers"),
        (_nan, r"clean set, episode 'x', step 2: observation element \(0,\) = nan is not a finite"),
        (lambda m: _nan(m, "rewards"), "episode 'x', step 2: reward is inf"),
        (_wrong_action, r"clean set, episode 'x', step 2: action = 9 lies outside Discrete\(4\)"),
        (
            lambda m: Demonstrations(clean=[m(3)], noisy=[m(3, size=5, id="odd")]),
            "noisy set, episode 'odd': observations have shape",
        ),
        (
            lambda m: Demonstrations(
                clean=[m(3)], noisy=[Trajectory(np.zeros((3, 3)), np.array([0.5, 1.0]), id="c")]
            ),
            "noisy set, episode 'c': actions, step 0: 0.5 is not a whole number",
        ),
        (
            lambda m: Demonstrations(clean=[m(3, id="a"), m(2, id="a")]),
            "two episodes are called 'a'",
        ),
        (lambda m: Demonstrations(clean=[7]), "item 0: expected a Trajectory"),
        (
            lambda m: Demonstrations(
                clean=[m(3)], spaces=Spaces(gym.spaces.Dict(), gym.spaces.Discrete(4))
            ),
            "not supported yet",
        ),
    ],
)
def test_bad_input_names_set_episode_step_and_field(make, message, make_episode):
    with pytest.raises(InputError, match=message):
        make(make_episode)


@given(data=st.data())
def test_the_validator_finds_any_single_fault_and_names_its_place(data):
    """One value anywhere is spoilt; the error names set, episode, step and field, and no other."""
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=6))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    parts = [
        {
            "observations": rng.normal(size=(n + 1, 3)),
            "actions": rng.integers(0, 4, n),
            "rewards": rng.normal(size=n),
        }
        for n in lengths
    ]
    n_clean = data.draw(st.integers(1, len(lengths) - 1))
    field, bad, name = data.draw(
        st.sampled_from(
            [
                ("observations", np.nan, "observation"),
                ("observations", -np.inf, "observation"),
                ("actions", 4, "action"),
                ("actions", -1, "action"),
                ("rewards", np.nan, "reward"),
            ]
        )
    )
    where = data.draw(st.integers(0, len(lengths) - 1))
    step = data.draw(st.integers(0, len(parts[where][field]) - 1))

    def build():
        items = [Trajectory(**p, id=f"e{i}") for i, p in enumerate(parts)]
        return Demonstrations(clean=items[:n_clean], noisy=items[n_clean:], spaces=SPACES)

    assert build().all.n_steps == sum(lengths)  # sound before
    parts[where][field][step] = bad
    place = "clean" if where < n_clean else "noisy"
    with pytest.raises(InputError, match=rf"^{place} set, episode 'e{where}', step {step}: {name}"):
        build()


def test_a_narrow_type_does_not_wrap_values_round():
    spaces = Spaces(gym.spaces.Box(0, 255, (1,), np.uint8), gym.spaces.Discrete(2))
    wrong = Trajectory(np.array([[7], [300]]), np.array([0]), id="x")
    with pytest.raises(InputError, match=r"episode 'x', step 1: observation element \(0,\) = 300"):
        Demonstrations(clean=[wrong], spaces=spaces)


def test_negative_action_is_refused(make_episode):
    t = make_episode(3)
    with pytest.raises(InputError, match="step 1: action = -1 lies outside"):
        Demonstrations(clean=[Trajectory(t.observations, np.array([0, -1, 1]))])


@given(
    groups=st.lists(st.one_of(st.none(), st.sampled_from("abcdefgh")), min_size=1, max_size=40),
    seed=st.integers(0, 5),
)
def test_split_deals_out_everything_once_and_parts_no_group(groups, seed):
    units = {i if g is None else g for i, g in enumerate(groups)}
    if len(units) < 3:
        with pytest.raises(InputError, match="cannot split"):
            split_groups(groups, (3, 2, 5), seed=seed)
        return
    parts = split_groups(groups, (3, 2, 5), seed=seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(groups)))
    assert all(len(part) for part in parts)
    for group in set(groups) - {None}:
        homes = [n for n, part in enumerate(parts) if any(groups[i] == group for i in part)]
        assert len(homes) == 1


def test_split_is_3_2_5_seeded_and_drops_noisy_of_held_out_groups(make_episode):
    clean = [make_episode(2, seed=i, id=f"c{i}", group=f"p{i}") for i in range(100)]
    noisy = [make_episode(2, seed=i, id=f"n{i}", group=f"p{i}") for i in range(0, 100, 2)]
    pool = Demonstrations(clean=clean, noisy=noisy)
    split = pool.split(seed=1)
    assert [len(p.clean) for p in (split.train, split.valid, split.test)] == [30, 20, 50]
    assert len(split.valid.noisy) == len(split.test.noisy) == 0
    held_out = set(split.valid.clean.groups) | set(split.test.clean.groups)
    assert not held_out & set(split.train.noisy.groups)
    assert len(split.train.noisy) == len(
        {g for g in split.train.clean.groups if int(g[1:]) % 2 == 0}
    )
    assert split.train.clean == pool.split(seed=1).train.clean
    assert split.train.clean != pool.split(seed=2).train.clean


def test_noisy_without_groups_all_stay(make_episode):
    pool = Demonstrations(
        clean=[make_episode(2, seed=i, id=str(i)) for i in range(10)],
        noisy=[make_episode(2, seed=i, id=str(i)) for i in range(7)],
    )
    assert len(pool.split(seed=0).train.noisy) == 7


def test_take_clean_by_count_and_ratio_is_seeded_and_nested(demos):
    ten, twenty = demos.take_clean(10, seed=3), demos.take_clean(20, seed=3)
    assert len(ten.clean) == 10
    assert set(ten.clean.ids) < set(twenty.clean.ids)
    assert ten.clean.ids == demos.take_clean(10 / 30, seed=3).clean.ids
    assert ten.clean.ids != demos.take_clean(10, seed=4).clean.ids
    assert len(ten.noisy) == 60
    assert len(demos.clean_only().noisy) == 0
    for size in (0, 31, 1.5, 0.0):
        with pytest.raises(InputError, match="clean trajectories"):
            demos.take_clean(size, seed=0)


def test_fingerprint_changes_with_any_value(make_episode):
    a, b = make_episode(3, id="a"), make_episode(3, seed=1, id="b")
    first = Demonstrations(clean=[a], noisy=[b], spaces=SPACES)
    assert first.fingerprint() == Demonstrations(clean=[a], noisy=[b], spaces=SPACES).fingerprint()
    changed = np.array(a.observations)
    changed[1, 1] += 1e-6
    others = [
        Demonstrations(clean=[b], noisy=[a], spaces=SPACES),
        Demonstrations(clean=[a, b], spaces=SPACES),
        Demonstrations(
            clean=[Trajectory(changed, a.actions, a.rewards, id="a")], noisy=[b], spaces=SPACES
        ),
        Demonstrations(
            clean=[Trajectory(a.observations, a.actions, id="a")], noisy=[b], spaces=SPACES
        ),
    ]
    assert len({d.fingerprint() for d in [first, *others]}) == 5
