"""What LeRobot's `features` mean: roles, names of numbers, and columns of a table as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.source import Feature, Role
from sdil.spaces import Array

BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""What LeRobot itself writes with every frame."""
ACTIONS = ("action", "actions")
OBSERVATIONS = ("observation", "observations", "obs", "state", "states")
REWARDS = ("next.reward", "reward", "rewards", "next/reward")
SUCCESS = ("next.success", "success", "next/success")
IMAGES = ("image", "video")
TEXTS = ("string", "language")
_MOST = 2**26


def check_features(info: Mapping[str, Any], place: Path) -> dict[str, dict[str, Any]]:
    """The features of `info.json`, each with its `dtype` and `shape`."""
    features = info.get("features", _early_features(info))
    if not isinstance(features, dict) or not features:
        raise InputError(f"{place}: it names no features")
    checked = {}
    for name, feature in features.items():
        dtype = feature.get("dtype") if isinstance(feature, dict) else None
        if not isinstance(dtype, str):
            raise InputError(f"{place}: feature {name}: it has no dtype")
        shape = feature.get("shape", [1])
        shape = [shape] if isinstance(shape, int) else ([1] if shape is None else shape)
        fits = isinstance(shape, list) and all(
            isinstance(n, int) and not isinstance(n, bool) and 0 <= n < _MOST for n in shape
        )
        if not fits or (prod(shape) >= _MOST and dtype != "language"):
            raise InputError(f"{place}: feature {name}: its shape is {feature.get('shape')!r}")
        dtype = "image" if dtype.startswith("image") else dtype  # image_bytes
        checked[name] = {**feature, "dtype": dtype, "shape": tuple(shape)}
    return checked


def _early_features(info: Mapping[str, Any]) -> dict[str, Any]:
    """The same, as the first data sets of version 2.0 have it: `keys`, `shapes` and `names`."""
    shapes, names = (
        {} if not isinstance(info.get(k), dict) else info[k] for k in ("shapes", "names")
    )
    features = {}
    for kind, dtype in (("keys", "float32"), ("video_keys", "video"), ("image_keys", "image")):
        listed = info.get(kind)
        for name in listed if isinstance(listed, list) else ():
            shape = shapes.get(name, 1) if isinstance(name, str) else None
            if isinstance(shape, dict):
                shape = [shape.get(side) for side in ("height", "width", "channels")]
            features[str(name)] = {"dtype": dtype, "shape": shape, "names": names.get(name)}
    return features


def describe(features: Mapping[str, Mapping[str, Any]]) -> tuple[Feature, ...]:
    """Each feature, with its role and the names of its numbers."""
    one = next((name for name in ACTIONS if name in features), None)
    found = []
    for name, feature in features.items():
        role, shape = _role(name, feature["dtype"], one), tuple(feature["shape"])
        if shape == (1,) and role in ("other", "reward"):
            shape = ()
        unit = feature.get("unit", feature.get("units"))
        found.append(
            Feature(
                name=name,
                role=role,
                shape=shape,
                dtype=feature["dtype"],
                entries=() if role == "image" else _entries(feature.get("names"), prod(shape)),
                unit=unit if isinstance(unit, str) else None,
            )
        )
    return tuple(found)


def _role(name: str, dtype: str, one_action: str | None) -> Role:
    first = name.replace("/", ".").split(".")[0]
    if dtype in IMAGES:
        return "image"
    if dtype in TEXTS or name in BOOKKEEPING:
        return "other"
    if name in REWARDS:
        return "reward"
    if first in ACTIONS:  # where the whole action is there, its parts are not used as well
        return "action" if one_action in (None, name) else "other"
    return "observation" if first in OBSERVATIONS else "other"


def _entries(names: Any, size: int) -> tuple[str, ...]:
    """The names of `size` numbers, however they are nested; empty where they do not fit."""
    if isinstance(names, dict) and names and all(isinstance(v, int) for v in names.values()):
        flat = sorted(names, key=lambda name: names[name])  # {"x": 0, "y": 1}
    else:
        flat = _flat(names, depth=0)
    return tuple(flat) if len(flat) == size else ()


def _flat(names: Any, depth: int) -> list[str]:
    if isinstance(names, dict):  # {"axes": [...]}, {"motors": [...]}, {"left": [...], ...}
        names = list(names.values())
    if isinstance(names, list) and depth < 8:
        return [text for item in names for text in _flat(item, depth + 1)]
    return [str(names)] if isinstance(names, str | int | float) else []


def find_column(table: Any, name: str) -> Any | None:
    """The column of a feature: by its name, with other separators, or within nested columns."""
    for spelled in (name, name.replace("/", "."), name.replace(".", "/")):
        if spelled in table.column_names:
            return table.column(spelled)
    for separator in (".", "/"):
        first, *rest = name.split(separator)
        if rest and first in table.column_names:
            import pyarrow.compute

            column: Any = table.column(first)
            for part in rest:
                inside = {column.type.field(i).name for i in range(column.type.num_fields)}
                if part not in inside or not _is_struct(column.type):
                    return None
                column = pyarrow.compute.struct_field(column, part)
            return column
    return None


def _is_struct(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_struct(kind))


def column_to_array(
    column: Any, shape: tuple[int, ...], where: str, *, is_text: bool = False
) -> Array:
    """A column of numbers (or texts), or of lists of them (of fixed size or not): (T, *shape)."""
    import pyarrow
    import pyarrow.compute as compute

    kinds = pyarrow.types
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if isinstance(array, pyarrow.ChunkedArray):
        array = pyarrow.concat_arrays(array.chunks) if array.num_chunks else array.chunk(0)
    if isinstance(array.type, pyarrow.BaseExtensionType):
        array = array.storage
    rows, per_row = len(array), prod(shape)
    depth = 0
    while kinds.is_list(array.type) or kinds.is_large_list(array.type) or _is_fixed(array.type):
        _refuse_missing(array, where)
        lengths = compute.list_value_length(array).to_numpy(zero_copy_only=False)
        if len(lengths) and lengths.min() != lengths.max():
            row = int(np.flatnonzero(lengths != lengths[0])[0])
            inner = (rows and len(array) // rows) or 1
            raise InputError(
                f"{where}: row {row // inner} has {lengths[row]} numbers, and the first row "
                f"{lengths[0]}; all rows need the same number"
            )
        array = compute.list_flatten(array)
        if isinstance(array.type, pyarrow.BaseExtensionType):
            array = array.storage
        depth += 1
    _refuse_missing(array, where)
    if is_text and (kinds.is_string(array.type) or kinds.is_large_string(array.type)):
        return np.asarray(array.to_pylist(), dtype=str)
    if not (kinds.is_integer(array.type) or kinds.is_floating(array.type)) and not (
        kinds.is_boolean(array.type)
    ):
        raise InputError(f"{where}: it holds {array.type}, not numbers")
    values = np.array(array.to_numpy(zero_copy_only=False))
    if len(values) != rows * per_row:
        inside = len(values) // rows if rows else 0
        raise InputError(
            f"{where}: its rows have {inside} numbers, but its shape in meta/info.json is "
            f"{list(shape)}; correct the shape there"
        )
    return values.reshape(rows, *shape)


def _is_fixed(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_fixed_size_list(kind))


def _refuse_missing(array: Any, where: str) -> None:
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"{where}: value {row} is missing (null); fill it or leave it out")
