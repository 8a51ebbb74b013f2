"""Plots: what they show is there, no text covers another, and a file knows which records it shows."""

import base64
import io
import itertools
import math
import re
from html.parser import HTMLParser

import pytest
from report_records import operator, peaks
from tiers import seldom

from common.measure.roofline import ARITHMETIC, Peaks, Work
from common.report import plots
from common.report.plots import Point

pytest.importorskip("matplotlib", reason="Matplotlib is not installed")

PEAKS = Peaks(4.31e12, 59.2e12, 411e12, 788e12)
KINDS = ["stem", "expand", "depthwise", "project", "head", "linear", "pool", "add"]
POINTS = [Point(kind, Work(10**6, 10**5 * 3**i), 2.0 + i) for i, kind in enumerate(KINDS)]


@pytest.fixture(autouse=True)
def _as_in_a_notebook(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    import matplotlib as mpl

    with mpl.rc_context():
        plots.style()
        yield


def texts(figure):
    """Every text that is drawn, with its box on the page."""
    import matplotlib.text

    figure.draw_without_rendering()
    unseen = set()  # labels of ticks beyond an axis' ends, which Matplotlib keeps and does not draw
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = axis.get_major_ticks() + axis.get_minor_ticks()
        unseen |= {label for t in ticks if not low <= t.get_loc() <= high for label in (t.label1, t.label2)}
    drawn = [t for t in figure.findobj(matplotlib.text.Text) if t.get_visible() and t.get_text().strip()]
    # the words alone, without an annotation's arrow
    return [(t, matplotlib.text.Text.get_window_extent(t)) for t in drawn if t not in unseen]


def words(figure):
    return {text.get_text() for text, _ in texts(figure)}


def overlaps(figure):
    """Texts that cover each other. The box of a slanted text is larger than the text, so those are left out."""
    boxes = [(text.get_text(), box.padded(-1)) for text, box in texts(figure) if text.get_rotation() in (0, 90)]
    return [(a, b) for (a, x), (b, y) in itertools.combinations(boxes, 2) if x.overlaps(y)]


def outside(figure):
    """Texts that are cut off at the page's edge."""
    page = figure.bbox.padded(1)
    return [
        text.get_text()
        for text, box in texts(figure)
        if box.x0 < page.x0 or box.y0 < page.y0 or box.x1 > page.x1 or box.y1 > page.y1
    ]


# ---- Roofline


@seldom(6)
@pytest.mark.parametrize("precisions", [["fp32"], ["tf32"], ["fp16"], ["fp32", "tf32", "fp16"]])
def test_roofs_are_labelled_with_their_measured_values(precisions):
    figure = plots.roofline(POINTS, PEAKS, precisions, "MobileNetV2 on an NVIDIA H200")
    said = words(figure)
    values = {"fp32": "fp32 FMA: 59.2", "tf32": "tf32 tensor cores: 411", "fp16": "fp16 tensor cores: 788"}
    assert {f"{values[p]} TFLOP/s" for p in precisions} | {"memory: copies at 4.31 TB/s", *KINDS} <= said
    assert not any(values[p] in text for p in set(values) - set(precisions) for text in said)
    assert overlaps(figure) == [] and outside(figure) == []


def test_points_stand_where_they_were_measured():
    figure = plots.roofline(POINTS, PEAKS, ["fp32"])
    (axes,) = figure.axes
    drawn = {
        line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_label() in KINDS
    }
    assert drawn == {
        p.kind: (pytest.approx(p.work.flops / p.work.bytes), pytest.approx(p.work.flops / p.us * 1e6)) for p in POINTS
    }
    colours = [line.get_color() for line in axes.lines if line.get_label() in KINDS]
    assert len(set(colours)) == len(KINDS)


def test_kinds_at_one_place_can_be_drawn_apart():
    both = [Point("expand", Work(10, 100), 1.0), Point("project", Work(10, 100), 1.0)]
    (axes,) = plots.roofline(both, PEAKS, apart={"expand": 0.9}).axes
    places = {line.get_label(): line.get_xdata()[0] for line in axes.lines if line.get_label() in KINDS}
    assert places == {"expand": pytest.approx(9), "project": pytest.approx(10)}


def test_everything_lies_within_the_axes():
    few = [Point("add", Work(10**6, 10), 1000.0), Point("head", Work(10**3, 10**9), 1.0)]  # slow; above the roof
    (axes,) = plots.roofline(few, PEAKS, ["fp16"]).axes
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    assert len(axes.lines) > len(few)  # the points and the roofs
    for line in axes.lines:
        assert all(left <= x <= right for x in line.get_xdata()) and all(bottom <= y <= top for y in line.get_ydata())


def test_the_memory_roof_and_its_label_have_one_slope():
    figure = plots.roofline(POINTS, PEAKS, ["fp32"])
    (axes,) = figure.axes
    (label,) = [t for t in axes.texts if t.get_text().startswith("memory")]
    (x0, y0), (x1, y1) = axes.transData.transform([(1e-1, 1e-1 * PEAKS.copy_bytes_per_s), (1, PEAKS.copy_bytes_per_s)])
    assert label.get_rotation() == pytest.approx(math.degrees(math.atan2(y1 - y0, x1 - x0)), abs=0.5)


def test_roofs_that_are_close_share_a_label():
    close = Peaks(4e12, 59e12, 411e12, 420e12)
    figure = plots.roofline(POINTS, close, ["fp32", "tf32", "fp16"])
    assert "fp16 tensor cores: 420 TFLOP/s\ntf32 tensor cores: 411 TFLOP/s" in words(figure)
    assert overlaps(figure) == []


def rungs(*us, case="depthwise 14×14 96", arithmetic=ARITHMETIC["fp32"], flops=10**9):
    names = ["naive", "conv2d/tiled", "cudnn"]
    made = []
    for name, value in zip(names, us, strict=False):
        made.append(operator("depthwise", value, implementation=name, work=Work(4 * 10**7, flops)))
        made[-1] |= {"case": case, "arithmetic": arithmetic}
    return made


@seldom(6)
@pytest.mark.parametrize(
    ("series", "dots"),
    [
        ({"": rungs(900.0, 30.0, 31.0)}, 3),
        ({"batch 1": rungs(9.0, 8.9, 8.8), "batch 32": rungs(50.0, 20.0, 21.0)}, 6),
        ({"": rungs(900.0, 30.0, arithmetic=ARITHMETIC["fp16"], flops=10**11)}, 2),
    ],
)
def test_the_rungs_of_a_ladder_are_dots_under_their_roof(series, dots):
    figure = plots.ladder_roofline(series, Peaks(4.31e12, 59.2e12, 411e12, 788e12, 4.6e12, 8.7e12, 1e13),
                                   "a ladder", {"cudnn": "cuDNN"})  # fmt: skip
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_marker() in "os"]
    assert len(marks) == dots
    heights = [line.get_ydata()[0] for line in marks]
    records = [r for records in series.values() for r in records]
    assert heights == pytest.approx([r["flops"] / r["median_us"] * 1e6 for r in records])
    squares = sum(line.get_marker() == "s" for line in marks)
    assert squares == sum(r["implementation"] == "cudnn" for r in records)
    assert overlaps(figure) == [] and outside(figure) == []
    said = words(figure)
    assert any(word.startswith("tiled  ") and word.endswith("%") for word in said)
    assert not squares or any(word.startswith("cuDNN  ") for word in said)
    bars = [line for line in axes.lines if line.get_linewidth() == 2.5]
    assert len(bars) == (len(series) if len(series) > 1 else 0), "columns moved from their place have a bar at the roof"
    assert all(bar.get_ydata()[0] == pytest.approx(59.2e12) for bar in bars)
    assert any(word.startswith("all at ") for word in said) == bool(bars)


