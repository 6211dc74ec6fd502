"""Behaviour cloning (Pomerleau 1991): maximise the likelihood of the recorded actions.

`BC().fit(demos.clean_only())` is the first setting of the paper's table 1, `BC().fit(demos)`, which
takes every noisy step for a good one, the second. How long to train is told by clean steps in both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from sdil.acting import suit
from sdil.algorithms.learner import check, check_chunk, trains_eyes
from sdil.algorithms.trust import trust_all
from sdil.cores import wanted_device
from sdil.demonstrations import Demonstrations, hold_out
from sdil.held_out import best_temperature, mean_nll, worse_than_usual
from sdil.limits import Count, CountOrNone, Positive, Weight
from sdil.networks.policies import Architecture, PlainNetwork, PlainPolicy
from sdil.states import State
from sdil.training import OnEpoch, Stages, seeded
from sdil.windows import Windows


@dataclass(frozen=True)
class BC:
    """Behaviour cloning."""

    look_back: CountOrNone = 0
    """Past (state, action) pairs seen beside the current state; 0: the current state alone."""
    hidden: Count = 64
    """Width of the hidden layers."""
    layers: Count = 2
    """Number of hidden layers."""
    learning_rate: Positive = 1e-3
    """Adam's step size."""
    weight_decay: Weight = 5e-4
    """L2 penalty on the weights."""
    batch_size: Count = 256
    """Steps per update."""
    min_updates: CountOrNone = 400
    """Updates at the least; weights of fewer are never kept."""
    patience: Count = 200
    """Updates without a better clean validation likelihood after which training ends."""
    max_updates: Count = 4_000
    """Updates at the most."""

    head: Literal["mixture", "regression"] = "mixture"
    """Of real-valued actions: mixture, five Gaussians; regression, least squares."""

    floor: Positive = 0.2
    """The least standard deviation of a Gaussian, in standard deviations of the data; for acting
    and for likelihoods alike."""
    chunk: Count = 1
    """Actions that are predicted at once: that of now and those that follow in the episode."""
    act_on: Count = 1
    """As many of these are done before the policy looks again; at most `chunk`."""

    images: Literal["features", "trained"] = "features"
    """Of observations with pictures: features, seen by an encoder that learned from all
    demonstrations before; trained, by convolutions of its own, trained with it."""
    shift: CountOrNone = 0
    """Pixels by which pictures are moved at random, at most, where convolutions are trained."""

    name: ClassVar[str] = "bc"
    reference: ClassVar[str] = "Pomerleau 1991"
    noisy_set: ClassVar[str] = "imitated as if clean"
    environment: ClassVar[str] = "never"
    judges_steps: ClassVar[bool] = False
    takes_judge: ClassVar[bool] = False
    takes_truth: ClassVar[bool] = False
    real_actions: ClassVar[bool] = True

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> PlainPolicy:
        """Clone clean and noisy steps alike, until they predict clean ones of `valid` best; without
        it for as long as is best across folds. `env` is not used."""
        check(demos, self, seed)
        check_chunk(self)
        held, updates, told = None, None, 1.0
        if trains_eyes(self, demos):  # clones across folds would need eyes each
            demos, kept = hold_out(demos, valid, seed=seed)
            held = Windows(kept, self.look_back)
        else:
            trust = trust_all(demos, valid, self, seed=seed)
            updates, told = trust.updates, trust.temperature
            if not updates:
                held = Windows(hold_out(demos, valid, seed=seed)[1], self.look_back)
        windows, clean = (Windows(some, self.look_back) for some in (demos.all, demos.clean))
        regression = self.head == "regression"
        architecture = Architecture(
            self.look_back,
            self.hidden,
            self.layers,
            regression,
            floor=self.floor,
            chunk=self.chunk,
            act_on=self.act_on,
        )
        with seeded(seed) as generator:
            network = PlainNetwork(demos.spaces, architecture)
        network.fit_to(windows)
        device, head = wanted_device(), network.head
        network.to(device)
        windows, clean = windows.to(device), clean.to(device)
        held = None if held is None else held.to(device)
        shifted = self.shift if network.eyes is not None else 0

        def loss(index: Tensor) -> dict[str, Tensor]:
            if not shifted:
                return {"imitation": network.nll(windows, index, "mean")}
            size = (len(index), 2)
            shift = torch.randint(-shifted, shifted + 1, size, generator=generator).to(device)
            return {"imitation": network.nll(windows, index, "mean", shift)}

        Stages(self, generator, on_epoch, resume).converge(
            "clone",
            {"network": network},
            loss=loss,
            valid_loss=None if held is None else lambda: mean_nll(network, head, held),
            n_samples=len(windows),
            updates=updates,
            hopeless=None if held is None else lambda: worse_than_usual(network, head, clean, held),
        )
        temperature = told if held is None else best_temperature(network, head, held)
        network.soften(temperature)
        network.cpu()
        policy = PlainPolicy(
            demos.spaces, architecture, network, learner=self.name, hyperparameters=asdict(self)
        )
        policy.temperature = temperature
        return suit(policy, demos)
