"""The report as one HTML file that opens from disk and needs no network.

The record goes in as JSON, its arrays as base64; the scripts under `assets/` draw it. Text from
data reaches the page through `textContent` only, and the page's security policy lets no other
script run than the two whose hashes it names: ours and Plotly's.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.evaluation.calibration import calibration_of_scores
from sdil.explanation.record import Explanation
from sdil.report.arrows import cell_arrows
from sdil.report.curves import point_label, spacing
from sdil.report.sampling import sample
from sdil.report.verdict import verdict
from sdil.spaces import Array

SCRIPTS = (
    "data.js",
    "charts.js",
    "floor.js",
    "summary.js",
    "skills.js",
    "selection.js",
    "seen.js",
    "film.js",
    "timeline.js",
    "list.js",
    "helped.js",
    "page.js",
)
SHOWN_ON_MAP = 50  # demonstrations of each set, as in the paper


def render(explanation: Explanation) -> str:
    """The page, whole: write it to a file and open that in a browser."""
    assets = files("sdil.report") / "assets"
    script = "".join((assets / name).read_text("utf-8") for name in SCRIPTS)
    script = _in_script(f'(() => {{\n"use strict";\n{script}}})();\n')
    plotly = _in_script(_plotly())
    policy = (
        f"default-src 'none'; script-src {_hash(script)} {_hash(plotly)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    about = explanation.about
    title = about.get("title") or f"{about.get('learner', 'A run')} on {about.get('task', 'data')}"
    page = (assets / "page.html").read_text("utf-8")
    values = {
        "POLICY": policy,
        "TITLE": html.escape(str(title)),
        "STYLE": (assets / "page.css").read_text("utf-8"),
        "DATA": _in_json(_data(explanation) | {"title": str(title)}),
        "PLOTLY": plotly,
        "SCRIPT": script,
    }
    head, *rest = page.split("{{")
    return head + "".join(
        values[name] + text for name, _, text in (piece.partition("}}") for piece in rest)
    )


def _data(explanation: Explanation) -> dict[str, Any]:
    """Everything the scripts draw, as JSON with packed arrays."""
    shown = sample(explanation)
    episodes, scores, skills = shown.episodes, shown.scores, explanation.skills
    return {
        "about": shown.about,
        "verdict": verdict(explanation.about),
        "actions": explanation.action_names,
        "episodes": {
            "ids": episodes.ids,
            "groups": episodes.groups,
            "clean": _pack(episodes.is_clean),
            "offsets": _pack(episodes.offsets),
            "actions": _pack(episodes.actions),
            "good": _pack(episodes.good),
            "positions": _pack(episodes.positions),
            "features": _pack(episodes.features),
            "rewards": _pack(episodes.rewards),
            "place": _pack(episodes.place),
        },
        "scores": {
            "optimality": _pack(scores.optimality),
            "segment": _pack(scores.segment),
            "skill": _pack(scores.skill),
            "parts": {name: _pack(part.astype(np.float32)) for name, part in scores.parts.items()},
            **{
                name: _pack(None if a is None else a.astype(np.float32))
                for name, a in (
                    ("spread", scores.spread),
                    ("quality", scores.quality),
                    ("integrity", scores.integrity),
                )
            },
        },
        "calibration": _calibration(explanation),
        "skills": None
        if skills is None
        else {
            "clean": skills.clean_share,
            "noisy": skills.noisy_share,
            "optimality": skills.optimality,
            "actions": skills.action_probs,
        },
        "walls": explanation.walls,
        "arrows": {
            "clean": _demonstrated(explanation, clean=True),
            "noisy": _demonstrated(explanation, clean=False),
        },
        "embeddings": [
            {
                "label": e.label,
                "points": _pack(e.points.astype(np.float32)),
                "steps": _pack(e.steps),
                "prototypes": e.prototypes,
            }
            for e in shown.embeddings
        ],
        "fixed": [
            {
                "skill": f.skill,
                "arrows": [] if f.moves is None else _arrows(f.steps[:, :2], f.moves, None),
                "counts": f.action_counts,
                "frames": f.frames,
            }
            for f in explanation.fixed_skills
        ],
        "frames": shown.frames,
        "strips": {
            name: {camera: asdict(strip) for camera, strip in found.items()}
            for name, found in shown.strips.items()
        },
        "stability": explanation.stability,
        "studies": {name: _placed(curve) for name, curve in explanation.studies.items()},
    }


def _calibration(explanation: Explanation) -> list[dict[str, Any]]:
    """The filled bins of the scores' calibration; none where nothing is known of noisy steps."""
    optimality, good = explanation.known_steps()
    if not len(good):
        return []
    found = calibration_of_scores(optimality, good)
    return [
        {"count": found.count[i], "said": found.said[i], "good": found.happened[i]}
        for i in np.flatnonzero(found.count)
    ]


def _placed(curve: dict[str, Any]) -> dict[str, Any]:
    """A study's curve, with where its points stand and what they are called."""
    at, scale = spacing(curve["x"])
    return curve | {"at": at, "scale": scale, "labels": [point_label(x) for x in curve["x"]]}


def _demonstrated(explanation: Explanation, *, clean: bool) -> list[list[Any]]:
    """The arrows of the first 50 demonstrations of a set (paper, Fig. 8)."""
    episodes, skill = explanation.episodes, explanation.scores.skill
    if explanation.walls is None or episodes.positions is None or episodes.moves is None:
        return []
    chosen = np.flatnonzero(episodes.is_clean == clean)[:SHOWN_ON_MAP]
    steps = np.isin(np.repeat(np.arange(len(episodes.ids)), np.diff(episodes.offsets)), chosen)
    return _arrows(
        episodes.positions[steps], episodes.moves[steps], None if skill is None else skill[steps]
    )


def _arrows(positions: Array, moves: Array, skill: Array | None) -> list[list[Any]]:
    return [
        [a.column, a.row, a.dx, a.dy, a.skill, round(a.consistency, 3), a.steps]
        for a in cell_arrows(positions, moves, skill)
    ]


def _pack(array: Array | None) -> dict[str, str] | None:
    """Base64 of the smallest little-endian type that holds every value exactly."""
    if array is None:
        return None
    array = np.ascontiguousarray(array)
    if array.dtype == bool:
        array = array.astype(np.int8)
    types = ("i1", "i2", "i4") if array.dtype.kind in "iu" else ("f4", "f8")
    for name in types:
        small = array.astype(f"<{name}")
        if np.array_equal(small, array, equal_nan=small.dtype.kind == "f"):
            return {"type": name, "data": base64.b64encode(small.tobytes()).decode()}
    raise InputError(f"an array of the record holds whole numbers too large for a page: {array}")


def _plain(value: Any) -> Any:
    """The same value with nothing JSON lacks: arrays become lists, NaN and infinity None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _in_json(value: Any) -> str:
    """JSON that cannot end or confuse the element it stands in."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _in_script(text: str) -> str:
    """JavaScript as a browser will read it, with nothing that would end its element."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()
