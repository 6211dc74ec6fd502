from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import FrozenInstanceError, replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdil import Demonstrations, InputError, Spaces, Trajectory
from sdil.demonstrations import split_groups
from sdil.trajectories import Trajectories

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
    assert repr(demos).startswith("Demonstrations: 2 clean episodes (5 steps), 1 noisy (4 steps)")


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


def test_a_trajectory_does_not_change_and_is_compared_by_its_values(make_episode):
    one = make_episode(3, id="a")
    with pytest.raises(FrozenInstanceError):
        one.id = "b"
    assert one == make_episode(3, id="a")
    assert one != make_episode(3, id="b")
    assert one != make_episode(3, id="a", seed=1)
    assert one != replace(one, terminated=not one.terminated)
    assert one != replace(one, group="g")
    assert one != replace(one, rewards=None)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(InputError, match="actions must be a rectangular array of numbers, not obj"):
        Trajectory(one.observations, [[1], [1, 2], [3]])


def test_states_may_be_numbers_and_need_a_time_axis():
    assert len(Trajectory(np.zeros(3), [0, 1])) == 2
    for seen, done in ((1.0, [0]), (np.zeros(2), 0)):
        with pytest.raises(InputError, match="need a leading time axis"):
            Trajectory(np.asarray(seen), np.asarray(done))


def test_values_of_steps_are_cut_by_trajectory(make_episode):
    demos = Demonstrations([make_episode(2), make_episode(3, id="b")])
    parts = demos.clean.split_steps(np.arange(5))
    assert [p.tolist() for p in parts] == [[0, 1], [2, 3, 4]]
    assert demos.noisy.split_steps(np.arange(0)) == []
    assert [t.id for t in demos.clean[1:]] == ["b"]
    assert demos.clean[-1].id == "b"


def test_blocks_hold_every_trajectory_once_over_their_own_part_of_the_arrays(make_episode):
    given_ = [make_episode(n, seed=n, id=f"e{n}") for n in (3, 1, 4, 9, 2)]
    given_.append(Trajectory(np.ones((2, 3), np.float32), np.array([0, 3]), id="no final"))
    demos = Demonstrations(given_[:1], given_[1:], SPACES)
    blocks = demos.noisy.blocks(6)
    assert [b.ids for b in blocks] == [("e1", "e4"), ("e9", "e2", "no final")]
    assert [t for b in blocks for t in b] == given_[1:]
    for block in blocks:
        assert block.first_row[0] == block.first_step[0] == 0
        assert len(block.observations) == block.n_steps + block.has_final.sum()
        assert len(block.actions) == len(block.rewards) == block.n_steps
        assert np.shares_memory(block.observations, demos.noisy.observations)
    assert demos.noisy.blocks(18) == [demos.noisy]
    assert [len(b) for b in demos.noisy.blocks(4)] == [1, 1, 2, 1]
    shuffled = demos.noisy.subset([2, 0, 1])
    assert [b.ids for b in shuffled.blocks(1)] == [shuffled.ids]  # no part of the arrays is theirs
    apart = demos.noisy.subset([0, 2])
    assert [b.ids for b in apart.blocks(1)] == [apart.ids]


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
            "noisy set, episode 'c', step 0: action 0.5 is not a whole number",
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
            "has no parts",
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


