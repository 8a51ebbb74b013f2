"""Exercises in CUDA C++: the %%exercise cell, traced launches of answers, and the hints for what a trace finds."""

import numpy as np
import pytest

from common import check
from common.check import Wrong, exercises, launch

SKELETON = """// twice: out[i] = 2 in[i]
extern "C" __global__ void twice(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // your code
}
"""
SOLUTION = SKELETON.replace("// your code", "if (i < n) out[i] = 2.0f * in[i];")

CHECK = """import numpy as np

from common.check import expect, launch, require


def check(source):
    x, out = np.arange(1, 78, dtype=np.float32), np.full(77, np.nan, np.float32)
    report = launch(source, "twice", (1,), (128,), (x, out, 77), what="twice of 77 numbers")
    expect(out, 2 * x, what="out", hint="two of each")
    require(report.global_loads.conflicts == 0, what="too many sectors", hint="side by side", picture=report)
"""


@pytest.fixture
def exercise(tmp_path, monkeypatch):
    folder = tmp_path / "04_toys" / "exercises" / "twice"
    folder.mkdir(parents=True)
    (folder / "check.py").write_text(CHECK)
    (folder / "skeleton.cu").write_text(SKELETON)
    monkeypatch.chdir(folder)
    return exercises.find("twice")


def test_paths_and_placeholder(exercise):
    assert exercise.is_cuda and exercise.placeholder == "// your code"
    assert exercise.skeleton.name == "skeleton.cu" and exercise.solution.name == "solution.cu"
    (exercise.folder / "wrong").mkdir()
    for name in ("a.cu", "b.py"):
        (exercise.folder / "wrong" / name).write_text("")
    assert [path.name for path in exercise.wrong] == ["a.cu"]
    assert exercise.objects(exercise.skeleton) == [SKELETON]


def test_the_outcomes(exercise, capsys):
    assert check.run("twice", SOLUTION)
    assert not check.run("twice", SKELETON)
    assert not check.run("twice", SOLUTION.replace("2.0f", "3.0f"))
    assert not check.run("twice", SOLUTION.replace("0f * in[i];", "0f * in[i]"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "✓ twice: passed (2 checks)"
    assert lines[1].startswith("✗ twice: not started yet. Put your code in the place of `// your code`")
    assert lines[2] == "✗ twice: out[0] is 3.0, expected 2.0 (77 of 77 elements differ). Hint: two of each"
    assert lines[3].startswith("✗ twice: the kernel does not compile line ")


def test_a_wrong_answer_brings_its_trace_along(exercise, capsys):
    found = check.run("twice", SOLUTION.replace("if (i < n) ", ""))
    assert found.picture.findings[0].kind == "out-of-bounds"
    assert "compare the index with the array's size" in found.message
    wasteful = SOLUTION.replace(
        "if (i < n) out[i] = 2.0f * in[i];", "i = i * 5 % 77; if (threadIdx.x < n) out[i] = 2 * in[i];"
    )
    found = check.run("twice", wasteful)
    assert found.message.endswith("too many sectors. Hint: side by side") and found.picture.global_loads.sectors > 10


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("out[i] = 1.0f;", "compare the index"),
        ("out[0] = (float)i;", "race"),
        (
            "__shared__ float s[128]; if (i > 3) s[i] = 1.0f; if (i == 3) out[i] = s[i];",
            "a thread of the same block must have written before",
        ),
        (
            "__shared__ float s[32]; if (i < 77) s[i] = in[i]; __syncthreads(); if (i == 0) out[0] = s[8];",
            "but s has 32 elements",
        ),
        ("if (i == 0) *(float4*)out = *(const float4*)(in + 1);", "a float4 starts at a multiple of 16 bytes"),
        ("if (i % 2) __syncthreads(); else __syncthreads();", "must reach the same __syncthreads"),
    ],
)
def test_hints_for_what_a_trace_finds(body, said):
    source = SKELETON.replace("// your code", body)
    x = np.zeros(77, np.float32)
    with pytest.raises(Wrong) as caught:
        launch(source, "twice", (1,), (128,), (x, x.copy(), 77), what="twice")
    assert said in f"{caught.value.what} {caught.value.hint}"


def test_a_changed_name_or_parameter():
    x = np.zeros(77, np.float32)
    for text, said in (
        (SOLUTION.replace("void twice", "void thrice"), "no kernel 'twice'"),
        (SOLUTION.replace(", int n", ""), "n"),
    ):
        with pytest.raises(Wrong) as caught:
            launch(text.replace("i < n", "i < 77"), "twice", (1,), (128,), (x, x, 77), what="twice")
        assert said in str(caught.value) and "leave the kernel's" in caught.value.hint


def test_an_endless_loop_in_a_kernel_ends(exercise):
    endless = SOLUTION.replace("if (i < n)", "volatile int on = 1; while (on) {} if (i < n)")
    assert "not finished after 0.5 s" in check.run("twice", endless, seconds=0.5).message


def test_the_cell_magic(exercise, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "common.check")
        assert shell.run_cell_magic("exercise", "twice", SOLUTION)
        shown = shell.run_cell_magic("exercise", "twice ", SOLUTION.replace("if (i < n) ", ""))
        assert "✓ twice: passed" in capsys.readouterr().out
        shown._ipython_display_()  # the trace
        assert "out-of-bounds" in capsys.readouterr().out
    finally:
        InteractiveShell.clear_instance()


def found(body, grid=(1,)):
    """The first finding of a launch of 64 threads a block over 77 numbers."""
    x = np.zeros(77, np.float32)
    with pytest.raises(Wrong) as caught:
        launch(SKELETON.replace("// your code", body), "twice", grid, (64,), (x, x.copy(), 77), what="twice")
    return caught.value.picture.findings[0]


def test_a_race_names_the_other_thread_not_the_writer_again():
    race = found(
        "__shared__ float s[2]; if (i == 5 || i == 40) s[0] = in[i]; __syncthreads(); if (i < 9) out[i] = s[0];"
    )
    assert race.kind == "race" and sorted(race.threads) == [(5, 0, 0), (40, 0, 0)]


def test_a_race_between_blocks_alone():
    race = found("if (threadIdx.x == 0) out[7] = (float)i;", grid=(2,))
    assert race.kind == "race" and race.blocks == ((1, 0, 0), (0, 0, 0)) and race.index == 7


def test_past_the_end_of_shared_memory_names_the_shared_array():
    finding = found(
        "__shared__ float s[32]; if (i < 32) s[i + 3200 * (i == 9)] = in[i]; __syncthreads(); if (i < 9) out[i] = s[i];"
    )
    assert (finding.kind, finding.array, finding.index) == ("out-of-bounds", "s", 3209)
    assert "but s has 32 elements" in finding.message
