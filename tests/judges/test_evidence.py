"""The signals behind a step score, each alone and together."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import sdil
from sdil.algorithms.judged import draw_by_score
from sdil.demonstrations import hold_out
from sdil.judges.evidence import SIGNALS, Evidence, EvidenceJudge
from sdil.judges.joining import separation, weigh_signals, worth
from sdil.judges.value import RecordedGraph, plan
from sdil.spaces import Spaces
from sdil.windows import DistinctStates, Windows

LEFT, RIGHT = 0, 1
LENGTH = 12


def corridor_walk(start: int, moves: list[int], name: str) -> sdil.Trajectory:
    """Cells 0 to LENGTH, seen as one number and its square."""
    cells = np.clip(np.cumsum([start, *[1 if m == RIGHT else -1 for m in moves]]), 0, LENGTH)
    seen = np.stack([cells, cells**2 / LENGTH], 1).astype(np.float32)
    return sdil.Trajectory(seen, np.array(moves), id=name)


@pytest.fixture(scope="module")
def corridor():
    """Clean walks go right to the end; noisy ones wander. Right is good."""
    draw = np.random.default_rng(0)
    clean = [corridor_walk(s, [RIGHT] * (LENGTH - s), f"c{i}") for i, s in enumerate((0, 3, 6, 9))]
    noisy = []
    for i in range(60):
        moves = np.repeat(draw.integers(2, size=4), draw.integers(2, 5, size=4))
        noisy.append(corridor_walk(int(draw.integers(3, 9)), moves.tolist(), f"n{i}"))
    spaces = Spaces(gym.spaces.Box(0, LENGTH**2, (2,), np.float32), gym.spaces.Discrete(2))
    return sdil.Demonstrations(clean=clean, noisy=noisy, spaces=spaces)


def fit(
    demos: sdil.Demonstrations, signals: str = "+".join(SIGNALS), seed: int = 0
) -> EvidenceJudge:
    """All clean demonstrations serve twice: for training and for hearing."""
    judge = sdil.Judge(signals=signals, clone_updates=150, distance_updates=300)
    return judge.fit(demos, valid=demos.clean_only(), seed=seed)


def gather(demos: sdil.Demonstrations, signals: str = "+".join(SIGNALS), seed: int = 0) -> Evidence:
    return fit(demos, signals, seed).evidence


@pytest.fixture(scope="module")
def evidence(corridor):
    return gather(corridor)


def is_right(demos: sdil.Demonstrations) -> np.ndarray:
    return np.concatenate([t.actions for t in demos.noisy]) == RIGHT


@pytest.mark.parametrize("name", SIGNALS)
def test_every_signal_alone_prefers_the_good_direction(corridor, evidence, name):
    told = evidence.tell(name, Windows(corridor.noisy, 0)).numpy()
    assert roc_auc_score(is_right(corridor), np.nan_to_num(told)) > 0.8


def test_together_they_are_right_and_within_bounds(corridor, evidence):
    judged = evidence.judge(Windows(corridor.noisy, 0))
    assert roc_auc_score(is_right(corridor), judged.optimality) > 0.97
    for values in (judged.optimality, *judged.parts.values()):
        assert (np.abs(values) <= 1).all()
    assert judged.spread is not None
    assert (judged.spread >= 0).all()


def test_new_trajectories_are_judged_too(evidence):
    new = sdil.Demonstrations(
        clean=[corridor_walk(4, [RIGHT] * 5, "right")], noisy=[corridor_walk(8, [LEFT] * 5, "left")]
    )
    right = evidence.judge(Windows(new.clean, 0)).optimality.mean()
    left = evidence.judge(Windows(new.noisy, 0)).optimality.mean()
    assert right > 0.3 > -0.3 > left


def test_an_unknown_state_has_nothing_to_compare(evidence):
    strange = sdil.Trajectory(np.full((3, 2), 77.0, np.float32), np.array([RIGHT, LEFT]))
    windows = Windows(sdil.Demonstrations(clean=[strange], noisy=[]).clean, 0)
    assert (evidence.tell("value", windows) == 0).all()
    assert np.isfinite(evidence.judge(windows).optimality).all()


def test_a_step_without_a_state_after_it_borrows_progress_from_its_neighbours(corridor, evidence):
    walk = corridor.noisy[0]
    cut = sdil.Trajectory(walk.observations[:-1], walk.actions)
    alone = sdil.Trajectory(walk.observations[:1], walk.actions[:1])
    windows = Windows(sdil.Demonstrations(clean=[cut, alone], noisy=[]).clean, 0)
    progress = evidence.tell("progress", windows)
    assert progress[:-1].isfinite().all()
    assert progress[-1].isnan()


def test_signals_can_be_switched_off(corridor):
    judged = gather(corridor, "value").judge(Windows(corridor.noisy, 0))
    assert set(judged.parts) == {"value"}
    with pytest.raises(sdil.InputError, match="signals must be some of"):
        gather(corridor, "likelihood+luck")


def test_the_same_seed_gives_the_same_evidence_and_it_survives_saving(corridor, evidence):
    again = gather(corridor).state_dict()
    for name, tensor in evidence.state_dict().items():
        assert torch.equal(again[name].nan_to_num(7.0), tensor.nan_to_num(7.0)), name
    loaded = Evidence.of_tensors(again)
    windows = Windows(corridor.noisy, 0)
    np.testing.assert_array_equal(
        loaded.judge(windows).optimality, evidence.judge(windows).optimality
    )


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


def test_states_with_several_actions_are_compared(corridor, evidence):
    seen: dict[tuple[float, ...], set[int]] = {}
    for walk in [*corridor.clean, *corridor.noisy]:
        for state, action in zip(walk.observations[:-1], walk.actions, strict=True):
            seen.setdefault(tuple(state), set()).add(int(action))
    several = {state for state, actions in seen.items() if len(actions) > 1}
    assert {tuple(state) for state in evidence.value.states.numpy()} == several
    assert (~evidence.value.advantage.isnan()).all()  # there are but two actions
    right = evidence.value.advantage[:, RIGHT] > evidence.value.advantage[:, LEFT]
    assert right.float().mean() > 0.9


def test_the_distance_has_a_say_in_the_value_only_where_it_is_heard(corridor, monkeypatch):
    unit = corridor.clean.n_steps / len(corridor.clean)
    windows = Windows(corridor.all, 0)
    following, exists = windows.next_states_at(torch.arange(len(windows)))
    ends = torch.tensor([len(t.actions) for t in corridor.clean]).cumsum(0) - 1
    graph = RecordedGraph.of(windows, following, exists, ends, 2)
    recorded_ways = graph.advantage(None, unit)[graph.several]
    joined = gather(corridor, "progress+value")
    np.testing.assert_allclose(
        joined.value.advantage.numpy(),
        graph.advantage(joined.to_go, unit)[graph.several],
        rtol=1e-6,
    )
    assert not np.allclose(joined.value.advantage.numpy(), recorded_ways)
    no_ends = RecordedGraph.of(windows, following, exists, ends[:0], 2)
    assert (np.nan_to_num(no_ends.advantage(joined.to_go, unit)) == 0).all()
    monkeypatch.setattr("sdil.judges.evidence.separation", lambda clean, noisy: (0.5, 0.6))
    unheard = gather(corridor, "progress+value")
    np.testing.assert_allclose(unheard.value.advantage.numpy(), recorded_ways, rtol=1e-6)


def test_where_no_state_comes_again_there_is_no_value(corridor):
    draw = np.random.default_rng(3)

    def anew(walks):
        for walk in walks:
            moved = walk.observations + draw.normal(0, 0.1, walk.observations.shape)
            yield sdil.Trajectory(moved.astype(np.float32), walk.actions)

    evidence = gather(sdil.Demonstrations(list(anew(corridor.clean)), list(anew(corridor.noisy))))
    assert len(evidence.value.states) == 0
    judged = evidence.judge(Windows(corridor.noisy, 0))
    assert "value" not in judged.parts
    assert np.isfinite(judged.optimality).all()


def test_planning_averages_over_outcomes():
    # a0 leads to the end half of the time, a1 always
    states, actions = np.array([0, 0, 0]), np.array([0, 0, 1])
    graph = plan(states, actions, np.array([1, 2, 1]), np.array([1]), (3, 2), 0.9)
    np.testing.assert_allclose(graph[0, 1] - graph[0, 0], np.log(2.0), atol=1e-5)


def test_witnesses_are_weighed_by_how_they_agree():
    draw = np.random.default_rng(1)
    good = draw.random(4_000) < 0.5
    sharp, fair = (good * gap + draw.standard_normal(4_000) for gap in (2.5, 1.5))
    noise = draw.standard_normal(4_000)
    signals = [sharp, fair, noise]
    edges, log_odds = weigh_signals(signals, 0.5)
    joined = sum(worth(s, e, o) for s, e, o in zip(signals, edges, log_odds, strict=True))
    assert roc_auc_score(good, joined) > max(roc_auc_score(good, s) for s in signals)
    reach = [np.ptp(o) for o in log_odds]
    assert min(reach[:2]) > 3 * reach[2]
    for odds in log_odds:
        assert (np.diff(odds) >= 0).all()


def test_a_signal_alone_keeps_its_order():
    signal = np.arange(100.0)
    (edges,), (log_odds,) = weigh_signals([signal], 0.5)
    found = worth(signal, edges, log_odds)
    assert (np.diff(found) >= 0).all()
    assert found[0] < -0.5 < 0.5 < found[-1]


def test_what_is_not_known_is_worth_nothing():
    edges, log_odds = np.arange(9.0), np.linspace(-1, 1, 10)
    np.testing.assert_allclose(worth(np.array([np.nan, -5.0, 50.0]), edges, log_odds), [0, -1, 1])


def test_a_signal_that_cannot_tell_clean_from_noisy_is_not_heard():
    draw = np.random.default_rng(2)
    noisy = draw.standard_normal(2_000)

    def heard(clean):
        area, least = separation(clean, noisy)
        return area > least

    assert heard(draw.standard_normal(100) + 1)
    assert not heard(draw.standard_normal(100) - 1)
    assert not heard(np.full(100, np.nan))


def test_the_area_by_hand():
    area, least = separation(np.array([1.0, 3.0]), np.array([0.0, 2.0]))
    assert area == 0.75  # of four pairs, one is the wrong way round
    assert least == pytest.approx(0.5 + 2 * np.sqrt(5 / 48))


def test_it_says_what_it_heard_and_why_and_remembers(corridor, tmp_path):
    judge = fit(corridor, "likelihood+value")
    told = {signal.name: signal for signal in judge.signals}
    assert told["likelihood"].heard
    assert "AUROC of" in told["likelihood"].why
    assert not told["progress"].heard
    assert told["progress"].why == "not asked for"
    judge.save(tmp_path)
    assert sdil.load_judge(tmp_path).signals == judge.signals


def test_where_nothing_is_heard_it_says_so(corridor):
    """Clean and noisy demonstrations that are the same: nothing rates one above the other."""
    same = sdil.Demonstrations(corridor.noisy, corridor.noisy, corridor.spaces)
    judge = fit(same)
    assert not any(signal.heard for signal in judge.signals)
    assert any("as none is better" in signal.why for signal in judge.signals)
    assert judge.advice() is None


def test_it_advises_where_several_actions_were_recorded(corridor):
    judge = fit(corridor, "value")
    told = judge.advice()(torch.tensor(corridor.noisy[0].observations))
    assert told.shape == (len(corridor.noisy[0].observations), 2)
    states = judge.evidence.value.states
    compared = judge.advice()(states)
    assert (compared[:, RIGHT] >= compared[:, LEFT]).float().mean() > 0.9
    assert (judge.advice()(torch.full((1, 2), 77.0)) == 0).all()
    assert fit(corridor, "likelihood").advice() is None


def test_noisy_ones_that_are_all_held_out_are_missed(corridor):
    grouped = sdil.Demonstrations(
        [sdil.Trajectory(t.observations, t.actions, id=t.id, group=t.id) for t in corridor.clean],
        [sdil.Trajectory(corridor.noisy[0].observations, corridor.noisy[0].actions, group="c0")],
        corridor.spaces,
    )
    held = [s for s in range(12) if not len(hold_out(grouped, None, seed=s)[0].noisy)]
    assert held
    with pytest.raises(sdil.InputError, match="none is left to judge"):
        sdil.Judge().fit(grouped, seed=held[0])


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