def test_the_fingerprint_is_the_one_that_runs_and_selections_carry(make_episode):
    """It must never change: run.json and selections hold it."""
    bare = Trajectory(np.arange(6, dtype=np.float32).reshape(2, 3), np.array([0, 3]), id="bare")
    pool = Demonstrations(
        [make_episode(3, id="a"), bare], [make_episode(2, seed=1, id="b")], SPACES
    )
    part = Demonstrations(pool.clean.subset([1, 0]), pool.noisy, SPACES)
    for demos in (pool, part):
        digest = hashlib.sha256(repr((SPACES.observation, SPACES.action)).encode())
        for trajectories in (demos.clean, demos.noisy):
            digest.update(b"set")
            for t in trajectories:
                digest.update(repr((t.id, t.group, t.terminated, t.observations.shape)).encode())
                digest.update(t.observations.tobytes() + t.actions.tobytes())
                digest.update(b"-" if t.rewards is None else t.rewards.tobytes())
        assert demos.fingerprint() == digest.hexdigest()
    steps = Trajectory(np.array([[0.0], [0.5]]), np.array([1]), np.array([2.0]), id="x", group="g")
    assert Demonstrations([steps]).fingerprint()[:16] == "878c7034f253e9a9"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"id": 7}, "its id must be text, not int"),
        ({"id": None}, "its id must be text, not NoneType"),
        ({"group": 7}, "its group must be text or None, not int"),
        ({"group": ["a"]}, "its group must be text or None, not list"),
    ],
)
def test_names_and_groups_are_text(make_episode, more, message):
    with pytest.raises(InputError, match=message):
        make_episode(3, **more)


@pytest.mark.parametrize(
    ("actions", "space"),
    [
        ([0.0, 1.0, 2.0], gym.spaces.Discrete(3)),
        (np.float32([0, 4, 2]), gym.spaces.Discrete(5)),
        ([True, False, True], gym.spaces.Discrete(2)),
        (np.float32([[0], [1], [2]]), gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)),
        (np.float64([[0.1], [1], [2]]), gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)),
    ],
)
def test_a_column_of_whole_numbers_is_a_column_of_discrete_actions(actions, space):
    demos = Demonstrations([Trajectory(np.zeros((4, 1)), np.asarray(actions))])
    assert demos.spaces.action == space
    assert demos.clean.actions.dtype == space.dtype
    assert demos.clean[0].actions.tolist() == np.asarray(actions).tolist()


@pytest.mark.parametrize("actions", [[0.0, 0.5, 2.0], [-1.0, 0.0, 1.0], [0.0, 1e12, 0.0]])
@pytest.mark.parametrize("given", [False, True])
def test_real_actions_are_columns(actions, given):
    """Of shape (T, 1); a policy, a judge and a file know no others."""
    seen, done = np.zeros((4, 1)), np.asarray(actions)
    box = gym.spaces.Box(-np.inf, np.inf, (), np.float64)
    spaces = Spaces(gym.spaces.Box(-1, 1, (1,), np.float64), box) if given else None
    with pytest.raises(InputError, match=r"^actions of shape \(T,\) .* give real ones as \(T, 1\)"):
        Demonstrations([Trajectory(seen, done)], (), spaces)
    demos = Demonstrations([Trajectory(seen, done[:, None])])
    assert demos.spaces.action.shape == (1,)


def test_discrete_or_not_is_said_of_all_episodes():
    states = np.zeros((3, 1))
    whole, half = Trajectory(states, [0.0, 1.0]), Trajectory(states, [0.5, 1.0], id="half")
    with pytest.raises(InputError, match="whole numbers from 0, but the data has Box"):
        Demonstrations([whole], [half])
    assert Demonstrations([whole], [whole]).spaces.action == gym.spaces.Discrete(2)
    with pytest.raises(InputError, match="number the actions from 0"):
        Demonstrations([Trajectory(states, np.array([0, 2**64 - 1], np.uint64))])


@pytest.mark.parametrize(
    ("values", "number"),
    [
        (np.array([[1], [2**24]]), np.float32),
        (np.array([[1], [2**24 + 1]]), np.float64),
        (np.array([[1], [2**25]]), np.float32),  # even ones go on
        (np.array([[1], [1 - 2**53]]), np.float64),
        (np.float64([[0.1], [2**24 + 1]]), np.float64),
        (np.float32([[0.1], [1]]), np.float32),
        (np.float16([[0.1], [1]]), np.float16),
    ],
)
def test_inferred_spaces_keep_the_precision(values, number):
    for demos in (
        Demonstrations([Trajectory(values, [0])]),
        Demonstrations([Trajectory(np.zeros((2, 1)), values[:1]), Trajectory(values, values[1:])]),
    ):
        kept = demos.all.observations if len(demos.clean) == 1 else demos.clean.actions
        assert kept.dtype == number
        assert kept.ravel().tolist() == values.ravel().tolist()


