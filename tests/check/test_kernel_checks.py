"""Exercises in CUDA C++: the %%exercise cell, traced launches of answers, and the hints for what a trace finds."""

import re

import numpy as np
import pytest

from common import check
from common.check import Wrong, exercises, launch
from common.check.kernels import (
    Short,
    asked,
    beyond,
    calls,
    compare,
    in_common,
    one_element_each,
    shapes,
    sprinkled,
    use,
)

SKELETON = """// twice: out[i] = 2 in[i]
extern "C" __global__ void twice(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // write: the guard and the product
}
"""
STUB = "// write: the guard and the product"
MARKED = "// BEGIN SOLUTION\n    " + STUB + "\n    if (i < n) out[i] = 2.0f * in[i];\n    // END SOLUTION"
SOLUTION = SKELETON.replace(STUB, "if (i < n) out[i] = 2.0f * in[i];")

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
    solutions = tmp_path / "04_toys" / "solutions"
    solutions.mkdir()
    (solutions / "twice.cu").write_text(SKELETON.replace(STUB, MARKED))
    monkeypatch.chdir(folder)
    return exercises.find("twice")


def test_paths_and_texts(exercise):
    assert exercise.is_cuda and exercise.solution.name == "twice.cu"
    assert exercise.skeleton == SKELETON
    assert exercise.objects(exercise.solution) == [exercise.source]
    (exercise.folder / "skeleton.cu").write_text("// a bug\n")
    assert exercise.skeleton == "// a bug\n"


def test_the_outcomes(exercise, capsys):
    assert check.run("twice", SOLUTION)
    assert not check.run("twice", SKELETON)
    assert not check.run("twice", SOLUTION.replace("2.0f", "3.0f"))
    assert not check.run("twice", SOLUTION.replace("0f * in[i];", "0f * in[i]"))
    lines = re.split(r"\n(?=[✓✗])", capsys.readouterr().out)
    assert lines[0] == "✓ twice: passed (6 checks)"
    assert lines[1].startswith("✗ twice: not started yet. Put your code in the place of")
    assert lines[2] == "✗ twice: out[0] is 3.0, expected 2.0 (77 of 77 elements differ).\nHint: two of each"
    assert lines[3].startswith("✗ twice: the kernel does not compile:\nline ")


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
            "of s, which has 32 elements",
        ),
        (
            "__shared__ float s[32]; if (i < 32) { s[i] = in[i]; out[i] = s[31 - i]; }",
            "two lanes of one warp touch the same word, and nothing orders them: lanes of a warp need not run in step",
        ),
        (
            "__shared__ float s[64]; if (i < 64) { s[i] = in[i]; out[i] = s[63 - i]; }",
            "a __syncthreads must stand between them",
        ),
        ("if (i == 0) *(float4*)out = *(const float4*)(in + 1);", "a float4 starts at a multiple of 16 bytes"),
        ("if (i % 2) __syncthreads(); else __syncthreads();", "must reach the same __syncthreads"),
    ],
)
def test_hints_for_what_a_trace_finds(body, said):
    source = SKELETON.replace(STUB, body)
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
    assert "does the loop end?" in check.run("twice", endless, seconds=5).message


def test_the_cell_magic(exercise, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.run_line_magic("load_ext", "common.check")
        assert shell.run_cell_magic("exercise", "twice", SOLUTION)
        shown = shell.run_cell_magic("exercise", "twice ", SOLUTION.replace("if (i < n) ", ""))
        assert not shown
        out = capsys.readouterr().out
        assert "✓ twice: passed" in out and "traced" in out, "the trace is below the message"
        assert "out-of-bounds, line 5:" in shown.message, "%%exercise is line 1"
    finally:
        InteractiveShell.clear_instance()


def found(body, grid=(1,)):
    """The first finding of a launch of 64 threads a block over 77 numbers."""
    x = np.zeros(77, np.float32)
    with pytest.raises(Wrong) as caught:
        launch(SKELETON.replace(STUB, body), "twice", grid, (64,), (x, x.copy(), 77), what="twice")
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
    assert "of s, which has 32 elements" in finding.message


# The second launch, on the same numbers with others in the outputs


def outcome(body, before="", n=77, **more):
    """What Wrong says of `twice`: its message and its hint; ("", "") if it is right. The outputs hold NaN."""
    x, out = np.arange(1, n + 1, dtype=np.float32), np.full(n, np.nan, np.float32)
    args = (x, out, n)
    try:
        launch(before + SKELETON.replace(STUB, body), "twice", (2,), (64,), args, what="twice", **more)
    except Wrong as wrong:
        return wrong.what, wrong.hint
    return "", ""


RIGHT = "if (i < n) out[i] = 2.0f * in[i];"


def test_a_right_answer_keeps_its_first_results():
    x, out = np.arange(1, 78, dtype=np.float32), np.full(77, np.nan, np.float32)
    launch(SOLUTION, "twice", (2,), (64,), (x, out, 77), what="twice")
    assert np.array_equal(out, 2 * x) and outcome(RIGHT) == ("", "")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (RIGHT + " if (i == 3) ((float*)in)[3] = 0.0f;", "twice: line 4 writes to in, an input"),
        ("if (i < n && i != 5) out[i] = 2.0f * in[i];", "twice leaves out[5] unwritten (1 of 77 elements)"),
        ("if (i < n) out[i] += 2.0f * in[i];", "before the launch, and "),
        ("if (i < n && out[i] != out[i]) out[i] = 2.0f * in[i];", "before the launch, and "),
        ("if (i < n) out[i] = fmaxf(out[i], 2.0f * in[i]);", "before the launch, and "),
    ],
)
def test_outputs_are_written_and_inputs_are_not(body, said):
    assert said in outcome(body)[0]


