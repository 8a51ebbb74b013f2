"""Tables and sentences from made-up records."""

import json
import re

import pytest
from report_records import H200, network, operator, peaks, rung, saved

from common.measure.roofline import ARITHMETIC, Work
from common.report import generated, results, tables
from common.report.tables import NOT_YET


@pytest.fixture
def path(tmp_path):
    return tmp_path / "card"


def rows(text, start="|"):
    """The cells of each line of the tables."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith(start)]
    return [[cell.strip() for cell in line] for line in lines]


def test_nothing_is_measured_yet(path):
    for name, text in tables.TEXTS.items():
        assert NOT_YET in text(results.load(path)), name
    saved(path, [network("ours", 60.0)])
    assert (
        tables.peak(results.load(path), "peak-copy")
        == tables.peaks(results.load(path))
        == tables.operators_cudnn(results.load(path))
        == NOT_YET
    )


def test_the_hours_of_a_track_are_its_notebooks(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "TRACKS", {"short": {"01": (2,)}})
    for number, time in ((1, "45 minutes"), (2, "3 hours"), (10, "75 minutes, exercises included")):
        cell = {"cell_type": "markdown", "source": [f"# {number}\n", f"**Time** {time}.\n"]}
        (tmp_path / "01_a").mkdir(exist_ok=True)
        (tmp_path / "01_a" / f"{number}_a.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert rows(tables.tracks(tmp_path))[2:] == [
        ["short", "chapter 01: [2](../01_a/2_a.ipynb)", "3"],
        ["everything", "all 3 notebooks", "5"],
    ]
    (tmp_path / "01_a" / "3_b.ipynb").write_text(json.dumps({"cells": [{"source": "# no time"}]}))
    with pytest.raises(ValueError, match=r"3_b.ipynb: its first cell does not say"):
        tables.tracks(tmp_path)


def test_a_track_is_an_evening_class_or_half_the_course():
    short, half, everything = [int(row[2]) for row in rows(tables.tracks(results.course()))[2:]]
    assert abs(short - 10) <= 1 and abs(half - 20) <= 2
    assert everything > half


def test_the_texts_that_the_course_asks_for():
    wanted = {"peak-copy", "peak-fma", "peak-tf32", "peak-fp16", "peaks", "network-peers", "network-repeat", "trace"}
    wanted |= {"headline"}
    assert wanted | {"operators-cudnn"} <= set(tables.TEXTS)


def test_kinds_of_steps_with_their_shares_of_the_time_and_of_the_roof(path):
    at = {"precision": "fp16", "batch": 256, "mode": "hot"}
    wide = operator("depthwise", 40.0, count=2, **at) | {"case": "depthwise 28x28"}
    at_1 = operator("stem", 5.0, precision="fp16", mode="hot")
    saved(path, peaks(), [operator("stem", 20.0, **at), operator("depthwise", 20.0, **at), wide, at_1])
    assert rows(tables.operators_kinds(results.load(path))) == [
        ["kind", "steps", "batch 1", "batch 32", "batch 256", "of the roof, batch 256"],
        ["---"] + ["---:"] * 5,
        ["stem", "1", "5.00 (100 %)", "–", "20.0 (17 %)", "50 %"],
        ["depthwise", "3", "–", "–", "100 (83 %)", "25 to 50 %"],
        ["all", "4", "5.00", "–", "120", ""],
    ]
    assert tables.operators_kinds(results.load(path.parent / "none")) == NOT_YET


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.0641, "2.06"), (9.996, "10.0"), (48.26, "48.3"), (99.96, "100"), (394.4, "394"), (16597.6, "16,598")],
)
def test_three_digits(value, text):
    assert tables.us(value) == text


def test_peaks(path):
    saved(path, peaks())
    values = [tables.peak(results.load(path), name) for name in tables.PEAKS]
    assert values == ["4.2 TB/s", "60.0 TFLOP/s", "400 TFLOP/s", "790 TFLOP/s"]
    text = tables.peaks(results.load(path))
    assert rows(text) == [
        ["measured at best", "rate"], ["---", "---:"], ["copying in global memory, read + written", "4.2 TB/s"],
        ["fp32 multiply-adds", "60.0 TFLOP/s"], ["products on tensor cores, TF32", "400 TFLOP/s"],
        ["products on tensor cores, fp16", "790 TFLOP/s"],
    ]  # fmt: skip
    assert "NVIDIA H200, 2031-02-03, driver 999.1, CUDA 13.2, cuDNN 9.19.0." in text.splitlines()


# ---- The network


def fma_only(us, **more):
    return network("ours", us, "fp32", arithmetic="fp32", **more) | {"case": tables.FMA_ONLY}


@pytest.fixture
def peers(path):
    return saved(
        path,
        [
            network("xla", 978.0, error=3e-4),
            network("ours", 61.3, error=2e-4, error_float64=2e-4, arithmetic=ARITHMETIC["fp16"]),
            network("ours", 1900.0, batch=256, error=5e-4, error_float64=6e-4, arithmetic=ARITHMETIC["fp16"]),
            network("torch-graph", 394.0, launch="eager"),
            network("torch-graph", 1850.0, batch=256, launch="eager"),
            network("torch-graph", 545.0, "fp32", layout="NCHW", error=1e-6, arithmetic="fp32"),
            network("ours", 88.8, "fp32", arithmetic=ARITHMETIC["3xtf32"], error=2e-6, error_float64=4e-6),
            fma_only(200.0, error=1e-6, error_float64=7e-7),
            network("cudnn", 300.0, "tf32"),
        ],
    )


HEADS = ["", "layout", "arithmetic", "launched from", "batch 1", "batch 8", "batch 32", "batch 256"]


def test_rows_by_implementation_columns_by_batch(peers):
    """A table per class of errors: TF32, whose error is that of fp16, stands beside fp16."""
    heads = [*HEADS, "error", "against float64"]
    lines = ["---"] * 4 + ["---:"] * 6
    assert rows(tables.network_peers(results.load(peers))) == [
        heads, lines,
        ["ours", "NHWC", "3×TF32", "a CUDA graph", "**88.8**", "–", "–", "–", "2e-06", "4e-06"],
        ["ours, FMA only", "NHWC", "fp32", "a CUDA graph", "200", "–", "–", "–", "1e-06", "7e-07"],
        ["PyTorch, CUDA graph", "NCHW", "fp32", "a CUDA graph", "545", "–", "–", "–", "1e-06", "–"],
        heads, lines,
        ["ours", "NHWC", "fp16", "a CUDA graph", "**61.3**", "–", "–", "1,900", "5e-04", "6e-04"],
        ["cuDNN, layer by layer", "NHWC", "FMA", "a CUDA graph", "300†", "–", "–", "–", "2e-04", "–"],
        ["PyTorch, CUDA graph", "NHWC", "FMA", "Python", "394", "–", "–", "**1,850**", "2e-04", "–"],
        ["XLA (JAX)", "NHWC", "FMA", "a CUDA graph", "978", "–", "–", "–", "3e-04", "–"],
    ]  # fmt: skip


def test_each_class_of_errors_has_a_table_and_a_name(peers):
    text = tables.network_peers(results.load(peers))
    lines = text.splitlines()
    folds = [line for line in lines if line.startswith("<summary>")]
    assert folds[:-1] == [f"<summary>{tables.CLASSES[k][1]}</summary>" for k in ("single", "half")]
    assert lines.count("<details>") == lines.count("</details>") == 3
    begin = "NVIDIA H200, 2031-02-03, driver 999.1, CUDA 13.2, cuDNN 9.19.0. Microseconds per batch"
    assert any(line.startswith(begin) for line in lines)
    assert tables.NOT_BESIDE in lines  # of cuDNN's in tf32
    # Markdown: a table needs an empty line before it
    starts = [i for i, line in enumerate(lines) if line.startswith("|  |")]
    assert len(starts) == 2 and all(lines[i - 1] == "" for i in starts)


def test_a_class_is_said_by_the_error_and_not_by_the_name():
    assert tables.class_of(network("ours", 1.0, "fp32", error=3e-6)) == "single"
    assert tables.class_of(network("ours", 1.0, "fp32", error=3e-6, error_float64=2e-5)) == "half"
    assert tables.class_of(network("xla", 1.0, "tf32", error=2e-3)) == "half"
    assert tables.class_of(network("ours", 1.0, "int8", error=0.1)) == "int8"


def test_a_library_that_users_would_pick_is_named_where_it_is_missing(path):
    saved(path, [network("ours", 61.3), network("xla", 90.0)])
    for text in (tables.network_peers, tables.headline, tables.headline_short):
        assert "Not measured: ONNX Runtime's CUDA provider; NVIDIA's TensorRT" in text(results.load(path))
    saved(path, [network("onnxruntime-cuda", 300.0), network("tensorrt", 100.0)])
    for text in (tables.network_peers, tables.headline, tables.headline_short):
        assert "Not measured" not in text(results.load(path)) and "that are not in it" in text(results.load(path))


def test_what_was_not_timed_within_a_sentence(path):
    assert tables.not_measured(results.load(path)) == NOT_YET
    saved(path, [network("ours", 61.3), network("tensorrt", 90.0)])
    assert tables.not_measured(results.load(path)) == "ONNX Runtime's CUDA provider"
    saved(path, [network("onnxruntime-cuda", 300.0)])
    assert tables.not_measured(results.load(path)) == "none"


def test_rotating_buffers_do_not_compete(path):
    saved(path, [network("ours", 61.3), network("ours", 80.0, mode="rotating"), network("xla", 90.0, mode="rotating")])
    assert [(row[0], row[3], row[4]) for row in rows(tables.network_peers(results.load(path)))[2:]] == [
        ("ours", "a CUDA graph", "**61.3**"),
        ("ours", "a CUDA graph, rotating buffers", "80.0"),
        ("XLA (JAX)", "a CUDA graph, rotating buffers", "90.0"),
    ]


def test_a_time_over_rotating_buffers_of_an_earlier_program_is_marked(path):
    newer = H200 | {"date": "2031-03-04", "commit": "0ther"}
    turned = network("ours", 80.0, mode="rotating")
    saved(path, [turned], (newer, [network("ours", 61.3)]))
    text = tables.network_peers(results.load(path))
    assert ["**61.3**", f"80.0{tables.OTHER_PROGRAM}"] == [row[4] for row in rows(text)[2:]]
    assert f"\n{tables.OTHER_PROGRAM} Measured on 2031-02-03, with an earlier version of this repository.\n" in text
    saved(path, (newer, [turned]))
    assert tables.OTHER_PROGRAM not in tables.network_peers(results.load(path))


def test_another_network_is_not_in_the_table(path):
    saved(path, [network("ours", 61.3) | {"case": "mobilenetv2-0.35-96"}])
    assert tables.network_peers(results.load(path)) == NOT_YET


def test_where_several_runs_are_shown_all_are_named(path):
    newer = H200 | {"date": "2031-03-04", "driver": "999.2", "torch": "2.11.0"}
    saved(path, [network("xla", 978.0)], (newer, [network("ours", 61.3)]))
    text = tables.network_peers(results.load(path))
    assert (
        "\nNVIDIA H200, 2031-02-03 to 2031-03-04, driver 999.2 and 999.1, CUDA 13.2, cuDNN 9.19.0, PyTorch 2.11.0."
    ) in text


def to_ours(median):
    return {"ours": {"to": "ours", "median": median, "low": median - 0.01, "high": median + 0.01}}


def test_the_headline_is_of_one_process_per_column(path):
    """What is better in another run is a footnote; what was timed in another process has a mark, and no ratio."""
    exact = {"error": 1e-6}
    first = [
        network("ours", 50.0, "fp32", **exact), network("cudnn", 70.0, "fp32", **exact),
        network("xla", 900.0, "fp32", **exact),
        network("torch-compile", 500.0, "fp32", **exact, note="in haste"),
    ]  # fmt: skip
    again = [
        network("ours", 60.0, "fp32", **exact),
        network("xla", 990.0, "fp32", **exact, ratios=to_ours(16.5)),
        network("cudnn", 80.0, "fp32", **exact, layout="NCHW", error_float64=1.1e-6, ratios=to_ours(1.33)),
        network("cudnn", 95.0, "fp32", **exact, launch="eager", ratios=to_ours(1.58)),
        fma_only(77.0, error=1e-6, ratios=to_ours(1.28)),
    ]
    saved(
        path, first, again, [network("ours", 7.0, "fp32", **exact, mode="rotating"), network("ours", 5000.0, batch=256)]
    )
    heads = ["µs per batch", "arithmetic", "batch 1", "batch 8", "batch 32", "batch 256", "error"]
    text = tables.headline(results.load(path))
    assert [row for row in rows(text) if "---" not in row] == [
        heads,
        ["ours", "FMA", "60.0", "–", "–", "–", "–"],
        ["ours, FMA only", "fp32", "77.0", "–", "–", "–", "–"],
        ["cuDNN, layer by layer", "FMA", "80.0‡", "–", "–", "–", "1e-06"],
        ["torch.compile", "FMA", "500†¹", "–", "–", "–", "–"],
        ["XLA (JAX)", "FMA", "990‡", "–", "–", "–", "–"],
        ["", "batch 1", "batch 8", "batch 32", "batch 256"],
        ["ours, FMA only", "1.28 (1.27 – 1.29)", "–", "–", "–"],
        ["cuDNN, layer by layer", "1.33 (1.32 – 1.34)", "–", "–", "–"],
        ["XLA (JAX)", "16.50 (16.49 – 16.51)", "–", "–", "–"],
        heads,
        ["ours", "FMA", "–", "–", "–", "5,000", "–"],
    ]
    assert text.endswith(
        f"{tables.NOT_BESIDE}\n\n‡ The same library was faster in another run: cuDNN, layer by layer, fp32, batch 1:"
        " 70.0 µs (2031-02-03); XLA (JAX), fp32, batch 1: 900 µs (2031-02-03).\n\n¹ torch.compile: in haste."
    )


def test_cards_stand_side_by_side(tmp_path):
    """As many as there are: a second card, made up, is a second column."""
    saved(tmp_path / "nvidia-h200", peaks(), [network("ours", 61.3), network("xla", 99.0), network("cudnn", 98.0)])
    lines = rows(tables.cards(results.every(tmp_path)))
    assert lines[0] == ["", "NVIDIA H200"] and ["copy, TB/s", "4.25"] in lines
    faster = H200 | {"card": "Made Up 9000"}
    saved(tmp_path / "made-up-9000", (faster, [*peaks(), network("ours", 9.0, error_float64=1e-3)]))
    (tmp_path / "no-card").mkdir()
    lines = rows(tables.cards(results.every(tmp_path)))
    assert lines[0] == ["", "Made Up 9000", "NVIDIA H200"] and all(len(line) == 3 for line in lines)
    assert ["ours, batch 1, error up to 1e-02, µs", "9.00 (FMA, 1e-03)", "61.3 (FMA, 2e-04)"] in lines
    assert ["fastest library, batch 1, error up to 1e-02, µs", "–", "98.0 (cuDNN, layer by layer)"] in lines
    assert tables.cards([]) == NOT_YET


def test_in_short(path):
    """Ours and the fastest library of one size of errors, and their ratio; int8 over fp16."""
    both = [network("ours", 60.0), network("cudnn", 180.0)]
    both += [network("xla", 170.0, batch=8), network("ours", 50.0, batch=8)]
    saved(path, [*both, network("ours-fma", 10.0), network("xla", 1.0, "fp32", error=1e-6)])
    made = results.load(path)
    assert [row for row in rows(tables.in_short(made)) if "---" not in row] == [
        ["", "batch 1", "batch 8", "batch 32", "batch 256"],
        ["errors as in fp32: ours, µs", "–", "–", "–", "–"],
        ["the fastest library measured, µs", "1.00† (XLA (JAX))", "–", "–", "–"],
        ["its time over ours", "–", "–", "–", "–"],
        ["errors as in fp16: ours, µs", "60.0", "50.0", "–", "–"],
        ["the fastest library measured, µs", "180 (cuDNN)", "170 (XLA (JAX))", "–", "–"],
        ["its time over ours", "3.0×", "3.4×", "–", "–"],
    ]
    assert tables.int8_over_fp16(made) == NOT_YET
    ratios = {"ours-fp16": {"to": "ours-fp16 fp16 NHWC graph", "median": 0.8249, "low": 0.82, "high": 0.83}}
    saved(path, [*both, network("ours", 70.0, "int8", batch=32, error=6e-2, ratios=ratios)])
    assert tables.int8_over_fp16(results.load(path)) == "0.82 times as long at batch 32"
    assert tables.in_short(results.Results({}, [])) == NOT_YET


def test_the_short_headline_is_a_part_of_the_headline(path):
    ours = network("ours", 60.0, "fp32", error_float64=3.8e-6, arithmetic=ARITHMETIC["3xtf32"])
    xla = [network("xla", 900.0, "fp32", error=1e-6), network("xla", 7000.0, "tf32", batch=256)]
    saved(path, [ours, network("ours", 5000.0, batch=256, error_float64=3e-4), *xla])
    text = tables.headline_short(results.load(path))
    batches = [f"{precision}, batch {batch}" for precision in ("fp16", "fp32") for batch in (1, 256)]
    assert [row for row in rows(text) if "---" not in row] == [
        ["µs per batch", *batches, "fp16, error", "fp32, arithmetic", "fp32, error"],
        ["ours", "–", "5,000", "60.0", "–", "3e-04", "3×TF32", "4e-06"],
        ["XLA (JAX)", "–", "7,000† (tf32)", "900", "–", "–", "FMA", "–"],
    ]
    assert "A dash: not measured" in text and f"{tables.ERROR} {tables.SIZES}" in text


def test_what_tf32_does_faster_than_fp16_is_a_row_or_a_footnote(path):
    """Both have errors of one size: a class, and so a table, in which a library may be faster in the other one."""
    fp16 = [network("ours", 60.0), network("torch-graph", 400.0, ratios=to_ours(6.67)), network("cudnn", 200.0)]
    tf32 = [network("torch-graph", 370.0, "tf32", arithmetic=ARITHMETIC["tf32"]), network("cudnn", 199.0, "tf32")]
    saved(path, fp16, [*tf32, network("torch-graph", 900.0, "tf32", batch=8, arithmetic=ARITHMETIC["tf32"])])
    shown = [row[:4] for row in rows(tables.headline(results.load(path))) if row[1] in ("FMA", "TF32")]
    assert shown == [
        ["ours", "FMA", "60.0", "–"], ["cuDNN, layer by layer", "FMA", "200", "–"],
        ["PyTorch, CUDA graph", "FMA", "400", "–"], ["PyTorch, CUDA graph", "TF32", "370†", "–"],
    ]  # fmt: skip
    shown = tables.headline_short(results.load(path))
    assert (
        "‡ The same library was faster in another run, or in TF32, whose errors are as large as those of fp16:"
        " PyTorch, CUDA graph, tf32, batch 1: 370 µs (2031-02-03)." in shown
    )


def test_a_time_of_ours_that_an_earlier_program_took_is_marked(path):
    """Of a precision the newest run's commit decides; what was timed beside the earlier program has no mark of it."""
    older = [network("ours", 110.0, batch=8), network("cudnn", 290.0, batch=8, ratios=to_ours(2.6))]
    runs = [*older, network("ours", 60.0)], [network("ours", 90.0, "fp32", error=1e-6)]
    saved(path, *runs)
    assert tables.OTHER_PROGRAM not in tables.headline(results.load(path))  # nor the sentence about it
    faster = H200 | {"commit": "facade", "date": "2031-02-04"}
    saved(path, *runs, (faster, [network("ours", 50.0), network("cudnn", 170.0, ratios=to_ours(3.4))]))
    text, note = tables.headline(results.load(path)), "earlier versions of this repository: §a of 2031-02-03"
    lines = [row for row in rows(text) if row[0] in ("ours", "cuDNN, layer by layer")]
    assert [row[2:4] for row in lines[:3]] == [["90.0", "–"], ["50.0", "110§a"], ["170", "290"]] and note in text
    assert "those with a § are of earlier ones" in text
    assert "| **110§** |" in tables.network_peers(results.load(path))
    assert tables.OTHER_PROGRAM not in tables.headline_short(results.load(path))
    later = "Timed in turn with int8 on 2031-02-05, ours in fp16 took 100 µs at batch 8."
    assert later not in text
    beside = {"ours-fp16": {"to": "ours-fp16 fp16 NHWC latency graph", "median": 1.2, "low": 1.19, "high": 1.21}}
    codes = [network("ours", 120.0, "int8", batch=8, ratios=beside), network("ours", 70.0, "int8", ratios=beside)]
    saved(path, *runs, (faster, [network("ours", 50.0)]), (H200 | {"commit": "c0de", "date": "2031-02-05"}, codes))
    assert later in tables.headline(results.load(path))  # and no word of batch 1, whose time is no older one


