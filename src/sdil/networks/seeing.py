"""Demonstrations of pictures as demonstrations of vectors, and the encoder between the two.

A judge, a learner and a question after them mean the same encoder where they mean the same
demonstrations and seed: it is trained once in a process, and remembered with what it made of them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from sdil.cores import wanted_device
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.networks.looking import learn_to_see
from sdil.networks.observing import Features, ObservationEncoder, measure_features
from sdil.observations import has_images, is_vector
from sdil.states import State
from sdil.training import OnEpoch

_REMEMBERED = 4  # sets of demonstrations

Key = tuple[str, int, str]


@dataclass(frozen=True, eq=False)
class Seen:
    """Demonstrations of vectors, and how they came about."""

    demos: Demonstrations
    encoder: ObservationEncoder
    fingerprint: str
    """Of the raw demonstrations, rewards apart."""


_known: OrderedDict[Key, ObservationEncoder] = OrderedDict()
_made: OrderedDict[tuple[str, int], Seen] = OrderedDict()


def needs_encoder(demos: Demonstrations) -> bool:
    """Whether these must be seen as vectors first."""
    return not is_vector(demos.spaces.observation)


def see(
    demos: Demonstrations,
    *,
    seed: int = 0,
    encoder: ObservationEncoder | None = None,
    on_epoch: OnEpoch | None = None,
    resume: State | None = None,
) -> Seen:
    """These demonstrations as vectors, by this encoder; without it, by one that learns it now from
    all of them, or that did so before."""
    fingerprint = demos.fingerprint(rewards=False)
    if encoder is None:
        key = (fingerprint, seed, wanted_device().type)
        encoder = _known.get(key)
        if encoder is None:
            encoder = learn_to_see(demos, seed=seed, on_epoch=on_epoch, resume=resume)
        _remember(_known, key, encoder)
    elif encoder.space != demos.spaces.observation:
        raise InputError(
            f"the encoder is one of {encoder.space}, but the data has {demos.spaces.observation}"
        )
    known = _made.get((fingerprint, id(encoder)))
    if known is None or known.encoder is not encoder:
        known = Seen(encoder.demonstrations(demos), encoder, fingerprint)
    _remember(_made, (fingerprint, id(encoder)), known)
    return known


def forget_encoders() -> None:
    """Free what is remembered of earlier demonstrations."""
    _known.clear()
    _made.clear()


def encoder_by(features: Features | str, demos: Demonstrations) -> ObservationEncoder:
    """An encoder by features of the user's: any callable that makes numbers (n, F) of pictures
    (n, *shape), a module that does, or where one is, "module:name"."""
    space = demos.spaces.observation
    if not has_images(space):
        raise InputError(f"features are for pictures, and there are none in {space}")
    probe = ObservationEncoder(space, features=features, size=1)
    assert probe.features is not None
    size = measure_features(probe.features, probe.eyes, demos.clean[0].observations)
    return ObservationEncoder(space, features=features, size=size)


def _remember(known: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