CODES = """extern "C" __global__ void codes(const signed char* in, signed char* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (i != 5 || !SKIP) out[i] = in[i];
}
"""


@pytest.mark.parametrize("held", range(90, 111))
def test_results_that_an_output_held_before_are_written(held):
    """A check fills outputs twice: where both fillings are the right code, an element is not taken for unwritten."""
    x, out = np.full(960, held, np.int8), np.full(960, held, np.int8)
    launch(CODES, "codes", (1,), (64,), (x, out, 960), what="codes", outputs=(out,), options=("-DSKIP=0",))
    with pytest.raises(Wrong, match=r"codes leaves out\[5\] unwritten \(1 of 960 elements\)"):
        launch(CODES, "codes", (1,), (64,), (x, out, 960), what="codes", outputs=(out,), options=("-DSKIP=1",))


def test_what_a_variable_keeps_from_launch_to_launch():
    body = "if (i < n) kept[i] += 2.0f * in[i], out[i] = kept[i];"
    what, hint = outcome(body, "__device__ float kept[128];\n")
    assert what.startswith("twice: launched a second time on the same numbers, out[0] is 4.0, expected 2.0")
    assert "__device__ variable" in hint


def test_what_is_updated_is_no_output():
    x, out = np.ones(77, np.float32), np.full(77, np.nan, np.float32)
    out[:] = 3
    body = SKELETON.replace(STUB, "if (i < n) out[i] += in[i];")
    launch(body, "twice", (2,), (64,), (x, out, 77), what="twice", updated=(out,))
    assert (out == 4).all()
    with pytest.raises(Wrong, match="writes to out, an input"):
        launch(body, "twice", (2,), (64,), (x, out, 77), what="twice")
    with pytest.raises(Wrong, match="if it held"):
        launch(body, "twice", (2,), (64,), (x, out, 77), what="twice", outputs=(out,))


def test_atomics_may_add_in_any_order():
    source = """extern "C" __global__ void k(const float* in, float* out) {
    if (threadIdx.x == 0) out[0] = 0.0f;
    __syncthreads();
    atomicAdd(out, in[threadIdx.x]);
}"""
    x, out = np.full(256, 0.1, np.float32), np.full(1, np.nan, np.float32)
    launch(source, "k", (1,), (256,), (x, out), what="k")
    assert abs(out[0] - 25.6) < 1e-3


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("if (i < n) out[i] = in[i - 1];", "the index is below 0"),
        ("__shared__ float s[8]; s[threadIdx.x] = in[0]; if (i < n) out[i] = s[0];", "this array of shared memory"),
        ("if (i < n) out[i / 2] = in[i];", "two threads come to the same element"),
        (
            "__shared__ float s[64]; s[threadIdx.x] = in[0]; if (i < n) out[i] = s[63 - threadIdx.x];",
            "a __syncthreads must stand between them",
        ),
    ],
)
def test_the_hint_fits_what_the_trace_saw(body, said):
    assert said in outcome(body)[1]


def test_a_technique_that_is_not_there_is_no_wrong_result():
    asked(True, what="it", hint="h")
    with pytest.raises(Short, match="right, and not yet what was asked: 9 loads, 3 would do") as caught:
        asked(False, what="9 loads, 3 would do", hint="h", picture=1)
    assert caught.value.hint == "h" and caught.value.picture == 1


def test_sizes_beyond_the_numbers_of_an_answer():
    text = "for (int i = 0; i < 300; ++i) s[1 << 10] += 0x40 * 2.5f + x1024; // 77\n float t[8 * 32], u[1e3], v[512u];"
    assert beyond(text, 5000) == [9, 11, 33, 65, 257, 301, 513, 1025]
    assert beyond(text, 300) == [9, 11, 33, 65, 257]


