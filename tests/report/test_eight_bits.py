"""What notebook 06/15 shows of records in int8 and fp8."""

import math

import pytest

from common import topology
from common.lab import left
from common.measure.roofline import Peaks, arithmetic_us, memory_us
from common.report import eight_bits, results, tables
from common.report.results import Results


def test_without_records_it_says_how_to_make_them(capsys):
    eight_bits.table(Results({}, []))
    eight_bits.fp8(Results({}, []))
    said = capsys.readouterr().out
    assert "`python -m common bench network --precision int8 --save`" in said and "bench fp8 --save" in said


def test_codes_have_half_the_bytes():
    assert eight_bits.fused_work(256, 2).bytes == 2 * eight_bits.fused_work(256, 1).bytes


def test_inputs_are_the_fp16_times_of_the_table_and_the_work_of_fused_blocks():
    recorded = results.load(tables.CARD)
    found = eight_bits.inputs(recorded)
    shown = {row["batch"]: row["fp16_us"] for row in eight_bits.rows(recorded)}
    assert shown == {batch: us for batch, (us, *_) in found.items()}
    for batch, (_, size, multiply_adds) in found.items():
        assert size == eight_bits.fused_work(batch, 2).bytes
        ours = sum(work.flops for work in left.work("fp16", batch))
        assert 2 * multiply_adds == pytest.approx(ours, rel=0.01)


def test_bytes_and_multiply_adds_at_full_rates_take_less_than_half_of_the_time_in_fp16():
    recorded = results.load(tables.CARD)
    peaks = Peaks.recorded(recorded)
    for batch, (us, *_) in eight_bits.inputs(recorded).items():
        work = eight_bits.fused_work(batch, 2)
        both = memory_us(work, peaks) + arithmetic_us(work, "fp16", peaks)
        assert both < us / 2, "notebook 15: less than half of the time"


def test_the_times_of_int8_stand_beside_those_of_fp16(capsys):
    recorded = results.load(tables.CARD)
    assert {row["batch"] for row in eight_bits.rows(recorded)} >= {32, 256}
    assert all(row["ratio"] > 0 for row in eight_bits.rows(recorded))
    eight_bits.fp8(recorded)
    said = capsys.readouterr().out
    assert "time of torch-fp8 over torch-fp16" in said and ", b32 " in said
    eight_bits.fp8(recorded, batch=256)
    said = capsys.readouterr().out
    assert "time of torch-fp8 over torch-fp16" in said and ", b256 " in said and ", b32 " not in said


def test_a_column_that_nothing_was_recorded_for_is_left_out_and_named(capsys):
    both = {
        "suite": "network",
        "case": tables.NETWORK,
        "mode": "hot",
        "batch": 32,
        "run": "a",
        "layout": "NHWC",
        "launch": "graph",
    }
    ratios = {"ours-fp16": {"median": 0.8, "low": 0.79, "high": 0.81}}
    ours = {**both, "implementation": "ours", "precision": "int8", "median_us": 80.0, "ratios": ratios}
    theirs = {**both, "implementation": "onnxruntime-cuda", "precision": "int8", "median_us": 300.0}
    runs = {"a": {"card": "a card", "date": "2026-01-01"}}
    eight_bits.table(Results(runs, [ours]))
    said = capsys.readouterr().out
    assert said.splitlines()[1].split("   ") == ["batch", "int8, µs", "fp16, µs", "int8 over fp16"]
    assert "100.0" in said and "0.80" in said  # µs in fp16 of the same process; the ratio
    assert said.endswith("Not recorded on this card: ONNX Runtime in int8, energy at batch 32.\n")
    eight_bits.table(Results(runs, [ours, theirs]))
    said = capsys.readouterr().out
    assert "300.0" in said and said.endswith("Not recorded on this card: energy at batch 32.\n")


def test_both_energies_are_of_one_process(capsys):
    keys = {"case": tables.NETWORK, "batch": 256, "run": "a", "layout": "NHWC", "launch": "graph"}
    timed = {**keys, "suite": "network", "mode": "hot", "implementation": "ours", "median_us": 80.0}
    energies = [
        {**keys, "suite": "energy", "implementation": name, "precision": precision, "mj_per_image": mj, "time_us": us}
        for name, precision, mj, us in (
            ("ours", "int8", 1.5, 81.0),
            ("ours-fp16", "int8", 2.0, 92.0),
            ("ours", "fp16", 9.0, 7.0),
        )
    ]
    runs = {"a": {"card": "a card", "date": "2026-01-01"}}
    found = Results(runs, [{**timed, "precision": "int8"}, {**timed, "precision": "fp16"}, *energies])
    (row,) = eight_bits.rows(found)
    assert (row["mj"], row["fp16_mj"]) == (1.5, 2.0)
    eight_bits.table(found)
    said = capsys.readouterr().out
    assert "batch 256: of an earlier run, in which int8 took 81 µs, fp16 92 µs" in said
    assert "energy at" not in said
    for one, us in zip(energies, (81.0, 79.0), strict=False):  # within 2 % of the times in the table
        one["time_us"] = us
    eight_bits.table(Results(runs, [{**timed, "precision": "int8"}, {**timed, "precision": "fp16"}, *energies]))
    assert "of networks that took" not in capsys.readouterr().out


def test_hidden_values_are_what_depthwise_convolutions_read_and_write():
    depthwise = [x for x in topology.build() if isinstance(x, topology.Conv2d) and x.groups == x.in_channels]
    sizes = [math.prod(x.input_shapes[0][1:]) + math.prod(x.output_shape[1:]) for x in depthwise]
    assert len(sizes) == 17 and eight_bits.hidden_values(3) == 3 * sum(sizes)


def test_mixes_stand_beside_the_sum_of_their_parts(capsys):
    parts = {"fma": 1.0, "2 cvt.pack": 4.0, "mma k32": 6.0}
    whole = {"3 fma + mma k32": 9.0, "4 fma + 2 cvt.pack": 7.0}
    keys = {"suite": "multiprocessor", "experiment": "mixes", "run": "a", "implementation": "ours", "warps": 2}
    found = [keys | {"case": mix, "mix": mix, "cycles": cycles} for mix, cycles in (parts | whole).items()]
    runs = {"a": {"card": "NVIDIA H200", "date": "2026-11-30"}}
    assert eight_bits.mixes(Results(runs, found)) == parts | whole
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].split()[-2:] == ["9.0", "9.0"] and lines[-1].split()[-2:] == ["7.0", "8.0"]