def test_names_beside_dots_stay_below_the_roof():
    series = {"": rungs(21.0, 20.5, 20.0, flops=10**9)}
    figure = plots.ladder_roofline(series, Peaks(4e12, 52e12, 411e12, 788e12))
    (axes,) = figure.axes
    roof = axes.transData.transform((25, 52e12))[1]
    boxes = [box for text, box in texts(figure) if text.get_text().startswith(("naive  ", "tiled  ", "cudnn  "))]
    assert len(boxes) == 3 and all(box.y1 < roof for box in boxes)
    assert overlaps(figure) == []


def test_a_ladder_without_rungs_is_refused():
    for series in ({}, {"batch 1": []}):
        with pytest.raises(ValueError, match="at least one record"):
            plots.ladder_roofline(series, PEAKS)


@pytest.mark.parametrize("wrong", [[], [Point("add", Work(10, 0), 1.0)], [Point("add", Work(10, 10), 0.0)]])
def test_points_that_cannot_be_drawn_are_refused(wrong):
    with pytest.raises(ValueError, match="points must "):
        plots.roofline(wrong, PEAKS)


def test_points_of_records():
    records = [operator("head", 3.0, work=Work(100, 200)), peaks()[1]]
    assert plots.points(records)[0] == Point("head", Work(100, 200), 3.0)
    assert plots.points(records)[1].kind == "ours"


