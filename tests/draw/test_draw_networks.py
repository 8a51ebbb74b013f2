"""Drawings of an ONNX graph and of padding: what they say is what the graph holds; bad parameters are named."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.text import Text
from onnx import helper, numpy_helper

from common import draw, topology


def onnx_graph():
    """A convolution, a constant added, a ReLU6, a pool, a Flatten, a Gemm and a residual."""
    sizes = {"w1": (8, 3, 3, 3), "b1": (1, 8, 1, 1), "w2": (8, 5), "b2": (5,)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], strides=[2, 2]),
        helper.make_node("Add", ["c", "b1"], ["d"]),
        helper.make_node("Clip", ["d"], ["e"], min=0.0, max=6.0),
        helper.make_node("Add", ["e", "d"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "w2", "b2"], ["y"]),
    ]
    arrays = [numpy_helper.from_array(np.zeros(size, np.float32), name) for name, size in sizes.items()]
    return helper.make_graph(nodes, "small", [], [], arrays)


@pytest.fixture(scope="module")
def exported():
    return topology.export_onnx(topology.MobileNetV2(width=0.35, batch_norm=False), input_size=32).graph


def words(drawing):
    return [text.get_text() for text in drawing.figure.findobj(Text) if text.get_text()]


def within_the_figure(drawing):
    figure = drawing.figure
    figure.canvas.draw()
    width, height = figure.bbox.size
    for text in [text for text in figure.axes[0].texts if text.get_text()]:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, text.get_text()
        assert text.get_fontsize() >= 10, text.get_text()
    assert len(drawing.alt) > 40
    return True


DRAWINGS = {
    "parts": lambda: draw.onnx_parts(onnx_graph()),
    "links": lambda: draw.links(onnx_graph(), "d"),
    "first step": lambda: draw.walk(onnx_graph(), 0),
    "last step": lambda: draw.walk(onnx_graph(), 6),
    "paddings": lambda: draw.paddings(4, 3, 2, {"SAME_UPPER": (0, 1), "pads = [1, 1]": (1, 1)}),
    "many places": lambda: draw.paddings(20, 5, 3, {"SAME_UPPER": (1, 2)}),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_all_words_are_within_the_figure_and_large_enough(name):
    assert within_the_figure(DRAWINGS[name]())


def test_an_exported_network_is_drawn_within_the_figure(exported):
    assert within_the_figure(draw.onnx_parts(exported))
    assert within_the_figure(draw.links(exported, "/features/features.2/conv/conv.2/Conv_output_0"))


def test_short_names_of_different_tensors_differ(exported):
    names = [name for node in exported.node for name in node.output]
    assert len({draw.short_name(name) for name in names}) == len(names) == len(set(names))
    longest = "/features/features.1/conv/conv.0/conv.0.0/Conv_output_0"
    assert draw.short_name(longest) == "features.1/conv.0.0/Conv_output_0"
    assert draw.short_name("input") == "input" and draw.short_name("features.0.0.weight") == "features.0.0.weight"


def test_parts_are_those_of_the_node():
    drawing = draw.onnx_parts(onnx_graph())
    assert {"Conv", "strides = [2, 2]", "w1", "shape (8, 3, 3, 3)", "Add"} <= set(words(drawing))
    assert "the initializers w1 of shape (8, 3, 3, 3)" in drawing.alt


def test_links_lead_from_the_writer_to_each_reader():
    drawing = draw.links(onnx_graph(), "d")
    assert words(drawing).count("d") == 3
    assert "Node 1 (Add) lists the tensor d" in drawing.alt
    assert "Node 2 (Clip) and 3 (Add) list the same name" in drawing.alt


def test_the_walk_says_what_a_step_changes():
    drawing = draw.walk(onnx_graph(), 1)
    bold = [text.get_text() for text in drawing.figure.findobj(Text) if text.get_color() == "#a34700"]
    assert bold == ["c: Conv2d, reads x, weights w1, b1", "d has the numbers of c"]
    shown = words(draw.walk(onnx_graph(), 6))
    assert {"f: ResidualAdd, reads e, c", "y: Linear, reads g, weights w2, b2"} <= set(shown)


def test_the_walk_of_the_drawing_is_that_of_the_reference(exported):
    from common.draw.networks import _walked
    from common.lab import engine

    engine.open_engine()
    try:
        from engine import graph

        known = graph.constants(exported)
        found = _walked(exported.node, set(known)).layers
        expected = {
            layer.output: [layer.op, layer.inputs, list(layer.weights.values())]
            for layer in graph.walk(exported, known).layers
        }
        assert found == expected
    finally:
        engine.open_engine()


def test_windows_move_with_the_padding_before():
    drawing = draw.paddings(4, 3, 2, {"a": (0, 1), "b": (1, 1)})
    assert words(drawing).count("output 1") == 2 and words(drawing).count("0") == 3
    assert "a: 0 before and 1 after, 2 outputs; b: 1 before and 1 after, 2 outputs" in drawing.alt


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.onnx_parts(onnx_graph(), node=6), "node: expected one whose output another node reads, got 6"),
        (lambda: draw.links(onnx_graph(), "x"), "tensor: expected one that nodes write and read, got 'x'"),
        (lambda: draw.links(onnx_graph(), "y"), "tensor: expected one that nodes write and read, got 'y'"),
        (lambda: draw.walk(onnx_graph(), 7), "step must be a node from 0 to 6, got 7"),
        (lambda: draw.paddings(0, 3, 2, {"a": (0, 0)}), "size must be a whole number of 1 or more, got 0"),
        (lambda: draw.paddings(21, 3, 2, {"a": (0, 0)}), "size must be at most 20 inputs, got 21"),
        (lambda: draw.paddings(2, 3, 2, {"a": (0, 0)}), "places: 'a' leaves no room for a window of 3"),
    ],
)
def test_bad_parameters_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
