"""The course as drawings: the whole way from chapter to chapter, and the package `common` with the way of data in it.

whole_way()      what goes into each chapter, what comes out, and which files the engine has by then
architecture()   the packages in the order in which they may import, and a picture's way to its scores
"""

from dataclasses import astuple, dataclass
from typing import Any

from ..report.figures import Figure
from .canvas import BLUE, GREEN, GREY, INK, ORANGE, PAPER, PURPLE, RED, SKY, Drawing, arrow, canvas, cell, frame, text


@dataclass(frozen=True)
class Chapter:
    """One chapter: its name, what goes in, what comes out, and the engine's files that it writes."""

    number: str
    name: str
    takes: str
    makes: str
    files: tuple[str, ...] = ()


CHAPTERS = (
    Chapter("01", "Topology", "the paper's table,\nan ONNX file", "a list of layers\nwith their shapes",
            ("graph.py",)),
    Chapter("02", "Weights", "the same ONNX file,\nthe list of layers", "arrays of weights,\nbatch-norms folded",
            ("weights.py",)),
    Chapter("03", "cuDNN baseline", "the layers, run by\nNVIDIA's libraries", "times of libraries,\nyour first GPU"
            " functions"),
    Chapter("04", "Kernels", "one kind of layer\nafter the other", "one CUDA C++ kernel\nper kind of layer",
            tuple(f"kernels/{name}.cu" for name in ("add", "pool", "gemm", "conv", "pointwise", "depthwise"))),
    Chapter("05", "Network", "layers, weights\nand kernels", "an engine: an image in,\nscores of classes out",
            ("plan.py", "engine.py")),
    Chapter("06", "Optimize", "the engine, and where\nits time is spent", "the same scores\nin less time",
            ("kernels/block.cu", "blocks.py")),
)  # fmt: skip
_COLOURS = (BLUE, ORANGE, GREEN, RED, SKY, PURPLE)
_HIGH = 3.0  # units per chapter


def whole_way() -> Drawing:
    """The six chapters in rows: what goes in, what comes out, and the files in work/engine/ at the chapter's end."""
    figure, axes = canvas(37, 3.2 + _HIGH * len(CHAPTERS))
    for x, words in ((3.9, "chapter"), (11.5, "what goes in"), (20.8, "what comes out"), (31.0, "work/engine/")):
        text(axes, x, 0.7, words, 11, weight="bold", family="monospace" if "/" in words else None)
    boxes: list[tuple[str, int]] = []  # (label, its chapter's place), one per group of files
    for row, (chapter, colour) in enumerate(zip(CHAPTERS, _COLOURS, strict=True)):
        y = 1.5 + _HIGH * row
        frame(axes, 0.3, y, 7.2, _HIGH - 0.6, colour, 0.3)
        text(axes, 0.8, y + 0.8, chapter.number, 13, ha="left", weight="bold")
        text(axes, 0.8, y + 1.7, chapter.name, 11, ha="left")
        text(axes, 11.5, y + 1.2, chapter.takes, 10.5)
        arrow(axes, (15.5, y + 1.2), (16.7, y + 1.2), colour, linewidth=2.0)
        text(axes, 20.8, y + 1.2, chapter.makes, 10.5)
        boxes += [(label, row) for label in _labels(chapter)]
        _engine(axes, y, boxes, row)
    y = 1.8 + _HIGH * len(CHAPTERS)
    for x, colour, words in (
        (1.5, GREY, "coloured: a part of your engine that this chapter adds"),
        (22.5, PAPER, "white: written before"),
    ):
        cell(axes, x, y, 1.2, 0.8, colour)
        text(axes, x + 1.6, y + 0.4, words, 10, ha="left")
    order = " ".join(
        f"{c.number} {c.name}. In: {_line(c.takes)}. Out: {_line(c.makes)}."
        + (f" Files of the engine: {' and '.join(_labels(c))}." if c.files else "")
        for c in CHAPTERS
    )
    return Drawing(figure, f"The way through the course, one row per chapter. {order}")


def _line(words: str) -> str:
    return words.replace("\n", " ")


def _labels(chapter: Chapter) -> list[str]:
    """The chapter's files as the drawing shows them: several kernels are one box."""
    kernels = [file for file in chapter.files if file.startswith("kernels/")]
    others = [file for file in chapter.files if file not in kernels]
    return others + ([f"{len(kernels)} kernels"] if len(kernels) > 1 else [k.partition("/")[2] for k in kernels])


