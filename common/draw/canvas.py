"""Common parts of all drawings: a canvas without axes, boxes, arrows, colours, and the display in a notebook."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from ..report.plots import CARD, INK, WIDTH, show

BLUE, ORANGE, GREEN, RED, SKY, PURPLE = "#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7"
DARK_RED, DARK_GREEN = "#a34700", "#00664b"  # for text, which needs more contrast than shapes
GREY, PAPER = "#5a5a5a", "#ffffff"  # grey for secondary text; the fill of an empty box. Above: colours of Okabe and Ito


@dataclass(frozen=True)
class Drawing:
    """A Matplotlib figure and its alternative text."""

    figure: Figure
    alt: str

    def _ipython_display_(self) -> None:
        show(self.figure, self.alt)


def canvas(width: float, height: float, scale: float = 1.0) -> tuple[Figure, Any]:
    """(figure, axes): WIDTH inches wide, `width` × `height` units without frame; y points downwards.

    scale: the length of a unit in y relative to one in x.
    """
    figure = Figure(figsize=(WIDTH, WIDTH * height / width * scale), dpi=110, facecolor=CARD)
    axes = figure.add_axes((0.01, 0.01, 0.98, 0.98))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def cell(axes: Any, x: float, y: float, width: float, height: float, colour: str = PAPER, **style: Any) -> None:
    """Draw a box with square corners: a light fill and a full edge of the colour."""
    empty = colour in (PAPER, CARD)
    edge = GREY if empty else colour
    alpha = style.pop("alpha", 1.0 if empty else 0.3)
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, alpha=alpha, edgecolor="none", **style))
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=edge, linewidth=1.0, **style))


def frame(axes: Any, x: float, y: float, width: float, height: float, colour: str, rounding: float = 0.1) -> None:
    """Draw a box with round corners and a light fill."""
    shape = f"round,pad=0,rounding_size={rounding}"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=shape, facecolor=colour, alpha=0.18, edgecolor="none")
    )
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, fill=False, edgecolor=colour, linewidth=1.6))


def text(axes: Any, x: float, y: float, words: str, size: float = 11.0, **style: Any) -> None:
    """Draw text at a point, centred unless `ha` and `va` are given."""
    axes.text(x, y, words, fontsize=size, **{"ha": "center", "va": "center", "color": INK, **style})


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str = INK, **style: Any) -> None:
    """Draw an arrow from one point to another."""
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0, **style}
    axes.annotate("", end, start, arrowprops=look)


def positive(**sizes: int) -> None:
    """Raise ValueError, naming the argument, for a size that is not an integer of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a whole number of 1 or more, got {size!r}")
