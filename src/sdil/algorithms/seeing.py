"""How every learner and judge takes pictures: the one place between raw data and vectors.

`fit` is given demonstrations of vectors, by an encoder, and what comes out of it is given the
encoder: so no learner, judge, signal or cross-fitting knows that there are pictures. Learners that
train their own convolutions (`images="trained"`) are given the raw data.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import gymnasium as gym

from sdil.algorithms.learner import trains_eyes
from sdil.cores import computing_on
from sdil.demonstrations import Demonstrations, check_demonstrations
from sdil.errors import InputError
from sdil.judging import FittedJudge
from sdil.networks.observing import Features, ObservationEncoder
from sdil.networks.seeing import Seen, encoder_by, needs_encoder, see
from sdil.observations import has_images, pack_observations
from sdil.policy import Policy
from sdil.saved import Saved
from sdil.simulators import EnvironmentLike, environment_maker, table_of
from sdil.spaces import Array, Spaces
from sdil.states import State, below, nest
from sdil.table import Table
from sdil.training import OnEpoch, check_seed, with_more

Kind = TypeVar("Kind", bound=type[Any])
_ENCODER = "encoder"


def takes_images(kind: Kind) -> Kind:
    """Let the `fit` of a learner or a judge take any observations, an `encoder` or `features` to
    see them by, and a `device` to compute on."""
    owner: Any = next(base for base in kind.__mro__ if "fit" in vars(base))
    fit = owner.fit
    if hasattr(fit, "takes_images"):
        return kind

    @wraps(fit)
    def looking(
        self: Any,
        demos: Demonstrations,
        *,
        encoder: ObservationEncoder | None = None,
        features: Features | str | None = None,
        device: str | None = None,
        **named: Any,
    ) -> Any:
        check_demonstrations(demos, self.name)
        if named.get("valid") is not None:
            check_demonstrations(named["valid"], f"{self.name}: valid")
        with computing_on(device):
            given = encoder is not None or features is not None
            if given and not needs_encoder(demos):
                raise InputError(
                    f"{self.name} would not look through an encoder here: observations are vectors"
                )
            if not needs_encoder(demos) or (trains_eyes(self, demos) and not given):
                return fit(self, demos, **named)
            return _fit_by_encoder(fit, self, demos, encoder, features, **named)

    looking.takes_images = True  # type: ignore[attr-defined]
    owner.fit = looking
    return kind


def _fit_by_encoder(
    fit: Callable[..., Any],
    maker: Any,
    demos: Demonstrations,
    encoder: ObservationEncoder | None,
    features: Features | str | None,
    *,
    valid: Demonstrations | None = None,
    seed: int = 0,
    on_epoch: OnEpoch | None = None,
    resume: State | None = None,
    **more: Any,
) -> Any:
    check_seed(seed)
    if valid is not None and valid.spaces != demos.spaces:
        raise InputError("validation and training demonstrations have different spaces")
    judge = more.get("judge")
    if encoder is None and features is not None:
        encoder = encoder_by(features, demos)
    if encoder is None and judge is not None:
        if judge.spaces != demos.spaces:
            raise InputError(
                f"the judge was fitted to demonstrations with other spaces: {judge.spaces}, "
                f"not {demos.spaces}"
            )
        encoder = judge.encoder
    learned = {} if resume is None else below(resume, _ENCODER)
    if encoder is None and learned:  # it had learned to see before the interruption
        plain = ObservationEncoder(demos.spaces.observation)
        encoder = ObservationEncoder.build(demos.spaces, plain.configuration(), learned)
    inside = resume is not None and (bool(learned) or not has_images(demos.spaces.observation))
    seen = see(
        demos,
        seed=seed,
        encoder=encoder,
        on_epoch=on_epoch,
        resume=None if inside or encoder is not None else resume,
    )
    if judge is not None:
        more["judge"] = _inner(judge, seen)
    if more.get("env") is not None:
        more["env"] = _seen_environment(more["env"], seen.encoder, demos.spaces)
    eyes = nest(_ENCODER, seen.encoder.tensors())
    result = fit(
        maker,
        seen.demos,
        valid=None if valid is None else seen.encoder.demonstrations(valid),
        seed=seed,
        on_epoch=with_more(on_epoch, lambda: eyes),
        resume=below(resume, "own") if resume is not None and inside else None,
        **more,
    )
    return _outer(result, seen, demos.spaces) if isinstance(result, Saved) else result


def _inner(judge: FittedJudge, seen: Seen) -> FittedJudge:
    """A judge of raw observations as one of vectors."""
    if judge.encoder is None or judge.encoder is not seen.encoder:
        raise InputError("the judge sees by another encoder than the learner; give it alone")
    inner = copy(judge)
    inner.spaces, inner.encoder = judge.inner_spaces, None
    crossed = judge.cross_judged
    if crossed is not None and crossed.fingerprint == seen.fingerprint:
        inner = inner.known_by(seen.demos.fingerprint(rewards=False))
    return inner


def _outer(result: Saved, seen: Seen, spaces: Spaces) -> Saved:
    """What works on vectors as what works on raw observations."""
    if isinstance(result, FittedJudge):
        result = _known_outside(result, seen)
    elif isinstance(result, Policy) and result.judge is not None:
        judge = _known_outside(result.judge, seen)
        result = copy(result)
        result.judge = judge
    return result.seeing_by(seen.encoder, spaces)


def _known_outside(judge: FittedJudge, seen: Seen) -> FittedJudge:
    """A judge of these demonstrations as one of the raw ones."""
    crossed = judge.cross_judged
    if crossed is None or crossed.fingerprint != seen.demos.fingerprint(rewards=False):
        return judge
    return judge.known_by(seen.fingerprint)


def _seen_environment(
    environment: EnvironmentLike, encoder: ObservationEncoder, spaces: Spaces
) -> EnvironmentLike:
    """The same environment, whose observations are vectors."""
    table = environment if isinstance(environment, Table) else None
    if isinstance(environment, str):
        env = environment_maker(environment)()
        table = table_of(env)
        env.close()
    if table is not None:
        look = table.observe
        return replace(
            table,
            observe=lambda numbers: encoder(look(numbers)),
            spaces=encoder.spaces(table.spaces),
        )
    assert not isinstance(environment, Table)
    make = environment_maker(environment)
    return lambda: _Encoded(make(), encoder, spaces)


class _Encoded(gym.ObservationWrapper[Array, Any, Any]):
    """An environment seen through an encoder."""

    def __init__(self, env: gym.Env[Any, Any], encoder: ObservationEncoder, spaces: Spaces) -> None:
        super().__init__(env)
        self._encoder, self._raw = encoder, spaces.observation
        self.observation_space = encoder.vectors

    def observation(self, observation: Any) -> Array:
        row = pack_observations(self._raw, observation)
        return self._encoder(row[None])[0]