# ---- Bars


TIMES = {
    "ours": {"stem": 10.0, "expand": 60.0, "depthwise": 70.0, "project": 40.0},
    "cudnn": {"stem": 20.0, "expand": 160.0, "depthwise": 170.0, "project": 80.0, "add": 30.0},
}


def test_bars_add_up():
    figure = plots.bars(TIMES, floors={"ours": 100.0}, title="Batch 32")
    assert {"ours", "cudnn", "180", "460", "µs", "Batch 32", "depthwise", "roofline bound"} <= words(figure)
    assert overlaps(figure) == [] and outside(figure) == []
    (axes,) = figure.axes
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert max(ends) == 460.0 and sum(patch.get_width() for patch in axes.patches) == 640.0
    assert axes.get_xlim()[1] > 460


@seldom(6)
def test_layers_one_by_one():
    layers = {f"layer {i} of many": {KINDS[i % 8]: 1.0 + i % 7} for i in range(54)}
    figure = plots.bars(layers, floors=dict.fromkeys(layers, 0.5), vertical=True)
    assert {*layers, *KINDS, "roofline bound"} <= words(figure)
    assert overlaps(figure) == [] and outside(figure) == []


def test_other_kinds_get_other_colours():
    figure = plots.bars({"a": {"launches": 1.0, "expand": 2.0, "waiting": 3.0}})
    colours = {patch.get_facecolor() for patch in figure.axes[0].patches}
    assert len(colours) == 3


def test_a_ladder():
    rungs = ("naive", "tiled", "tensor_cores")
    times = {"naive": 900.0, "tiled": 300.0, "tensor_cores": 45.0, "cuBLAS": 50.0}
    floors = {"naive": 30.0, "tiled": 30.0, "tensor_cores": 9.0, "cuBLAS": 9.0}
    figure = plots.ladder(times, floors=floors, peers=["cuBLAS"], title="gemm")
    said = words(figure)
    assert {*rungs, "gemm", "µs", "roof: 30 µs and 9 µs, and the share of it that is reached"} <= said
    assert {"900   1.00×   3.3 %", "300   3.00×   10 %", "45   20.00×   20 %", "50   18.00×   18 %"} <= said
    assert overlaps(figure) == [] and outside(figure) == []
    colours = [patch.get_facecolor() for patch in figure.axes[0].patches]
    assert len(set(colours[:3])) == 1 and colours[3] != colours[0]
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[0].lines]
    assert lines == [([floor, floor], [i - 0.5, i + 0.5]) for i, floor in enumerate(floors.values())]
    (axes,) = figure.axes
    ticks = {label.get_text(): place for label, place in zip(axes.get_yticklabels(), axes.get_yticks(), strict=True)}
    heights = [axes.transData.transform((0, ticks[name]))[1] for name in rungs]
    assert heights == sorted(heights, reverse=True)


@seldom(6)
@pytest.mark.parametrize("floors", [None, {"naive": 2.0, "tiled": 2.0, "vector": 2.0}])
def test_a_long_ladder_has_a_logarithmic_axis(floors):
    times = {"naive": 12_000.0, "tiled": 300.0, "vector": 4.5}
    figure = plots.ladder(times, floors=floors)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and "µs, logarithmic" in words(figure)
    assert not axes.patches, "bars on a logarithmic axis have no length"
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == pytest.approx([*times.values()])
    assert overlaps(figure) == [] and outside(figure) == []
    assert 0 < axes.get_xlim()[0] < min([4.5, *(floors or {}).values()])