def test_the_page_says_whether_energies_and_times_in_fp32_are_of_one_arithmetic(path):
    three = {"arithmetic": ARITHMETIC["3xtf32"]}
    energy = network("ours", 0.0, "fp32", error=1e-6, **three) | {"suite": "energy"}
    saved(path, [network("ours", 60.0, "fp32", error=1e-6, **three)])
    assert tables.energy_arithmetic(results.load(path)) == NOT_YET
    made = results.load(path)
    made = results.Results(made.runs, [*made.suite("network"), energy | {"run": next(iter(made.runs))}])
    assert tables.energy_arithmetic(made) == "In fp32, energies and times of *ours* are of one arithmetic, 3×TF32."
    for r in made.records:
        if r["suite"] == "network":
            r["arithmetic"] = ARITHMETIC["fp16"]
    text = tables.energy_arithmetic(made)
    assert "are of another arithmetic (3×TF32) than its times above (" in text


def test_times_of_two_earlier_programs_have_two_marks_which_are_the_same_in_all_tables(path):
    """§a is the newest of them over all records, also in a table that shows only the other one."""
    older, newer = (H200 | {"date": f"2031-02-{day}", "commit": f"fade{day}"} for day in ("04", "05"))
    turned = network("ours", 80.0, mode="rotating"), network("ours", 90.0, mode="rotating", batch=32)
    now = [network("ours", 50.0), network("ours", 60.0, batch=32)]
    called = [network("ours", 300.0, launch="eager") | {"case": f"{tables.NETWORK}, called"}]
    saved(path, [turned[0], *called], (older, [turned[1]]), (newer, now))
    text = tables.network_single(made := results.load(path))
    assert [row[4] for row in rows(text)[2:]] == ["80.0§b", "90.0§a"]
    first = made.runs[next(iter(made.runs))]
    oldest = f" (commit {first['commit'][:8]})" if first.get("commit") else ""
    assert text.endswith(f"versions of this repository: §a of 2031-02-04 (commit fade04), §b of 2031-02-03{oldest}.")
    text = tables.network_called(made)
    assert [row[2] for row in rows(text)[2:]] == ["50.0", "300§b"] and "§a" not in text


