"""The drawings: what they say fits their parameters, every word stays on the canvas, bad parameters are named."""

import math
from collections import Counter
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.text import Text
from onnx import TensorProto, helper
from tiers import seldom

from common import cudnn, draw, topology
from common.cuda.machine_code import occupancy
from common.draw import card, course
from common.draw.hardware import quantity
from common.lab.engine_files import FILES
from common.lab.judging import FUSION
from common.measure.timeline import Slice
from common.report import results
from common.report.plots import COLOURS
from common.report.results import Results
from common.topology.layers import windows

H200 = card.measured()
TENSOR = helper.make_tensor("a.weight", TensorProto.FLOAT, [2, 2], bytes(16), raw=True)
HALF = helper.make_tensor("half", TensorProto.FLOAT16, [4], [1.0, -2.5, 0.0, 65504.0])

SLICES = [Slice("a", 5, 5, launched_us=0, label="expand"), Slice("b", 20, 10, label="expand, ReLU6")]
KINDS = [Slice("k", 10 * i, 8, label=kind) for i, kind in enumerate([*COLOURS, "block"])]

DRAWINGS = {
    "whole_way": lambda: draw.whole_way(),
    "architecture": lambda: draw.architecture(),
    "block": lambda: draw.block(),
    "block with stride": lambda: draw.block(24, 144, 32, 2, 56),
    "block without expansion": lambda: draw.block(32, 32, 16, 1, 112),
    "wide block": lambda: draw.block(160, 960, 320, 1, 7),
    "convolutions": lambda: draw.convolutions(),
    "convolutions of many channels": lambda: draw.convolutions(8, 5, 4),
    "bytes_in_flight": lambda: draw.bytes_in_flight(7600, {"rung 1": 8192, "rung 2": 2048}),
    "loads_in_flight": lambda: draw.loads_in_flight(),
    "loads_in_flight of halves": lambda: draw.loads_in_flight(8),
    "tile_banks": lambda: draw.tile_banks(32, 1),
    "tile_banks, padded": lambda: draw.tile_banks(33, 1),
    "tile_banks, short rows": lambda: draw.tile_banks(8),
    "windows": lambda: draw.windows(),
    "windows with padding": lambda: draw.windows(14, 3, 2, (2, 1), 2),
    "many windows": lambda: draw.windows(24, 3, 3, (0, 0), 1),
    "receptive_field": lambda: draw.receptive_field(),
    "receptive field of three layers": lambda: draw.receptive_field([(3, 2), (3, 2), (5, 2)]),
    "grid": lambda: draw.grid(),
    "grid of many": lambda: draw.grid(blocks=6, threads=128, chosen=5),
    "guard": lambda: draw.guard(),
    "guard without spare threads": lambda: draw.guard(n=8, threads=4),
    "matrix": lambda: draw.matrix(),
    "large matrix": lambda: draw.matrix(9, 21, (8, 4)),
    "grid_stride": lambda: draw.grid_stride(),
    "tree": lambda: draw.tree(),
    "small tree": lambda: draw.tree([2.5, -1]),
    "launches": lambda: draw.launches(7.4, 70.3),
    "queues": lambda: draw.queues(13.4, 3.4),
    "queues without a gap": lambda: draw.queues(13.4, 65.0),
    "timeline": lambda: draw.timeline({"eager": SLICES, "a graph of all kinds": KINDS}),
    "part of a timeline": lambda: draw.timeline({"eager": SLICES}, 10.0, 30.0),
    "latency": lambda: draw.latency(),
    "memory": lambda: draw.memory(H200),
    "levels": lambda: draw.levels(),
    "multiprocessor": lambda: draw.multiprocessor(),
    "multiprocessor of an L4": lambda: draw.multiprocessor("L4"),
    "issue_slots": lambda: draw.issue_slots(),
    "issue_slots of five warps": lambda: draw.issue_slots(5, 3, cycles=24),
    "issue_slots without counts": lambda: draw.issue_slots(2, 1, labels=False),
    "block_limits": lambda: draw.block_limits(occupancy("H200", 256, 172, 8192)),
    "block_limits of small blocks": lambda: draw.block_limits(occupancy("H200", 32, 16, 0)),
    "divergence": lambda: draw.divergence(),
    "divergence of five arms": lambda: draw.divergence(5),
    "waves": lambda: draw.waves(),
    "many waves": lambda: draw.waves(90, 16),
    "tensor_fields": lambda: draw.tensor_fields(TENSOR, HALF),
    "row_major": lambda: draw.row_major((16, 3, 3, 3), bytes.fromhex("00c007bc")),
    "row_major of few bytes": lambda: draw.row_major((1, 1, 1, 2), item=2),
    "weight_layouts": lambda: draw.weight_layouts(),
    "roofline": lambda: draw.roofline(),
    "roofline of a GPU": lambda: draw.roofline(4.3e12, 7.5e12, 66e12),
    "kernel borders": lambda: draw.kernel_borders(),
    "kernel borders without numbers": lambda: draw.kernel_borders(block=5, numbers=False),
    "kernel borders without an addition": lambda: draw.kernel_borders(block=4),
    "strips": lambda: draw.strips(),
    "long strips": lambda: draw.strips((1, 4, 2, 3)),
    "column_major": lambda: draw.column_major(),
    "large column_major": lambda: draw.column_major(4, 4),
    "cudnn_graph": lambda: draw.cudnn_graph(graphs()[0]),
    "two cuDNN graphs": lambda: draw.cudnn_graph(graphs()[2]),
}


