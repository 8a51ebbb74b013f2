"""Drawings of what a planner decides: steps, fusion, saved bytes, live ranges, arenas."""

import matplotlib

matplotlib.use("Agg")

import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from test_draw import words

from common import draw
from common.lab.small_networks import small
from common.network.steps import fuse

RANGES = {"a": (512, 1, 2), "b": (768, 1, 2), "c": (1024, 3, 3), "d": (768, 1, 3)}
OFFSETS = {"a": 1792, "b": 0, "c": 0, "d": 1024}
KINDS = {"a": "conv", "b": "pointwise", "c": "workspace"}


def row(text, output):
    graph = small(text, output)
    return graph, [[layer.name for layer in step.layers] for step in fuse(graph)]


DRAWINGS = {
    "steps": lambda: draw.steps(
        {
            "conv x a, relu a b, add a b c": row("conv x a, relu a b, add a b c", "c"),
            "conv x a, add a x b, norm b c, relu c d, conv d e": row(
                "conv x a, add a x b, norm b c, relu c d, conv d e", "e"
            ),
        }
    ),
    "fusions": lambda: draw.fusion_kinds(192, (64, 96, 16)),
    "fusions of two": lambda: draw.fusion_kinds(16, (64, 64)),
    "saved_bytes": lambda: draw.saved_bytes(
        [1.0, 2.5, 3.0], {"ReLU6": [1.0, 1.0, 0.0], "ResidualAdd": [0.0, 0.0, 1.0]}
    ),
    "live_ranges": lambda: draw.live_ranges(RANGES | {"input": (600_000, 0, 54)}, ["input", "a", "d"]),
    "arena": lambda: draw.arena({"one": (RANGES, OFFSETS)}, KINDS),
    "two arenas": lambda: draw.arena({"one": (RANGES, OFFSETS), "two": (RANGES, OFFSETS)}),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_within_the_figure_and_large_enough_and_there_is_a_text(name):
    drawing = DRAWINGS[name]()
    figure = drawing.figure
    figure.draw_without_rendering()
    assert len(drawing.alt) > 80
    for text in figure.findobj(Text):
        if not text.get_text().lstrip("−0123456789."):
            continue  # of an axis, which has more ticks than it shows
        box = text.get_window_extent()
        assert text.get_fontsize() >= 9.5, text.get_text()
        assert box.x0 >= -1 and box.x1 <= figure.bbox.x1 + 1, text.get_text()
        assert box.y0 >= -1 and box.y1 <= figure.bbox.y1 + 1, text.get_text()


def test_a_step_has_one_colour_and_steps_have_different_ones():
    graph = small("conv x a, relu a b, conv b c", "c")
    drawing = draw.steps({"three": (graph, [["a", "b"], ["c"]])})
    boxes = [one for one in drawing.figure.axes[0].patches if isinstance(one, Rectangle) and not one.get_fill()]
    first, second, third = (one.get_edgecolor() for one in boxes)
    assert first == second != third
    assert "three: a b | c" in drawing.alt and "conv → a" in words(drawing)


@pytest.mark.parametrize(("output", "place"), [("b", 1), ("a", 0)])
def test_an_arrow_leads_from_the_output_to_the_caller(output, place):
    drawing = draw.steps({"two": (small("conv x a, relu a b", output), [["a"], ["b"]])})
    axes = drawing.figure.axes[0]
    boxes = [one for one in axes.patches if isinstance(one, Rectangle) and not one.get_fill()]
    down = [one.xy for one in axes.texts if isinstance(one, Annotation) and one.xy[0] == one.xyann[0]]
    assert [x for x, _ in down] == [boxes[place].get_x() + boxes[place].get_width() / 2]


def test_horizontal_fusion_reads_its_input_once():
    drawing = draw.fusion_kinds(10, (3, 5))
    assert "2 convolutions of 1×1 with 3, 5 filters, which read the same tensor, as one with 8." in drawing.alt
    assert "x, 10 channels: read once" in words(drawing)


def test_rectangles_are_the_tensors_and_the_line_is_their_sum():
    drawing = draw.arena({"one": (RANGES, OFFSETS)}, KINDS)
    axes = drawing.figure.axes[0]
    found = {(one.get_x() + 0.5, one.get_width(), one.get_y() * 1e3, one.get_height() * 1e3) for one in axes.patches}
    assert found == {(first, last - first + 1, OFFSETS[name], size) for name, (size, first, last) in RANGES.items()}
    assert [1e3 * value for value in axes.lines[0].get_ydata()] == [0, 2048, 2048, 1792]
    assert "2.30 kB high; the line is highest at step 1, with 2.05 kB" in drawing.alt


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.steps({"t": (small("conv x a", "a"), [["b"]])}), "'b' is no layer of 't'"),
        (lambda: draw.fusion_kinds(8, (4,)), "filters: expected two or three"),
        (lambda: draw.fusion_kinds(0, (4, 4)), "channels must be a whole number"),
        (lambda: draw.live_ranges(RANGES, ["z"]), "'z' has no live range"),
        (lambda: small("pool x a", "a"), "a layer must be one of conv, norm, relu, add, sigmoid, got 'pool'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
