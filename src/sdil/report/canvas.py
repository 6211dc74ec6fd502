"""How figures look: colours that the colour-blind can tell apart, type that survives printing."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from sdil.errors import InputError
from sdil.explanation.record import Strip
from sdil.files import new_file
from sdil.spaces import Array

CLEAN, NOISY = "#0072B2", "#E69F00"
GOOD, BAD = "#009E73", "#D55E00"
INK, PALE = "#1c2127", "#d9dde1"
_PALETTE = (  # of skills and actions: blue is clean, orange noisy, green good and vermilion bad
    *("#332288", "#AA4499", "#DDCC77", "#882255", "#999933", "#CC6677", "#661100", "#8C8C8C"),
)
_LIGHT_INK = "#e3e6ea"
_SCHEMES = (
    f"<style>svg{{color:{INK.upper()}}}"
    f"@media(prefers-color-scheme:dark){{svg{{color:{_LIGHT_INK}}}}}</style>"
)
STRIP = 8  # frames of a film strip
FORMATS = ("png", "svg", "pdf")

_STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6570",
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": "#5b6570",
    "ytick.color": "#5b6570",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": "#e1e4e8",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.dpi": 200,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # names from data are text, whatever they hold
    "svg.fonttype": "none",
    "svg.hashsalt": "sdil",  # equal records give equal files
    "pdf.fonttype": 42,
}

_P = ParamSpec("_P")


def styled(draw: Callable[_P, Figure]) -> Callable[_P, Figure]:
    """Draw in our style, whatever Matplotlib is set to."""

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> Figure:
        with _in_style():
            return draw(*args, **kwargs)

    return drawn


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, as its name says, whole or not at all."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise InputError(f"{path}: figures are written as {', '.join(FORMATS)}")
    dated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with _in_style(), new_file(path) as temporary:
        figure.savefig(temporary, format=kind, metadata=dated[kind])


def follow_scheme(figure: Figure, path: Path) -> None:
    """Write a figure as SVG without a ground, its ink light where the page around it is dark.

    Whatever is drawn in `INK` follows. An image is told the colour scheme of the element that
    shows it, so a site's own switch counts, and else the reader's browser.
    """
    file = io.StringIO()
    with _in_style():
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = re.sub("(<svg[^>]*>)", rf"\1{_SCHEMES}", file.getvalue(), count=1)
    path.write_text(text.replace(INK, "currentColor"), "utf-8")


def colour_of(number: int) -> Any:
    """The colour of a skill or an action; past eight they come again, lighter."""
    from matplotlib.colors import to_rgb

    colour = np.array(to_rgb(_PALETTE[number % len(_PALETTE)]))
    return tuple(colour if number < len(_PALETTE) else 0.55 * colour + 0.45)


def colour_actions(counts: Array) -> tuple[list[int], list[Any]]:
    """The actions worth a colour of their own, and the colour of every action.

    `counts` says how often each is taken. (A,) Of more than eight, the seven commonest have one,
    and the others share the last.
    """
    if len(counts) <= len(_PALETTE):
        named = np.flatnonzero(counts > 0.005 * counts.sum())
        return named.tolist(), [colour_of(a) for a in range(len(counts))]
    named = np.sort(np.argsort(-counts, kind="stable")[: len(_PALETTE) - 1])
    named = named[counts[named] > 0]
    colours = [colour_of(len(_PALETTE) - 1)] * len(counts)
    for rank, action in enumerate(named):
        colours[action] = colour_of(rank)
    return named.tolist(), colours


def action_legend(
    figure: Figure, names: Sequence[str], counts: Array, title: str | None = None
) -> None:
    """What the colours of `colour_actions` stand for."""
    named, colours = colour_actions(counts)
    labels, shown = [names[a] for a in named], [colours[a] for a in named]
    if len(counts) > len(_PALETTE) and counts.sum() > counts[named].sum():
        labels, shown = [*labels, "others"], [*shown, colour_of(len(_PALETTE) - 1)]
    colour_legend(figure, labels, shown, title)


def ink_on(colour: Any) -> str:
    """Black or white, whichever reads better on a colour."""
    from matplotlib.colors import to_rgb

    return INK if np.dot(to_rgb(colour), (0.3, 0.59, 0.11)) > 0.55 else "white"


def panels(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels of a size in inches; those left over stay empty."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * width, rows * height))
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[count:]:
        spare.set_axis_off()
    return figure, axes[:count]


def draw_walls(ax: Axes, walls: Array) -> None:
    """A floor plan, seen from above, without axes."""
    from matplotlib.colors import ListedColormap

    rows, columns = walls.shape
    colours = ListedColormap(["#ffffff", "#aab2ba"])
    ax.imshow(walls, cmap=colours, vmin=0, vmax=1, interpolation="nearest")
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)


def pixels_of(frame: str) -> Array:
    """The picture in a data URI. (height, width, 3)"""
    from PIL import Image

    try:
        data = base64.b64decode(frame.partition(",")[2], validate=True)
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    except (binascii.Error, OSError) as error:
        raise InputError(f"a frame of the record is no PNG ({error})") from None


def cut_strip(strip: Strip) -> list[Array]:
    """The pictures of a strip, one by one. (height, width, 3) each"""
    sheet = pixels_of(strip.image)
    height, width = strip.height, strip.width
    corners = [(i // strip.columns * height, i % strip.columns * width) for i in range(strip.count)]
    return [sheet[y : y + height, x : x + width] for y, x in corners]


def show_frame(ax: Axes, frame: str | Array) -> None:
    """A PNG data URI, or pixels, as a picture."""
    ax.imshow(pixels_of(frame) if isinstance(frame, str) else frame)
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)


def spread_out(count: int, most: int) -> list[int]:
    """At most so many of the numbers 0 to `count` - 1, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def colour_legend(
    figure: Figure, labels: Sequence[str], colours: Sequence[Any], title: str | None = None
) -> None:
    """What colours stand for, under all panels."""
    handles = [
        Patch(facecolor=c, edgecolor=INK, linewidth=0.3, label=text)
        for text, c in zip(labels, colours, strict=True)
    ]
    longest = max(map(len, labels), default=0)
    room = max(1, int(figure.get_figwidth() / (0.065 * longest + 0.4)))  # labels side by side
    rows = -(-len(handles) // room)
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=max(1, -(-len(handles) // max(1, rows))),
        title=title,
        handlelength=1.2,
        handleheight=0.9,
        columnspacing=1.4,
    )


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign, as Matplotlib writes those of an axis."""
    return f"{round(float(value), digits) + 0.0:+.{digits}f}".replace("-", "−")


@contextmanager
def _in_style() -> Iterator[None]:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield
