from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sdil
from sdil import InputError
from sdil.explanation.world import World
from sdil.tasks.errands import (
    HELD,
    IN_OVEN,
    ON_TABLE,
    OVEN,
    SWITCH,
    TABLE,
    USE,
    Errands,
    State,
    observe,
    start_states,
    step,
    table,
)
from sdil.tasks.errands_people import (
    AIMLESS,
    FETCH_BREAD,
    FETCH_CUP,
    OPEN_DOOR,
    OPERATORS,
    SKILL_NAMES,
    SWITCH_ON,
    TO_OVEN,
    TO_TABLE,
    all_states,
    good,
    sub_skill_table,
)

UP, DOWN, LEFT, RIGHT = range(4)


@pytest.fixture(scope="module")
def collected():
    return sdil.get_task("errands").collect(clean=12, noisy=40, seed=3)


def number(state):
    return all_states().index(state)


def test_use_takes_puts_down_opens_and_switches_on():
    at_shelf = State(1, 1, cup=0, bread=1, door=0, heat=0)
    assert step(at_shelf, USE) == at_shelf._replace(cup=HELD)
    assert step(at_shelf._replace(cup=1), USE).cup == 1  # it is on another shelf
    assert step(State(*TABLE, HELD, 0, 0, 0), USE).cup == ON_TABLE
    assert step(State(*OVEN, HELD, 0, 0, 0), USE).cup == IN_OVEN  # which is wrong, and possible
    assert step(State(*OVEN, 0, HELD, 0, 0), USE).bread == IN_OVEN
    assert step(State(5, 3, 0, 0, 0, 0), USE).door == 1
    assert step(State(*SWITCH, 0, 0, 0, 0), USE).heat == 1
    nothing = State(3, 3, HELD, 0, 0, 0)
    assert step(nothing, USE) == nothing


def test_what_lies_where_it_does_not_belong_is_taken_first():
    assert step(State(*TABLE, ON_TABLE, ON_TABLE, 0, 0), USE).bread == HELD
    assert step(State(*OVEN, IN_OVEN, IN_OVEN, 0, 0), USE).cup == HELD


def test_a_closed_door_is_a_wall_and_the_passage_is_none():
    before = State(5, 3, 0, 0, door=0, heat=0)
    assert step(before, RIGHT) == before
    assert step(before._replace(door=1), RIGHT) == before._replace(door=1, x=6)
    assert step(State(5, 6, 0, 0, 0, 0), RIGHT).x == 6
    assert step(State(1, 1, 0, 0, 0, 0), UP).y == 1


def test_it_is_over_with_the_last_of_three_errands():
    last = State(*TABLE, HELD, IN_OVEN, 0, 1)
    assert step(last, USE).done
    assert not step(last._replace(heat=0), USE).done


def test_what_is_carried_is_seen_where_the_agent_is():
    seen = observe(State(5, 3, HELD, 0, door=0, heat=1))
    assert seen.tolist() == [5, 3, 5, 3, 11, 5, 1, 0, 1, 0, 0, 0, 1]  # right of it: the closed door


def test_table_and_environment_do_the_same():
    whole, env, rng = table(), Errands(), np.random.default_rng(0)
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        at = whole.start_state(seed)
        for _ in range(100):
            assert np.array_equal(observation, whole.observe(np.array([at]))[0])
            action = int(rng.integers(5))
            at, ends = whole.next_state[at, action], whole.end[at, action]
            observation, reward, ended, _, _ = env.step(np.int64(action))
            assert ended == ends
            assert reward == 0.0
    check_env(gym.make("sdil/errands-v0").unwrapped, skip_render_check=True)


def test_the_environment_pays_for_haste_and_refuses_to_go_on():
    env = Errands()
    with pytest.raises(InputError, match="call reset"):
        env.step(np.int64(0))
    env.reset(seed=0)
    env.set_state(State(*TABLE, HELD, IN_OVEN, 0, 1))
    _, reward, ended, cut_off, info = env.step(np.int64(USE))
    assert (reward, ended, cut_off) == (pytest.approx(1 - 0.9 / 150), True, False)
    assert info == {"is_success": True}
    with pytest.raises(InputError, match="an action of"):
        env.step(np.int64(7))


