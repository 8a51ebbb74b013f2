"""%%rung: a learner's kernel is checked, counted, and put beside the ladder's rungs."""

from pathlib import Path

import numpy as np
import pytest
from tiers import ALL, seldom

from common import check, cuda, kernels
from common.check import rungs
from common.check.copies import stub
from common.check.runner import SECONDS, judged
from common.lab.engine import NotWrittenError
from common.lab.judging import FUSION
from common.lab.operators import OPERATORS, RELU6
from common.lab.rungs import NAIVE, SLOTS, slot

QUICK = ("add", "global_avg_pool", "depthwise")


def test_every_ladder_of_the_chapter_has_a_slot():
    assert set(SLOTS) <= set(kernels.OPERATORS)
    assert {path.stem for path in NAIVE.glob("*.cu")} == set(SLOTS)
    without = {*(Path(file).stem for file in FUSION), "im2col", "block"}  # which are rungs of no ladder in fp32, NCHW
    assert {one.operator.name for one in SLOTS.values()} == set(OPERATORS) - without
    assert slot("pool") is slot("global_avg_pool")
    with pytest.raises(ValueError, match="no ladder is called 'gem': did you mean gemm"):
        slot("gem")


@pytest.mark.parametrize("name", SLOTS)
def test_the_slot_holds_a_right_kernel_to_begin_with(name):
    one = SLOTS[name]
    assert max(map(len, one.naive.splitlines())) <= 95 and len(one.naive.splitlines()) <= 30
    assert one.operator.declaration in " ".join(one.naive.split()).replace("( ", "(")
    verdict = judged(rungs.OwnRung(NAIVE.parents[2] / "check" / "own_rung"), (one.naive, one.operator.name), SECONDS)
    assert verdict.passed, verdict.what


@pytest.mark.parametrize("name", SLOTS)
def test_the_ladders_rungs_compute_the_same(name, rng):
    one = SLOTS[name]
    inputs = one.operator.inputs(one.traced, rng)
    arrays = {key: cuda.asarray(array) for key, array in inputs.items()}
    want = one.operator.expected(inputs, one.traced, RELU6)
    for variant in rungs._variants(name)[: None if ALL else 1]:
        got = cuda.asnumpy(one.call(arrays, one.traced, variant)).reshape(want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@seldom(6)
@pytest.mark.parametrize("name", [name for name in SLOTS if ALL or name in QUICK])
def test_the_table_has_the_ladders_rungs_and_yours(name, capsys):
    found = rungs.rung(name, SLOTS[name].naive)
    told = capsys.readouterr().out
    assert told.startswith(f"✓ your rung of {name}: right (")
    assert [row[0] for row in found.rows] == [*rungs._variants(name), "yours"]
    assert found.rows[-1][1] == f"{found.report.global_loads.sectors + found.report.global_stores.sectors:,}"
    assert found.rows[-1][3] == str(found.inspection.registers)
    assert max(map(len, told.splitlines())) <= 99


@seldom(6)
def test_later_cells_have_the_rung_that_was_right_last(capsys, monkeypatch):
    monkeypatch.setattr(rungs, "_right", {})
    with pytest.raises(NotWrittenError, match="run the cell with %%rung add first"):
        check.own_rung("add")
    assert rungs.rung("add", SLOTS["add"].naive.replace("a[i] + b[i]", "a[i]")) is None
    with pytest.raises(NotWrittenError):
        check.own_rung("add")
    found = rungs.rung("add", SLOTS["add"].naive)
    assert check.own_rung("add") is found
    with pytest.raises(ValueError, match="did you mean add"):
        check.own_rung("addd")


def test_a_wrong_rung_is_told_and_an_unknown_ladder_as_well(capsys):
    assert rungs.rung("add", SLOTS["add"].naive.replace("a[i] + b[i]", "a[i]")) is None
    assert "✗ your rung of add: add with n = 1000: out[0] is" in capsys.readouterr().out
    assert rungs.rung("addd", "") is None
    assert "did you mean add?" in capsys.readouterr().out
    assert rungs.rung("", "") is None
    assert "which ladder? add, global_avg_pool" in capsys.readouterr().out


def test_without_the_disassembler_the_counts_remain(capsys, monkeypatch):
    def missing(*_args, **_how):
        raise RuntimeError("install nvidia-cuda-nvdisasm")

    monkeypatch.setattr(cuda, "inspect", missing)
    rungs._of_rung.cache_clear()
    try:
        found = rungs.rung("add", SLOTS["add"].naive)
    finally:
        rungs._of_rung.cache_clear()
    assert found.inspection is None and found.rows[-1][2:] == ("–", "–", "–")
    assert "install nvidia-cuda-nvdisasm" in capsys.readouterr().out


def test_a_copy_holds_the_naive_rung():
    assert stub("%%rung pool\n// mine\nint x;\n") == "%%rung pool\n" + slot("pool").naive.rstrip()