def test_on_the_page_of_results_a_letter_is_one_program_and_each_mark_has_a_note():
    text = (results.course() / "06_optimize" / "RESULTS.md").read_text(encoding="utf-8")
    tables_of = [text[start:end] for _, start, end in generated.parts(text)]
    named = [dict(re.findall(r"(§[a-z]) of [\d and-]+ \(commit (\w+)\)", part)) for part in tables_of]
    every = [pair for notes in named for pair in notes.items()]
    assert len({mark for mark, _ in every}) == len(set(every)) == len({commit for _, commit in every}) > 2
    for part, notes in zip(tables_of, named, strict=True):
        assert set(re.findall(r"\d\**†?(§[a-z]?)", part)) == set(notes)


def test_single_calls_stand_beside_those_back_to_back(path):
    """A library with streams of its own has no cold one; a row without any other mode is left out."""
    single = {"lone_us": 90.0, "lone_p5_us": 88.0, "lone_p95_us": 99.0}
    cold = {"cold_us": 70.0, "cold_p5_us": 69.0, "cold_p95_us": 75.0}
    saved(path, [network("ours", 60.0), network("cudnn", 80.0)])
    assert tables.network_single(results.load(path)) == NOT_YET
    saved(
        path,
        [network("ours", 60.0, **single, **cold), network("xla", 900.0, **single), network("cudnn", 80.0)],
        [network("ours", 66.0, mode="rotating"), network("ours", 110.0, launch="host") | {"case": tables.HOST}],
    )
    text = tables.network_single(results.load(path))
    assert [row for row in rows(text) if "---" not in row] == [
        ["", "batch", "arithmetic", "back to back", "rotating", "cold L2", "lone", "host to host", "error"],
        ["ours", "1", "FMA", "60.0", "66.0", "70.0", "90.0", "110", "–"],
        ["XLA (JAX)", "1", "FMA", "900", "–", "–", "90.0", "–", "–"],
    ]
    assert all(words in text for words in ("after an idle gap", "filled with other data", "host's clock"))
    assert tables.OTHER_PROGRAM not in text


