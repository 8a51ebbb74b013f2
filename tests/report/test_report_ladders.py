"""What notebooks show of ladders: the records that are looked up, tables and bars of them, and what is said without."""

import functools
from types import SimpleNamespace

import pytest
from report_records import H200, peaks, rung, saved, timing
from tiers import seldom

from common.cuda import listing
from common.cuda.graphs import NoGpu
from common.measure.roofline import ARITHMETIC, FP16_ON_FMA, Peaks, Work, roof_of
from common.report import ladders, plots, results, tables

pytest.importorskip("IPython", reason="IPython is not installed")

CASE = "depthwise 56×56 144"
RECORDS = [
    rung("cudnn", 25.0, 4, "NHWC"), rung("cudnn", 30.0, 4), rung("vector", 12.5, 3, "NHWC"), rung("naive", 100.0, 1),
    rung("rows", 20.0, 2), rung("naive", 80.0, 1, "NHWC"), rung("conv2d/naive", 400.0, 1, operator="conv2d"),
    rung("naive", 1.0, 1, batch=32), rung("naive", 1.0, 1, precision="fp16"),
    rung("naive", 1.0, 1, case="expand 7×7 8>8"),
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return saved(tmp_path / "card", peaks() + RECORDS)


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would be given to display."""
    import IPython.display

    given = []
    monkeypatch.setattr(IPython.display, "display", lambda value, raw=False: given.append(value))
    return given


def names(records):
    return [(r["implementation"], r["layout"]) for r in records]


def test_rungs_in_the_order_of_the_ladder_then_the_fastest_peer(path):
    content = results.load(path)
    assert names(ladders.chosen(content, CASE)) == [
        ("naive", "NCHW"), ("naive", "NHWC"), ("rows", "NCHW"), ("vector", "NHWC"), ("cudnn", "NHWC"),
    ]  # fmt: skip
    assert names(ladders.chosen(content, CASE, layout="NCHW")) == [
        ("naive", "NCHW"), ("rows", "NCHW"), ("cudnn", "NCHW"),
    ]  # fmt: skip
    assert names(ladders.chosen(content, CASE, operator="conv2d")) == [("conv2d/naive", "NCHW"), ("cudnn", "NHWC")]
    assert ladders.chosen(content, CASE, operator="gemm") == []


def test_the_time_of_one(path):
    assert ladders.us(CASE, "naive", recorded=results.load(path)) == 80.0
    assert ladders.us(CASE, "naive", layout="NCHW", recorded=results.load(path)) == 100.0
    assert ladders.us(CASE, "cudnn", 1, "fp32", recorded=results.load(path)) == 25.0
    assert ladders.us(CASE, "conv2d/naive", recorded=results.load(path)) == 400.0
    assert ladders.us(CASE, "naive", batch=8, recorded=results.load(path)) is None
    assert ladders.us(CASE, "naive", recorded=results.Results()) is None


def test_a_table(path, shown):
    assert ladders.table(CASE, recorded=results.load(path)) is None
    (given,) = shown
    assert given["text/plain"].splitlines() == [
        f"{CASE}, batch 1, fp32 (NVIDIA H200, 2031-02-03); the roof: 10.0 µs for its bytes",
        "",
        "rung    layout    µs  of the roof  × the first  × cuDNN  error",
        "naive   NCHW     100         10 %         1.00     0.25  2e-07",
        "naive   NHWC    80.0         12 %         1.25     0.31  2e-07",
        "rows    NCHW    20.0         50 %         5.00     1.25  2e-07",
        "vector  NHWC    12.5         80 %         8.00     2.00  2e-07",
        "cuDNN   NHWC    25.0         40 %         4.00     1.00  2e-07",
    ]
    lines = given["text/markdown"].splitlines()
    assert lines[2:5] == [
        "| rung | layout | µs | of the roof | × the first | × cuDNN | error |",
        "|---|---|---:|---:|---:|---:|---:|",
        "| naive | NCHW | 100 | 10 % | 1.00 | 0.25 | 2e-07 |",
    ]


def test_matrices_have_no_layout_and_every_arithmetic_has_its_roof(tmp_path, shown):
    # 6 GFLOP: 100 µs of FMAs at 60 TFLOP/s, 45 µs in 3xTF32 at 400/3, 7.6 µs in fp16 at 790
    more = {"operator": "gemm", "case": "gemm 512×512×512", "layout": None, "work": Work(42_500, 6_000_000_000)}
    records = [
        rung("naive", 400.0, 1, **more),
        rung("three_tf32", 90.0, 2, arithmetic=ARITHMETIC["3xtf32"], **more),
        rung("cublas", 125.0, 3, **more),
    ]
    path = saved(tmp_path / "card", peaks() + records)
    ladders.table("gemm 512×512×512", recorded=results.load(path))
    title, _, head, *rows = shown[0]["text/plain"].splitlines()
    assert title.endswith("; the roof: 100 µs for its FLOPs in fp32, 45.0 µs for its FLOPs in 3xtf32")
    assert " ".join(head.split()) == "rung µs of the roof × the first × cuBLAS error"
    assert [row.split()[1:4] for row in rows] == [["400", "25", "%"], ["90.0", "50", "%"], ["125", "80", "%"]]


def test_registers_and_warps_of_the_rungs(tmp_path, shown, monkeypatch):
    from common.report import machine

    def inspection(record, card):
        if record["implementation"] == "vector":
            raise ValueError("no kernel of its own")
        return SimpleNamespace(registers=172, spills=record["implementation"] == "rows", occupancy=occupancy)

    def occupancy(card):
        assert card == "H200"
        return SimpleNamespace(warps=8)

    monkeypatch.setattr(machine, "inspection", inspection)
    path = saved(tmp_path / "card", RECORDS)
    ladders.table(CASE, recorded=results.load(path), machine=True)
    lines = shown[0]["text/markdown"].splitlines()
    assert lines[2].endswith("| × cuDNN | registers | warps per SM | error |")
    cells = {tuple(line.split(" | ")[1:2] + line.split(" | ")[-3:-1]) for line in lines[4:]}
    assert cells >= {("NCHW", "172", "8"), ("NCHW", "172, spills", "8"), ("NHWC", tables.DASH, tables.DASH)}


@seldom(6)
def test_every_recorded_rung_can_be_launched_as_on_its_card():
    """Shapes, layouts and switches of every record; nothing is compiled."""
    from common.kernels.inspected import launches_on
    from common.report import machine

    records = results.find(results.load(tables.CARD), suite="kernels")
    seen = set()
    for r in records:
        variant = r["implementation"].rpartition("/")[2]
        if r["implementation"] in tables.LIBRARIES or variant == "im2col_gemm":
            continue
        keys = [r[key] for key in ("operator", "kind", "shape", "batch", "precision")]
        call = machine.call_of(*keys, r.get("layout"))
        made = launches_on("H200", functools.partial(call, variant))
        assert f"{r['operator']}/{variant}" in [one.launch.name for one in made], r
        seen.add((r["operator"], variant))
    assert len(seen) > 40


def test_the_machine_code_of_a_record():
    from common.report import machine

    (r,) = results.find(
        results.load(tables.CARD), suite="kernels", case="gemm 4096×4096×4096", implementation="register_block",
        precision="fp32",
    )  # fmt: skip
    try:
        found = machine.inspection(r)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert found.registers > 128 and found.occupancy("H200").warps == 8


def test_without_peaks_there_is_no_roof(tmp_path, shown):
    path = saved(tmp_path / "card", RECORDS)
    ladders.table(CASE, recorded=results.load(path))
    assert "roof:" not in shown[0]["text/plain"] and f" {tables.DASH} " in shown[0]["text/plain"]


@pytest.mark.parametrize("show", [ladders.table, ladders.plot, ladders.roofline])
def test_without_records_it_says_so(tmp_path, shown, show):
    assert show(CASE, 32, "fp16", "NHWC", recorded=results.Results()) is None
    said = f"{CASE}, batch 32, fp16, NHWC: not measured yet."
    assert shown == [{"text/plain": said, "text/markdown": f"*{said}*"}]


def test_bars(path, shown, monkeypatch):
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    monkeypatch.setenv("MPLBACKEND", "agg")
    drawn = []
    described = []
    monkeypatch.setattr(plots, "ladder", lambda times, **more: drawn.append((times, more)) or "figure")
    monkeypatch.setattr(plots, "show", lambda figure, alt: described.append((figure, alt)))
    ladders.plot(CASE, recorded=results.load(path))
    assert described == [(
        "figure",
        f"Bars: median µs of each rung, {CASE}, batch 1, fp32: naive NCHW 100, naive NHWC 80.0, rows NCHW 20.0, "
        "vector NHWC 12.5, cuDNN NHWC 25.0. The roof, a dashed line: 10.0 µs for its bytes.",
    )]  # fmt: skip
    ((times, more),) = drawn
    assert times == {"naive, NCHW": 100.0, "naive, NHWC": 80.0, "rows, NCHW": 20.0, "vector, NHWC": 12.5,
                     "cuDNN, NHWC": 25.0}  # fmt: skip
    assert more["floors"] == dict.fromkeys(times, pytest.approx(10.0)) and more["peers"] == ["cuDNN, NHWC"]
    assert more["title"] == f"{CASE}, batch 1, fp32 (NVIDIA H200, 2031-02-03)"
    ladders.plot(CASE, layout="NCHW", recorded=results.load(path))
    assert list(drawn[1][0]) == ["naive", "rows", "cuDNN"]


def test_dots_under_the_roof(path, monkeypatch):
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    monkeypatch.setenv("MPLBACKEND", "agg")
    drawn, described = [], []
    monkeypatch.setattr(plots, "ladder_roofline", lambda series, *rest, **more: drawn.append(series) or "figure")
    monkeypatch.setattr(plots, "show", lambda figure, alt: described.append(alt))
    ladders.roofline(CASE, recorded=results.load(path))
    ladders.roofline(CASE, rungs=["naive"], recorded=results.load(path))
    ladders.roofline(CASE, batch=[1, 32, 64], recorded=results.load(path))
    first, second, third = ({name: [(r["implementation"], r["layout"]) for r in rs] for name, rs in one.items()}
                            for one in drawn)  # fmt: skip
    assert first == {"": [("naive", "NHWC"), ("rows", "NCHW"), ("vector", "NHWC"), ("cudnn", "NHWC")]}
    assert second == {"": [("naive", "NHWC"), ("cudnn", "NHWC")]}, "each rung in its faster layout"
    assert list(third) == ["batch 1", "batch 32"]
    assert described[1] == (
        f"A roofline of {CASE}, fp32. At 7.06 FLOP per byte, a column of dots: naive 12 %, cuDNN 40 % of the roof."
    )
    assert described[2].count("column of dots") == 2


def test_a_diff(shown):
    ladders.diff("--- naive\n+++ rows\n-a\n+b")
    text = "--- naive\n+++ rows\n-a\n+b"
    assert shown == [{"text/plain": text, "text/html": listing.diff(text)}]


def test_a_kernel(shown):
    text = "__global__ void k(float* out) { out[0] = 1; }\n"
    ladders.source(text)
    assert shown == [{"text/plain": text, "text/html": listing.code(text)}]


def test_an_excerpt(shown):
    ladders.excerpt("{\n    int i = 0;\n    for (;;) {\n        ++i;\n    }\n}\n", "for", "}")
    assert shown[0]["text/plain"] == "for (;;) {\n    ++i;\n}\n"
    for first, last in (("while", "}"), ("for", "return")):
        with pytest.raises(ValueError, match="no lines from"):
            ladders.excerpt("for (;;) {\n}\n", first, last)


def test_a_diff_as_plain_text_is_broken_at_95_columns(monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "IPython.display", None)
    long = "+" + "    step(" + ", ".join(f"argument_{i}" for i in range(20)) + ");"
    ladders.diff(f"-short\n\n{long}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["-short", ""] and lines[2].startswith("+    step(argument_0, ")
    assert max(map(len, lines)) <= 95 and all(line.startswith("    ") for line in lines[3:])
    assert "".join([lines[2], *(line[4:] for line in lines[3:])]).replace(" ", "") == long.replace(" ", "")


def test_without_a_notebook_it_is_printed(monkeypatch, capsys):
    import sys

    monkeypatch.setitem(sys.modules, "IPython.display", None)
    ladders.diff("-a\n+b")
    assert capsys.readouterr().out == "-a\n+b\n"


# ---- This machine


def test_live_times(monkeypatch, shown):
    def compare(calls, samples):
        assert samples == 10
        return {name: timing(us) for name, us in zip(calls, (50.0, 12.5), strict=True)}

    monkeypatch.setattr(ladders.timing, "compare", compare)
    made = ladders.live({"naive": list, "rows": list})
    assert made == {"naive": 50.0, "rows": 12.5} and made["naive"] / made["rows"] == 4
    assert shown[0]["text/plain"].splitlines() == [
        "on this machine    µs  × the first",
        "naive            50.0         1.00",
        "rows             12.5         4.00",
    ]
    made._ipython_display_()  # has been shown
    assert len(shown) == 1


def test_without_a_gpu_nothing_is_timed(monkeypatch, shown):
    def compare(calls, samples):
        raise NoGpu("none")

    monkeypatch.setattr(ladders.timing, "compare", compare)
    assert ladders.live({"naive": list}) == {}
    assert shown[0]["text/plain"] == "No GPU here to time it on: the times are those recorded on an NVIDIA H200."


# ---- What the results file takes


def test_a_record_of_a_rung_is_complete(tmp_path):
    for key in ("operator", "order", "kind", "shape", "count", "error", "bytes"):
        wrong = rung("naive", 1.0, 1) | {key: None}
        with pytest.raises(ValueError, match=f"a record of the suite kernels has no {key}"):
            results.save(tmp_path / "card", "r1", H200, [wrong])
    with pytest.raises(ValueError, match="order must be an integer of at least 1, got 0"):
        results.save(tmp_path / "card", "r1", H200, [rung("naive", 1.0, 0)])


def test_the_roof_of_an_arithmetic():
    card = Peaks(4e12, 60e12, 390e12, 780e12)
    assert card.flops_per_s("3xtf32") == 130e12
    assert [roof_of(words) for words in (*ARITHMETIC.values(), FP16_ON_FMA)] == [*ARITHMETIC, "fp32"]
    with pytest.raises(ValueError, match="arithmetic must be one of fp32; tensor-core tf32"):
        roof_of("by hand")
