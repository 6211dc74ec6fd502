"""What `sdil inspect` says of other people's data, before anything of it is imported."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sdil.cli.chosen import notes_of
from sdil.cli.console import print_command, print_json, print_table, print_wrapped, progress
from sdil.errors import InputError
from sdil.formats.oddities import find_oddities
from sdil.formats.reading import Reading
from sdil.formats.recognise import Address, parse_address
from sdil.formats.source import Feature, Source
from sdil.formats.table_source import TableSource
from sdil.formats.trusted import columns_of, values_of

_GOOD = ("better", "good", "expert", "success", "clean", "optimal", "human")
_SUCCESS = ("success", "is_success", "successful")
_ENDINGS = {
    "d4rl": ("terminals", "timeouts"),
    "lerobot": ("next.terminated", "terminated"),
    "numpy": ("terminals", "terminated"),
    "robomimic": ("dones",),
}
"""Features that say of other formats than tables how an episode ended."""
_NOT_ALL_GOOD = "a successful episode may hold bad steps, too, and all of it would be trusted"
_MOST_SHOWN = 10
_LONGEST = 80  # letters of what a source says of itself


def look_at(reading: Reading, *, as_json: bool) -> None:
    """Print what a source holds, what is odd in it, and the command that imports it."""
    source = reading.source
    clean, guess, notes = reading.address.choices.get("clean"), "", notes_of(reading.source.about)
    if clean is None:
        clean, guess = suggest_clean(source)
        if clean.strip('"').lower() in _SUCCESS:
            notes.append(_NOT_ALL_GOOD)
        address = reading.address.with_choices(clean=clean)
        reading = Reading(source, address)
    sets: tuple[int, int, str] | None = None
    unclear = ""
    try:
        first, rest, sentence = reading.sets
        sets = (len(first), len(rest), sentence)
    except InputError as error:
        unclear = str(error)
    try:
        with progress("looking") as update:
            found = find_oddities(reading, update)
        odd, broken = found.odd, found.broken
    except InputError as error:  # nothing is taken for actions, say: the rest can still be told
        odd, broken, unclear = [], (), unclear or str(error)
    missing = _missing(reading)
    command = import_command(reading.address, missing)
    if as_json:
        print_json(_as_json(reading, sets, guess, notes, odd, unclear, command))
        return
    _print_head(source)
    _print_features(reading)
    _print_kinds(source)
    for sentence in _ends_of(source):
        print_wrapped(sentence)
    if sets is not None:
        print_wrapped(("would be " if guess else "") + sets[2] + guess)
    if unclear:
        print_wrapped(unclear)
    for note in notes:
        print_wrapped(f"note: {note}")
    for sentence in odd:
        print_wrapped(f"odd: {sentence}")
    if not odd and not unclear:
        print("nothing odd was found")
    print_wrapped(f"{_before_import(reading, missing, broken, bool(unclear))}:")
    print_command(command)


def suggest_clean(source: Source) -> tuple[str, str]:
    """What might be trusted, and that it is a guess."""
    tags = {tag for e in source.episodes for tag in e.tags}
    for tag in _GOOD:
        if tag in tags:
            return tag, ""
    for column in columns_of(source):
        values = {e.columns.get(column) for e in source.episodes}
        if column.lower() in _SUCCESS and values == {True, False}:
            return f'"{column}"' if column.lower() != column else column, ""
    word = ". Nobody says which episodes are good, so that this is a guess: look at them and name"
    for ranked, column in (("top 20% by return", "return"), ("shortest 20%", "steps")):
        try:
            known = values_of(source, column)
        except InputError:  # nobody was paid, or an episode cannot be read
            continue
        if len(set(known.tolist())) > 1:
            return ranked, f"{word} better ones with --clean"
    return "shortest 20%", f"{word} better ones with --clean"


def _missing(reading: Reading) -> str | None:
    """The option without which it cannot be told what is done, or what is seen."""
    for option, what in (("actions", "action"), ("features", "observation")):
        try:
            getattr(reading, what)
        except InputError:
            return None if option in reading.address.choices else option
    return None


def _before_import(
    reading: Reading, missing: str | None, broken: Sequence[int], unclear: bool
) -> str:
    """What is to be done before the command that is printed runs as it stands."""
    if missing is not None:
        what = "done" if missing == "actions" else "seen"
        return f"import it with this, NAMES being the features that say what is {what}"
    if unclear:
        return "import it with this, once that is mended: it fails as it stands"
    clean, noisy, _ = reading.sets
    names = [reading.source.episodes[i].id for i in broken if i in {*clean, *noisy}]
    if not names:
        return "import it with"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    broken_ones = f"episode{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more}"
    return (
        f"import it with this, once {broken_ones} can be read, or --noisy names episodes without; "
        "it fails as it stands"
    )


def import_command(address: Address, missing: str | None = None) -> str:
    """What imports a source as it was looked at; NAMES stands for what is `missing`."""
    place = parse_address(address.location).location
    name = place.rstrip("/").rpartition("/")[2].split(".")[0].split("?")[0] or "mine"
    parts = ["sdil", "import", shlex.quote(str(Address(address.location)))]
    parts += ["--format", address.format] if address.format else []
    for option, value in address.choices.items():
        parts += [f"--{option.replace('_', '-')}", shlex.quote(value)]
    parts += [f"--{missing}", "NAMES"] if missing is not None else []
    return " ".join([*parts, "--out", shlex.quote(f"demos/{name}")])


def _print_head(source: Source) -> None:
    lengths = np.array([e.steps for e in source.episodes])
    print_wrapped(f"{source.location}: {source.format}")
    said = [
        f"{key} {_short(value)}"
        for key, value in source.about.items()
        if isinstance(value, str | int | float)
    ]
    made = source.about.get("env_args")
    if isinstance(made, dict) and isinstance(made.get("env_name"), str):
        said.insert(0, f"environment {_short(made['env_name'])}")
    if said:
        print_wrapped(", ".join(said)[:400])
    print_wrapped(
        f"{len(lengths)} episodes, {int(lengths.sum())} steps; lengths {lengths.min()} to "
        f"{lengths.max()}, half of them up to {int(np.median(lengths))}"
    )


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _print_features(reading: Reading) -> None:
    source, taken = reading.source, _taken_for(reading)
    rows = [
        [
            f.name,
            taken.get(f.name, "picture, left out" if f.role == "image" else "left out"),
            "x".join(map(str, f.shape)) or "1",
            f.dtype,
            f.unit or "",
            _entries(f),
        ]
        for f in source.features
    ]
    columns = ["feature", "taken for", "numbers", "type", "unit", "entries"]
    told = [i for i in range(6) if i < 4 or any(row[i] for row in rows)]
    some = [[row[i] for i in told] for row in rows]
    print_table("features", [columns[i] for i in told], some, text_columns=6)


def _taken_for(reading: Reading) -> dict[str, str]:
    """What each feature is taken for: what was named, or by default what the source calls so."""
    asked, features = reading.address.choices, reading.source.features
    by_role = {
        role: [f.name for f in features if f.role == role]
        for role in ("reward", "action", "observation")
    }
    if "actions" in asked:
        by_role["action"] = reading.action.features
    if "features" in asked:
        by_role["observation"] = reading.observation.features
    cameras = {camera.feature.name: "picture" for camera in reading.cameras}
    taken = {name: role for role, names in by_role.items() for name in names} | cameras
    return _beside(reading) | taken


def _beside(reading: Reading) -> dict[str, str]:
    """What else is used of a source: how episodes end, and what is known of them."""
    source, group = reading.source, reading.address.choices.get("group")
    if isinstance(source, TableSource):
        return source.uses | ({} if group is None else {group: "group"})
    return dict.fromkeys(_ENDINGS.get(source.format, ()), "end of episode")


def _entries(feature: Feature) -> str:
    shown = ", ".join(feature.entries[:6])
    return shown + (", ..." if len(feature.entries) > 6 else "")


def _print_kinds(source: Source) -> None:
    """Tasks, filter keys, groups and columns, with how many episodes each has."""
    for title, values in _kinds(source).items():
        if not values:
            continue
        shown = [f"{name} ({count})" for name, count in list(values.items())[:_MOST_SHOWN]]
        more = f" and {len(values) - _MOST_SHOWN} more" if len(values) > _MOST_SHOWN else ""
        print_wrapped(f"{title}: {', '.join(shown)}{more}")
    if columns_of(source):
        print_wrapped(f"columns of episodes: {', '.join(columns_of(source)[:30])}")


def _ends_of(source: Source) -> tuple[str, ...]:
    """Of a table: of how many episodes it is known where they ended, and what ended them."""
    return source.ends if isinstance(source, TableSource) else ()


def _kinds(source: Source) -> dict[str, dict[str, int]]:
    episodes = source.episodes
    return {
        "tasks": dict(Counter(e.task for e in episodes if e.task is not None)),
        "filter keys": dict(sorted(Counter(t for e in episodes for t in e.tags).items())),
        "groups": dict(Counter(e.group for e in episodes if e.group is not None)),
    }


def _as_json(
    reading: Reading,
    sets: tuple[int, int, str] | None,
    guess: str,
    notes: list[str],
    odd: list[str],
    unclear: str,
    command: str,
) -> dict[str, Any]:
    source = reading.source
    return {
        "source": source.location,
        "format": source.format,
        "about": {k: v for k, v in source.about.items() if isinstance(v, str | int | float | None)},
        "episodes": len(source.episodes),
        "steps": sum(e.steps for e in source.episodes),
        "lengths": [e.steps for e in source.episodes],
        "features": [
            {
                "name": f.name,
                "role": f.role,
                "shape": list(f.shape),
                "dtype": f.dtype,
                "entries": list(f.entries),
                "unit": f.unit,
            }
            for f in source.features
        ],
        **{name.replace(" ", "_"): kinds for name, kinds in _kinds(source).items()},
        "columns": columns_of(source),
        "clean": None if sets is None else sets[0],
        "noisy": None if sets is None else sets[1],
        "chosen": None if sets is None else sets[2],
        "guessed": bool(guess),
        "unclear": unclear or None,
        "notes": notes,
        "ends": list(_ends_of(source)),
        "odd": odd,
        "command": command,
    }