def test_what_another_program_took_is_marked_beside_todays(path):
    """Rotating buffers were timed at another commit: the engine is another one today."""
    before = H200 | {"commit": "bad1dea", "date": "2031-01-01"}
    single = {"lone_us": 90.0, "lone_p5_us": 88.0, "lone_p95_us": 99.0}
    saved(path, (before, [network("ours", 99.0, mode="rotating")]), [network("ours", 60.0, **single)])
    text = tables.network_single(results.load(path))
    assert rows(text)[2][3:5] == ["60.0", "99.0§a"]
    assert text.endswith("Measured with earlier versions of this repository: §a of 2031-01-01 (commit bad1dea).")
    called = {"case": f"{tables.NETWORK}, called"}
    saved(path, (before, [network("ours", 300.0, launch="eager") | called]))
    text = tables.network_called(results.load(path))
    assert [row[2] for row in rows(text)[2:]] == ["60.0", "300§a"]  # and no ratio of two programs
    assert "in brackets" not in text
    assert text.endswith("Measured with earlier versions of this repository: §a of 2031-01-01 (commit bad1dea).")


def test_a_large_error_stands_for_the_one_against_float64():
    """That of products in TF32, against fp32: what fp32 itself is off does not show. Small ones do not."""
    tf32, small = network("xla", 1.0, "tf32", error=2.04e-3), network("xla", 1.0, "fp32", error=2e-6)
    assert tables.exact_error([tf32, small]) == "2e-03" and tables.exact_error([small]) == tables.DASH
    assert tables.exact_error([tf32, {**small, "error_float64": 4e-3}]) == "4e-03"


