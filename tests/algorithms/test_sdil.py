from __future__ import annotations

import math
import warnings
from dataclasses import asdict, replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import sdil
from sdil import SDIL, Demonstrations, InputError, Trajectory, load_policy
from sdil.algorithms.reuse import adversarial_loss, bad_steps, distillation_loss
from sdil.heads import Categorical
from sdil.judges.evidence import STEP_SIGNALS
from sdil.losses import total
from sdil.networks.hierarchical import SkillArchitecture, SkillModel
from sdil.networks.skills import Compatibility, select
from sdil.skills.discovery import (
    Discovery,
    Randomness,
    contrastive_loss,
    discovery_loss,
    gumbel,
)
from sdil.skills.pairs import Pairs, find_pairs
from sdil.skills.steps import TrainingSteps
from sdil.training import seeded
from sdil.windows import Windows

SHORT = SDIL(
    score="pu",
    noisy_share=0.0,
    discovery_epochs=4,
    discovery_min_updates=1,
    pu_interval=2,
    zeta_step=0.5,
    min_updates=40,
    patience=20,
    max_updates=60,
)
JUDGED = replace(SHORT, score="judge", noisy_share=0.75)


@pytest.fixture(scope="module")
def policy(demos):
    return SHORT.fit(demos, seed=0)


def setup(demos, settings):
    steps = TrainingSteps(demos, settings, 0)
    architecture = SkillArchitecture(
        settings.n_skills,
        settings.skill_size,
        settings.look_back,
        settings.hidden,
        2,
        settings.next_state,
    )
    with seeded(0) as generator:
        model = SkillModel(
            len(steps.inputs), gym.spaces.Discrete(7), architecture, sees_next=settings.next_state
        )
        T = Compatibility(len(steps.inputs) + 7, settings.skill_size, settings.hidden)
    return Discovery(steps, model, T, settings, generator)


def test_contrastive_loss_by_hand_and_the_direction_of_T():
    fit = torch.tensor([[1.0, 2.0, -1.0], [0.0, 0.0, 5.0]], requires_grad=True)
    signs = torch.tensor([-1.0, -1.0, 1.0])
    weights = torch.tensor([[0.5, 0.5, 1.0], [0.5, 0.5, 0.0]])
    sp = lambda x: math.log1p(math.exp(x))  # noqa: E731
    expected = ((sp(-1) + sp(-2)) / 2 + sp(-1) + sp(0)) / 2
    loss = contrastive_loss(fit, Pairs(torch.zeros(2, 3), signs, weights, torch.zeros(4)))
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    loss.backward()
    assert (fit.grad[:, :2] < 0).all()  # descent raises T on positives
    assert fit.grad[0, 2] > 0  # and lowers it on negatives
    assert fit.grad[1, 2] == 0  # a step without negatives has no such term


@pytest.mark.parametrize(
    "settings", [SHORT, replace(SHORT, negatives=0), replace(SHORT, positives=0)]
)
def test_the_loss_takes_partners_for_what_they_are(demos, settings):
    """`L_mi` from the specification's formula, T one step and one partner at a time."""
    discovery = setup(demos, settings)
    index = discovery._batches(1)[0][:20]
    batch, random = discovery._batch(index), discovery._draw(len(index), False)
    model, T, g = discovery.model, discovery.T, discovery.model.g
    found = discovery_loss(model, T, batch, random, settings)[0]["mi"]
    embeddings = model.encoder.body(batch.features)
    chosen = select(g.log_probs(embeddings), random.gumbel, settings.temperature)
    given = batch.clusters, batch.scores, batch.is_clean, random.positive, random.negative
    pairs = find_pairs(embeddings.detach(), *given, settings, by_embedding=False)
    expected = 0.0
    for t in range(len(index)):
        fit = [
            T(batch.steps[t : t + 1], chosen[j, None], g.prototypes, torch.tensor([[0]])).item()
            for j in pairs.partners[t]
        ]
        positives, negatives = fit[: 1 + settings.positives], fit[1 + settings.positives :]
        expected += np.logaddexp(0, -np.array(positives)).mean()
        if negatives and (batch.clusters != batch.clusters[t]).any():
            expected += np.logaddexp(0, negatives).mean()
    assert found.item() == pytest.approx(expected / len(index), rel=1e-5)