def graphs(**options):
    spec = {"x": (1, 384, 14, 14), "w": (64, 384, 1, 1), "bias": True, "bounds": (0.0, 6.0), **options}
    return list(cudnn.Convolution(**spec, layout="NHWC", arithmetic="fp16").compositions())


def check_words(drawing):
    """The drawing has a text; its words are within the figure, and large enough."""
    figure = drawing.figure
    figure.canvas.draw()
    assert len(drawing.alt) > 80
    for text in figure.axes[0].texts:
        if text.get_text() and text.get_visible():
            box = text.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= figure.bbox.width, text.get_text()
            assert box.y0 >= 0 and box.y1 <= figure.bbox.height, text.get_text()
            assert text.get_fontsize() >= 10, text.get_text()


def words(drawing):
    return [text.get_text() for text in drawing.figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("name", DRAWINGS)
def test_all_words_are_within_the_figure_and_large_enough_and_its_alternative_text_is_displayed(name, capsys):
    drawing = DRAWINGS[name]()
    assert len(drawing.alt) > 40
    drawing._ipython_display_()  # outside of a notebook its text is printed
    assert drawing.alt in capsys.readouterr().out
    figure = drawing.figure
    figure.canvas.draw()
    width, height = figure.bbox.size
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    assert texts
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, text.get_text()
        assert text.get_fontsize() >= 10, text.get_text()


def test_grid_counts_threads():
    shown = words(draw.grid(blocks=3, threads=64, chosen=2))
    assert "indices 128 … 191" in shown and "128" in shown and "191" in shown
    assert not any("blockDim" in text for text in shown), "the notebook asks for the formula below the drawing"


def test_guard_crosses_out_spare_threads():
    assert words(draw.guard(n=10, threads=4)).count("×") == 2
    assert "The threads from 10 to 11 have no element" in draw.guard(n=10, threads=4).alt
    assert words(draw.guard(n=8, threads=4)).count("×") == 0


def test_matrix_numbers_elements_row_by_row():
    shown = words(draw.matrix(5, 7, (4, 2)))
    assert "34" in shown and "35" not in shown
    assert shown.count("×") == 6 * 8 - 5 * 7
    assert [text for text in shown if text.startswith("block (") and "the block" not in text] == [
        f"block ({x}, {y})" for x in range(2) for y in range(3)
    ]


def test_grid_stride_gives_each_element_one_thread():
    shown = words(draw.grid_stride(n=20, threads=8))
    assert [shown.count(f"round {k}") for k in range(4)] == [1, 1, 1, 0]


def test_a_block_shows_its_tensors_and_has_a_skip_connection_where_shapes_agree():
    shown = words(draw.block(24, 144, 32, stride=2, side=56))
    assert [text for text in shown if " × " in text] == [
        "24 × 56 × 56",
        "144 × 56 × 56",
        "144 × 28 × 28",
        "32 × 28 × 28",
    ]
    assert "451,584" in shown and "3×3, stride 2" in shown and "+" not in shown
    assert "+" in words(draw.block(32, 192, 32, stride=1, side=28))
    assert "The input is added to the output." in draw.block(32, 192, 32, 1, 28).alt
    assert "expand" not in words(draw.block(32, 32, 16, 1, 112)) and "27 × 27" not in words(
        draw.block(side=53, stride=2)
    )


def test_convolutions_connect_the_channels_that_are_read_and_count_weights():
    drawing = draw.convolutions(channels=4, kernel=3, groups=2)
    assert [text for text in words(drawing) if text.endswith(" weights")] == [
        "144 weights", "72 weights", "36 weights", "16 weights"
    ]  # fmt: skip
    assert len(drawing.figure.axes[0].lines) == 16 + 8 + 4 + 16
    assert draw.convolutions(6, 5, 3).alt.count("300 weights") == 1  # 6 outputs · 2 in · 25
    before = draw.convolutions(6, 5, 3, weights=False)  # the exercise asks for the formula
    assert "weights" not in before.alt and not any("weights" in text or "·" in text for text in words(before))


@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "dilation"), [
    (8, 3, 2, (0, 0), 2), (7, 3, 2, (1, 1), 1), (14, 3, 2, (2, 1), 2), (5, 5, 1, (0, 0), 1), (9, 1, 4, (0, 3), 1),
])  # fmt: skip
def test_windows_are_those_that_fit(size, kernel, stride, padding, dilation):
    outputs, _ = windows([size] * 2, (kernel,) * 2, (stride,) * 2, (padding,) * 2, (dilation,) * 2)
    shown = words(draw.windows(size, kernel, stride, padding, dilation))
    assert sum(text.startswith("output ") for text in shown) == outputs
    assert shown.count("x") == (outputs + 1) * kernel and "does not fit" in shown
    assert shown.count("pad") == sum(padding)