def test_calls_from_python_are_compared_to_the_graph_alone(path):
    called, replayed = ({"case": f"{tables.NETWORK}, {words}"} for words in ("called", "called with replay"))
    saved(path, [network("ours", 100.0, "fp32")])
    assert tables.network_called(results.load(path)) == NOT_YET
    saved(
        path,
        [
            network("ours", 100.0, "fp32", error_float64=4e-6), network("ours", 300.0, "fp32", launch="eager") | called,
            network("ours", 120.0, "fp32", launch="eager") | replayed, network("ours", 50.0, batch=8) | replayed,
        ],
    )  # fmt: skip
    assert [row for row in rows(tables.network_called(results.load(path))) if "---" not in row] == [
        ["", "arithmetic", "batch 1", "batch 8", "batch 32", "batch 256", "error"],
        ["the CUDA graph alone, fp32", "FMA", "100", "–", "–", "–", "4e-06"],
        ["net(x), replay=False, fp32", "FMA", "300 (3.00×)", "–", "–", "–", "–"],
        ["net(x), replayed, fp32", "FMA", "120 (1.20×)", "–", "–", "–", "–"],
        ["net(x), replayed, fp16", "FMA", "–", "50.0", "–", "–", "–"],
    ]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"error_float64": -1.0}, "error_float64 must be a finite number of at least 0, got -1.0"),
        ({"lone_us": 0.0}, "lone_us must be a finite number above 0, got 0.0"),
        ({"cold_us": 5.0, "cold_p5_us": 6.0, "cold_p95_us": 7.0}, "cold_p5_us, cold_us and cold_p95_us must ascend"),
    ],
)
def test_records_with_wrong_errors_or_single_times_are_refused(path, more, message):
    with pytest.raises(ValueError, match=message):
        saved(path, [network("ours", 60.0, **more)])