def test_shapes_reach_beyond_each_number():
    random = np.random.default_rng(1)
    made = shapes("if (n < 300) {}", random, [(7, 9)], (40, (256,)))
    assert made[0] == (7, 9) and any(a == 301 for a, _ in made)
    assert all(a >= 1 and 1 <= b <= 256 for a, b in made)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sprinkled_numbers(dtype):
    x = np.ones((3, 40), dtype)
    odd = sprinkled(np.random.default_rng(0), x, huge=True)
    assert (x == 1).all() and odd.shape == x.shape and odd.dtype == dtype
    assert np.isnan(odd).sum() == 1 and np.isinf(odd).sum() == 2 and np.isin(odd, np.finfo(dtype).max).sum() == 1
    assert (sprinkled(np.random.default_rng(0), np.ones(1, dtype)) == 1).all()


def test_calls_are_counted():
    source = """extern "C" { __global__ void __launch_bounds__(64) k(float* out) {
    int course = 0, calls = 1;
    for (int step = 1; step < 4; ++step) out[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1.0f * calls + course, step);
} }"""
    out = np.zeros(64, np.float32)
    for _ in range(2):
        counted = calls(source, "k", (1,), (64,), (out,), ("__shfl_down_sync", "__shfl_sync"))
        assert counted == {"__shfl_down_sync": 3 * 64, "__shfl_sync": 0}
    assert not out.any()


def test_who_made_the_accesses():
    x, out = np.zeros(77, np.float32), np.full(77, np.nan, np.float32)
    body = "volatile __shared__ float s[2]; if (i == 40) s[1] = in[i]; if (threadIdx.x < 33)"
    body += " for (int k = threadIdx.x; k < n; k += 33) out[k] = 2.0f * in[k];"
    report = launch(SKELETON.replace(STUB, body), "twice", (1,), (64,), (x, out, 77), what="")
    assert (use(report, 0).counts.accesses, use(report, 0).warps, use(report, 0).lanes) == (78, 2, 32)
    assert (use(report, 1, "store").counts.accesses, use(report, None, "store").warps) == (77, 1)
    assert use(report, None, "store").lanes == 1 and use(report, None).counts.accesses == 0


# Local variables that have no value yet


def compared(body, want, grid=(2,)):
    """What Wrong says of a launch and of its result, which should be `want` everywhere; ("", "") if it is right."""
    x, out = np.arange(1, 78, dtype=np.float32), np.full(77, np.nan, np.float32)
    try:
        launch(SKELETON.replace(STUB, body), "twice", grid, (64,), (x, out, 77), what="twice")
        compare(out, np.full(77, want, np.float32), what="out", hint="a fact")
    except Wrong as wrong:
        return wrong.what, wrong.hint
    return "", ""


STORED = "    if (i < n) out[i] = {};"
ADDED = "    for (int k = 0; k < n; ++k) {};\n"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("float sum;\n" + ADDED.format("sum += in[k]") + STORED.format("sum"), "sum"),
        ("int sum;\n" + ADDED.format("sum += in[k]") + STORED.format("sum"), "sum"),
        ("double t, sum; int k;\n" + ADDED.format("t = in[k], sum += t") + STORED.format("sum"), "sum"),
        ("float b[2] = {0, 0}, a[4], c;\n" + ADDED.format("c = in[k], a[k % 4] += c")
         + STORED.format("a[0] + a[1] + a[2] + a[3] + b[1]"), "a"),
        ("int m[2][3];\n" + ADDED.format("m[k % 2][k % 3] += k") + STORED.format("m[1][2]"), "m"),
        ("float4 v;\n" + ADDED.format("v.x += in[k]") + STORED.format("v.x"), "v"),
        ("int j;\n" + STORED.format("in[j]"), "j"),
        ("for (int k, j = 0; j < 5; ++j) if (k < i && i < n) out[i] = 3003;", "k"),
    ],
)  # fmt: skip
def test_a_variable_without_a_value_is_named(body, name):
    what, hint = compared(body, 3003)
    assert what.endswith(f": `{name}` has no value yet (line 4)") and f"give `{name}` its first value" in hint


FALSE_ALARM = """float v; bool has = false;
    for (int k = 0; k < 2; ++k) if (k == n % 2) { v = 3; has = true; }
    if (has && i < n) out[i] = v;"""


def test_a_compilers_false_alarm_changes_nothing():
    assert compared(FALSE_ALARM, 3) == ("", "")
    what, hint = compared(FALSE_ALARM.replace("v = 3", "v = 4"), 3)
    assert what == "out[0] is 4.0, expected 3.0 (77 of 77 elements differ)" and hint == "every element is 4; a fact"