def test_a_receptive_field_grows_with_the_strides_before_it():
    assert "7 inputs" in words(draw.receptive_field([(3, 2), (3, 1)]))
    assert "it sees 15 inputs" in draw.receptive_field([(3, 2), (3, 2), (3, 2)]).alt


def test_the_way_has_the_engines_files_in_the_chapters_that_write_them():
    for chapter in course.CHAPTERS:
        folder = next(results.course().glob(f"{chapter.number}_*"))
        assert folder.name == f"{chapter.number}_{chapter.name.lower().replace(' ', '_')}"
        written = [name for name, file in FILES.items() if file.chapter == int(chapter.number)]
        optional = {*FUSION, "kernels/im2col.cu"}  # no milestone asks for them
        assert list(chapter.files) == [name for name in written if name not in optional]
    shown = words(draw.whole_way())
    assert shown.count("graph.py") == 6 and shown.count("engine.py") == 2
    assert shown.count("block.cu") == shown.count("blocks.py") == 1


@pytest.mark.parametrize(
    ("figure", "page"), [*zip(course.FIGURES, ("README.md", "docs/architecture.md"), strict=True)], ids=("way", "house")
)
def test_a_picture_of_the_course_is_the_present_one(figure, page):
    assert not figure.stale(results.course(), results.Results()), "python -m common generate"
    shown = (results.course() / page).read_text(encoding="utf-8")
    assert f"]({Path(figure.path).name})" in shown


@seldom(6)
def test_the_outputs_of_all_convolutions_are_those_of_the_layers():
    layers = [layer for layer in topology.build() if isinstance(layer, topology.Conv2d)]
    found = draw.convolution_outputs(topology.MobileNetV2())
    assert [size for _, size in found] == [math.prod(layer.output_shape) for layer in layers]
    kinds = Counter(kind for kind, _ in found)
    assert kinds == {"stem, head": 2, "expand": 16, "depthwise": 17, "project": 17}
    assert "each of the 52 convolutions" in draw.outputs(found).alt


def test_tree_ends_with_the_sum():
    assert any("the sum, 25" in text for text in words(draw.tree([3, 1, 7, 0, 4, 1, 6, 3])))
    assert "3 steps" in draw.tree().alt and "threads that add, is 4, 2, 1." in draw.tree().alt


