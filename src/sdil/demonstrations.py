"""Demonstrations: what a learner is given (paper, section 3).

A clean (trusted) and a noisy (unknown quality) set over the same spaces, validated on
construction, with the splits and subsets that studies use.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MethodType

import numpy as np

from sdil.checking import check_fits, check_values, packed
from sdil.errors import InputError
from sdil.observations import has_frames, infer_observation
from sdil.spaces import Array, Spaces, infer_action, require_columns
from sdil.trajectories import Trajectories, Trajectory


@dataclass(frozen=True)
class Split:
    """Disjoint parts of one pool of demonstrations."""

    train: Demonstrations
    """What a learner is given: clean and noisy."""
    valid: Demonstrations
    """Clean only; early stopping looks at it."""
    test: Demonstrations
    """Clean only; nothing looks at it before the end."""


@dataclass(frozen=True, eq=False, init=False)
class Demonstrations:
    """A clean set and a noisy set over the same spaces. The noisy one may be empty.

    Any iterables of Trajectory are taken and packed. Spaces that are not given are read off the
    data: an unbounded Box that keeps the precision, and for a column of whole-number actions
    Discrete(largest + 1). Give them where the data may not show every action.
    """

    clean: Trajectories
    """Trusted episodes; at least one."""
    noisy: Trajectories
    """Episodes of unknown quality, step by step."""
    spaces: Spaces
    """The spaces all observations and actions lie in."""

    # written out, since more is taken than is kept: any iterable in, Trajectories out
    def __init__(
        self,
        clean: Iterable[Trajectory],
        noisy: Iterable[Trajectory] = (),
        spaces: Spaces | None = None,
    ) -> None:
        if spaces is None or not _share_arrays(clean, noisy):
            clean, noisy, spaces = _check_and_pack(clean, noisy, spaces)
        # otherwise they are parts of something already validated
        object.__setattr__(self, "clean", clean)
        object.__setattr__(self, "noisy", noisy)
        object.__setattr__(self, "spaces", spaces)

    def __repr__(self) -> str:
        clean, noisy = self.clean, self.noisy
        return (
            f"Demonstrations: {len(clean)} clean episodes ({clean.n_steps} steps), "
            f"{len(noisy)} noisy ({noisy.n_steps} steps)\n  {self.spaces}"
        )

    @property
    def n_clean_groups(self) -> int:
        """Clean groups; an episode without one stands alone."""
        return len({i if g is None else g for i, g in enumerate(self.clean.groups)})

    @property
    def all(self) -> Trajectories:
        """Clean and noisy as one set, clean first."""
        if not len(self.noisy):
            return self.clean
        both = (self.clean, self.noisy)
        return Trajectories(
            observations=self.clean.observations,
            actions=self.clean.actions,
            rewards=self.clean.rewards,
            first_row=np.concatenate([s.first_row for s in both]),
            first_step=np.concatenate([s.first_step for s in both]),
            lengths=np.concatenate([s.lengths for s in both]),
            has_final=np.concatenate([s.has_final for s in both]),
            has_rewards=np.concatenate([s.has_rewards for s in both]),
            terminated=np.concatenate([s.terminated for s in both]),
            ids=self.clean.ids + self.noisy.ids,
            groups=self.clean.groups + self.noisy.groups,
            digests=None
            if self.clean.digests is None or self.noisy.digests is None
            else np.concatenate([self.clean.digests, self.noisy.digests]),
        )

    def clean_only(self) -> Demonstrations:
        """The paper's first setting: the same clean set, no noisy one."""
        return Demonstrations(self.clean, self.clean[:0], self.spaces)

    def take_clean(self, size: int | float, *, seed: int) -> Demonstrations:
        """A seeded subset of the clean set, by count (int) or ratio (float); all noisy ones stay.

        Smaller subsets of one seed are contained in larger ones.
        """
        total = len(self.clean)
        if isinstance(size, float):
            if not 0 < size <= 1:
                raise InputError(f"a ratio of clean trajectories lies in (0, 1], not {size}")
            size = max(1, round(size * total))
        if not 1 <= size <= total:
            raise InputError(f"cannot take {size} clean trajectories: there are {total}")
        chosen = np.sort(np.random.default_rng(seed).permutation(total)[:size])
        return Demonstrations(self.clean.subset(chosen), self.noisy, self.spaces)

    def split(self, *, seed: int, ratios: tuple[float, float, float] = (3.0, 2.0, 5.0)) -> Split:
        """Train, validation and test by trajectory, whole groups together (paper, 5.1.4).

        Validation and test are clean. All noisy trajectories are for training, except those of a
        group whose clean trajectories went to validation or test: these are dropped.
        """
        if len(ratios) != 3:
            raise InputError(
                f"ratios are three numbers (train, validation, test), not {len(ratios)}"
            )
        parts = split_groups(self.clean.groups, ratios, seed=seed)
        held_out = {
            self.clean.groups[i] for part in parts[1:] for i in part if self.clean.groups[i]
        }
        noisy = [i for i, group in enumerate(self.noisy.groups) if group not in held_out]
        train, valid, test = (self.clean.subset(part) for part in parts)
        nothing = self.noisy[:0]
        return Split(
            train=Demonstrations(train, self.noisy.subset(noisy), self.spaces),
            valid=Demonstrations(valid, nothing, self.spaces),
            test=Demonstrations(test, nothing, self.spaces),
        )

    def fingerprint(self, *, rewards: bool = True) -> str:
        """A hash of every value, name and space: equal exactly for equal demonstrations, or for
        those that are equal but for their rewards. Pictures are hashed episode by episode, so that
        of those in a file, which knows these hashes, nothing is read."""
        digest = hashlib.sha256(repr((self.spaces.observation, self.spaces.action)).encode())
        framed = has_frames(self.spaces.observation)
        for some in (self.clean, self.noisy):
            digest.update(b"set")
            for i, (row, step, length) in enumerate(
                zip(
                    some.first_row.tolist(),
                    some.first_step.tolist(),
                    some.lengths.tolist(),
                    strict=True,
                )
            ):
                observations = some.observations[row : row + length + int(some.has_final[i])]
                terminated, steps = bool(some.terminated[i]), slice(step, step + length)
                about = some.ids[i], some.groups[i], terminated, observations.shape
                digest.update(repr(about).encode())
                if not framed:
                    digest.update(np.ascontiguousarray(observations).data)  # no copy is made
                elif some.digests is not None:
                    digest.update(some.digests[i].tobytes())
                else:
                    digest.update(digest_of(observations))
                digest.update(np.ascontiguousarray(some.actions[steps]).data)
                if rewards:
                    known = np.ascontiguousarray(some.rewards[steps]).data
                    digest.update(known if some.has_rewards[i] else b"-")
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Demonstrations):
            return NotImplemented
        mine, theirs = (
            (self.clean, self.noisy, self.spaces),
            (other.clean, other.noisy, other.spaces),
        )
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]


