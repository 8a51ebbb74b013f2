"""The picture of the repository's front page: a traced kernel, and digits as the engine reads them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from ..cuda.report import Report, Request
from ..report.plots import CARD, INK
from .canvas import DARK_GREEN, DARK_RED, GREY, PAPER, Drawing, canvas, cell, text

SECTOR = 32  # bytes
LOOK = 3  # a new number after each change of the look, which the drawing's digest holds
ACROSS = 8  # digits per row


def front(report: Report, pictures: np.ndarray, classes: Sequence[int], labels: Sequence[int], right: str) -> Drawing:
    """A kernel's lines with the sectors that one request of a warp touches, beside digits with the classes read.

    report: of a kernel with one load and one store. pictures: (N, H, W) uint8 greyscale, N a multiple of ACROSS;
    classes, labels: N each, a wrong class is red. right: the line below the digits.
    """
    figure, axes = canvas(60, 23.5)
    _listing(axes, report)
    cell(axes, 35.2, 0.6, 24.2, 22.3, CARD)
    inks = LinearSegmentedColormap.from_list("ink on the card", [INK, CARD])
    text(axes, 47.3, 2.3, "The repository's engine reads digits", 10, weight="bold")
    rows = len(pictures) // ACROSS
    for i, (picture, found, label) in enumerate(zip(pictures, classes, labels, strict=True)):
        x, y = 36.6 + 2.7 * (i % ACROSS), 4.1 + 16.2 / rows * (i // ACROSS)
        axes.imshow(picture, cmap=inks, vmin=0, vmax=255, extent=(x, x + 2.3, y + 2.3, y), aspect="auto", zorder=3)
        text(axes, x + 1.15, y + 3.1, str(found), 10, color=DARK_GREEN if found == label else DARK_RED, weight="bold")
    text(axes, 47.3, 21.3, right, 7.9)
    axes.set(xlim=(0, 60), ylim=(23.5, 0))  # imshow has changed them
    counts = [f"the {r.kind} touches {_sectors(r).size} sectors" for r in _first(report)]
    read = ", ".join(map(str, classes))
    return Drawing(figure, f"Left: a traced kernel; of one request of 32 threads, {' and '.join(counts)} of 32 bytes. "
                           f"Right: {len(pictures)} handwritten digits, read as {read}. {right}.")  # fmt: skip


def _first(report: Report) -> list[Request]:
    """The first request of each line that accesses memory, in the order of the lines."""
    first: dict[int, Request] = {}
    for request in report.requests:
        first.setdefault(request.line, request)
    return [first[line] for line in sorted(first)]


def _sectors(request: Request) -> np.ndarray:
    return np.unique(request.offsets[request.offsets >= 0] // SECTOR)


def _listing(axes, report: Report) -> None:
    cell(axes, 0.6, 0.6, 33.8, 22.3, CARD)
    text(axes, 17.5, 2.3, "A trace shows what each line of a kernel moves", 10, weight="bold")
    requests = {request.line: request for request in _first(report)}
    said = f"memory moves in sectors of {SECTOR} bytes: one box is one sector, coloured where it is used"
    text(axes, 17.5, 3.6, said, 7.8, color=GREY)
    y = 5.1
    for number, line in enumerate(report.source.strip("\n").split("\n"), 1):
        request = requests.get(number)
        colour = GREY
        if request is not None:
            fewest = -(-32 * request.size // SECTOR)
            colour = DARK_GREEN if _sectors(request).size == fewest else DARK_RED
        text(axes, 1.5, y, line, 8.8, ha="left", family="monospace", color=colour if request else "#222222")
        y += 1.42
        if request is not None:
            y = _request(axes, request, y, colour, fewest)


def _request(axes, request: Request, y: float, colour: str, fewest: int) -> float:
    """Draw the sectors that a request touches, filled as far as its lanes use them. Returns the y below."""
    sectors = _sectors(request)
    width = 31.0 / 32
    for i, sector in enumerate(sectors):
        x = 2.2 + width * i
        cell(axes, x, y - 0.3, 0.86 * width, 1.3, PAPER)
        inside = request.offsets[request.offsets // SECTOR == sector] % SECTOR
        for start in inside:
            cell(axes, x + 0.86 * width * start / SECTOR, y - 0.3, 0.86 * width * request.size / SECTOR, 1.3, colour)
    many = "the minimum" if sectors.size == fewest else f"{sectors.size / fewest:g} times the minimum"
    words = f"32 threads, one {request.kind}: {sectors.size} sectors of {SECTOR} bytes, {many}"
    text(axes, 2.2, y + 1.9, words, 8.3, ha="left", color=colour, weight="bold")
    return y + 3.5