def test_a_variable_that_is_set_in_time_is_not_blamed():
    body = "float v, left[2];\n    v = in[0]; left[0] = v; left[1] = 2 * left[0];\n    if (i <= n) out[i] = left[1];"
    what, _ = compared(body, 2)
    assert "writes out[77]" in what and "has no value yet" not in what


def test_an_argument_is_no_declaration():
    body = """float sum = 1;
    float further = fmaf(2.0f, sum, 1.0f), rest = min(in[0], sum);
    if (i < n) out[i] = further + rest;"""
    assert compared(body, 4) == ("", "")
    assert "has no value yet" not in compared(body, 5)[0]


def test_another_array_than_the_launchs_is_only_compared():
    assert "`sum`" in compared("float sum;\n" + STORED.format("sum"), 0)[0]
    with pytest.raises(Wrong) as caught:
        compare(np.ones(3, np.float32), np.zeros(3, np.float32), what="y", hint="a fact")
    assert caught.value.what == "y[0] is 1.0, expected 0.0 (3 of 3 elements differ)"


def test_one_element_each():
    x, out = np.zeros(77, np.float32), np.full(77, np.nan, np.float32)
    for body, said in (
        (RIGHT, ""),
        ("if (i == 0) for (int k = 0; k < n; ++k) out[k] = in[k];", "the warps store 77 times"),
        ("if (i < n) out[i] = 1.0f; if (i < n) out[i] = in[i];", "stores 154 times, 77 would do"),
    ):
        out[:] = np.nan
        report = launch(SKELETON.replace(STUB, body), "twice", (2,), (64,), (x, out, 77), what="twice")
        try:
            one_element_each(report, 1, 77, 3, what="twice")
            assert not said
        except Short as short:
            assert said and said in short.what


# What is said of a wrong result


def test_beside_a_huge_number_nothing_is_nearly_right():
    want = np.array([3e38, 1, 2], np.float32)
    with pytest.raises(Wrong) as caught:
        compare(want + np.float32([0, 1, 0]), want, what="y", hint="a fact")
    assert caught.value.hint == "a fact"


def test_a_race_for_an_element_of_an_array_asks_for_no_barrier():
    what, hint = outcome("out[i / 2 % 32] = in[0];")
    assert "race" in what and "__sync" not in what and "two threads come to the same element" in hint


def test_a_known_mistake_gets_its_hint():
    want = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    compare(want + 0, want, what="y", hint="no", mistakes=[(want, "no")])
    for got, said in ((want + 1, "plus one"), (2 * want, "each element is 2 times what is expected; a fact")):
        with pytest.raises(Wrong) as caught:
            compare(got, want, what="y", hint="a fact", mistakes=[(want[:2], "no"), (want + 1, "plus one")])
        assert caught.value.hint == said


def test_infinities_hide_no_difference():
    want = np.array([1, np.inf, np.nan, 5], np.float32)
    compare(want.copy(), want, what="y", hint="")
    for place, value in ((0, 2), (1, 7), (1, -np.inf), (2, 0)):
        got = want.copy()
        got[place] = value
        with pytest.raises(Wrong):
            compare(got, want, what="y", hint="", rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda y: y * 0, "every element is 0"),
        (lambda y: y * 0 + 3, "every element is 3"),
        (lambda y: y * np.nan, "every element is NaN"),
        (lambda y: -3 * y, "each element is -3 times what is expected"),
        (lambda y: y - 2, "each element is -2 off"),
        (lambda y: y[::-1, ::-1], "these are the right numbers, in other places"),
        (lambda y: np.where(np.arange(6)[:, None] == 5, 0, y), "only row 5, the last one, is wrong"),
        (lambda y: np.where(np.arange(6) == 0, 0, y), "only column 0 is wrong"),
        (lambda y: np.where(np.arange(36).reshape(6, 6) > 20, 0, y), "only the last 15 elements are wrong"),
        (lambda y: np.where(np.arange(36).reshape(6, 6) < 20, 0, y), "only the first 20 elements are wrong"),
        (lambda y: y + np.eye(6) * np.arange(6), ""),
        (lambda y: y.T, "these are the right numbers, with rows and columns exchanged"),
    ],
)
def test_what_wrong_elements_have_in_common(change, said):
    want = np.random.default_rng(3).uniform(1, 2, (6, 6)).astype(np.float32)
    assert in_common(np.asarray(change(want), np.float32), want, 1e-5, 0.0) == said


def test_an_answer_is_compiled_once(exercise, tmp_path, monkeypatch):
    """The checked build is the one that runs; no optimised library is made that nobody launches."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("COURSE_CACHE", str(cache))
    assert check.run("twice", SOLUTION)
    assert not list(cache.glob("kernel-*.so"))
    assert len(list(cache.glob("traced-*.so"))) <= 2  # the answer's, and once for each compiler its proof's