def check_demonstrations(given: object, who: str) -> None:
    """Refuse what is none, such as a method of theirs that was not called."""
    if isinstance(given, Demonstrations):
        return
    what = type(given).__name__
    if isinstance(given, MethodType):
        what = f"the method {given.__name__} itself; call it: {given.__name__}(...)"
    raise InputError(f"{who} needs Demonstrations, not {what}")


def digest_of(observations: Array) -> bytes:
    """SHA-256 of the observations of an episode."""
    return hashlib.sha256(np.ascontiguousarray(observations).data).digest()


def hold_out(
    demos: Demonstrations, valid: Demonstrations | None, *, seed: int
) -> tuple[Demonstrations, Trajectories]:
    """Training demonstrations and clean validation trajectories.

    Without `valid`, a fifth of the clean trajectories (whole groups) is held out, at least one, and
    noisy trajectories of held-out groups are left out; a single clean trajectory serves as both,
    with a warning.
    """
    if valid is not None:
        if valid.spaces != demos.spaces:
            raise InputError("validation and training demonstrations have different spaces")
        return demos, valid.clean
    groups = demos.clean.groups
    if demos.n_clean_groups == 1:
        warnings.warn(
            "one clean trajectory (or group) serves for training and for validation; "
            "early stopping cannot see overfitting. Give more, or pass `valid`.",
            stacklevel=3,
        )
        return demos, demos.clean
    train, held = split_groups(groups, (4.0, 1.0), seed=seed)
    return _leave_out(demos, train, held)


def leave_folds_out(
    demos: Demonstrations, *, folds: int, of: int, seed: int
) -> list[tuple[Demonstrations, Trajectories]]:
    """Deal the clean groups into `of` folds, or as many as there are, and leave out each of the
    first `folds` in turn, as `hold_out` does."""
    groups = demos.clean.groups
    parts = split_groups(groups, (1.0,) * min(of, demos.n_clean_groups), seed=seed)
    every = np.arange(len(groups))
    return [_leave_out(demos, np.setdiff1d(every, part), part) for part in parts[:folds]]