def _engine(axes: Any, y: float, boxes: list[tuple[str, int]], row: int) -> None:
    """Draw the files that exist after a chapter: three per line, the chapter's own in its colour."""
    if not boxes:
        return
    pitch = 1.2 if len(boxes) <= 6 else 0.92  # three lines fit into the row, too
    for i, (label, made) in enumerate(boxes):
        x, top, new = 25.3 + 3.85 * (i % 3), y + 0.05 + pitch * (i // 3), made == row
        cell(axes, x, top, 3.7, pitch - 0.15, _COLOURS[row] if new else PAPER)
        text(axes, x + 1.85, top + (pitch - 0.15) / 2, label, 10, color=INK if new else GREY)


# ---- The architecture


@dataclass(frozen=True)
class Stop:
    """One stop of the data on its way: the package that does it, what it is given and what it returns."""

    package: str
    takes: str
    gives: str


# from the top: a package imports only packages of lower rows, or, within a row, those to its right
ROWS: tuple[tuple[str, ...], ...] = (
    ("__main__", "commands"), ("check", "lab"), ("bench", "demo", "doctor", "many", "classify"), ("draw", "report"),
    ("optimize",), ("quantize",), ("network",), ("cudnn", "kernels"), ("weights", "topology"), ("images", "measure"),
    ("cuda",), ("text", "files"),
)  # fmt: skip
BESIDE = (("cudnn", "kernels"), ("text", "files"))  # neither imports the other
STOPS = (
    Stop("topology", "an ONNX file or a table", "layers: names, shapes, attributes"),
    Stop("weights", "the ONNX file, the layers", "arrays by name, batch-norms folded"),
    Stop("network", "layers, arrays, a backend", "steps: a kernel and a buffer each"),
    Stop("optimize", "steps and the GPU's name", "steps fused, tiles chosen"),
    Stop("images", "a file with a picture", "an array (N, C, H, W), fp32"),
    Stop("kernels", "the plan, arrays of one step", "a checked launch: grid, arguments"),
    Stop("cuda", "CUDA C++ and its arguments", "results: CuPy or the simulator"),
)
_KINDS = {
    "topology": BLUE, "weights": ORANGE, "cudnn": GREEN, "kernels": RED, "network": SKY, "optimize": PURPLE,
    "quantize": PURPLE,
    "images": GREY, "cuda": GREY,
}  # fmt: skip


def architecture() -> Drawing:
    """The packages of `common` by the direction of imports, and the way of a network and a picture through them.

    The way has two parts: from an ONNX file to a plan, and from a picture and the plan to scores.
    """
    row, width = 1.75, 16.0
    figure, axes = canvas(37, 2.2 + row * len(ROWS))
    text(axes, 8.8, 0.7, "packages: imports go down, or to the right", 11, weight="bold")
    text(axes, 28.0, 0.7, "the way of the data", 11, weight="bold")
    arrow(axes, (0.4, 1.6), (0.4, 1.4 + row * len(ROWS)), GREY, linewidth=2.0)
    for place, names in enumerate(ROWS):
        y, each = 1.5 + row * place, width / len(names)
        for i, name in enumerate(names):
            frame(axes, 1.2 + each * i, y, each - 0.3, row - 0.4, _KINDS.get(name, INK), 0.2)
            text(axes, 1.2 + each * (i + 0.5) - 0.15, y + 0.68, name, 10.5, family="monospace")
    high = row * len(ROWS) / (len(STOPS) + 1)
    for number, stop in enumerate(STOPS):
        y, colour = 1.5 + high * number, _KINDS[stop.package]
        frame(axes, 18.6, y, 16.9, high - 0.7, colour, 0.3)
        text(axes, 19.1, y + (high - 0.7) / 2, f"{number + 1}", 13, ha="left", weight="bold")
        text(axes, 20.2, y + (high - 0.7) / 2, stop.package, 10.5, ha="left", family="monospace")
        text(axes, 23.9, y + 0.5, stop.takes, 10, ha="left", color=GREY)
        text(axes, 23.9, y + 1.2, f"→ {stop.gives}", 10, ha="left")
        if stop.package != "optimize":
            arrow(axes, (27.0, y + high - 0.7), (27.0, y + high), INK)
    plan, kernels = (1.5 + high * i + (high - 0.7) / 2 for i in (3, 5))  # the steps go past the pictures
    axes.plot([35.5, 36.1, 36.1], [plan, plan, kernels], color=INK, linewidth=1.3)
    arrow(axes, (36.1, kernels), (35.5, kernels), INK)
    text(axes, 36.6, (plan + kernels) / 2, "the plan", 10, rotation=90)
    text(axes, 27.0, 1.5 + high * len(STOPS) + 0.5, "logits (N, classes)", 10.5, weight="bold")
    house = "; ".join(", ".join(names) for names in ROWS)
    way = " ".join(f"{n}. {stop.package}: {stop.takes} becomes {stop.gives}." for n, stop in enumerate(STOPS, 1))
    return Drawing(
        figure,
        f"Left, the packages in rows; a package imports only from rows below it. From the top: {house}. "
        f"Right, the way of the data: {way} At the end: logits. The first four make the plan, once per shape of the"
        " input; the other three run it on each batch.",
    )


def _records(_: Any) -> list[dict[str, Any]]:
    """What the drawing shows, for the digest in its file."""
    return [
        {"number": c.number, "name": c.name, "takes": c.takes, "makes": c.makes, "files": list(c.files)}
        for c in CHAPTERS
    ] + [{"look": 3}]


def _parts(_: Any) -> list[dict[str, Any]]:
    """What the drawing of the architecture shows."""
    return [{"row": list(names)} for names in ROWS] + [{"stop": list(astuple(stop))} for stop in STOPS] + [{"look": 2}]


FIGURES = (
    Figure("whole_way.svg", _records, lambda *_: whole_way().figure),  # of the README page
    Figure("docs/architecture.svg", _parts, lambda *_: architecture().figure),
)