def test_the_times_of_one_batch_are_those_of_the_headline(path):
    first = [network("xla", 900.0, "fp32"), network("ours", 50.0, "fp32"), network("ours", 7.0, "fp16")]
    saved(path, first, [network("xla", 990.0, "fp32"), network("ours", 60.0, "fp32", mode="rotating")])
    assert list(tables.network_times(results.load(path), "fp32", 1).items()) == [("ours", 50.0), ("xla", 990.0)]
    assert tables.network_times(results.load(path), "fp32", 8) == {}


def test_without_ours_there_is_no_headline(path):
    saved(path, [network("xla", 900.0)])
    assert tables.headline(results.load(path)) == tables.headline_short(results.load(path)) == NOT_YET


def test_how_well_two_runs_agree(path):
    saved(path, [network("ours", 60.0), network("xla", 900.0)], [network("ours", 61.2), network("xla", 990.0)])
    assert tables.network_repeat(results.load(path)) == (
        "Two runs of the same program measured 2 of these medians (ours; XLA (JAX)). Of those started from a CUDA graph"
        " or a loop on the device 1 of 2 agree within 3 %, half of them within 10.0 %, all within 10 %. From a"
        " CUDA graph or a loop, and more than 3 % apart: XLA (JAX) fp16 NHWC at batch 1 (900 and 990 µs)"
    )


