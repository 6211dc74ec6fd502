"""Statistics of episodes as LeRobot keeps them: of each number of a feature, and of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sdil.spaces import Array

QUANTILES = (1, 10, 50, 90, 99)
STATISTICS = ("min", "max", "mean", "std", "count", *(f"q{q:02d}" for q in QUANTILES))
Stats = Mapping[str, Array]
_LEVELS = 256
_LARGE, _SMALL = 300, 150  # pictures of more than so many pixels a side are thinned to so many


def stats_of_numbers(values: Array) -> Stats:
    """Of each number of a feature over an episode, (T,) or (T, ..., D): (D,) each."""
    rows = len(values)
    flat = np.asarray(values, np.float64).reshape(-1, values.shape[-1] if values.ndim > 1 else 1)
    found = {"min": flat.min(0), "max": flat.max(0), "mean": flat.mean(0), "std": flat.std(0)}
    found["count"] = np.array([rows])
    for q, of_each in zip(QUANTILES, np.quantile(flat, np.divide(QUANTILES, 100), 0), strict=True):
        found[f"q{q:02d}"] = of_each
    return found


def sampled_frames(length: int) -> Array:
    """Which frames of an episode LeRobot looks at for statistics of pictures."""
    number = max(min(length, 100), min(int(length**0.75), 10_000))
    return np.unique(np.round(np.linspace(0, length - 1, number)).astype(np.int64))


class Seen:
    """Pictures that are looked at one after the other; only their levels are kept."""

    def __init__(self) -> None:
        self._counts: Array | None = None
        self._number = 0

    def add(self, picture: Array) -> None:
        """Look at a picture (H, W, C) or (H, W), uint8."""
        picture = picture[:, :, None] if picture.ndim == 2 else picture
        side = max(picture.shape[:2])
        thin = side // _SMALL if side >= _LARGE else 1
        thinned = picture[::thin, ::thin].reshape(-1, picture.shape[2])
        counts = np.stack([np.bincount(channel, minlength=_LEVELS) for channel in thinned.T])
        self._counts = counts if self._counts is None else self._counts + counts
        self._number += 1

    def stats(self) -> Stats:
        """Of each channel, as shares of 255: (C, 1, 1) each."""
        assert self._counts is not None
        counts, levels = self._counts, np.arange(_LEVELS) / 255
        total = counts.sum(1, keepdims=True)
        there, up_to = counts > 0, np.cumsum(counts, 1) / total
        mean = (counts * levels).sum(1, keepdims=True) / total
        found = {
            "min": levels[there.argmax(1)],
            "max": levels[_LEVELS - 1 - there[:, ::-1].argmax(1)],
            "mean": mean[:, 0],
            "std": np.sqrt((counts * (levels - mean) ** 2).sum(1) / total[:, 0]),
        }
        for q in QUANTILES:
            found[f"q{q:02d}"] = levels[(up_to >= q / 100).argmax(1)]
        shaped = {name: values.reshape(-1, 1, 1) for name, values in found.items()}
        return {**shaped, "count": np.array([self._number])}


def stats_from(told: Any) -> Stats | None:
    """The statistics that a source has of pictures; None unless all are there and fit."""
    if not isinstance(told, Mapping) or not set(STATISTICS) <= set(told):
        return None
    try:
        found = {name: np.asarray(told[name], np.float64).reshape(-1) for name in STATISTICS}
    except (TypeError, ValueError):
        return None
    count = found.pop("count")
    channels = {len(values) for values in found.values()}
    fits = len(count) == 1 and channels in ({1}, {3})
    if not fits or not all(np.isfinite(v).all() for v in (count, *found.values())):
        return None
    shaped = {name: values.reshape(-1, 1, 1) for name, values in found.items()}
    return {**shaped, "count": count.astype(np.int64)}


class Joined:
    """Statistics of a data set from those of its episodes, as LeRobot joins them.

    Quantiles are means of the episodes' quantiles: that is how LeRobot's own tools join them too.
    """

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, Any]] = {}

    def add(self, stats: Mapping[str, Stats]) -> None:
        for feature, told in stats.items():
            count = float(told["count"][0])
            part = self._parts.setdefault(
                feature, {"count": 0.0, "min": told["min"], "max": told["max"], "square": 0.0}
            )
            part["count"] += count
            part["min"] = np.minimum(part["min"], told["min"])
            part["max"] = np.maximum(part["max"], told["max"])
            part["square"] = part["square"] + count * (told["std"] ** 2 + told["mean"] ** 2)
            for name in ("mean", *(f"q{q:02d}" for q in QUANTILES)):
                part[name] = part.get(name, 0.0) + count * told[name]

    def to_json(self) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        for feature, part in self._parts.items():
            n = part["count"]
            mean = part["mean"] / n
            found = {"min": part["min"], "max": part["max"], "mean": mean}
            found["std"] = np.sqrt(np.maximum(part["square"] / n - mean**2, 0))
            found["count"] = np.array([int(n)])
            found |= {f"q{q:02d}": part[f"q{q:02d}"] / n for q in QUANTILES}
            whole[feature] = {name: values.tolist() for name, values in found.items()}
        return whole


def columns_of(stats: Mapping[str, Stats]) -> dict[str, Any]:
    """The same as columns of `meta/episodes`."""
    return {
        f"stats/{feature}/{name}": values.tolist()
        for feature, told in stats.items()
        for name, values in told.items()
    }


def fields_of(features: Sequence[str], pictures: Sequence[str]) -> list[tuple[str, Any]]:
    """Names and types of these columns, for features that are numbers and those that are seen."""
    import pyarrow

    number = pyarrow.list_(pyarrow.float64())
    nested = pyarrow.list_(pyarrow.list_(number))
    return [
        (
            f"stats/{feature}/{name}",
            pyarrow.list_(pyarrow.int64())
            if name == "count"
            else (nested if feature in pictures else number),
        )
        for feature in (*features, *pictures)
        for name in STATISTICS
    ]
