"""The suite "inspect": its kernels, the profiler's table, what is recorded, and the table in chapter 04's README."""

import copy

import pytest

from common.bench import inspect as suite
from common.cuda import nvrtc
from common.cuda.machine_code import compiled
from common.report import results, tables
from common.report.results import MACHINE

NUMBERS = {
    "registers": 172, "static shared bytes": 8192, "blocks by threads": 8, "blocks by registers": 1,
    "blocks by shared memory": 25, "most blocks": 32, "warps": 8,
}  # fmt: skip


def test_at_least_forty_kernels_with_names_of_their_own():
    names = [case.name for case in suite.cases(90)]
    assert len(set(names)) == len(names) > 100
    assert {"gemm/register_block fp32 NCHW", "gemm/warpgroups fp16 NCHW", "sgemm"} <= set(names)
    assert not any("im2col_gemm" in name for name in names)
    assert len(suite.cases(75)) < len(names)


def test_the_numbers_are_those_of_the_records():
    assert set(suite.METRICS) == set(MACHINE) == set(NUMBERS)


def test_what_is_predicted(monkeypatch):
    try:
        nvrtc.version()
        compiled.find_disassembler()
    except RuntimeError as error:
        pytest.skip(str(error))
    chosen = [case for case in suite.cases(90) if case.name in ("gemm/register_block fp32 NCHW", "sgemm")]
    monkeypatch.setattr(suite, "cases", lambda capability: chosen)
    found = suite.predict("H200", 90)
    assert found["gemm/register_block fp32 NCHW"]["warps"] == 8
    assert found["sgemm"] | {"registers": 32} == {
        "registers": 32, "static shared bytes": 8192, "blocks by threads": 2, "blocks by registers": 2,
        "blocks by shared memory": 25, "most blocks": 32, "warps": 64,
    }  # fmt: skip


def csv(*rows):
    heads = ["ID", "Kernel Name", *suite.METRICS.values(), suite.ACHIEVED]
    lines = [heads, [""] * len(heads), *rows]
    return "==PROF==\n" + "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def test_the_profilers_table_is_read():
    row = ["0", "gemm(…)", "172", "8,192", "8", "1", "25", "32", "12.5", "11.93"]
    assert suite.read(csv(row), ["a"], 64) == {"a": (NUMBERS, 0.119)}
    with pytest.raises(RuntimeError, match="ncu gave 1 launches for 2 cases"):
        suite.read(csv(row), ["a", "b"], 64)


def content(profiled):
    records = suite.records({"gemm/register_block fp32 NCHW": NUMBERS}, {"gemm/register_block fp32 NCHW": profiled})
    run = {"card": "NVIDIA T4", "date": "2031-02-03", "ncu": "Version 2031.9.8.0 (build 1)", "nvrtc": "13.2"}
    return results.Results({"r": run}, [{"run": "r", **r} for r in records])


def test_equal_numbers_make_a_table():
    text = tables.inspections(content((NUMBERS, 0.119)))
    assert "\nNVIDIA T4, 2031-02-03, NVRTC 13.2, Nsight Compute (`ncu`) 2031.9.8: for 1 of 1 kernels " in text
    assert "| gemm/register block fp32 NCHW | 172 | 8,192 | 8 | 12 % |" in text
    assert text.startswith("Every kernel below was inspected") and text.endswith("</details>")
    nothing = tables.inspections(results.Results())
    assert nothing.endswith(f"is {tables.NOT_YET}.") and "below" not in nothing


def test_more_shared_memory_than_the_other_limits_allow_is_not_set_aside():
    assert "for 1 of 1" in tables.inspections(content((NUMBERS | {"blocks by shared memory": 3}, 0.119)))


@pytest.mark.parametrize("name", MACHINE)
def test_a_difference_without_a_reason_is_refused(name, monkeypatch):
    profiled = copy.deepcopy(NUMBERS)
    profiled[name] = 0
    with pytest.raises(ValueError, match=f"{NUMBERS[name]} {name} inspected, 0 profiled, and no reason is given"):
        tables.inspections(content((profiled, 0.1)))
    monkeypatch.setitem(tables.MACHINE_REASONS, ("gemm/register_block fp32 NCHW", name), "it was Monday")
    text = tables.inspections(content((profiled, 0.1)))
    assert "for 0 of 1" in text and "inspected, 0 profiled: it was Monday." in text


def test_records_are_kept(tmp_path):
    made = suite.records({"a": NUMBERS}, {"a": (NUMBERS, 0.5)})
    environment = results.load(tables.CARD).runs[results.find(results.load(tables.CARD), suite="trace")[0]["run"]]
    results.save(tmp_path / "card", "run", environment, made)
    (r,) = results.find(results.load(tmp_path / "card"), suite="inspect")
    assert r["inspected"] == r["profiled"] == NUMBERS and r["achieved"] == 0.5
    with pytest.raises(ValueError, match="inspected must be a number for each of MACHINE"):
        results.save(tmp_path / "card", "run2", environment, [{**made[0], "inspected": {"registers": 1}}])