def _leave_out(
    demos: Demonstrations, train: Array, held: Array
) -> tuple[Demonstrations, Trajectories]:
    """Without these clean episodes, and noisy ones of their groups."""
    groups = demos.clean.groups
    held_out = {groups[i] for i in held} - {None}
    noisy = [i for i, group in enumerate(demos.noisy.groups) if group not in held_out]
    kept = Demonstrations(demos.clean.subset(train), demos.noisy.subset(noisy), demos.spaces)
    return kept, demos.clean.subset(held)


def split_groups(
    groups: Sequence[str | None], ratios: Sequence[float], *, seed: int
) -> list[Array]:
    """Deal items into parts of about these ratios, never parting a group. Sorted positions."""
    if not all(np.isfinite(ratio) and ratio > 0 for ratio in ratios):
        raise InputError(f"ratios must be finite numbers above 0, not {tuple(ratios)}")
    members: dict[object, list[int]] = {}
    for i, group in enumerate(groups):
        members.setdefault(i if group is None else group, []).append(i)
    units = list(members.values())
    if len(units) < len(ratios):
        raise InputError(
            f"cannot split {len(units)} independent clean trajectories (or groups) "
            f"into {len(ratios)} parts"
        )
    order = np.random.default_rng(seed).permutation(len(units))
    sizes = np.array([len(units[i]) for i in order])
    middles = np.cumsum(sizes) - sizes / 2
    edges = np.cumsum(ratios)[:-1] / np.sum(ratios) * len(groups)
    cuts = np.searchsorted(middles, edges)
    for part in range(len(cuts)):  # each part gets at least one group
        lowest = part + 1 if part == 0 else cuts[part - 1] + 1
        cuts[part] = min(max(cuts[part], lowest), len(units) - len(cuts) + part)
    return [
        np.array(sorted(i for unit in part for i in units[unit]), np.int64)
        for part in np.split(order, cuts)
    ]


def _check_and_pack(
    clean: Iterable[Trajectory], noisy: Iterable[Trajectory], spaces: Spaces | None
) -> tuple[Trajectories, Trajectories, Spaces]:
    """Both sets over one flat array, every value checked, and the spaces, if need be inferred."""
    sets = {"clean": list(clean), "noisy": list(noisy)}
    if not sets["clean"]:
        raise InputError("the clean set is empty: at least one trusted trajectory is needed")
    for name, items in sets.items():
        sets[name] = _named(items, name)
    if spaces is None:
        spaces = _infer(sets["clean"] + sets["noisy"])
    require_columns(spaces.action)
    for name, items in sets.items():
        sets[name] = [packed(trajectory, spaces, name) for trajectory in items]
        for trajectory in sets[name]:
            check_fits(trajectory, spaces, name)
    together = Trajectories.pack(sets["clean"] + sets["noisy"], spaces)
    n_clean = len(sets["clean"])
    check_values(together[:n_clean], spaces, "clean")
    check_values(together[n_clean:], spaces, "noisy")
    return together[:n_clean], together[n_clean:], spaces


def _infer(items: list[Trajectory]) -> Spaces:
    return Spaces(
        infer_observation([t.observations for t in items]), infer_action([t.actions for t in items])
    )


def pack_given(trajectories: Sequence[Trajectory], spaces: Spaces) -> Trajectories:
    """Trajectories that a trained policy is asked about: checked against its spaces, and packed."""
    if isinstance(trajectories, Trajectories):
        for trajectory in trajectories:
            check_fits(trajectory, spaces, "given")
        given = trajectories
    else:
        items = [packed(trajectory, spaces, "given") for trajectory in trajectories]
        for trajectory in items:
            check_fits(trajectory, spaces, "given")
        given = Trajectories.pack(items, spaces)
    check_values(given, spaces, "given")
    return given


def _named(items: list[Trajectory], name: str) -> list[Trajectory]:
    """Give nameless episodes their number as a name, and refuse two of the same name."""
    seen: set[str] = set()
    named = []
    for i, t in enumerate(items):
        if not isinstance(t, Trajectory):
            raise InputError(f"{name} set, item {i}: expected a Trajectory, got {type(t).__name__}")
        label = t.id or str(i)
        if label in seen:
            raise InputError(f"{name} set: two episodes are called {label!r}; ids must be unique")
        seen.add(label)
        named.append(
            t
            if t.id
            else Trajectory(t.observations, t.actions, t.rewards, t.terminated, label, t.group)
        )
    return named


def _share_arrays(clean: object, noisy: object) -> bool:
    return (
        isinstance(clean, Trajectories)
        and isinstance(noisy, Trajectories)
        and clean.observations is noisy.observations
        and len(clean) > 0
    )
