"""The race as notebook 9 of chapter 06 prints it: what is said beside a time."""

import pytest
from report_records import H200, network, saved

from common.measure.roofline import ARITHMETIC
from common.report import results, rivals, tables

INTERVAL = {"ours": {"to": "ours", "median": 5.0, "low": 4.987, "high": 5.012}}


@pytest.fixture
def recorded(tmp_path):
    ours = network("ours", 60.0, arithmetic=ARITHMETIC["fp16"], error_float64=3.6e-3)
    beside = network("cudnn", 300.0, arithmetic=ARITHMETIC["fp16"], error_float64=3.5e-3, ratios=INTERVAL)
    apart = network("xla", 500.0, arithmetic=ARITHMETIC["fp16"])
    faster = network("xla", 450.0, "tf32", arithmetic=ARITHMETIC["tf32"])
    return results.load(saved(tmp_path / "card", (H200, [apart, faster]), [ours, beside]))


def test_every_row_says_what_multiplies_and_its_error(recorded, capsys):
    rivals.show(recorded)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(f"{tables.CLASSES['half'][1]} (ours: fp16 in memory)")
    assert [" ".join(line.split()) for line in lines[at + 1 : at + 10]] == [
        "µs per batch batch 1",
        "ours 60.0",
        "fp16, error 4e-03",
        "cuDNN, layer by layer 300 5.00×",
        "fp16, error 4e-03 (4.987 – 5.012)",
        "XLA (JAX) 500† 8.33×",
        "fp16, error –",
        "XLA (JAX) 450† 7.50×",
        "TF32, error –",
    ]


def test_what_is_better_in_tf32_is_a_row_and_what_is_better_in_another_run_a_footnote(recorded, tmp_path, capsys):
    rivals.show(recorded)
    said = " ".join(capsys.readouterr().out.split())
    assert tables.NOT_BESIDE in said and "‡" not in said
    assert "Not measured: ONNX Runtime's CUDA provider; NVIDIA's TensorRT" in said
    rivals.show(results.load(saved(tmp_path / "card", [network("cudnn", 200.0)])))
    said = " ".join(capsys.readouterr().out.split())
    assert "‡ The same library was faster in another run: cuDNN, layer by layer, fp16, batch 1: 200 µs" in said


def test_a_library_counts_with_its_faster_format(recorded):
    """TF32 where its errors are those of fp16; ours, and what was faster in fp16, as they are."""
    assert {name: one.us for name, one in rivals.fastest(recorded, "half")[1].items()} == {
        "ours": 60.0, "cudnn": 300.0, "xla": 450.0,
    }  # fmt: skip
    assert {name: one.us for name, one in rivals.columns(recorded, "half")[1].items()}["xla"] == 500.0
    assert rivals.fastest(recorded, "single") == rivals.columns(recorded, "single")


def test_no_printed_line_is_wider_than_a_page(recorded, capsys):
    for one in (recorded, results.load(tables.CARD)):
        rivals.show(one)
        assert max(map(len, capsys.readouterr().out.splitlines())) <= rivals.WIDTH


def from_host(us, implementation="ours", **more):
    return network(implementation, us, launch="host", **more) | {"case": tables.HOST}


def test_from_host_to_host_has_an_interval_in_one_process_only(recorded, tmp_path, capsys):
    assert rivals.from_host(recorded) == {}
    one = [from_host(100.0), from_host(510.0, "cudnn", ratios=INTERVAL)]
    found = rivals.from_host(results.load(saved(tmp_path / "card", one)))
    assert found == {("fp16", 1): (5.0, 5.0)}
    assert "ours    100 µs, cuDNN     510 µs: 5.00× (4.987 – 5.012), in GPU memory 5.00×" in capsys.readouterr().out


def test_from_host_to_host_of_two_processes_says_so(recorded, tmp_path, capsys):
    found = rivals.from_host(results.load(saved(tmp_path / "card", [from_host(100.0)], [from_host(400.0, "cudnn")])))
    assert found == {("fp16", 1): (4.0, 5.0)}
    shown = capsys.readouterr().out
    assert "cuDNN    400† µs: 4.00×, in GPU memory" in shown and tables.NOT_BESIDE[:40] in shown


def test_beside_times_from_host_to_host_stand_those_of_the_same_version(recorded, tmp_path, capsys):
    """If both sides were recorded at that commit with rotating buffers; else the newest, with a mark."""
    folder, older = tmp_path / "card", H200 | {"commit": "abc1234"}
    host = [from_host(100.0), from_host(300.0, "cudnn", ratios={"ours": INTERVAL["ours"] | {"median": 3.0}})]
    results.save(folder, "host", older, host)
    results.save(folder, "one side", older, [network("ours", 80.0, mode="rotating")])
    assert rivals.from_host(results.load(folder)) == {("fp16", 1): (3.0, 5.0)}
    assert "version of our engine than in GPU memory" in capsys.readouterr().out
    results.save(folder, "the other", older, [network("cudnn", 320.0, mode="rotating")])
    assert rivals.from_host(results.load(folder)) == {("fp16", 1): (3.0, 4.0)}
    said = capsys.readouterr().out
    assert "in GPU memory 4.00×" in said and "in GPU memory: with rotating buffers" in said
