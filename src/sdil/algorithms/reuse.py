"""Phase 2 of SDIL: reuse the skills that were discovered (paper, section 4.3).

First `f_uni` learns to select them, then `f_uni`, `g` and `pi_low` are refined together; each to
convergence on clean validation, or for as long as was found across folds. The paper imitates clean
steps alone. Here noisy steps may be drawn beside them (`trust.py`, `judged.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.heads import ActionHead, counts_actions
from sdil.held_out import best_temperature, mean_nll, worse_than_usual
from sdil.networks.hierarchical import Predicts, SkillModel
from sdil.networks.skills import select
from sdil.skills.discovery import Discovery, gumbel
from sdil.skills.steps import TrainingSteps
from sdil.states import State
from sdil.training import Budget, BudgetFields, Convergence, OnEpoch, Optimisation, OptimiserFields
from sdil.windows import Window, Windows

_LEAST_PROBABILITY = 0.05  # the paper's form of L_adv has no gradient below it


class ReuseFields(OptimiserFields, BudgetFields, Protocol):
    """The hyper-parameters of phase 2."""

    @property
    def n_skills(self) -> int: ...
    @property
    def temperature(self) -> float: ...
    @property
    def predicts(self) -> Predicts: ...
    @property
    def selection(self) -> Literal["gumbel", "soft"]: ...
    @property
    def distillation(self) -> Literal["log", "prob"]: ...
    @property
    def distillation_weight(self) -> float: ...
    @property
    def distils(self) -> Literal["select", "always"]: ...
    @property
    def chunk(self) -> int: ...
    @property
    def adv_weight(self) -> float: ...
    @property
    def adv_form(self) -> Literal["unlikelihood", "log", "prob"]: ...
    @property
    def negative_below(self) -> float: ...
    @property
    def negative_share(self) -> float: ...


class Reuse:
    """Trains `model`, whose `g` and `pi_low` are those that discovery found."""

    def __init__(
        self,
        model: SkillModel,
        discovery: Discovery,
        held_out: Windows | None,
        updates: int | None,
        draw: Callable[[int], Tensor] | None,
        settings: ReuseFields,
        generator: torch.Generator,
    ) -> None:
        """Either `held_out` tells when each step is over, or it takes so many `updates`. `draw`
        gives numbers of steps to imitate; without it they are the clean ones."""
        self.model, self.steps = model, discovery.steps
        self.held_out, self.updates, self.draw = held_out, updates, draw
        self.settings, self.generator = settings, generator
        self.teacher = _most_probable(discovery.model, self.steps)  # z-bar_t (N,)
        self.bad = bad_steps(discovery, settings)  # D_neg

    def select(self, on_epoch: OnEpoch | None, resume: State | None) -> None:
        """Lines 8-11: g and pi_low are frozen; f_uni learns to choose among the skills."""
        for part in (self.model.g, self.model.pi_low):
            part.requires_grad_(False)
        self._converge("select", self._select_loss, self.model.encoder, on_epoch, resume)
        self.model.requires_grad_(True)

    def refine(self, on_epoch: OnEpoch | None, resume: State | None) -> None:
        """Lines 12-14: f_uni, g and pi_low together, away from bad steps where that has weight."""
        self._converge("refine", self._refine_loss, self.model, on_epoch, resume)

    def temperature(self, held_out: Windows) -> float:
        """By which to divide the logits of `pi_low`: it is too sure of itself."""
        return best_temperature(self._outputs, self.model.head, held_out)

    @property
    def _outputs(self) -> Callable[[Window], Tensor]:
        return partial(self.model.outputs, predicts=self.settings.predicts)

    def _select_loss(self, index: Tensor) -> dict[str, Tensor]:
        index = self._batch(index)
        log_probs, outputs, actions = self._imitate(index)
        return {
            "imitation": self.model.head.nll(outputs, actions, "mean"),
            "distillation": self._distil(log_probs, index),
        }

    def _refine_loss(self, index: Tensor) -> dict[str, Tensor]:
        settings, head = self.settings, self.model.head
        index = self._batch(index)
        log_probs, outputs, actions = self._imitate(index)
        terms = {"imitation": head.nll(outputs, actions, "mean")}
        if self.model.pi_ahead is not None:
            terms["ahead"] = self._imitate_ahead(index)
        if settings.distils == "always":
            terms["distillation"] = self._distil(log_probs, index)
        if settings.adv_weight > 0 and len(self.bad) and head.size > 1:
            drawn = torch.randint(len(self.bad), (settings.batch_size,), generator=self.generator)
            drawn = drawn.to(self.bad.device)
            _, of_bad, bad_actions = self._imitate(self.bad[drawn])
            loss = adversarial_loss(head, of_bad, bad_actions, settings.adv_form)
            terms["adversarial"] = settings.adv_weight * loss
        return terms

    def _distil(self, log_probs: Tensor, index: Tensor) -> Tensor:
        """L_KD, as it weighs."""
        loss = distillation_loss(log_probs, self.teacher[index], self.settings.distillation)
        return self.settings.distillation_weight * loss

    def _batch(self, index: Tensor) -> Tensor:
        """Clean steps `index`; or as many steps, drawn."""
        return index if self.draw is None else self.draw(len(index)).to(index.device)

    def _imitate(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`log p(z_t)` under f_uni (B, K), what the head takes (B, size), and the actions taken."""
        model, window = self.model, self.steps.windows.at(index)
        embeddings = model.encoder(window)
        log_probs = model.g.log_probs(embeddings)
        noise = gumbel(len(index), self.settings.n_skills, self.generator).to(index.device)
        chosen = select(log_probs, noise, self.settings.temperature, self.settings.selection)
        skills = chosen @ model.g.prototypes
        outputs = model.pi_low(window.state, skills, model.seen_of(embeddings))
        return log_probs, outputs, self.steps.windows.actions_at(index)

    def _imitate_ahead(self, index: Tensor) -> Tensor:
        """`-log p` of the actions that follow, mean over those that episodes still have: `pi_ahead`
        learns from the skills that `pi_low` acts by."""
        model, windows = self.model, self.steps.windows
        actions, exists = windows.actions_ahead(index, self.settings.chunk)
        outputs = model.plan(windows.at(index), self.settings.predicts)[:, 1:]
        each = model.head.nll(outputs, actions[:, 1:]) * exists[:, 1:]  # (B, chunk - 1)
        return each.sum() / exists[:, 1:].sum().clamp(min=1)

    def _converge(
        self,
        name: str,
        loss: Callable[[Tensor], dict[str, Tensor]],
        trained: nn.Module,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> None:
        settings, held = self.settings, self.held_out
        bad = self.bad.cpu() - len(self.steps.clean)
        told = None if on_epoch is None else lambda epoch: on_epoch(replace(epoch, bad=bad))
        valid_loss: Callable[[], Tensor] | None = None
        hopeless: Callable[[], bool] | None = None
        budget = Budget(settings.min_updates, settings.patience, settings.max_updates)
        if held is None:
            assert self.updates is not None
            budget = Budget(self.updates, self.updates, self.updates)
        else:
            outputs, head = self._outputs, self.model.head
            clean = Windows(self.steps.demos.clean, 0).to(held.rows.device)
            valid_loss = partial(mean_nll, outputs, head, held)
            hopeless = partial(worse_than_usual, outputs, head, clean, held)
        Convergence(
            name,
            Optimisation(
                {name: trained},
                learning_rate=settings.learning_rate,
                weight_decay=settings.weight_decay,
                generator=self.generator,
            ),
            loss=loss,
            valid_loss=valid_loss,
            n_samples=len(self.steps.clean if self.draw is None else self.steps.windows),
            batch_size=settings.batch_size,
            budget=budget,
            hopeless=hopeless,
            first_counts=name == "refine",
        ).run(told, resume)


def distillation_loss(log_probs: Tensor, teacher: Tensor, form: Literal["log", "prob"]) -> Tensor:
    """L_KD: how far f_uni (B, K) is from choosing the teacher's skills (B,)."""
    log_p = log_probs.gather(1, teacher[:, None])  # log p(z_t = z-bar_t)
    return -log_p.mean() if form == "log" else -log_p.exp().mean()


def adversarial_loss(
    head: ActionHead,
    outputs: Tensor,
    actions: Tensor,
    form: Literal["unlikelihood", "log", "prob"],
) -> Tensor:
    """L_adv, bounded. Of real numbers, whose densities have no bound, all forms stop pushing where
    an action is no likelier than if all were alike."""
    log_p = head.log_prob(outputs, actions)
    if not counts_actions(head):
        return F.softplus(log_p - head.log_uniform).mean()
    if form == "prob":
        return log_p.exp().mean()
    if form == "log":
        return torch.where(log_p.exp() > _LEAST_PROBABILITY, log_p, log_p.detach()).mean()
    # -log(1 - p) as a difference of log-sums, so that p = 1 has a gradient too
    others = outputs.scatter(1, actions[:, None], -torch.inf).logsumexp(1)
    return (outputs.logsumexp(1) - others).mean()


def bad_steps(discovery: Discovery, settings: ReuseFields) -> Tensor:
    """D_neg: the noisy steps scored lowest, by threshold and by share."""
    if discovery.scores is None:
        return torch.empty(0, dtype=torch.int64, device=discovery.steps.noisy.device)
    noisy = discovery.steps.noisy
    scores = discovery.scores[noisy]
    lowest = noisy[scores.argsort(stable=True)[: int(len(noisy) * settings.negative_share)]]
    return lowest[discovery.scores[lowest] < settings.negative_below]


@torch.no_grad()
def _most_probable(model: SkillModel, steps: TrainingSteps) -> Tensor:
    """The most probable skill of each training step under the frozen f_bi. (N,)"""
    parts = steps.windows.parts()
    return torch.cat([model.selection(steps.windows, part).argmax(1) for part in parts])