def test_nothing_to_draw_is_refused():
    for draw in (plots.bars, plots.ladder):
        with pytest.raises(ValueError, match="times must hold at least one"):
            draw({})


# ---- Files


def test_the_same_picture_is_the_same_file(tmp_path):
    records = peaks()
    for name in ("a.svg", "b.svg"):
        plots.save_svg(plots.roofline(POINTS, PEAKS), tmp_path / name, records)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "<dc:date>" not in text and len(text) < 300_000


def test_a_file_knows_what_it_shows(tmp_path):
    records = peaks()
    plots.save_svg(plots.ladder({"naive": 1.0}), tmp_path / "a.svg", records)
    assert plots.digest_of(tmp_path / "a.svg") == plots.digest(records) == plots.digest(reversed(records))
    records[0]["median_us"] += 0.01
    assert plots.digest_of(tmp_path / "a.svg") != plots.digest(records)
    assert plots.digest_of(tmp_path / "a.svg") != plots.digest(records[1:])


def test_any_other_picture_is_refused(tmp_path):
    (tmp_path / "other.svg").write_text("<svg/>")
    with pytest.raises(ValueError, match=r"other.svg does not say which records it shows"):
        plots.digest_of(tmp_path / "other.svg")


def test_numbers_with_units():
    assert [plots._engineering(v, "B/s") for v in (4.314e12, 59.2e12, 3.35e11, 999.0, 1e15)] == [
        "4.31 TB/s", "59.2 TB/s", "335 GB/s", "999 B/s", "1e+03 TB/s",
    ]  # fmt: skip


