"""Algorithm 2 of the paper: discover skills on clean and noisy demonstrations (section 4.2).

Per batch everyone descends `L_imi + lambda L_mi`, and with it the negative entropy of the skills'
usage. Departures from the paper:

- `L_mi` is the negated Jensen-Shannon bound, so `T` descends it too; the paper's `max_T` and
  `T <- T + grad` have the sign reversed.
- Usage entropy. As written, K = 8 skills collapse to two. Its weight is 0 in `SDIL.paper()`.
- A fixed share of each batch is drawn from the clean set, however small that is.
- With `skills_from="stretches"`, off by default, skills are those of stretches (`stretches.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.losses import refuse_divergence, total
from sdil.networks.encoders import RecordedFeatures
from sdil.networks.hierarchical import SkillModel
from sdil.networks.skills import Compatibility, select
from sdil.skills.fields import DiscoveryFields
from sdil.skills.optimality import released_scores, skill_scores, step_scores
from sdil.skills.pairs import Pairs, find_pairs
from sdil.skills.pairs_on_device import find_pairs_on_device
from sdil.skills.repeated import Repeated
from sdil.skills.steps import TrainingSteps
from sdil.states import State
from sdil.training import Epoch, OnEpoch, Optimisation


@dataclass(frozen=True)
class Batch:
    """What the loss sees of B steps."""

    features: Tensor
    """The window, and `s_{t+1}` where it is looked at, standardised. (B, F)"""
    steps: Tensor
    """`s_t`, standardised, beside `a_t` encoded. (B, I + A)"""
    states: Tensor
    """`s_t`, standardised. (B, I)"""
    actions: Tensor
    clusters: Tensor
    is_clean: Tensor
    scores: Tensor | None
    """Estimated optimality; None before the first estimate. (B,)"""


@dataclass(frozen=True)
class Randomness:
    """All that is random in the loss."""

    gumbel: Tensor
    """(B, K)"""
    positive: Tensor
    """Uniform. (B, positives)"""
    negative: Tensor
    """Uniform. (B, negatives)"""
    by_embedding: bool
    """Whether candidates come from embeddings (DEC) or from clusters."""


def discovery_loss(
    model: SkillModel, T: Compatibility, batch: Batch, random: Randomness, settings: DiscoveryFields
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The terms that are descended, and figures worth logging. A function of its arguments."""
    f_bi, g, pi_low = model.encoder, model.g, model.pi_low
    embeddings = f_bi.body(batch.features)  # z'_t (B, d_z)
    log_probs = g.log_probs(embeddings)  # Eq. 1 (B, K)
    noise, form = random.gumbel, settings.selection
    chosen = select(log_probs, noise, settings.temperature, form)  # Eq. 2 (B, K)
    skills = chosen @ g.prototypes  # z_t (B, d_z)
    outputs = pi_low.act(batch.states, skills)
    terms = {"imitation": model.head.nll(outputs, batch.actions, "mean")}  # Eq. 3, L_imi
    figures = {"skill": log_probs.detach().argmax(1)}  # the most probable one (B,)
    if settings.skills_from == "stretches":
        terms["stretches"] = F.nll_loss(log_probs, batch.clusters)
    if settings.usage_weight > 0:
        mean = log_probs.exp().mean(0)  # (K,)
        terms["usage_entropy"] = settings.usage_weight * (mean @ mean.log())
    if settings.mi_weight > 0:
        find = find_pairs if embeddings.device.type == "cpu" else find_pairs_on_device
        pairs = find(
            embeddings.detach(),
            batch.clusters,
            batch.scores,
            batch.is_clean,
            random.positive,
            random.negative,
            settings,
            by_embedding=random.by_embedding,
        )
        fit = T(batch.steps, chosen, g.prototypes, pairs.partners)  # (B, 1 + P + Q)
        contrast = contrastive_loss(fit, pairs)
        terms["mi"] = settings.mi_weight * contrast
        figures["contrastive"] = contrast
        figures["pairs"] = pairs.counts
    return terms, figures