def test_one_episode_of_double_precision_is_enough():
    first, second = Trajectory(np.float32([[1], [2]]), [0]), Trajectory([[0.1], [0.2]], [0])
    assert Demonstrations([first], [second]).noisy[0].observations.ravel().tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    ("values", "number", "message"),
    [
        ([[1], [2**24 + 1]], np.float32, r"= 16777217 cannot be kept in float32; .*np\.float64"),
        ([[1.0], [2.0**24 + 1]], np.float32, r"= 16777217.0 cannot be kept in float32"),
        ([[1], [2**53 + 1]], np.float64, r"= 9007199254740993 cannot be .* float64; .*np\.int64"),
        ([[1], [2**63 - 1]], np.float64, r"= 9223372036854775807 cannot be kept in float64"),
        ([[0.5], [1e300]], np.float32, r"= 1e\+300 cannot be kept in float32"),
    ],
)
def test_a_whole_number_that_the_space_cannot_hold_is_refused(values, number, message):
    box = gym.spaces.Box(-np.inf, np.inf, (1,), number)
    with pytest.raises(InputError, match=rf"'x', step 1: observation element \(0,\) {message}"):
        Demonstrations(
            [Trajectory(values, [0], id="x")], spaces=Spaces(box, gym.spaces.Discrete(1))
        )
    states = np.zeros((3, 1))
    with pytest.raises(InputError, match=rf"'x', step 1: action element \(0,\) {message}"):
        Demonstrations([Trajectory(states, values, id="x")], spaces=Spaces(SPACE_OF_ONE, box))


SPACE_OF_ONE = gym.spaces.Box(-1, 1, (1,), np.float32)


def test_other_numbers_are_rounded_to_the_space_they_were_given():
    spaces = Spaces(SPACE_OF_ONE, gym.spaces.Discrete(1))
    demos = Demonstrations([Trajectory([[0.1], [1.0]], [0])], spaces=spaces)
    assert demos.clean.observations.ravel().tolist() == [np.float32(0.1), 1.0]


def test_a_whole_number_too_large_for_an_integer_space_is_refused():
    box = gym.spaces.Box(-np.inf, np.inf, (1,), np.int16)
    with pytest.raises(InputError, match=r"step 1: observation element \(0,\) = 40000"):
        Demonstrations(
            [Trajectory([[1], [40_000]], [0])], spaces=Spaces(box, gym.spaces.Discrete(1))
        )


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ((3, -2, 5), r"finite numbers above 0, not \(3, -2, 5\)"),
        ((0, 0, 0), "finite numbers above 0"),
        ((1, 0, 1), "finite numbers above 0"),
        ((1, float("nan"), 1), "finite numbers above 0"),
        ((1, float("inf"), 1), "finite numbers above 0"),
        ((1, 1), "three numbers .* not 2"),
        ((1, 1, 1, 1), "three numbers .* not 4"),
    ],
)
def test_ratios_that_are_none_are_refused(demos, ratios, message):
    with pytest.raises(InputError, match=message):
        demos.split(seed=0, ratios=ratios)


def test_what_holds_arrays_has_no_hash(demos):
    assert not isinstance(demos, Hashable)
    assert not isinstance(demos.clean, Hashable)
    assert not isinstance(demos.clean[0], Hashable)


def test_what_is_no_trajectory_is_not_equal_to_one(demos):
    for mine in (demos, demos.clean, demos.clean[0]):
        assert mine != "a trajectory"
        assert mine == AnyThing()  # it is asked in turn


class AnyThing:
    def __eq__(self, other):
        return True

    __hash__ = None