def test_T_descends_with_everyone(demos):
    """Alone on one batch, T must get better at telling positives from negatives."""
    discovery = setup(demos, replace(SHORT, usage_weight=0.0))
    index = discovery._batches(1)[0]
    batch, random = discovery._batch(index), discovery._draw(len(index), False)
    discovery.model.requires_grad_(False)
    optimiser = torch.optim.Adam(discovery.T.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        terms, figures = discovery_loss(discovery.model, discovery.T, batch, random, SHORT)
        optimiser.zero_grad()
        terms["mi"].backward()
        optimiser.step()
        losses.append(figures["contrastive"].item())
    assert losses[0] == pytest.approx(2 * math.log(2), abs=0.15)
    assert losses[-1] < losses[0] - 0.1


def test_the_loss_is_a_function_of_its_arguments(demos):
    discovery = setup(demos, SHORT)
    index = discovery._batches(1)[0]
    batch, random = discovery._batch(index), discovery._draw(len(index), True)
    before = torch.random.get_rng_state(), discovery.optimisation.generator.get_state()
    first, again = (
        discovery_loss(discovery.model, discovery.T, batch, random, SHORT)[0] for _ in range(2)
    )
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert torch.equal(before[1], discovery.optimisation.generator.get_state())


def test_lambda_0_leaves_T_untouched(demos):
    discovery = setup(demos, replace(SHORT, mi_weight=0.0))
    before = {k: v.clone() for k, v in discovery.T.state_dict().items()}
    discovery.run(None, None)
    assert all(torch.equal(before[k], v) for k, v in discovery.T.state_dict().items())


def test_weight_decay_spares_T(demos):
    discovery = setup(demos, SHORT)
    decays = [group["weight_decay"] for group in discovery.optimisation.optimiser.param_groups]
    assert decays == [SHORT.weight_decay, 0.0]


def test_zeta_0_never_reads_embeddings_for_pairs(demos, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("embeddings were read")

    monkeypatch.setattr("sdil.skills.pairs.by_distance", refuse)
    setup(demos, replace(SHORT, zeta_step=0.0)).run(None, None)
    with pytest.raises(AssertionError, match="embeddings were read"):
        setup(demos, SHORT).run(None, None)


def test_a_quarter_of_each_batch_is_clean(demos):
    discovery = setup(demos, SHORT)
    for index in discovery._batches(5):
        assert discovery.steps.is_clean[index].sum() == 64
        assert len(index) == 256
    everywhere = setup(demos, replace(SHORT, clean_share=0.0))
    share = torch.cat(everywhere._batches(20)).lt(demos.clean.n_steps).float().mean()
    assert share == pytest.approx(demos.clean.n_steps / demos.all.n_steps, abs=0.05)


def test_scores_follow_the_definition(demos):
    discovery = setup(demos, SHORT)
    discovery.run(None, None)
    assert discovery.scores is not None
    assert (discovery.scores[discovery.steps.clean] == 1).all()
    assert discovery.scores.abs().max() <= 1 + 1e-6
    assert discovery.skill_optimality.abs().max() <= 1 + 1e-6
    index = discovery.steps.noisy
    with torch.no_grad():
        selection = discovery.model.selection(discovery.steps.windows, index)
    torch.testing.assert_close(discovery.scores[index], selection @ discovery.skill_optimality)


def test_changing_the_next_state_cannot_change_an_action(policy, demos):
    """The poisoned copy differs after t; what the policy does at t does not."""
    trajectory = demos.clean[0]
    poisoned = np.array(trajectory.observations)
    poisoned[4:] += 50
    both = Demonstrations(
        clean=[
            Trajectory(o, trajectory.actions, id=n)
            for n, o in (("a", trajectory.observations), ("b", poisoned))
        ],
        spaces=demos.spaces,
    )
    windows = Windows(both.clean, policy.look_back)
    steps = torch.arange(4)
    probs = [policy.action_probs(windows.at(first + steps)) for first in (0, len(trajectory))]
    assert torch.equal(*probs)  # steps 0 to 3; the next state of step 3 is poisoned
    # the discovery model, on the other hand, must see it
    scores = [
        policy.score([Trajectory(o, trajectory.actions)])[0].skill_probs[3]
        for o in (trajectory.observations, poisoned)
    ]
    assert not np.allclose(*scores)


def test_sdil_star_does_not_see_the_next_state(demos):
    star = replace(SHORT, next_state=False, n_skills=2).fit(demos, seed=0)
    trajectory = demos.noisy[0]
    poisoned = np.array(trajectory.observations)
    poisoned[3:] += 50
    clean, dirty = (
        star.score([Trajectory(o, trajectory.actions)])[0]
        for o in (trajectory.observations, poisoned)
    )
    np.testing.assert_array_equal(clean.skill_probs[:3], dirty.skill_probs[:3])
    assert not np.array_equal(clean.skill_probs[3:], dirty.skill_probs[3:])


def test_frozen_parts_do_not_move_in_select(demos):
    states = {}

    def keep(epoch):
        state = epoch.state()
        if epoch.phase == "select":
            states["discovered"] = {k: v for k, v in state.items() if k.startswith("discovered.")}
            states["select"] = state

    policy = SHORT.fit(demos, seed=0, on_epoch=keep)
    trained = [k for k in states["select"] if k.startswith("own.now.")]
    assert trained
    assert all(k.startswith("own.now.select.") for k in trained)
    assert not any("prototypes" in k or "pi_low" in k for k in trained)
    # refine starts from discovery's g and moves it; the judge keeps discovery's own
    found, refined = (policy._models[n].g.prototypes for n in ("discovery", "acting"))
    torch.testing.assert_close(
        found, states["discovered"]["discovered.g.prototypes"], rtol=0, atol=0
    )
    assert not torch.equal(found, refined)


def test_distillation_by_hand():
    log_probs = torch.tensor([[0.2, 0.8], [0.5, 0.5]]).log()
    teacher = torch.tensor([1, 0])
    assert distillation_loss(log_probs, teacher, "log").item() == pytest.approx(
        -(math.log(0.8) + math.log(0.5)) / 2
    )
    assert distillation_loss(log_probs, teacher, "prob").item() == pytest.approx(-(0.8 + 0.5) / 2)


def test_the_bound_of_L_adv():
    logits, actions = (
        torch.tensor([[2.0, 0.0], [-6.0, 0.0]], requires_grad=True),
        torch.tensor([0, 0]),
    )
    p = logits.softmax(1)[:, 0].detach()
    head = Categorical(logits.shape[1])
    unlikelihood = adversarial_loss(head, logits, actions, "unlikelihood")
    assert unlikelihood.item() == pytest.approx(float(-(1 - p).log().mean()), rel=1e-5)
    (gradient,) = torch.autograd.grad(unlikelihood, logits)
    assert gradient[0, 0] > 0
    paper = adversarial_loss(head, logits, actions, "log")
    assert paper.item() == pytest.approx(float(p.log().mean()), rel=1e-5)
    (gradient,) = torch.autograd.grad(paper, logits)
    assert gradient[0, 0] > 0
    assert gradient[1].tolist() == [0, 0]  # p = 0.002: nothing left to push
    certain = torch.tensor([[60.0, 0.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(
        adversarial_loss(Categorical(certain.shape[1]), certain, torch.tensor([0]), "unlikelihood"),
        certain,
    )
    assert gradient[0, 0] == pytest.approx(1.0)  # the surest mistakes are pushed hardest


def test_bad_steps_are_the_lowest_by_threshold_and_share(demos):
    discovery = setup(demos, SHORT)
    discovery.scores = torch.linspace(-1, 1, len(discovery.steps.windows))[
        torch.randperm(len(discovery.steps.windows), generator=torch.Generator().manual_seed(0))
    ]
    noisy = discovery.scores[discovery.steps.noisy]
    bad = bad_steps(discovery, SDIL(negative_below=-0.25, negative_share=0.2))
    assert len(bad) == int(0.2 * len(noisy))
    assert discovery.scores[bad].max() <= noisy.sort().values[len(bad) - 1]
    few = bad_steps(discovery, SDIL(negative_below=-0.99))
    assert len(few) == (noisy < -0.99).sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [
        SDIL(),
        SDIL.paper(),
        SDIL.released(),
        SDIL.presets()["paper-without-adv"],
        SDIL(score="pu"),
        SDIL(noisy_share=0.5, predicts="likeliest"),
        SDIL(acting="greedy"),
        SDIL(zeta_step=0.0),
        SDIL(mi_weight=0.0),
        SDIL(distillation="prob"),
        SDIL(adv_weight=0.5, negative_below=1.0),
        SDIL(next_state=False),
        SDIL(n_skills=1),
        SDIL(look_back=0),
    ],
)
def test_every_variant_trains_and_acts(variant, demos):
    fields = (
        "discovery_epochs",
        "discovery_min_updates",
        "pu_interval",
        "min_updates",
        "patience",
        "max_updates",
    )
    short = replace(variant, **{name: getattr(SHORT, name) for name in fields})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of them collapse, and say so
        policy = short.fit(demos, seed=0)
    assert sdil.evaluate(policy, "fourrooms", episodes=5).n_episodes == 5
    assert len(policy.score(demos.noisy)) == 60


def test_distillation_goes_on_where_it_is_asked_for_and_weighs_what_it_should(demos):
    told = {}
    for distils, weight in (("select", 1.0), ("always", 1.0), ("always", 0.0)):
        learner = replace(SHORT, distils=distils, distillation_weight=weight)
        epochs = []
        learner.fit(demos, seed=0, on_epoch=epochs.append)
        told[distils, weight] = [e.losses for e in epochs if e.phase == "refine"]
        selected = [e.losses["distillation"] for e in epochs if e.phase == "select"]
        assert all((loss > 0) == (weight > 0) for loss in selected)
    assert all("distillation" not in losses for losses in told["select", 1.0])
    assert all(losses["distillation"] > 0 for losses in told["always", 1.0])
    assert all(losses["distillation"] == 0 for losses in told["always", 0.0])


def test_what_is_released_differs_from_the_text_where_its_authors_differ():
    text, code = asdict(SDIL.paper()), asdict(SDIL.released())
    assert text["discovery_epochs"] == code["discovery_epochs"] == 70
    assert text["discovery_min_updates"] == 2_000
    differ = {name for name in text if text[name] != code[name]}
    assert differ == {
        *("clean_share", "selection", "matching", "predicts", "clusters", "zeta_step"),
        *("positive_filter", "epsilon", "pu_interval", "scored", "negative_share"),
        *("imitate_above", "distillation", "distillation_weight", "distils"),
        *("adv_weight", "adv_form"),
    }
    without = asdict(SDIL.presets()["paper-without-adv"])
    assert {name for name in text if text[name] != without[name]} == {"adv_weight"}


def test_clusters_of_sets_part_the_sets_and_know_actions(demos):
    steps = TrainingSteps(demos, replace(SHORT, clusters="sets", n_clusters=6), 0)
    clean, noisy = steps.clusters[steps.clean], steps.clusters[steps.noisy]
    assert set(clean.tolist()) == {0, 1, 2}
    assert set(noisy.tolist()) == {3, 4, 5}
    pairs = np.arange(41)[:, None] // 2 % 2  # either action in either state
    one = Trajectory(pairs.astype(np.float32), np.arange(40) % 2, id="one")
    both = Demonstrations([one], [replace(one, id="other")])
    told = TrainingSteps(both, replace(SHORT, clusters="sets", n_clusters=4), 0)
    assert (told.clusters[0::2] != told.clusters[1::2]).all()
    assert (told.clusters[:40] + 2 == told.clusters[40:]).all()


def test_with_clusters_of_sets_nothing_is_said_of_pairs_that_cannot_mix(demos):
    """A learner that pairs by clusters alone; warnings are errors here."""
    settings = replace(SHORT, clusters="sets", zeta_step=0.0, discovery_min_updates=100)
    policy = replace(settings, usage_weight=3.0).fit(demos, seed=0)
    assert len(policy.score(demos.noisy)) == len(demos.noisy)


def test_what_is_imitated_above_a_score_weighs_as_if_both_sets_were_of_one_size(demos):
    asked, epochs = [], []

    def draw(weights, n_clean, generator):
        asked.append((weights, n_clean))
        return lambda count: torch.randint(n_clean, (count,), generator=generator)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdil.algorithms.sdil.draw_by_weight", draw)
        SHORT.fit(demos, seed=0, on_epoch=epochs.append)
        assert not asked  # above 1: none
        scores = [e.scores for e in epochs if e.phase == "discover"][-1]
        middle = float(scores.median())
        replace(SHORT, imitate_above=middle).fit(demos, seed=0)
    ((weights, n_clean),) = asked
    assert n_clean == demos.clean.n_steps
    assert 0 < (weights != 0).sum() < len(weights)
    expected = torch.where(scores > middle, scores, 0.0) * n_clean / demos.noisy.n_steps
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("low_level", ["skill", "history"])
def test_skills_decide_together_alone_or_by_their_mean(demos, low_level):
    policy = replace(SHORT, low_level=low_level).fit(demos, seed=0)
    windows = Windows(demos.clean, policy.look_back)
    whole = windows.at(torch.arange(40))
    model, window = policy._acting, whole.only(policy.inputs)
    with torch.no_grad():
        log_probs, seen = model.log_probs(window), None
        if low_level == "history":
            seen = model.encoder(window) @ model.of_embedding.T
            assert seen.abs().max() > 0
        each = model.pi_low.for_every_skill(window.state, model.g.prototypes, seen).softmax(2)
        by_hand = (log_probs.exp()[..., None] * each).sum(1)
        torch.testing.assert_close(model.outputs(window, "mixture").softmax(1), by_hand)
        likeliest = each[torch.arange(len(each)), log_probs.argmax(1)]
        torch.testing.assert_close(model.outputs(window, "likeliest").softmax(1), likeliest)
        mean = model.pi_low(window.state, log_probs.exp() @ model.g.prototypes, seen)
        torch.testing.assert_close(model.outputs(window, "mean"), mean)
    torch.testing.assert_close(policy.action_probs(whole), by_hand)


def test_one_skill_is_a_plain_policy_on_the_state(demos):
    """With K = 1 the history has no way to change an action."""
    policy = replace(SHORT, n_skills=1, acting="greedy", low_level="skill").fit(demos, seed=0)
    observations = demos.clean[0].observations
    alone = [int(policy.predict(o)[0]) for o in observations]
    state, along = None, []
    for o in observations:
        action, state = policy.predict(o, state)
        along.append(int(action))
    assert alone == along


def test_it_acts_by_the_rules_that_its_data_speaks_for(policy, demos):
    assert policy.rules == (sdil.WithoutCircles(30),)
    assert "no judge that hears the value" in policy.why_not["value"]
    assert replace(SHORT, acting="greedy").fit(demos, seed=0).rules == ()
    valued = replace(SHORT, score="judge").fit(
        demos, seed=0, judge=sdil.Judge(signals="value").fit(demos, seed=0)
    )
    assert valued.rules == (sdil.ListenToValue(2.0), sdil.WithoutCircles(30))


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("clone clean", marks=pytest.mark.slow),
        pytest.param("measure distances", marks=pytest.mark.slow),
        pytest.param("discover", marks=pytest.mark.slow),
        pytest.param("select", marks=pytest.mark.slow),
        "refine",
    ],
)
def test_killed_in_any_phase_it_resumes_bit_for_bit(demos, phase):
    class KilledError(Exception):
        pass

    settings = replace(JUDGED, adv_weight=0.5, negative_below=1.0)
    kept = {}

    def die(epoch):
        kept.update({"state": {k: v.clone() for k, v in epoch.state().items()}})
        if epoch.phase == phase and epoch.index == 2:
            raise KilledError

    with pytest.raises(KilledError):
        settings.fit(demos, seed=0, on_epoch=die)
    resumed = settings.fit(demos, seed=0, resume=kept["state"]).tensors()
    whole = settings.fit(demos, seed=0).tensors()
    assert whole.keys() == resumed.keys()
    for name, tensor in whole.items():  # the value of an action never seen is NaN
        assert torch.equal(tensor.nan_to_num(7.0), resumed[name].nan_to_num(7.0)), name


def test_a_judge_judges_instead_of_skills(demos, tmp_path):
    policy = JUDGED.fit(demos, seed=0)
    first = policy.score(demos.noisy)[0]
    assert set(first.parts) <= set(STEP_SIGNALS)
    assert first.parts
    assert first.spread.shape == first.optimality.shape
    by_skills = first.skill_probs @ policy.skill_optimality.double().numpy()
    assert not np.allclose(first.optimality, by_skills)
    policy.save(tmp_path / "run")
    again = load_policy(tmp_path / "run").score([demos.noisy[0]])[0]
    np.testing.assert_allclose(again.optimality, first.optimality, atol=1e-12)


@pytest.mark.slow
def test_good_noisy_steps_are_imitated_by_their_score(demos):
    """With every noisy step in the batches, phase 2 sees more than the clean set."""
    alone = replace(JUDGED, noisy_share=0.0).fit(demos, seed=0).tensors()
    both = JUDGED.fit(demos, seed=0).tensors()
    discovered = [k for k in alone if k.startswith("discovery.")]
    assert all(torch.equal(alone[k], both[k]) for k in discovered)  # phase 1 is the same
    assert not torch.equal(alone["acting.g.prototypes"], both["acting.g.prototypes"])


def test_scores_of_any_trajectories(policy, demos, tmp_path):
    scores = policy.score(demos.noisy)
    assert [len(s.optimality) for s in scores] == demos.noisy.lengths.tolist()
    first = scores[0]
    assert first.skill_probs.shape == (len(first.skill), 8)
    np.testing.assert_allclose(first.skill_probs.sum(1), 1)
    np.testing.assert_array_equal(first.skill, first.skill_probs.argmax(1))
    policy.save(tmp_path / "run")
    again = load_policy(tmp_path / "run").score([demos.noisy[0]])[0]
    np.testing.assert_allclose(again.optimality, first.optimality, atol=1e-12)
    without_final = Trajectory(demos.noisy[0].observations[:-1], demos.noisy[0].actions)
    shorter = policy.score([without_final])[0]
    np.testing.assert_allclose(shorter.optimality[:-1], first.optimality[:-1], atol=1e-12)
    assert policy.score([]) == []


def test_scoring_checks_what_it_is_given(policy, demos):
    t = demos.noisy[0]
    wrong = np.array(t.observations)
    wrong[2, 5] = np.nan
    with pytest.raises(InputError, match="given set, episode 'x', step 2: observation element"):
        policy.score([Trajectory(wrong, t.actions, id="x")])
    with pytest.raises(InputError, match="observations have shape"):
        policy.score([Trajectory(t.observations[:, :1], t.actions)])
    with pytest.raises(InputError, match="lies outside Discrete"):
        policy.score([Trajectory(t.observations, t.actions + 9)])


class _Loss(nn.Module):
    """The discovery loss of one seed, as a function of a module's weights."""

    def __init__(self, discovery):
        super().__init__()
        self.model, self.T, self.settings = discovery.model, discovery.T, discovery.settings

    def forward(self, batch, random):
        return total(discovery_loss(self.model, self.T, batch, random, self.settings)[0])


@pytest.mark.parametrize("by_embedding", [True, False])
def test_many_seeds_can_be_trained_at_once_with_vmap(demos, by_embedding):
    found = [setup(demos, SHORT) for _ in range(3)]
    for discovery in found:
        discovery.scores = torch.linspace(-1, 1, len(discovery.steps.windows))
    with torch.no_grad():
        for i, discovery in enumerate(found):
            for module in (discovery.model.double(), discovery.T.double()):
                for weights in module.parameters():
                    weights.mul_(1 + 0.1 * i)
    losses = [_Loss(discovery) for discovery in found]
    weights, buffers = torch.func.stack_module_state(losses)
    indices = [d._batches(1 + i)[-1] for i, d in enumerate(found)]
    randoms = [d._draw(len(i), by_embedding) for d, i in zip(found, indices, strict=True)]

    def loss(weights, buffers, index, gumbel, positive, negative):
        random = Randomness(gumbel, positive, negative, by_embedding)
        return torch.func.functional_call(
            losses[0], (weights, buffers), (found[0]._batch(index), random)
        )

    drawn = [
        torch.stack([getattr(r, name) for r in randoms])
        for name in ("gumbel", "positive", "negative")
    ]
    for i, alone in enumerate(losses):
        alone(found[i]._batch(indices[i]), randoms[i]).backward()
    together = torch.func.vmap(torch.func.grad(loss))(
        weights, buffers, torch.stack(indices), *drawn
    )
    for i, alone in enumerate(losses):
        for name, weight in alone.named_parameters():
            torch.testing.assert_close(together[name][i], weight.grad)


def test_segments_are_runs_of_equal_skill():
    from sdil.scores import StepScores

    scores = StepScores(
        optimality=np.array([1.0, 0.0, 0.5, -1.0, -0.5]),
        skill=np.array([2, 2, 0, 0, 2]),
        skill_probs=np.zeros((5, 3)),
    )
    found = [(s.start, s.stop, s.skill, s.optimality) for s in scores.segments()]
    assert found == [(0, 2, 2, 0.5), (2, 4, 0, -0.25), (4, 5, 2, -0.5)]


def test_without_noisy_data_it_trains_but_cannot_judge(demos):
    policy = replace(SHORT, n_skills=2).fit(demos.clean_only(), seed=0)
    assert policy.predict(demos.clean[0].observations[0])[0] in range(7)
    with pytest.raises(InputError, match="without noisy demonstrations"):
        policy.score(demos.noisy)


def test_a_collapsed_run_says_what_to_change(demos):
    collapsing = replace(SHORT, usage_weight=0.0, n_skills=40)
    with pytest.warns(UserWarning, match=r"discovery failed: only .* Raise usage_weight"):
        collapsing.fit(demos, seed=0)
    strict = replace(SHORT, positive_filter="difference", epsilon=0.0)
    with pytest.warns(UserWarning, match=r"no clean step was paired .* positive_filter"):
        strict.fit(demos, seed=0)


def test_diagnostics_of_every_epoch(demos):
    epochs = []
    SHORT.fit(demos, seed=0, on_epoch=epochs.append)
    discover = [e for e in epochs if e.phase == "discover"]
    assert len(discover) == 4
    for name in (
        "imitation",
        "mi",
        "contrastive",
        "usage_entropy",
        "perplexity",
        "dead_skills",
        "zeta",
        "survived",
    ):
        assert all(np.isfinite(e.losses[name]) for e in discover)
    assert [e.losses["zeta"] for e in discover] == [0.0, 0.5, 1.0, 1.0]
    assert sum(discover[0].figures["usage"]) == pytest.approx(1, abs=1e-5)
    assert "scores" not in discover[0].figures
    assert sum(discover[1].figures["scores"]) == pytest.approx(1, abs=1e-5)
    assert discover[-1].losses["survived_clean_noisy"] > 0


def two_skill_world(seed: int) -> tuple[Demonstrations, list[np.ndarray]]:
    """A line: experts always step right (action 1). Noisy episodes have a good half, to the right,
    and a bad half, to the left (action 0), in either order; a flag in the state tells nothing."""
    rng = np.random.default_rng(seed)

    def walk(moves):
        position, seen = rng.normal(), []
        for move in moves:
            seen.append([position, rng.normal()])
            position += 1.0 if move else -1.0
        seen.append([position, rng.normal()])
        return Trajectory(np.array(seen, np.float32), np.array(moves))

    clean = [walk([1] * 10) for _ in range(10)]
    good = [np.array([True] * 6 + [False] * 6)[:: 1 if i % 2 else -1] for i in range(40)]
    noisy = [walk(g.astype(int)) for g in good]
    named = [
        [Trajectory(t.observations, t.actions, id=f"{n}{i}") for i, t in enumerate(items)]
        for n, items in (("c", clean), ("n", noisy))
    ]
    return Demonstrations(clean=named[0], noisy=named[1]), good


@pytest.mark.slow
def test_it_finds_the_two_skills_and_ranks_the_bad_one_below():
    right = 0
    settings = SDIL(
        score="pu",
        noisy_share=0.0,
        n_skills=2,
        discovery_epochs=40,
        discovery_min_updates=1000,
        min_updates=40,
        max_updates=60,
    )
    for seed in range(3):
        demos, good = two_skill_world(seed)
        policy = settings.fit(demos, seed=seed)
        scores = policy.score(demos.noisy)
        skill, truth = np.concatenate([s.skill for s in scores]), np.concatenate(good)
        agreement = np.mean(skill == truth)
        separated = max(agreement, 1 - agreement) > 0.9
        optimality = np.concatenate([s.optimality for s in scores])
        ranked = optimality[truth].mean() > optimality[~truth].mean()
        right += bool(separated and ranked)
    assert right == 3


def test_gumbel_noise_has_the_right_mean():
    noise = gumbel(200_000, 1, torch.Generator().manual_seed(0))
    assert float(noise.mean()) == pytest.approx(0.5772, abs=0.01)


def test_a_batch_smaller_than_its_partners(make_episode):
    tiny = Demonstrations(
        clean=[make_episode(2, id="a"), make_episode(1, seed=1, id="b")], noisy=[make_episode(1)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = replace(SHORT, batch_size=2, n_skills=2).fit(tiny, seed=0)
    assert policy.predict(tiny.clean[0].observations[0])[0] in range(4)
