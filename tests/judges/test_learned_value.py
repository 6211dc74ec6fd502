"""A judge where states never come again: densities, a learned value, consensus twice over."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pushed import SPACES, pushed, world
from sklearn.metrics import roc_auc_score

from sdil import Demonstrations, Judge, Trajectory, load_judge
from sdil.heads import make_head
from sdil.judges.episodes import count_rates, rates_of
from sdil.judges.learned_value import find_ends
from sdil.judges.likelihood import Clones
from sdil.judges.material import Material
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.windows import Windows


@pytest.fixture(scope="module")
def judged():
    demos, good = world()
    judge = Judge(
        signals="likelihood+consensus+value",
        clone_updates=120,
        distance_updates=600,
        outcome_updates=150,
    )
    return judge.fit(demos, seed=0), demos, good


def test_the_learned_value_knows_which_steps_lead_to_where_clean_ones_end(judged):
    judge, demos, good = judged
    scores = judge.score(demos.noisy)
    assert "value" in judge.evidence.heard
    alone = np.concatenate([s.parts["value"] for s in scores])
    assert roc_auc_score(good, alone) > 0.85
    joined = np.concatenate([s.optimality for s in scores])
    assert roc_auc_score(good, joined) > 0.93


def test_what_signals_and_neighbours_repeat_counts_once(judged):
    """It changes how sure the score is, not what it ranks higher."""
    judge, demos, _ = judged
    trust = float(judge.evidence.trust)
    assert 0 < trust < 1
    tensors = {k: v for k, v in judge.tensors().items() if k != "trust"}
    assert len(tensors) < len(judge.tensors())
    naive = type(judge).build(judge.inner_spaces, judge.configuration(), tensors)  # of before
    assert float(naive.evidence.trust) == 1
    said, all_said = (
        np.concatenate([s.optimality for s in j.score(demos.noisy)]) for j in (judge, naive)
    )
    prior = judge.good_share.odds[0]
    expected = prior + trust * (2 * np.arctanh(all_said) - prior)
    np.testing.assert_allclose(2 * np.arctanh(said), expected, atol=1e-6)


def test_it_is_the_same_after_saving(judged, tmp_path):
    judge, demos, _ = judged
    judge.save(tmp_path / "kept")
    again = load_judge(tmp_path / "kept")
    for a, b in zip(judge.score(demos.noisy), again.score(demos.noisy), strict=True):
        np.testing.assert_array_equal(a.optimality, b.optimality)


def test_it_advises_nobody(judged):
    """What the value says of actions that nobody took is not known well enough to act on."""
    assert judged[0].advice() is None


def test_without_ends_there_is_no_value():
    demos, _ = world(clean=4, noisy=8)
    cut = Demonstrations(
        [Trajectory(t.observations, t.actions, None, False, t.id) for t in demos.clean],
        list(demos.noisy),
        SPACES,
    )
    judge = Judge(
        signals="likelihood+value", clone_updates=20, distance_updates=30, outcome_updates=20
    ).fit(cut, seed=0)
    (said,) = (s for s in judge.signals if s.name == "value")
    assert not said.heard
    assert "no clean demonstration ended" in said.why


def test_noisy_ends_count_that_look_like_clean_ones():
    rng = np.random.default_rng(0)
    clean = [pushed(rng, f"c{i}")[0] for i in range(6)]
    there = [pushed(rng, f"t{i}")[0] for i in range(5)]
    elsewhere = [pushed(rng, f"e{i}", towards=(-1.0, 1.0))[0] for i in range(5)]
    demos = Demonstrations(clean, [*there, *elsewhere], SPACES)
    material = Material.of(demos, None, seed=0)
    standardise = Standardise(len(material.inputs))
    standardise.fit(material.windows)
    reached, other = find_ends(material, standardise)
    last = np.append(np.flatnonzero(material.windows.times.numpy() == 0)[1:], len(reached)) - 1
    assert set(np.flatnonzero(reached)) <= set(last)
    assert reached[last[:6]].all()
    assert reached[last[6:11]].sum() >= 3
    assert not reached[last[11:]].any()
    assert other[last[11:]].all()


def test_densities_far_out_are_low_and_never_alike():
    head = make_head(SPACES.action)
    head.fit(torch.rand(50, 2) * 0.2)
    clones = Clones(Ensemble(2, 3, 8, head.size), torch.zeros(0, dtype=torch.bool))
    states = torch.zeros(1, 3)
    actions = torch.linspace(0.1, 60.0, 30)[None, :, None].expand(1, 30, 2)
    with torch.no_grad():
        found = clones.of(states, actions, head)[0]
    assert bool((found.diff()[2:] < 0).all())
    assert float(found.min()) > -40


def test_pace_looks_at_jerk_and_saturation():
    calm = Trajectory(np.zeros((9, 2), np.float32), np.full((8, 2), 0.1, np.float32), id="a")
    shaky = np.tile(np.array([[1.0, 1.0], [-1.0, -1.0]], np.float32), (4, 1))
    other = Trajectory(np.zeros((9, 2), np.float32), shaky, id="b")
    demos = Demonstrations([calm], [other], SPACES)
    head = make_head(SPACES.action)
    windows = Windows(demos.all, 0)
    head.fit(windows.actions)
    rates = rates_of(windows, head)
    assert rates.shape == (16, count_rates(head, 2)) == (16, 8)
    assert (rates[8:, 2:6] > rates[:8, 2:6]).all()
    assert np.allclose(rates[:8, 2:6], 0)
