"""What notebook 7 of chapter 04 says of the profiler's records and of the machine code, kept true."""

import pytest

from common import kernels
from common.report import rates, sections


def test_rung_9_loads_from_shared_memory_what_notebook_7_counts():
    r = sections.of("gemm", "tensor_cores")
    mma, rows_of_c = 4096**3 // 2048, 4096 * 4096 * 2 // 128
    assert r["shared_loads"] == mma + rows_of_c + r["conflicts"] and r["conflicts"] < 0.001 * mma
    assert r["shared_stores"] == rows_of_c  # so the copies by cp.async are in neither count
    copied = 32 * 32 * 256 * 4096 * 2  # blocks, rows of A and B, bytes of a row
    assert r["sectors"] * 32 == copied  # whole lines, although swizzled
    clocks = r["us"] * r["clock_hz"] / 1e6 * 132 / mma
    assert 1.5 / clocks < 0.7 and r["l1"] < 1.5 / clocks
    waits = r["waits"]
    assert sum(waits[name] for name in ("long_scoreboard", "short_scoreboard", "barrier")) < 0.06 * sum(waits.values())
    assert waits["wait"] + waits["math_pipe_throttle"] > 0.6 * sum(waits.values()) and r["active"] < 2.01


def test_what_tensor_cores_lose_where(capsys):
    found = rates.losses(("tensor_cores", "three_tf32", "warpgroups", "persistent"))
    assert "1,750 of 1,830 MHz" in capsys.readouterr().out
    for share in found.values():
        assert share["clock"] * share["active"] * share["work"] == pytest.approx(share["whole"])
    assert found["tensor_cores"]["work"] == pytest.approx(found["three_tf32"]["work"], rel=0.01)  # both by mma.sync
    assert found["warpgroups"]["work"] == pytest.approx(found["persistent"]["work"], rel=0.01)  # both by wgmma
    assert found["warpgroups"]["work"] / found["tensor_cores"]["work"] == pytest.approx(1.5, abs=0.03)
    clocks = [found[name]["clock"] for name in sorted(found, key=lambda name: found[name]["active"])]
    assert clocks == sorted(clocks, reverse=True)


def test_three_tf32_splits_more_than_it_multiplies():
    found = kernels.inspect("gemm", "three_tf32")
    written = found.source.splitlines()
    count = {mark: sum(sum(found.by_place(line).get("in the loop", {}).values())
                       for line in found.lines if mark in written[line - 1])
             for mark in ("mma_tf32(", "split(", "+= sum[")}  # fmt: skip
    assert count["split("] > 1.3 * count["mma_tf32("] and 1 < count["+= sum["] / count["mma_tf32("] < 1.5


def test_the_run_of_the_roof(capsys):
    rates.roof_run()
    assert "6144³" in capsys.readouterr().out