def test_tree_numbers_its_steps_and_says_their_distance():
    shown = words(draw.tree([3, 1, 7, 0, 4, 1, 6, 3]))
    assert "step 1: 4 threads add,\ndistance 4" in shown and "step 3: 1 thread adds,\ndistance 1" in shown


def test_launches_return_before_the_kernels_end():
    shown = " ".join(words(draw.launches(10, 50, 3)))
    assert "30 µs" in shown and "160 µs" in shown


def test_tensor_fields_fills_the_field_with_the_numbers():
    shown = words(draw.tensor_fields(TENSOR, HALF))
    assert "16 bytes: 00 00 00 …" in shown and "4 numbers: 15360, 49408, 0, …" in shown
    assert shown.count("empty") == 8 and "10 = FLOAT16" in shown
    assert "its numbers in int32_data (4 numbers: 15360, 49408, 0, …)" in draw.tensor_fields(HALF).alt


def test_row_major_shows_bytes_and_places():
    shown = words(draw.row_major((16, 3, 3, 3), bytes.fromhex("00c007bc")))
    assert "c0" in shown and "numbers, 432 of them" in shown and "o = 0, i = 1: one 3×3 window" in shown
    assert shown.count("y = 2") == 2 and shown.count("x=0") == 6
    alt = draw.row_major((16, 3, 3, 3)).alt
    assert "The first 18 of 432 numbers" in alt and "27" not in alt


def test_weight_layouts_hold_the_same_numbers_in_two_orders():
    dims = (2, 3, 2, 2)
    places = [int(text) for text in words(draw.weight_layouts(dims)) if text.isdigit()]
    plain, moved = places[:24], places[24:]
    assert plain == list(range(24))
    assert moved == np.arange(24).reshape(dims).transpose(0, 2, 3, 1).ravel().tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw.grid(blocks=0), "blocks must be a whole number of 1 or more, got 0"),
        (lambda: draw.grid(threads=40), "threads must be a multiple of 32, at most 128, got 40"),
        (lambda: draw.grid(blocks=2, chosen=2), "chosen must be a block from 0 to 1, got 2"),
        (lambda: draw.guard(n=100), "n must fit in 40 threads"),
        (lambda: draw.matrix(20, 20), "at most 24 × 12 threads"),
        (lambda: draw.grid_stride(n=30, threads=2), "n must be at most 36 elements in 6 rounds"),
        (lambda: draw.tree([1, 2, 3]), "values must be 2, 4, 8 or 16 numbers, got 3"),
        (lambda: draw.tensor_fields(), "tensors must be 1 to 3, got 0"),
        (lambda: draw.row_major((3, 3)), "dims must be four"),
        (lambda: draw.row_major((2, 2, 4, 4)), "kH · kW of at most 12"),
        (lambda: draw.row_major(item=16), "item must be at most 8"),
        (lambda: draw.weight_layouts((4, 4, 3, 3)), "dims must have at most 32 numbers"),
        (lambda: draw.block(stride=0), "stride must be a whole number of 1 or more, got 0"),
        (lambda: draw.convolutions(9), "channels must be at most 8, got 9"),
        (lambda: draw.convolutions(4, 3, 3), "groups must divide 4 channels, got 3"),
        (lambda: draw.windows(8, padding=(-1, 0)), "padding must be two numbers of 0 or more"),
        (lambda: draw.windows(40), "at most 24 elements and 1 to 8 outputs, got 40"),
        (lambda: draw.windows(2, 3), "1 to 8 outputs"),
        (lambda: draw.receptive_field([]), "layers must be at least one"),
        (lambda: draw.receptive_field([(9, 4), (9, 4)]), "at most 24 inputs, got 41"),
        (lambda: draw.launches(70, 10), "launch_us must be positive and less than kernel_us"),
    ],
)
def test_bad_parameters_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- The card's numbers


def test_nearer_levels_have_more_bandwidth():
    rates = [level.bytes_per_s for level in H200.levels]
    assert rates == sorted(rates, reverse=True)
    assert H200.levels[-1].bytes_per_s == H200.copy_bytes_per_s
    assert all(level.size_from and level.rate_from for level in H200.levels)