# ---- In a notebook


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would be given to display."""
    import IPython.display

    given = []
    monkeypatch.setattr(IPython.display, "display", lambda value, raw=False: given.append(value))
    return given


class Images(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.found.append(dict(attrs))


def figure_of(width=6.0):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, 2))
    axes.plot([0, 1], [1, 0])
    return figure


def test_a_figure_is_shown_with_its_text_and_closed(shown):
    import matplotlib.pyplot as plt

    figure, alt = figure_of(), 'µs "fall" as x rises: <b> & it\'s 1 → 0'
    plots.show(figure, alt)
    (output,) = shown
    assert output["text/plain"] == alt and set(output) == {"text/plain", "text/html"}
    (image,) = Images(output["text/html"]).found
    assert image["alt"] == alt
    png = base64.b64decode(image["src"].removeprefix("data:image/png;base64,"), validate=True)
    assert png.startswith(b"\x89PNG")
    assert not plt.fignum_exists(figure.number)  # the end of the cell does not show it once more


def test_the_same_figure_gives_the_same_output(shown):
    plots.show(figure_of(), "a line")
    plots.show(figure_of(), "a line")
    assert shown[0] == shown[1]


def test_the_card_is_behind_the_whole_figure(shown):
    from matplotlib import image

    plots.show(figure_of(), "a line")
    (found,) = Images(shown[0]["text/html"]).found
    png = base64.b64decode(found["src"].removeprefix("data:image/png;base64,"))
    pixels = image.imread(io.BytesIO(png))
    card = [int(plots.CARD[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    height, width = pixels.shape[:2]
    for row, column in ((0, 0), (height // 2, width // 4)):  # a corner, and within the axes
        assert pixels[row, column] == pytest.approx([*card, 1.0], abs=1e-3)
    assert plots.CARD in found["style"]


@pytest.mark.parametrize(("width", "least"), [(3.0, 40), (9.0, plots.MIN_WIDTH)])
def test_a_wide_figure_scrolls_in_a_narrow_window_and_a_small_one_is_not_enlarged(shown, width, least):
    plots.show(figure_of(width), "a line")
    (found,) = Images(shown[0]["text/html"]).found
    pixels = int(re.search(r"min-width:(\d+)px", found["style"])[1])
    assert least <= pixels <= plots.MIN_WIDTH and pixels <= 110 * width + 25  # and a margin


def test_the_style_is_readable_where_the_window_is_narrow():
    import matplotlib as mpl

    sizes = {name: mpl.rcParams[name] for name in ("font.size", "xtick.labelsize", "legend.fontsize")}
    dpi = mpl.rcParams["figure.dpi"]
    narrowest = plots.MIN_WIDTH / (plots.WIDTH * dpi)  # how far a figure is scaled down at most
    assert {name: size for name, size in sizes.items() if size * dpi / 72 * narrowest < 12} == {}  # pixels: 9 points


@pytest.mark.parametrize(("figure", "alt", "error", "message"), [
    (None, "text", TypeError, "figure must be a Matplotlib figure, got NoneType"),
    ("real", "", ValueError, "alt must say what the figure shows"),
    ("real", " \n", ValueError, "alt must say what the figure shows"),
    ("real", None, ValueError, "alt must say what the figure shows, got None"),
])  # fmt: skip
def test_no_figure_or_no_text(shown, figure, alt, error, message):
    with pytest.raises(error, match=message):
        plots.show(figure_of() if figure == "real" else figure, alt)
    assert shown == []


def test_outputs_have_a_bar_per_convolution_and_a_line_after_each_block():
    kinds = ["stem, head", "depthwise", "project", "expand", "depthwise", "project", "stem, head"]
    figure = plots.outputs(kinds, [7_000_000, 6_000_000, 2_000_000, 9_000_000, 3_000_000, 1_000_000, 500_000])
    assert overlaps(figure) == outside(figure) == []
    assert {"stem, head", "expand", "depthwise", "project"} <= words(figure)
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in figure.axes[0].patches}
    assert heights == dict(enumerate([7, 6, 2, 9, 3, 1, 0.5]))
    assert [line.get_xdata()[0] for line in figure.axes[0].lines] == [0.5, 2.5, 5.5]
    with pytest.raises(ValueError, match=r"kinds must be among .*, got 'pool'"):
        plots.outputs(["pool"], [1])
    with pytest.raises(ValueError, match="one item per convolution, got 1 and 0"):
        plots.outputs(["expand"], [])


def test_the_l2_cache_is_a_line_of_its_own_where_it_was_measured():
    point = plots.Point("depthwise", Work(10**6, 2 * 10**6), 10.0)
    without, with_l2 = (Peaks(4e12, 60e12, None, None, l2_copy_bytes_per_s=l2) for l2 in (None, 9e12))
    texts = [text.get_text() for text in plots.roofline([point], with_l2).axes[0].texts]
    assert {"DRAM: copies at 4 TB/s", "L2: copies at 9 TB/s"} <= set(texts)
    lines = [line for line in plots.roofline([point], with_l2).axes[0].lines if line.get_linestyle() == "--"]
    ((left, ridge), (bottom, top)) = lines[0].get_data()
    assert (ridge, top) == pytest.approx((60 / 9, 60e12)) and bottom == pytest.approx(left * 9e12)
    assert "memory: copies at 4 TB/s" in [t.get_text() for t in plots.roofline([point], without).axes[0].texts]


def test_bars_and_points_along_a_network():
    kinds = ["stem", "depthwise", "project", "depthwise"]
    figure = plots.along({"MB": [1, 2, 3, 4], "MACs": [4, 0, 2, 1]}, kinds, "layer")
    heights = sorted((bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in figure.axes[0].patches)
    assert [height for _, height in heights] == [1, 2, 3, 4] and len(figure.axes) == 2
    with pytest.raises(ValueError, match="each row must have 4 values, one per kind"):
        plots.along({"MB": [1, 2]}, kinds, "layer")
    figure = plots.intensities({"batch 1": [9.0, 2.0, 0.0, 2.5]}, kinds, {"ridge": 15.0})
    drawn = [tuple(line.get_ydata()) for line in figure.axes[0].lines]
    assert (9.0,) in drawn and (2.0, 2.5) in drawn and (15.0, 15.0) in drawn
    assert not any(0.0 in values for values in drawn)


def test_kinds_of_layers_have_a_colour_each():
    assert len(set(plots.COLOURS.values())) == len(plots.COLOURS)
