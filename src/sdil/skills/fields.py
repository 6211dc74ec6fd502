"""The hyper-parameters of phase 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sdil.limits import Count, CountOrNone, Positive, Share, Weight
from sdil.networks.hierarchical import SkillArchitecture


@dataclass(frozen=True)
class DiscoveryFields:
    """The hyper-parameters of phase 1: those of SDIL and of the paper's judge alike."""

    n_skills: Count = 8
    """K, the number of skills."""
    skill_size: Count = 16
    """d_z, the size of a skill embedding."""
    look_back: CountOrNone = 5
    """M, past (state, action) pairs that choose the skill."""
    hidden: Count = 64
    """Width of the hidden layers."""
    layers: Count = 2
    """Number of hidden layers."""
    learning_rate: Positive = 1e-3
    """Adam's step size."""
    weight_decay: Weight = 5e-4
    """L2 penalty on the weights, those of T apart."""
    batch_size: Count = 256
    """Steps per update."""
    temperature: Positive = 1.0
    """Of the Gumbel-softmax that selects skills in training."""
    selection: Literal["gumbel", "soft"] = "gumbel"
    """Of skills in training: gumbel, one is drawn, as in the paper; soft, the same before it is
    made hard, as in the authors' code."""
    matching: Literal["inverse", "softmax"] = "inverse"
    """What the probability of a skill is proportional to: inverse, to the inverse of its distance,
    as in the paper; softmax, to the exponential of that, as in the authors' code."""
    mi_weight: Weight = 1.0
    """lambda, the weight of the contrastive loss L_mi; 0 leaves it out."""
    usage_weight: Weight = 3.0
    """Weight of the entropy that keeps skills alive; 0 as in the paper."""
    skills_from: Literal["steps", "stretches"] = "steps"
    """What skills tell apart. steps: single ones, as in the paper; stretches: how something that
    lasts comes to be changed (`skills/stretches.py`). Then `f_bi` sees the state in which a stretch
    ends instead of the next one, and learns to name the cluster of its end."""
    next_state: bool = True
    """Whether discovery sees the next state; False is the paper's SDIL*."""
    epsilon: Weight = 0.1
    """A step is good above it, bad below minus it, otherwise unknown."""
    positive_filter: Literal["opposed", "difference"] = "opposed"
    """Positives dropped: opposed, one good and one bad; difference, scores that differ by more."""
    zeta_step: Weight = 0.05
    """Growth per epoch of the share of batches paired by embeddings; 0 is the paper's "w/o DEC"."""
    n_clusters: Count = 8
    """Clusters of input states that pair the other batches."""
    clusters: Literal["states", "sets"] = "states"
    """What these are clusters of: states, as in the paper; sets, half as many (one at least) of
    states and actions, each cut into its clean and its noisy steps, as in the authors' code."""
    positives: CountOrNone = 3
    """Positive partners per step, beside itself."""
    negatives: Count = 6
    """Negative partners per step."""
    nearest: Share = 1 / 16
    """Share of the batch that counts as near."""
    farthest: Share = 1 / 2
    """Share of the batch that counts as far."""
    pu_interval: Count = 10
    """N_PU, epochs between estimates of optimality."""
    delta: Positive = 0.01
    """Keeps the preference score from a division by zero."""
    clip_preference: bool = True
    """Whether the preference score is clipped to [-1, 1]; not in the paper."""
    scored: Literal["text", "released"] = "text"
    """How skills are scored, and steps while training: text, as the paper writes it; released, as
    its authors' code does (`skills/optimality.py`), which knows neither `delta` nor
    `clip_preference`. Whoever asks for scores later has each skill's, as probable as it is."""
    clean_share: Share = 0.25
    """Share of each discovery batch drawn from the clean set; 0 draws from both as they come."""
    discovery_epochs: Count = 15
    """Epochs of phase 1."""
    discovery_min_updates: CountOrNone = 500
    """Updates of phase 1 at the least."""

    @property
    def architecture(self) -> SkillArchitecture:
        """The size of the networks."""
        return SkillArchitecture(
            self.n_skills,
            self.skill_size,
            self.look_back,
            self.hidden,
            self.layers,
            self.next_state,
            matching=self.matching,
        )