def test_other_programs_are_no_repetition(path):
    other = H200 | {"commit": "0ther"}
    saved(path, [network("ours", 60.0)], (other, [network("ours", 30.0)]))
    assert tables.network_repeat(results.load(path)) == NOT_YET
    saved(path, [network("xla", 900.0)], (other, [network("xla", 909.0)]))  # which is not of this repository
    assert tables.network_repeat(results.load(path)) == (
        "Two runs of the same program measured 1 of these medians (XLA (JAX)). Of those started from a CUDA graph or a"
        " loop on the device 1 of 1 agree within 3 %, half of them within 1.0 %, all within 1 %. For 1 other medians"
        " (ours) the code of this course changed between the two runs; they differ by up to 50 %"
    )


def test_only_times_of_the_tables_count_as_repetitions(path):
    other = network("xla", 900.0) | {"case": f"{tables.NETWORK}, host to host"}
    saved(path, [other], [other])
    assert tables.network_repeat(results.load(path)) == NOT_YET


def test_another_card_is_no_repetition(path):
    saved(path, [network("xla", 900.0)], (H200 | {"card": "NVIDIA H100"}, [network("xla", 909.0)]))
    assert tables.network_repeat(results.load(path)) == NOT_YET


# ---- The layers


def test_layers_with_their_share_of_the_roof(path):
    # 42.5 MB at 4.25 TB/s: 10 µs; 1.2 GFLOP at 60 TFLOP/s: 20 µs, at 790 TFLOP/s less than the 10 of memory
    heavy = Work(42_500_000, 1_200_000_000)
    saved(
        path,
        peaks(),
        [
            operator("stem", 20.0),
            operator("stem", 640.0, batch=32, work=Work(32 * 42_500_000, 32)),
            operator("expand", 25.0, count=3, work=heavy),
            operator("expand", 12.5, count=3, precision="fp16", work=heavy),
            operator("expand", 11.0, count=3, mode="hot", work=heavy),
            operator("expand", 1.0, implementation="ours"),
        ],
    )
    text = tables.operators_cudnn(results.load(path))
    assert rows(text) == [
        ["layer", "shape", "times", "batch 1", "batch 32", "batch 256", "error"],
        ["---", "---", "---:", "---:", "---:", "---:", "---:"],
        ["stem", "stem shape", "1", "20.0 (50 %)", "640 (50 %)", "–", "1e-06"],
        ["expand", "expand shape", "3", "25.0 (80 %)", "–", "–", "1e-06"],
        ["all", "", "4", "95.0", "–", "–", "1e-06"],
        ["layer", "shape", "times", "batch 1", "batch 32", "batch 256", "error"],
        ["---", "---", "---:", "---:", "---:", "---:", "---:"],
        ["expand", "expand shape", "3", "12.5 (80 %)", "–", "–", "1e-06"],
        ["all", "", "3", "37.5", "–", "–", "1e-06"],
    ]
    title = "fp32 (FMA), NHWC, launched from a CUDA graph, rotating buffers"
    assert f"<summary>{title}</summary>" in text.splitlines()
    assert "share of the roof" in text.splitlines()[0]