def test_an_episode_without_a_name_is_called_an_episode():
    with pytest.raises(InputError, match=r"^episode is empty"):
        Trajectory(np.zeros((1, 2)), np.zeros(0, int))
    with pytest.raises(InputError, match=r"^episode 'a' is empty"):
        Trajectory(np.zeros((1, 2)), np.zeros(0, int), id="a")


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    finals=st.lists(st.booleans(), min_size=6, max_size=6),
    order=st.permutations(range(6)),
    steps=st.integers(1, 12),
    start=st.integers(0, 5),
)
def test_where_steps_lie_by_counting(lengths, finals, order, steps, start):
    items = [
        Trajectory(
            np.arange(3.0 * (n + final)).reshape(-1, 3).astype(np.float32) + 100 * i,
            np.arange(n) % 4,
            rewards=np.arange(n) * 1.0 if i % 2 else None,
            terminated=i % 3 == 0,
            id=f"e{i}",
            group=f"g{i % 2}" if i else None,
        )
        for i, (n, final) in enumerate(zip(lengths, finals, strict=False))
    ]
    packed = Demonstrations(items, spaces=SPACES).clean
    chosen = [i for i in order if i < len(items)]
    for some, kept in ((packed, items), (packed.subset(chosen), [items[i] for i in chosen])):
        assert list(some) == kept
        assert (len(some), some.n_steps) == (len(kept), sum(len(t) for t in kept))
        assert some.times().tolist() == [t for one in kept for t in range(len(one))]
        flat = [(one, t) for one in kept for t in range(len(one))]
        for row, step, (one, t) in zip(some.rows(), some.steps(), flat, strict=True):
            np.testing.assert_array_equal(some.observations[row], one.observations[t])
            assert some.actions[step] == one.actions[t]
            assert one.rewards is None or some.rewards[step] == one.rewards[t]
        cut = some.split_steps(np.arange(some.n_steps))
        assert [len(c) for c in cut] == [len(t) for t in kept]
        assert np.concatenate(cut).tolist() == list(range(some.n_steps))
        blocks = some.blocks(steps)
        assert [t for block in blocks for t in block] == kept
        for block in blocks:
            assert not block.observations.flags.writeable
        assert some.ids == tuple(t.id for t in kept)
        assert some.groups == tuple(t.group for t in kept)
        assert list(some[start:]) == kept[start:]
        assert list(some[::-2]) == kept[::-2]
        for i in (*range(len(kept)), -1):
            assert some[i] == kept[i]
        with pytest.raises(IndexError):
            some[len(kept)]
    ends, number = np.cumsum(lengths), []
    for end in ends:
        number.append((end - 1) // steps)
    expected = [[i for i, k in enumerate(number) if k == j] for j in sorted(set(number))]
    found = [[int(name[1:]) for name in block.ids] for block in packed.blocks(steps)]
    assert found == (expected if packed.n_steps > steps else [list(range(len(lengths)))])


@pytest.fixture
def mapped(tmp_path):
    """An array over a file of twelve rows of three numbers."""
    values = np.arange(36, dtype=np.float32).reshape(12, 3)
    values.tofile(tmp_path / "frames")
    return np.asarray(np.memmap(tmp_path / "frames", np.float32, "r", shape=(12, 3)))[:]


def lies_in(packed, whole) -> bool:
    return np.shares_memory(packed.observations, whole)


def test_observations_that_lie_in_one_file_stay_there(mapped):
    whole = mapped if isinstance(mapped.base, np.memmap) else mapped.base
    items = [
        Trajectory(whole[5:9], [0, 1, 2], id="a"),
        Trajectory(whole[0:2], [3, 3], id="b"),
        Trajectory(whole[9:12], [1, 2], id="c"),
    ]
    packed = Trajectories.pack(items, SPACES)
    assert lies_in(packed, whole)
    assert packed.first_row.tolist() == [5, 0, 9]
    assert packed.first_step.tolist() == [0, 3, 5]
    assert packed.has_final.tolist() == [True, False, True]
    assert list(packed) == items
    again = Trajectories.pack(list(packed), SPACES)
    assert again == packed
    in_order = Trajectories.pack([items[1], items[0], items[2]], SPACES)
    assert [t for block in in_order.blocks(2) for t in block] == [items[1], items[0], items[2]]


def other_space(shape=(3,), number=np.float32):
    return Spaces(gym.spaces.Box(-np.inf, np.inf, shape, number), SPACES.action)


@pytest.mark.parametrize("why", ["another type", "memory", "every other row", "another file"])
def test_observations_that_do_not_are_copied(mapped, tmp_path, why):
    whole = mapped if isinstance(mapped.base, np.memmap) else mapped.base
    first, spaces = Trajectory(whole[0:3], [0, 1], id="a"), SPACES
    second = Trajectory(whole[3:5], [2], id="b")
    if why == "another type":
        spaces = other_space(number=np.float64)
    elif why == "memory":
        second = Trajectory(np.array(whole[3:5]), [2], id="b")
    elif why == "every other row":
        second = Trajectory(whole[3:7:2], [2], id="b")
    else:
        np.array(whole).tofile(tmp_path / "more")
        there = np.asarray(np.memmap(tmp_path / "more", np.float32, "r", shape=(12, 3)))
        second = Trajectory(there[3:5], [2], id="b")
    packed = Trajectories.pack([first, second], spaces)
    assert not lies_in(packed, whole)
    assert packed.first_row.tolist() == [0, 3]
    assert packed.observations.dtype == spaces.observation.dtype
    np.testing.assert_array_equal(packed[0].observations, whole[0:3])
    np.testing.assert_array_equal(packed[1].observations, second.observations)


def test_nothing_is_packed_into_nothing():
    empty = Trajectories.pack([], SPACES)
    assert (len(empty), empty.n_steps) == (0, 0)
    assert empty.observations.shape == (0, 3)
    assert empty.split_steps(np.zeros(0)) == []
    assert empty.rows().tolist() == empty.times().tolist() == []
    assert [len(block) for block in empty.blocks(3)] == [0]


def test_digests_go_with_their_trajectories(make_episode):
    packed = Demonstrations([make_episode(n, id=str(n)) for n in (1, 2, 3)]).clean
    assert packed.digests is None
    assert packed.subset([1]).digests is None
    packed.digests = np.arange(96, dtype=np.uint8).reshape(3, 32)
    assert packed.subset([2, 0]).digests[:, 0].tolist() == [64, 0]
    assert [b.digests[:, 0].tolist() for b in packed.blocks(3)] == [[0, 32], [64]]


def test_trajectories_are_equal_where_all_of_them_are(make_episode):
    one = Demonstrations([make_episode(2, id="a"), make_episode(3, id="b")]).clean
    assert one == one[:]
    assert one != one[:1]
    assert one != one[::-1]
    wider = Trajectory(one[0].observations.astype(float), one[0].actions, one[0].rewards, id="a")
    assert one[0] != wider  # another type is another value
    assert one[0] != replace(one[0], rewards=one[0].rewards + 1)
    assert one[0] != replace(one[0], actions=(one[0].actions + 1) % 4)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"rewards": [[1.0, 2.0]]}, r"rewards have shape \(1, 2\), but there are 2 actions"),
        ({"rewards": ["a", "b"]}, "rewards must be a rectangular array of numbers"),
        ({"actions": ["a", "b"]}, "actions must be a rectangular array of numbers"),
        ({"actions": [1j, 0]}, "actions must be a rectangular array of numbers, not complex"),
        ({"observations": None}, "observations must be a rectangular array of numbers, not object"),
        ({"actions": None}, "actions must be a rectangular array of numbers, not object"),
        ({"observations": np.zeros((1, 3))}, "1 observations do not fit 2 actions; give 3 .* or 2"),
        ({"observations": np.zeros((4, 3))}, "4 observations do not fit 2 actions"),
        ({"observations": {"a": [1, 2, 3, 4]}}, "4 observations do not fit 2 actions"),
        ({"observations": {}}, "observations have no parts"),
    ],
)
def test_every_fault_of_an_episode_names_it(parts, message):
    sound = {"observations": np.zeros((3, 3)), "actions": [0, 1], "rewards": [0.0, 0.0]}
    assert len(Trajectory(**sound, id="x")) == 2
    assert not Trajectory(**sound | {"observations": np.zeros((2, 3))}).has_final_observation
    with pytest.raises(InputError, match=f"^episode 'x': {message}"):
        Trajectory(**sound | parts, id="x")
