"""The drawings: what they say fits their parameters, every word stays on the canvas, bad parameters are named."""

import matplotlib

matplotlib.use("Agg")

import pytest
from matplotlib.text import Text

from common import cudnn, draw
from common.draw import card
from common.draw.hardware import quantity
from common.report.results import Results

H200 = card.measured()

DRAWINGS = {
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
    "latency": lambda: draw.latency(H200),
    "memory": lambda: draw.memory(H200),
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


def words(drawing):
    return [text.get_text() for text in drawing.figure.findobj(Text) if text.get_text()]


@pytest.mark.parametrize("name", DRAWINGS)
def test_all_words_are_within_the_figure_and_large_enough(name):
    figure = DRAWINGS[name]().figure
    figure.canvas.draw()
    width, height = figure.bbox.size
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    assert texts
    for text in texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, text.get_text()
        assert text.get_fontsize() >= 10, text.get_text()


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_displays_itself_with_its_alternative_text(name, capsys):
    drawing = DRAWINGS[name]()
    assert len(drawing.alt) > 40
    drawing._ipython_display_()  # outside of a notebook its text is printed
    assert drawing.alt in capsys.readouterr().out


def test_grid_counts_threads():
    shown = words(draw.grid(blocks=3, threads=64, chosen=2))
    assert "indices 128 … 191" in shown and "128" in shown and "191" in shown
    assert any("2 · 64 + threadIdx.x" in text for text in shown)


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


def test_tree_ends_with_the_sum():
    assert any("the sum, 25" in text for text in words(draw.tree([3, 1, 7, 0, 4, 1, 6, 3])))
    assert "3 steps" in draw.tree().alt and "threads that add, is 4, 2, 1." in draw.tree().alt


def test_tree_numbers_its_steps_and_says_their_distance():
    shown = words(draw.tree([3, 1, 7, 0, 4, 1, 6, 3]))
    assert "step 1: 4 threads add,\ndistance 4" in shown and "step 3: 1 thread adds,\ndistance 1" in shown


def test_launches_return_before_the_kernels_end():
    shown = " ".join(words(draw.launches(10, 50, 3)))
    assert "30 µs" in shown and "160 µs" in shown


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