def contrastive_loss(fit: Tensor, pairs: Pairs) -> Tensor:
    """Eq. 5, `L_mi`, from T's values: softplus(-T) of positives, softplus(T) of negatives.

    Negatives are the far ones, not draws from the marginal: a contrastive loss, no estimate of
    mutual information.
    """
    return (F.softplus(pairs.signs * fit) * pairs.weights).sum() / len(fit)


class Discovery:
    """Phase 1: epochs of Algorithm 2, and an estimate of optimality every N_PU of them."""

    def __init__(
        self,
        steps: TrainingSteps,
        model: SkillModel,
        T: Compatibility,
        settings: DiscoveryFields,
        generator: torch.Generator,
        judged: Tensor | None = None,
        at_most: int | None = None,
        draw_noisy: Callable[[int], Tensor] | None = None,
    ) -> None:
        """`judged` are scores of all training steps (N,), where they come from elsewhere; with
        `at_most` it ends after so many updates. `draw_noisy` gives numbers of noisy steps, from 0,
        to learn from; without it each has its turn."""
        self.draw_noisy = draw_noisy
        self.steps, self.model, self.T, self.settings = steps, model, T, settings
        self.optimisation = Optimisation(
            {"model": model, "T": T},
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            generator=generator,
            without_decay=("T",),
        )
        self.updates_per_epoch = math.ceil(len(steps.windows) / settings.batch_size)
        self.total = max(
            settings.discovery_epochs,
            math.ceil(settings.discovery_min_updates / self.updates_per_epoch),
        )
        if at_most is not None:
            self.total = min(self.total, math.ceil(at_most / self.updates_per_epoch))
        self.epoch = 0
        self._judged = judged
        self.scores = judged
        """Estimated optimality of each training step, clean ones 1. (N,)"""
        self.skill_optimality = torch.full((settings.n_skills,), torch.nan)
        """`s_k^op`; unknown without noisy data. (K,)"""
        self.usage = torch.zeros(settings.n_skills)
        """The share of steps whose most probable skill is k, in the last epoch. (K,)"""
        self.mixed_pairs_survived = 0.0
        """The share of clean-noisy positives that passed the filter in the last epoch."""
        self._luck = generator
        if self.optimisation.device.type != "cpu":  # one of its own, so that nothing is sent
            self._luck = torch.Generator(self.optimisation.device)
        self._repeated: dict[tuple[bool, int], Repeated] = {}

    @cached_property
    def _features(self) -> RecordedFeatures:
        """All parts of the model are given states as the encoder standardises them."""
        return RecordedFeatures(self.steps.windows, self.model.encoder.features)

    @property
    def perplexity(self) -> float:
        """How many skills are in use: the exponential of the usage's entropy."""
        share = self.usage[self.usage > 0]
        return float(torch.exp(-(share * share.log()).sum()))

    def run(self, on_epoch: OnEpoch | None, resume: State | None) -> None:
        """Discover; `resume` is a state that `on_epoch` was given before."""
        if resume is not None:
            self._restore(resume)
        while self.epoch < self.total:
            losses = self._train_one_epoch()
            self.epoch += 1
            figures = {"usage": self.usage.tolist()}
            due = self.epoch % self.settings.pu_interval == 0 or self.epoch == self.total
            if due and len(self.steps.noisy):
                self._estimate_optimality()
            if self.scores is not None:
                noisy = self.scores[self.steps.noisy].cpu()
                counts = torch.histc(noisy, bins=10, min=-1.0, max=1.0)
                figures["scores"] = (counts / counts.sum()).tolist()
            if on_epoch is not None:
                known = None if self.scores is None else self.scores[self.steps.noisy].cpu()
                on_epoch(
                    Epoch(
                        "discover",
                        self.epoch,
                        self.total,
                        losses,
                        self.state,
                        figures,
                        scores=known,
                    )
                )

    def warn_of_collapse(self) -> None:
        """Say what went wrong, and what to change."""
        settings = self.settings
        if self.perplexity < settings.n_skills / 2:
            warnings.warn(
                f"discovery failed: only {self.perplexity:.1f} of {settings.n_skills} skills are "
                "in use. Raise usage_weight, lower n_skills, or give more data.",
                stacklevel=3,
            )
        mixes = len(self.steps.noisy) and settings.mi_weight > 0 and settings.clusters == "states"
        if mixes and self.mixed_pairs_survived == 0.0:
            warnings.warn(
                "no clean step was paired with a noisy one at the end of discovery, so the noisy "
                'set taught the clean skills nothing. Use positive_filter="opposed", or raise '
                "epsilon.",
                stacklevel=3,
            )

    def state(self) -> State:
        """Everything, flat, as tensors."""
        return {
            **self.optimisation.state(),
            **self.result(),
            "epoch": torch.tensor(self.epoch),
        }

    def result(self) -> State:
        """What later phases need beside the model's weights."""
        scores = {} if self.scores is None else {"scores": self.scores.cpu()}
        mixed = torch.tensor(self.mixed_pairs_survived, dtype=torch.float64)
        return {
            **scores,
            "skill_optimality": self.skill_optimality,
            "usage": self.usage,
            "mixed_pairs_survived": mixed,
        }

    def load_result(self, result: State) -> None:
        self.scores = result.get("scores", self._judged)
        if self.scores is not None:
            self.scores = self.scores.to(self.optimisation.device)
        self.skill_optimality = result["skill_optimality"]
        self.usage = result["usage"]
        self.mixed_pairs_survived = float(result["mixed_pairs_survived"])

    def _restore(self, state: State) -> None:
        self.optimisation.restore(state)
        self.load_result(state)
        self.epoch = int(state["epoch"])

    def _train_one_epoch(self) -> dict[str, float]:
        settings, generator = self.settings, self.optimisation.generator
        zeta = min(1.0, self.epoch * settings.zeta_step)
        n = self.updates_per_epoch
        sources = (torch.rand(n, generator=generator) < zeta).tolist()
        if self._luck is not generator:
            self._luck.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        told: dict[str, list[Tensor]] = {}  # averaged when the epoch is over: fewer operations
        for index, source in zip(self._batches(n), sources, strict=True):
            for name, value in self._updating(source)(index).items():
                told.setdefault(name, []).append(value)
        skills = torch.cat(told.pop("skill")).cpu()
        self.usage = skills.bincount(minlength=settings.n_skills) / len(skills)
        pairs = told.pop("pairs", None)
        means = {name: float(torch.stack(values).double().mean()) for name, values in told.items()}
        refuse_divergence("discover", means)
        if pairs is not None:
            candidates, survived, mixed, mixed_survived = torch.stack(pairs).sum(0).tolist()
            means["survived"] = survived / candidates if candidates else 1.0
            self.mixed_pairs_survived = mixed_survived / mixed if mixed else 0.0
            means["survived_clean_noisy"] = self.mixed_pairs_survived
        dead = int((self.usage < 0.01).sum())
        return {**means, "perplexity": self.perplexity, "dead_skills": dead, "zeta": zeta}

    def _update(self, index: Tensor, *, by_embedding: bool) -> dict[str, Tensor]:
        random = self._draw(len(index), by_embedding)
        batch = self._batch(index)
        terms, figures = discovery_loss(self.model, self.T, batch, random, self.settings)
        self.optimisation.descend(total(terms))
        return {name: value.detach() for name, value in (*terms.items(), *figures.items())}

    def _updating(self, by_embedding: bool) -> Callable[[Tensor], dict[str, Tensor]]:
        """What does an update: on a GPU recorded, once for each source of pairs and each set of
        scores that it looks at."""
        update = partial(self._update, by_embedding=by_embedding)
        if self.optimisation.device.type != "cuda":
            return update
        scores = 0 if self.scores is None else self.scores.data_ptr()
        self._repeated = {k: v for k, v in self._repeated.items() if k[1] == scores}
        key = (by_embedding, scores)
        return self._repeated.setdefault(key, Repeated(update, self._luck))

    def _batches(self, n: int) -> list[Tensor]:
        """Step numbers of n batches, a fixed share of each from the clean set."""
        steps, size, generator = self.steps, self.settings.batch_size, self.optimisation.generator
        if self.settings.clean_share == 0.0 or not len(steps.noisy) or size == 1:
            dealt = _deal(len(steps.windows), n * size, generator)
            return list(dealt.to(self.optimisation.device).split(size))
        of_clean = min(max(1, round(size * self.settings.clean_share)), size - 1)
        device = self.optimisation.device
        dealt = _deal(len(steps.clean), n * of_clean, generator).to(device)
        clean = steps.clean[dealt].view(n, -1)
        of_noisy = n * (size - of_clean)
        drawn = (
            _deal(len(steps.noisy), of_noisy, generator)
            if self.draw_noisy is None
            else self.draw_noisy(of_noisy)
        )
        return list(torch.cat([clean, steps.noisy[drawn.to(device)].view(n, -1)], 1))

    def _batch(self, index: Tensor) -> Batch:
        features, steps = self._features.at(index)
        return Batch(
            features=features,
            steps=steps,
            states=steps[:, : len(self.steps.inputs)],
            actions=self.steps.actions.index_select(0, index),
            clusters=self.steps.clusters.index_select(0, index),
            is_clean=self.steps.is_clean.index_select(0, index),
            scores=None if self.scores is None else self.scores.index_select(0, index),
        )

    def _draw(self, size: int, by_embedding: bool) -> Randomness:
        settings, generator = self.settings, self._luck
        count = settings.positives + settings.negatives
        pairs = torch.rand(size, count, generator=generator, device=generator.device)
        return Randomness(
            gumbel=gumbel(size, settings.n_skills, generator),
            positive=pairs[:, : settings.positives],
            negative=pairs[:, settings.positives :],
            by_embedding=by_embedding,
        )

    @torch.no_grad()
    def _estimate_optimality(self) -> None:
        """One deterministic pass over the training set."""
        as_released = self.settings.scored == "released"
        model, windows = self.model, self.steps.windows
        parts, plausible = [], []
        for index in windows.parts():
            chosen = model.selection(windows, index)
            states, actions = windows.at(index).state, windows.actions_at(index)
            if as_released:
                outputs = model.pi_low(states, chosen @ model.g.prototypes)
            else:
                outputs = model.pi_low.for_every_skill(states, model.g.prototypes)
                actions = actions[:, None].expand(-1, outputs.shape[1], *actions.shape[1:])
            parts.append(chosen)
            plausible.append(model.head.plausibility(outputs, actions))  # p(a_t | s_t, z^k)
        selection, likelihood = torch.cat(parts), torch.cat(plausible)
        if as_released:
            of_skills, told = released_scores(selection, likelihood, self.steps.is_clean)
        else:
            of_skills = skill_scores(
                selection,
                likelihood,
                self.steps.trajectory,
                self.steps.trajectory_is_clean,
                delta=self.settings.delta,
                clip_preference=self.settings.clip_preference,
            )
            told = step_scores(selection, of_skills)
        self.skill_optimality = of_skills.cpu()
        if self._judged is None:
            self.scores = torch.where(self.steps.is_clean, 1.0, told)


def gumbel(size: int, n_skills: int, generator: torch.Generator) -> Tensor:
    """Noise from Gumbel(0, 1). (size, K)"""
    uniform = torch.rand(size, n_skills, generator=generator, device=generator.device)
    return uniform.clamp_(min=1e-30, max=1.0 - 2**-24).log_().neg_().log_().neg_()


def _deal(items: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` item numbers: shuffled decks, one after the other."""
    decks = [torch.randperm(items, generator=generator) for _ in range(math.ceil(count / items))]
    return torch.cat(decks)[:count]
