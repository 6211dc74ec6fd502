"""The signals behind a step score, each alone and together."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from corridor import (
    CORNER,
    DOWN,
    LEFT,
    RIGHT,
    SPACES,
    STAY,
    UP,
    corridor,
    fit,
    goes_on,
    quick,
    straight,
    walk,
)
from sklearn.metrics import roc_auc_score

import sdil
from sdil.algorithms.judged import draw_by_score
from sdil.judges.evidence import EPISODE_SIGNALS, SIGNALS, STEP_SIGNALS
from sdil.judges.value import RecordedGraph, plan
from sdil.studies.source import Sources
from sdil.windows import DistinctStates, Windows

ROOT = Path(__file__).parents[2]
HUMAN = ROOT.parent / "shared" / "data" / "overcooked-human"


@pytest.fixture(scope="module")
def demos():
    return corridor()


@pytest.fixture(scope="module")
def judge(demos):
    return fit(demos)


def told_of(judge, name, trajectories):
    windows = Windows(trajectories, 0)
    return judge.evidence.tell(name, windows, torch.arange(len(windows))).numpy()


def all_of(scores, what="optimality"):
    return np.concatenate([getattr(s, what) for s in scores])


def how(judge, output="step"):
    return {s.name: s for s in judge.signals if s.output == output}


@pytest.mark.parametrize(
    ("name", "area"),
    [
        ("likelihood", 0.95),
        ("consensus", 0.95),
        ("progress", 0.9),
        ("value", 0.95),
        ("efficiency", 0.6),
    ],
)
def test_every_signal_alone_prefers_the_good_direction(demos, judge, name, area):
    assert roc_auc_score(goes_on(demos), told_of(judge, name, demos.noisy)) > area


def test_together_they_are_right_and_within_bounds(demos, judge):
    scores = judge.score(demos.noisy)
    assert roc_auc_score(goes_on(demos), all_of(scores)) > 0.98
    assert not judge.unknown
    assert not judge.odd
    for score in scores:
        assert set(score.parts) == set(judge.evidence.heard)
        for values in (score.optimality, score.quality, *score.parts.values()):
            assert (np.abs(values) <= 1).all()
        assert (score.spread >= 0).all()


def test_new_trajectories_are_judged_too(judge):
    onward, back = judge.score([walk(4, [1] * 5, "on"), walk(8, [-1] * 5, "back")])
    assert onward.optimality.mean() > 0.3 > -0.3 > back.optimality.mean()
    assert onward.how_well() > back.how_well()


def test_it_says_what_it_heard_and_why(judge):
    steps, episodes = how(judge), how(judge, "episode")
    assert tuple(steps) == STEP_SIGNALS
    assert tuple(episodes) == EPISODE_SIGNALS
    assert steps["likelihood"].heard
    assert "in 100% of 8" in steps["likelihood"].why
    assert episodes["pace"].heard
    assert "8 unseen clean groups" in episodes["pace"].why
    assert not steps["doing"].heard  # nobody stays
    assert steps["doing"].why == "no action of the clean demonstrations idles"


@pytest.mark.parametrize("seed", range(4))
def test_progress_and_value_are_silent_where_no_clean_demonstration_ended(seed):
    """A clock that cuts them off is no end; whatever the networks were born with says nothing."""
    judge = fit(corridor(ended=False), seed=seed, signals="likelihood+progress+value+efficiency")
    silent = [how(judge)["progress"], how(judge)["value"]]
    assert {s.why for s in silent} == {
        "no clean demonstration ended (terminated) with its last observation known"
    }
    silent.append(how(judge, "episode")["progress"])
    assert silent[-1].why == "it says nothing of these demonstrations"
    assert not any(s.heard for s in silent)
    assert how(judge)["likelihood"].heard
    assert judge.advice() is None


def test_all_signals_are_asked_by_default_and_it_is_written_out():
    """A study reads the field without running anything."""
    assert sdil.Judge().signals == "+".join(SIGNALS)
    assert set(SIGNALS) == {*STEP_SIGNALS, *EPISODE_SIGNALS}
    with pytest.raises(sdil.InputError, match=r"\+".join(SIGNALS)):
        fit(corridor(), signals="luck")
    assert Sources().judge("evidence").fields["signals"] == sdil.Judge().signals


def test_signals_can_be_switched_off(demos):
    judge = fit(demos, signals="likelihood+value")
    assert {s.name for s in judge.signals} == {"likelihood", "value"}
    assert {name for s in judge.score(demos.noisy) for name in s.parts} == {"likelihood", "value"}
    with pytest.raises(sdil.InputError, match="signals must be some of"):
        fit(demos, signals="likelihood+luck")


def test_likelihood_is_there_for_learners_where_it_was_asked_for(demos, judge, tmp_path):
    found = judge.likelihood(demos.noisy)
    assert ((found >= 0) & (found <= 1)).all()
    assert roc_auc_score(goes_on(demos), found.numpy()) > 0.95
    other = fit(demos, signals="value")
    assert other.likelihood(demos.noisy) is None
    other.save(tmp_path)
    assert sdil.load_judge(tmp_path).likelihood(demos.noisy) is None


def test_one_signal_is_not_sure_of_itself(demos):
    judge = fit(demos, signals="likelihood")
    spread = all_of(judge.score(demos.noisy), "spread")
    assert (spread > 0).all()
    told = fit(demos, signals="likelihood", good_share=0.5)  # then it is as sure as it is told
    assert (all_of(told.score(demos.noisy), "spread") == 0).all()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_and_it_survives_saving(demos, judge, tmp_path):
    again, other = fit(demos), fit(demos, seed=1)
    tensors = judge.tensors()
    assert again.tensors().keys() == tensors.keys()
    for name, tensor in again.tensors().items():
        assert torch.equal(tensor.nan_to_num(7.0), tensors[name].nan_to_num(7.0)), name
    assert not np.array_equal(all_of(judge.score(demos.all)), all_of(other.score(demos.all)))
    judge.save(tmp_path)
    loaded = sdil.load_judge(tmp_path)
    assert loaded.signals == judge.signals
    assert dict(loaded.unknown) == dict(judge.unknown)
    first, second = judge.score(demos.all), loaded.score(demos.all)
    for what in ("optimality", "spread", "quality", "integrity"):
        np.testing.assert_array_equal(all_of(first, what), all_of(second, what))
    seen = torch.from_numpy(demos.noisy[0].observations)
    assert torch.equal(judge.advice()(seen), loaded.advice()(seen))


def test_what_is_unknown_stays_unknown_when_saved(demos, tmp_path):
    """The same walks in both sets: what is heard of them is no better there."""
    same = sdil.Demonstrations(demos.noisy[:6], demos.noisy, SPACES)
    judge = fit(same, signals="pace+efficiency")
    assert "episode" in judge.unknown
    judge.save(tmp_path)
    loaded = sdil.load_judge(tmp_path)
    assert dict(loaded.unknown) == dict(judge.unknown)
    assert all(s.quality is None for s in loaded.score(same.noisy))


def test_a_clean_walk_that_goes_back_is_odd(demos, tmp_path):
    backwards = walk(12, [-1] * 12, "backwards")
    clean = [*(straight(i) for i in range(12)), backwards]
    judge = fit(sdil.Demonstrations(clean, demos.noisy, SPACES), signals="likelihood+value")
    assert list(judge.odd) == ["backwards"]
    assert "in log-odds" in judge.odd["backwards"]
    judge.save(tmp_path)
    assert sdil.load_judge(tmp_path).odd == judge.odd
    assert roc_auc_score(goes_on(demos), all_of(judge.score(demos.noisy))) > 0.9


def test_waiting_is_less_than_acting_well_and_strange_episodes_do_no_harm(demos):
    """Clean and noisy ones that wait; one that does nothing else, and one of a single step."""
    rng = np.random.default_rng(0)

    def with_waits(ways):
        return [w for way in ways for w in [0] * int(rng.integers(0, 3)) + [int(way)]]

    clean = [
        walk(i % 5, with_waits([1] * (12 - i % 5)), f"c{i}", terminated=True) for i in range(9)
    ]
    noisy = [
        walk(int(rng.integers(3, 10)), with_waits(np.repeat(rng.choice([-1, 1], 4), 3)), f"n{i}")
        for i in range(40)
    ]
    strange = [walk(4, [0] * 10, "idle"), walk(4, [1], "one step"), walk(4, [0], "one wait")]
    lazy = walk(2, [0] * 10, "lazy")
    judge = fit(sdil.Demonstrations([*clean, lazy], [*noisy, *strange], SPACES))
    assert judge.evidence.doing.idle.tolist() == [i == STAY for i in range(5)]
    waits, onward = walk(4, [0] * 5, "waits"), walk(4, [1] * 5, "on")
    waiting, going, *others = judge.score([waits, onward, *strange])
    assert waiting.optimality.max() < going.optimality.min()
    assert waiting.how_well() < going.how_well()
    assert all(np.isfinite(s.optimality).all() and np.isfinite(s.quality).all() for s in others)
    assert (judge.likelihood(sdil.Demonstrations([waits], spaces=SPACES).clean) == 0).all()


def test_acting_against_a_wall_is_among_the_least():
    """Where one may wait, a step that acts and moves nothing is worth as little as the least."""
    rng = np.random.default_rng(0)

    def shift(name, bumps):
        """To and fro on ten cells, with waits; or one action after the other against the wall."""
        at, seen, actions = 5, [[5, 0]], []
        for t in range(60):
            way = 1 if (t // 8) % 2 else -1
            action = STAY if rng.random() < 0.3 else RIGHT if way > 0 else LEFT
            if rng.random() < bumps:
                action = UP  # there is nothing
            at = int(np.clip(at + (action == RIGHT) - (action == LEFT), 0, 10))
            actions.append(action)
            seen.append([at, int(way > 0)])
        return sdil.Trajectory(np.array(seen, np.float32), np.array(actions), id=name)

    demos = sdil.Demonstrations(
        [shift(f"c{i}", 0.03) for i in range(10)], [shift(f"n{i}", 0.3) for i in range(20)], SPACES
    )
    judge = fit(demos, signals="likelihood+doing")
    assert judge.evidence.doing.idle.tolist() == [i == STAY for i in range(5)]
    assert how(judge)["doing"].heard
    assert "doing" in judge.score(demos.noisy)[0].parts
    nothing = told_of(judge, "doing", demos.noisy) == 0
    found = all_of(judge.score(demos.noisy))
    acts = np.concatenate([t.actions for t in demos.noisy]) != STAY
    assert nothing.sum() > 100
    assert found[nothing].max() <= np.quantile(found[acts], 0.5)


def test_an_unknown_state_has_nothing_to_compare(judge):
    strange = sdil.Trajectory(np.full((3, 2), 11.5, np.float32), np.array([RIGHT, LEFT]))
    packed = sdil.Demonstrations([strange], spaces=SPACES).clean
    assert (told_of(judge, "value", packed) == 0).all()
    assert np.isfinite(judge.score([strange])[0].optimality).all()


def test_a_step_without_a_state_after_it_borrows_progress_from_its_neighbours(demos, judge):
    one = demos.noisy[0]
    cut = sdil.Trajectory(one.observations[:-1], one.actions)
    alone = sdil.Trajectory(one.observations[:1], one.actions[:1])
    windows = Windows(sdil.Demonstrations([cut, alone], spaces=SPACES).clean, 0)
    progress = judge.evidence.outcome("progress", windows, torch.arange(len(windows)))
    assert progress[:-1].isfinite().all()
    assert progress[-1].isnan()


def test_validation_demonstrations_decide_where_they_are_given(demos):
    valid = sdil.Demonstrations([straight(i) for i in range(7)], spaces=SPACES)
    judge = quick().fit(demos, valid=valid, seed=0)
    assert "of 7" in how(judge)["likelihood"].why
    assert judge.evidence.heard
    assert roc_auc_score(goes_on(demos), all_of(judge.score(demos.noisy))) > 0.95


def test_planning_by_hand():
    # 0 -a0-> 1 -a0-> 2, a clean end; 0 -a1-> 3, from where nothing is known
    graph = plan(
        np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([2]), (4, 2), 0.9
    )
    gap = 2 * np.log(0.9) + 10  # log Q(0, a0) - log of the least value
    np.testing.assert_allclose(graph[0], [gap / 2, -gap / 2], atol=1e-6)
    assert graph[1, 0] == 0  # the only action seen there
    assert np.isnan(graph[1, 1])
    assert np.isnan(graph[2:]).all()


def test_planning_past_the_record():
    # as above, but it is known how far every state seems to be from an end
    steps = np.array([0, 1, 0]), np.array([0, 0, 1]), np.array([1, 2, 3]), np.array([2])

    def gap(*away: float) -> float:
        graph = plan(*steps, (4, 2), 0.9, otherwise=0.9 ** np.array(away))
        return float((graph[0, 0] - graph[0, 1]) / -np.log(0.9))  # in steps

    assert gap(9, 9, 9, 1) == 0  # two steps either way: exactly as good
    np.testing.assert_allclose(gap(9, 9, 9, 5), 4, atol=1e-4)
    np.testing.assert_allclose(gap(9, 0.5, 9, 5), 4.5, atol=1e-4)  # a shorter way than recorded


def test_equally_good_actions_are_exactly_equal():
    states, actions = np.zeros(3, np.int64), np.arange(3)
    graph = plan(states, actions, np.array([1, 2, 3]), np.array([1, 2, 3]), (4, 3), 0.9431)
    assert (graph[0] == 0).all()


def test_planning_averages_over_outcomes():
    # a0 leads to the end half of the time, a1 always
    states, actions = np.array([0, 0, 0]), np.array([0, 0, 1])
    graph = plan(states, actions, np.array([1, 2, 1]), np.array([1]), (3, 2), 0.9)
    np.testing.assert_allclose(graph[0, 1] - graph[0, 0], np.log(2.0), atol=1e-5)


def test_states_with_several_actions_are_compared(demos, judge):
    seen: dict[tuple[float, ...], set[int]] = {}
    for one in [*demos.clean, *demos.noisy]:
        for state, action in zip(one.observations[:-1], one.actions, strict=True):
            seen.setdefault(tuple(state), set()).add(int(action))
    several = {state for state, actions in seen.items() if len(actions) > 1}
    value = judge.evidence.value
    assert {tuple(state) for state in value.states.numpy()} == several
    onward, back = (
        torch.where(value.states[:, 0] < CORNER, value.advantage[:, a], value.advantage[:, b])
        for a, b in ((RIGHT, UP), (LEFT, DOWN))
    )
    both = ~(onward.isnan() | back.isnan())
    assert both.sum() > 8
    assert (onward > back)[both].float().mean() > 0.9


def test_the_distance_has_a_say_in_the_value_only_where_it_is_heard(demos):
    unit = demos.clean.n_steps / len(demos.clean)
    windows = Windows(demos.all, 0)
    graph = RecordedGraph.of(windows, len(windows), 5)
    last = np.cumsum([len(t) for t in demos.clean]) - 1
    ends = graph.numbers_after(windows, last)
    assert graph.states[ends].tolist() == [[6, 6]]
    recorded_ways = graph.advantage(ends, None, unit)[graph.several]
    joined = fit(demos, signals="progress+value").evidence
    assert "progress" in joined.heard
    np.testing.assert_allclose(
        joined.value.advantage.numpy(),
        graph.advantage(ends, joined.to_go, unit)[graph.several],
        rtol=1e-5,
    )
    assert not np.allclose(joined.value.advantage.numpy(), recorded_ways, equal_nan=True)
    alone = fit(demos, signals="value").evidence
    np.testing.assert_allclose(alone.value.advantage.numpy(), recorded_ways, rtol=1e-5)


def test_where_no_state_comes_again_there_is_no_value(demos):
    draw = np.random.default_rng(3)

    def anew(walks):
        for one in walks:
            moved = one.observations + draw.normal(0, 0.1, one.observations.shape)
            yield sdil.Trajectory(
                moved.astype(np.float32), one.actions, terminated=one.terminated, id=one.id
            )

    judge = fit(sdil.Demonstrations(list(anew(demos.clean)), list(anew(demos.noisy))))
    assert len(judge.evidence.value.states) == 0
    assert how(judge)["value"].why == "it says nothing of these demonstrations"
    assert roc_auc_score(goes_on(demos), all_of(judge.score(demos.noisy))) > 0.9


def test_it_advises_where_several_actions_were_recorded(demos, judge):
    states = judge.evidence.value.states
    advice = judge.advice()(states)
    assert advice.shape == (len(states), 5)
    onward, back = (
        torch.where(states[:, 0] < CORNER, advice[:, a], advice[:, b])
        for a, b in ((RIGHT, UP), (LEFT, DOWN))
    )
    assert (onward >= back).float().mean() > 0.9
    assert (judge.advice()(torch.full((1, 2), 77.0)) == 0).all()
    assert fit(demos, signals="likelihood").advice() is None


@pytest.mark.parametrize(
    ("likelihood", "shares"),
    [(None, [0, 0.2, 0.8]), ([0.75, 0.0, 0.5], [0.3, 0.1, 0.6])],
)
def test_steps_are_drawn_by_the_square_of_their_probability_and_by_likelihood(likelihood, shares):
    scores = torch.tensor([-1.0, 0.0, 1.0])
    also = None if likelihood is None else torch.tensor(likelihood)
    draw = draw_by_score(scores, also, torch.Generator().manual_seed(0))
    counts = np.bincount(draw(10_000).numpy(), minlength=3) / 10_000
    np.testing.assert_allclose(counts, shares, atol=0.02)


def test_equal_states_have_one_number():
    states = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]], np.float32)
    numbers = DistinctStates(states)
    assert len(numbers) == 2
    assert numbers.of_rows.tolist() == [0, 1, 0]
    assert numbers.first.tolist() == [0, 1]
    assert numbers.of(np.array([[3.0, 4.0], [5.0, 6.0]], np.float32)).tolist() == [1, -1]


@pytest.mark.slow
@pytest.mark.skipif(not (HUMAN / "measure.py").is_file(), reason=f"needs people's play in {HUMAN}")
def test_the_play_of_people_in_one_kitchen(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    human_play = import_module("human_play")
    cell = human_play.run_cell(str(HUMAN), human_play.KITCHENS[0], 0, "evidence", False)
    assert cell["steps"] > 0.85
    assert cell["moving steps"] > 0.83
    assert cell["random span"] > 0.9
    assert cell["segments"] > 0.6


def test_a_set_that_is_scored_in_blocks_is_scored_as_a_whole(judge, demos, monkeypatch):
    whole = judge.score(demos.noisy)
    monkeypatch.setattr("sdil.judging._STEPS", 50)
    assert len(demos.noisy.blocks(50)) > 3
    parts = judge.score(demos.noisy)
    assert len(parts) == len(whole) == len(demos.noisy)
    np.testing.assert_allclose(all_of(parts), all_of(whole), atol=1e-9)
    np.testing.assert_allclose(all_of(parts, "quality"), all_of(whole, "quality"), atol=1e-6)
    assert [s.parts.keys() for s in parts] == [s.parts.keys() for s in whole]