@pytest.mark.parametrize(
    ("state", "skills"),
    [  # of the four operators: cup first by the door, bread first by the passage, and so on
        (State(3, 3, 0, 0, 0, 0), [FETCH_CUP, SWITCH_ON, FETCH_CUP, SWITCH_ON]),
        (State(3, 3, HELD, 0, 0, 0), [OPEN_DOOR, TO_TABLE, TO_TABLE, OPEN_DOOR]),
        (State(3, 3, HELD, 0, 1, 0), [TO_TABLE] * 4),
        (State(9, 3, HELD, 0, 0, 0), [TO_TABLE] * 4),  # no wall between it and the table
        (State(9, 3, 0, HELD, 0, 1), [OPEN_DOOR, TO_OVEN, TO_OVEN, OPEN_DOOR]),
        (State(9, 3, ON_TABLE, 0, 0, 0), [SWITCH_ON] * 4),
        (State(9, 3, ON_TABLE, 0, 0, 1), [FETCH_BREAD] * 4),
        (State(9, 3, 0, IN_OVEN, 0, 1), [FETCH_CUP] * 4),
        (State(9, 3, IN_OVEN, ON_TABLE, 0, 1), [FETCH_CUP, FETCH_BREAD, FETCH_CUP, FETCH_BREAD]),
    ],
)
def test_what_each_operator_does_next(state, skills):
    assert [operator.sub_skill(state) for operator in OPERATORS] == skills


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        (State(*TABLE, HELD, 0, 1, 1), {USE}),
        (State(*OVEN, HELD, 0, 1, 1), {UP, RIGHT}),  # not to put the cup into the oven
        (State(10, 1, HELD, 0, 1, 1), {RIGHT}),
        (State(2, 1, 0, 0, 0, 1), {LEFT, RIGHT, DOWN}),  # to the cup, or round to the bread
        (State(*TABLE, ON_TABLE, 0, 1, 1), {DOWN}),  # not to take the cup back
        (State(*TABLE, ON_TABLE, IN_OVEN, 1, 1), set()),  # it is over
    ],
)
def test_good_steps_worked_out_by_hand(state, actions):
    assert set(np.flatnonzero(good()[number(state)]).tolist()) == actions


def test_sub_skills_are_walked_by_moves_alone():
    """With the door closed the cup is three cells off, and the way to it goes by the passage."""
    state = number(State(7, 1, 1, 0, 0, 0))  # the shelf is at (4, 1)
    assert sub_skill_table(FETCH_CUP).distance_to_goal[state] == 5 + 3 + 5 + 1
    opened = number(State(7, 1, 1, 0, 1, 0))
    assert sub_skill_table(FETCH_CUP).distance_to_goal[opened] == 2 + 3 + 2 + 1
    holding = number(State(3, 3, HELD, 0, 0, 0))
    assert np.isinf(sub_skill_table(FETCH_BREAD).distance_to_goal[holding])  # the hand is full


def test_a_thing_put_down_ends_the_one_sub_skill_and_not_the_other():
    at = number(State(*OVEN, HELD, ON_TABLE, 0, 0))
    assert sub_skill_table(TO_OVEN).end[at, USE]
    assert not sub_skill_table(TO_TABLE).end[at, USE]


def test_clean_ones_get_done_and_noisy_ones_never(collected):
    demos, truth = collected
    assert all(t.terminated and t.rewards[-1] > 0 for t in demos.clean)
    assert not any(t.terminated or t.rewards.any() for t in demos.noisy)
    assert np.concatenate(truth.clean_good).mean() > 0.9
    assert 0.5 < np.concatenate(truth.noisy_good).mean() < 0.85
    truth.check_fits(demos)


def test_both_sets_are_made_of_the_same_sub_skills_and_only_noisy_ones_are_aimless(collected):
    _, truth = collected
    assert set(np.unique(np.concatenate(truth.clean_skill))) == set(range(AIMLESS))
    assert set(np.unique(np.concatenate(truth.noisy_skill))) == set(range(AIMLESS + 1))
    assert len(truth.skill_names) == len(SKILL_NAMES) == AIMLESS + 1


def test_operators_take_turns_and_differ_in_order(collected):
    _, truth = collected
    first = [skills[0] for skills in truth.clean_skill[:4]]
    assert first == [FETCH_CUP, SWITCH_ON, FETCH_CUP, SWITCH_ON]
    opens = [OPEN_DOOR in skills for skills in truth.clean_skill[:4]]
    assert opens == [True, False, False, True]


def test_recorded_episodes_happen_in_the_environment(collected):
    demos, _ = collected
    whole = table()
    for t in [*demos.clean[:3], *demos.noisy[:3]]:
        found = whole.follow(t.observations[:-1], t.actions, np.array([len(t)]))
        assert len(found.episode)


def test_what_it_cannot_do_is_refused():
    task = sdil.get_task("errands")
    with pytest.raises(InputError, match="no ppo agent"):
        task.collect(clean=1, noisy=0, seed=0, expert="ppo")
    with pytest.raises(InputError, match="no noise 'worst'"):
        task.collect(clean=1, noisy=0, seed=0, noise="worst")
    careful, truth = task.collect(clean=8, noisy=0, seed=0, clean_random_steps=0.0)
    assert np.concatenate(truth.clean_good).all()
    assert len(careful.clean) == 8


def test_the_world_is_drawn(collected):
    demos, _ = collected
    world = World("errands")
    assert world.plan is not None
    assert world.plan.walls.shape == (8, 13)
    assert world.action_names == ["up", "down", "left", "right", "use"]
    frames = world.recorded(demos.clean[0], 4)
    assert len(set(frames)) == 4  # each another picture
    shut = Errands.draw(observe(start_states()[0]))
    opened = Errands.draw(observe(start_states()[0]._replace(door=1)))
    assert (shut != opened).any()
    world.close()
