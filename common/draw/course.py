"""The whole way of the course: what goes into each chapter, what comes out, and which files the engine has by then."""

from dataclasses import dataclass
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
    Chapter("01", "topology", "the paper's table,\nan ONNX file", "a list of layers\nwith their shapes",
            ("graph.py",)),
    Chapter("02", "weights", "the same ONNX file,\nthe list of layers", "arrays of weights,\nbatch-norms folded",
            ("weights.py",)),
    Chapter("03", "cuDNN baseline", "the layers, run by\nNVIDIA's libraries", "times of libraries,\nyour first GPU"
            " functions"),
    Chapter("04", "kernels", "one kind of layer\nafter the other", "one CUDA C++ kernel\nper kind of layer",
            tuple(f"kernels/{name}.cu" for name in ("add", "pool", "gemm", "conv", "pointwise", "depthwise"))),
    Chapter("05", "network", "layers, weights\nand kernels", "an engine: an image in,\nscores of classes out",
            ("plan.py", "engine.py")),
    Chapter("06", "optimize", "the engine, and where\nits time is spent", "the same scores\nin less time",
            ("kernels/block.cu",)),
)  # fmt: skip
_COLOURS = (BLUE, ORANGE, GREEN, RED, SKY, PURPLE)
_HIGH = 3.0  # units per chapter


def whole_way() -> Drawing:
    """The six chapters in rows: what goes in, what comes out, and the files in work/engine/ at the chapter's end."""
    figure, axes = canvas(37, 1.9 + _HIGH * len(CHAPTERS))
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
    for i, (label, made) in enumerate(boxes):
        x, top, new = 25.3 + 3.85 * (i % 3), y + 0.05 + 1.2 * (i // 3), made == row
        cell(axes, x, top, 3.7, 1.05, _COLOURS[row] if new else PAPER)
        text(axes, x + 1.85, top + 0.52, label, 10, color=INK if new else GREY)


def _records(_: Any) -> list[dict[str, Any]]:
    """What the drawing shows, for the digest in its file."""
    return [
        {"number": c.number, "name": c.name, "takes": c.takes, "makes": c.makes, "files": list(c.files)}
        for c in CHAPTERS
    ]


FIGURES = (Figure("whole_way.svg", _records, lambda *_: whole_way().figure),)  # of the README page