def test_the_card_is_that_of_its_records():
    assert H200.name == "NVIDIA H200" and H200.threads == H200.sms * 2048
    # the rate of multiply-adds that 4 schedulers could issue for 32 lanes each is just above what was measured
    possible = H200.sms * card.SCHEDULERS_PER_SM * card.WARP * 2 * H200.clock_hz
    assert 0.9 < H200.flops_per_s / possible <= 1.0
    assert 1 < H200.launch_us < H200.short_add["median_us"] < H200.add["median_us"]


def test_the_bandwidths_are_said_to_be_those_of_all_multiprocessors():
    assert f"all {H200.sms} SMs together" in words(draw.memory(H200))


def test_a_results_file_without_peaks_is_refused():
    with pytest.raises((ValueError, LookupError)):
        card.measured(Results())


def test_quantities_have_three_digits_and_a_prefix():
    assert quantity(4.28e12, "B/s") == "4.28 TB/s"
    assert quantity(256 * 1024, "B", 1024) == "256 KB"
    assert quantity(11.8e6, "B/s") == "11.8 MB/s"


def test_a_roofline_has_its_ridge_points():
    assert {"1", "5"} <= set(words(draw.roofline(20e9, 100e9, 100e9)))
    with pytest.raises(ValueError, match="dram must be above 0 and below l2"):
        draw.roofline(100e9, 20e9, 100e9)


def test_kernel_borders_count_kernels_of_the_block_and_of_the_network():
    drawing = draw.kernel_borders()
    assert {"151", "99", "54", "36", "37", "20"} <= set(words(drawing))
    for level, many in [("separate", "9 kernels"), ("add fused", "3 kernels"), ("whole block", "1 kernel")]:
        assert f"{level}: {many} in the block" in drawing.alt
    hidden = draw.kernel_borders(numbers=False)
    assert "151" not in words(hidden) and "network" not in hidden.alt
    with pytest.raises(ValueError, match="block must be one with three convolutions, 2 to 17, got 1"):
        draw.kernel_borders(block=1)


def test_queues_says_who_waits():
    assert "the GPU waits for 50 µs in all" in draw.queues(13.4, 3.4).alt
    assert draw.queues(2.0, 5.0).alt.endswith("without a gap.")
    for bad in ((0, 1), (1, -1)):
        with pytest.raises(ValueError, match="launch_us and kernel_us must be positive"):
            draw.queues(*bad)


def test_timeline_counts_gaps_and_draws_boxes_in_the_colours_of_kinds():
    drawing = draw.timeline({"eager": SLICES})
    assert "eager: 2 in 25 µs, nothing runs in 40% of it" in drawing.alt
    boxes = [patch for patch in drawing.figure.axes[0].containers]
    assert len(boxes) == 2
    heights = [abs(box.patches[0].get_height()) for box in boxes]
    assert heights[0] == pytest.approx(2 * heights[1])  # what is beside the layer is lower
    assert "Drawn are 10 to 30 µs" in draw.timeline({"eager": SLICES}, 10.0, 30.0).alt
    for bad, message in ((({},), "lanes must be"), (({"a": []},), "lanes must be"), (({"a": SLICES}, 9, 9), "end_us")):
        with pytest.raises(ValueError, match=message):
            draw.timeline(*bad)


def test_strips_show_the_strides_of_both_layouts():
    shown = words(draw.strips((1, 2, 2, 3)))
    assert "strides: N 12, C 6, H 3, W 1" in shown and "strides: N 12, C 1, H 6, W 2" in shown
    for shape in ((2, 3, 2, 2), (1, 5, 1, 1), (1, 3, 3, 3)):
        with pytest.raises(ValueError, match="shape must be"):
            draw.strips(shape)


def test_blas_reads_rows_as_columns():
    assert "as a 4 × 2 matrix with the leading dimension 4" in draw.column_major(2, 4).alt
    with pytest.raises(ValueError, match="at most 4"):
        draw.column_major(5, 2)


def test_a_cudnn_graph_names_its_tensors_and_nodes():
    shown = words(draw.cudnn_graph(graphs()[0]))
    for word in ("x", "w", "bias", "y", "convolution", "identity", "add", "clamp", "0 to 6", "1×384×14×14"):
        assert word in shown
    assert "between" in words(draw.cudnn_graph(graphs()[2]))
    with pytest.raises(ValueError, match="one or two"):
        draw.cudnn_graph(())