def test_without_peaks_there_is_no_share(path):
    saved(path, [operator("stem", 20.0, mode="hot")])
    text = tables.operators_cudnn(results.load(path))
    assert rows(text)[2] == ["stem", "stem shape", "1", "20.0", "–", "–", "1e-06"]
    assert "roof" not in text and "hot buffers</summary>" in text


# ---- The rungs beside the libraries


FIRST, SECOND = "expand 14×14 64>384", "project 14×14 384>64"
# 4 layers 2 times as fast as cuDNN, one 0.5 times: 2^(4/5) · 0.5^(1/5) = 2^0.6
RUNGS = [
    rung("naive", 90.0, 1, case=FIRST, count=4), rung("vector", 20.0, 2, "NHWC", case=FIRST, count=4),
    rung("cudnn", 50.0, 3, case=FIRST, count=4), rung("cudnn", 40.0, 3, "NHWC", case=FIRST, count=4),
    rung("naive", 20.0, 1, case=SECOND, count=1), rung("cudnn", 5.0, 3, "NHWC", case=SECOND, count=1),
    rung("conv2d/tiles", 10.0, 1, case=SECOND, count=1, operator="conv2d"),
    rung("naive", 10.0, 1, batch=32), rung("cudnn", 15.0, 2, batch=32), rung("naive", 1.0, 1, batch=256),
    rung("naive", 4.0, 1, None, "fp16", case="gemm 512×512×512", count=1, kind="gemm"),
    rung("cublas", 3.0, 2, None, "fp16", case="gemm 512×512×512", count=1, kind="gemm"),
]  # fmt: skip


def test_the_fastest_rung_stands_to_the_fastest_library_layer_by_layer():
    pointwise, depthwise, gemm = tables.standings(RUNGS)  # a rung without a library beside it stands to nothing
    assert (pointwise.kind, pointwise.precision, pointwise.batch) == ("pointwise 1×1", "fp32", 1)
    assert pointwise.ratio == pytest.approx(2**0.6) and (pointwise.layers, pointwise.best) == (5, "vector")
    assert (depthwise.kind, depthwise.batch, depthwise.best) == ("depthwise", 32, "naive")
    assert depthwise.ratio == pytest.approx(1.5)
    assert (gemm.kind, gemm.precision, gemm.ratio) == ("gemm 512×512×512", "fp16", pytest.approx(0.75))


def test_the_standings_are_a_table_a_precision(path):
    text = tables.kernels(results.load(saved(path, RUNGS)))
    assert text.startswith("NVIDIA H200, 2031-02-03, driver 999.1, CUDA 13.2, cuDNN 9.19.0. The library's time over")
    head = ["", "layers", "batch 1", "batch 32", "batch 256"]
    assert [row for row in rows(text) if "---" not in row[0]] == [
        head, ["pointwise 1×1", "5", "1.52 (vector)", "–", "–"], ["depthwise", "3", "–", "1.50 (naive)", "–"],
        head, ["gemm 512×512×512", "1", "0.75 (naive)", "–", "–"],
    ]  # fmt: skip


def test_the_kinds_that_were_timed_in_both_precisions_at_every_batch(path):
    assert tables.kernels_network(results.load(saved(path, RUNGS))) == NOT_YET
    every = [
        rung(name, us * batch, order, precision=precision, batch=batch)
        for precision, us_of in (("fp32", (10.0, 15.0)), ("fp16", (8.0, 4.0)))
        for batch in tables.OPERATOR_BATCHES
        for order, (name, us) in enumerate(zip(("naive", "cudnn"), us_of, strict=True), 1)
    ]
    text = tables.kernels_network(results.load(saved(path.parent / "full", every)))
    assert rows(text)[2:] == [["depthwise", *["1.50"] * 3, *["0.50"] * 3]]


def test_the_bandwidth_of_depthwise_layers(path):
    other = "depthwise 28×28 192"
    large = [
        # 3 · 42.5 MB + 1 · 21.25 MB in 3 · 12 + 1 · 9 µs: 3.306 TB/s of 4.25
        rung("naive", 30.0, 1, batch=256), rung("vector", 12.0, 2, "NHWC", batch=256),
        rung("cudnn", 20.0, 3, batch=256),
        rung("naive", 9.0, 1, batch=256, case=other, count=1, work=Work(21_250_000, 10**6)),
        rung("cudnn", 20.0, 3, batch=256, case=other, count=1, work=Work(21_250_000, 10**6)),
    ]  # fmt: skip
    assert tables.kernels_bandwidth(results.load(saved(path, peaks() + RUNGS))) == NOT_YET
    assert tables.kernels_bandwidth(results.load(saved(path, peaks() + large))) == "78 % in fp32"
