"""What is odd in a data set, each in a sentence that names the place; nothing is changed.

Dimensions that never vary or stick to their limits, times that jump, cameras that freeze, episodes
that are there twice, actions that come after what they should bring about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from sdil.errors import InputError
from sdil.formats.lerobot import LeRobot
from sdil.formats.reading import Reading
from sdil.spaces import Array
from sdil.trajectories import Trajectory

_MOST_EPISODES = 500  # that are looked at, evenly over the data set
_MOST_STEPS = 300_000
_STUCK = 0.1  # share of steps at a limit from which a dimension is called saturated
_FEW = 12  # values up to which a dimension is a switch, which has to be at a limit
_LONGEST_LAG = 10
_CLEAR, _CLEARLY = 0.5, 0.1  # a correlation that means something; by how much one is better
_FROZEN = 0.5  # share of pictures that equal the one before
_CAMERA_EPISODES = 2
_LARGEST_PICTURES = 200_000_000  # numbers of an episode's pictures that are still cheap
_MOST_NAMED = 6
_TIMES = ("timestamp", "timestamps", "time")


@dataclass
class _Ranges:
    """Lowest and highest of each dimension, and how often each is met."""

    low: Array
    high: Array
    at_low: Array
    at_high: Array
    steps: int = 0
    values: list[set[float]] = field(default_factory=list)

    @staticmethod
    def of(width: int) -> _Ranges:
        zeros = np.zeros(width, np.int64)
        return _Ranges(
            np.full(width, np.inf),
            np.full(width, -np.inf),
            zeros,
            zeros.copy(),
            values=[set() for _ in range(width)],
        )

    def add(self, block: Array) -> None:
        for limit, at, best, better in (
            (self.low, self.at_low, block.min(0), np.less),
            (self.high, self.at_high, block.max(0), np.greater),
        ):
            found = (block == best).sum(0)
            at[...] = np.where(better(best, limit), found, at + np.where(best == limit, found, 0))
            limit[...] = np.where(better(best, limit), best, limit)
        self.steps += len(block)
        for i, seen in enumerate(self.values):
            if len(seen) <= _FEW:
                seen.update(np.unique(block[:, i])[: _FEW + 1].tolist())


@dataclass(frozen=True)
class Oddities:
    """What is odd in a source."""

    odd: list[str]
    """In sentences, what cannot be read included."""
    broken: tuple[int, ...]
    """The positions of episodes that cannot be read, of those that were looked at."""


def find_oddities(
    reading: Reading, on_progress: Callable[[int, int], None] | None = None
) -> Oddities:
    """What is odd in the episodes of a source, or in some of them where there are very many."""
    reading = replace(reading, blind=True)  # cameras are looked at below, a few frames of them
    positions = _some(reading)
    ranges = {
        "observation": _Ranges.of(reading.observation.width),
        "action": _Ranges.of(reading.action.width),
    }
    seen: dict[bytes, str] = {}
    repeated: list[str] = []
    broken: dict[int, str] = {}
    kept: list[Trajectory] = []
    for at, position in enumerate(positions):
        try:
            t = reading.read_one(position)
        except InputError as error:
            broken[position] = str(error)
            continue
        finally:
            if on_progress is not None:
                on_progress(at + 1, len(positions))
        ranges["observation"].add(t.observations)
        ranges["action"].add(t.actions.reshape(len(t), -1).astype(np.float64))
        key = hashlib.sha256(t.observations.tobytes() + t.actions.tobytes()).digest()
        if key in seen and reading.observation.width:
            repeated.append(f"episode {t.id!r} is episode {seen[key]!r} again")
        seen.setdefault(key, t.id)
        if len(kept) < 50:
            kept.append(t)
    said = reading.source.about.get("odd", ())
    odd = [*getattr(reading.source, "odd", ()), *map(str, said)]
    odd += [told for told in _shorten(list(broken.values())) if told not in odd]
    odd += _shorten(repeated)
    for picked, name in ((reading.observation, "observation"), (reading.action, "action")):
        odd += _of_ranges(ranges[name], picked.names, name)
    odd += _of_times(reading, positions)
    odd += _of_lag(kept, reading)
    odd += _of_cameras(reading, positions)
    return Oddities(odd, tuple(broken))


def _some(reading: Reading) -> list[int]:
    chosen = list(reading.candidates)
    if len(chosen) > _MOST_EPISODES:
        at = np.linspace(0, len(chosen) - 1, _MOST_EPISODES).round().astype(int)
        chosen = [chosen[i] for i in np.unique(at)]
    found, steps = [], 0
    for position in chosen:
        found.append(position)
        steps += reading.source.episodes[position].steps
        if steps > _MOST_STEPS:
            break
    return found


def _of_ranges(ranges: _Ranges, names: tuple[str, ...], what: str) -> list[str]:
    if not ranges.steps:
        return []
    same = [n for n, low, high in zip(names, ranges.low, ranges.high, strict=True) if low == high]
    odd = []
    if same:
        odd.append(f"{what}: {_list(same)} never var{'ies' if len(same) == 1 else 'y'}")
    stuck = []
    for i, name in enumerate(names):
        if ranges.low[i] == ranges.high[i] or len(ranges.values[i]) <= _FEW:
            continue
        for limit, count in (
            (ranges.low[i], ranges.at_low[i]),
            (ranges.high[i], ranges.at_high[i]),
        ):
            if count > _STUCK * ranges.steps:
                stuck.append(f"{name} is {limit:g} in {count / ranges.steps:.0%} of the steps")
    if stuck:
        odd.append(f"{what}, saturated: {_list(stuck)}")
    return odd


def _of_times(reading: Reading, positions: list[int]) -> list[str]:
    """Jumps of a feature that is a time."""
    names = {f.name.lower(): f.name for f in reading.source.features if f.dtype_kind in "iuf"}
    name = next((names[n] for n in _TIMES if n in names), None)
    if name is None or reading.source.format == "table":
        return []
    odd = []
    for position in positions[:_MOST_EPISODES]:
        try:
            times = reading.source.read(position, [name]).values[name].reshape(-1).astype(float)
        except InputError as error:
            return [str(error)]
        if len(times) < 3:
            continue
        steps = np.diff(times)
        usual = float(np.median(steps))
        wrong = np.flatnonzero((steps <= 0) | (steps > 1.5 * usual + 1e-9))
        if len(wrong) and usual > 0:
            at = int(wrong[0])
            more = f" and {len(wrong) - 1} times more" if len(wrong) > 1 else ""
            episode = reading.source.episodes[position].id
            odd.append(
                f"episode {episode!r}: {name} jumps from {times[at]:g} to {times[at + 1]:g} at "
                f"row {at + 1}{more}; {usual:g} is usual"
            )
    return _shorten(odd)


def _of_lag(episodes: list[Trajectory], reading: Reading) -> list[str]:
    """Whether actions follow the states that they should bring about."""
    long = [t for t in episodes if len(t) > 4 * _LONGEST_LAG]
    if not long or long[0].actions.ndim != 2 or not long[0].observations.shape[1]:
        return []
    best: tuple[float, int, int, int] = (0.0, 0, 0, 0)
    width_seen, width_done = long[0].observations.shape[1], long[0].actions.shape[1]
    for differ in (True, False):  # targets move as states do; changes are states' own changes
        found = np.zeros((2 * _LONGEST_LAG + 1, width_done, width_seen))
        done = [_centred(np.diff(t.actions, axis=0) if differ else t.actions[:-1]) for t in long]
        moved = [_centred(np.diff(t.observations[: len(t)], axis=0)) for t in long]
        norm = np.sqrt(
            sum((d**2).sum(0) for d in done)[:, None] * sum((m**2).sum(0) for m in moved)[None]
        )
        for shift in range(-_LONGEST_LAG, _LONGEST_LAG + 1):
            for d, m in zip(done, moved, strict=True):
                a, o = (d[-shift:], m[:shift]) if shift < 0 else (d[: len(d) - shift], m[shift:])
                found[shift + _LONGEST_LAG] += a.T @ o
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(norm > 0, np.abs(found) / norm, 0.0)
        at = np.unravel_index(int(found.argmax()), found.shape)
        shift, a_at, o_at = int(at[0]) - _LONGEST_LAG, int(at[1]), int(at[2])
        on_time = found[_LONGEST_LAG:, a_at, o_at].max()
        if found[at] > max(best[0], on_time + _CLEARLY) and shift < 0:
            best = (float(found[at]), shift, a_at, o_at)
    if best[0] < _CLEAR:
        return []
    share, shift, a_at, o_at = best
    action, seen = reading.action.names[a_at], reading.observation.names[o_at]
    return [
        f"actions lag: {action} follows {seen} by {-shift} frame{'s' if shift < -1 else ''} "
        f"(correlation {share:.2f}); was it recorded too late?"
    ]


def _centred(values: Array) -> Array:
    numbers = values.astype(np.float64)
    return np.asarray(numbers - numbers.mean(0))


def _of_cameras(reading: Reading, positions: list[int]) -> list[str]:
    """Cameras whose pictures repeat; only where looking costs little."""
    odd, source = [], reading.source
    for feature in source.features:
        size = int(np.prod(feature.shape, dtype=np.int64))
        films = source if isinstance(source, LeRobot) and feature.dtype == "video" else None
        for position in positions[:_CAMERA_EPISODES] if feature.role == "image" else ():
            episode = source.episodes[position]
            if episode.steps < 3 or (episode.steps * size > _LARGEST_PICTURES and films is None):
                continue
            try:
                if films is not None:  # a few pictures tell
                    same = films.frozen_share(position, feature.name)
                else:
                    pictures = source.read(position, [feature.name]).values[feature.name]
                    flat = pictures.reshape(len(pictures), -1)
                    same = float((flat[1:] == flat[:-1]).all(1).mean())
            except InputError as error:
                odd.append(str(error))
                continue
            if same > _FROZEN:
                odd.append(
                    f"episode {episode.id!r}: {feature.name} is frozen: {same:.0%} of its "
                    "pictures equal the one before"
                )
    return _shorten(odd)


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _shorten(sentences: list[str]) -> list[str]:
    if len(sentences) <= _MOST_NAMED:
        return sentences
    return [*sentences[:_MOST_NAMED], f"and {len(sentences) - _MOST_NAMED} more of this kind"]
