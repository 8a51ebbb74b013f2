"""python -m common inspect: a file's kernel on the command line."""

from pathlib import Path

import pytest
from tiers import seldom

from common import kernels
from common.cuda import nvrtc
from common.cuda.machine_code import compiled

try:
    nvrtc.version()
    compiled.find_disassembler()
except RuntimeError as error:
    pytest.skip(str(error), allow_module_level=True)

KERNELS = Path(kernels.__file__).parent
TWO = """// requires: sm_80
extern "C" __global__ void twice(float* x) {
    x[threadIdx.x] *= 2;
}
extern "C" __global__ void __launch_bounds__(64) scaled(float* x) {
    x[threadIdx.x] *= BY;
}
"""


@pytest.fixture
def inspect(invoke, tmp_path):
    (tmp_path / "two.cu").write_text(TWO)
    (tmp_path / "one.cu").write_text("".join(TWO.splitlines(keepends=True)[:4]))

    def call(file, *arguments):
        return invoke("inspect", tmp_path / file, *arguments)

    return call


def test_the_table_of_a_kernel(inspect):
    result = inspect("two.cu", "scaled", "--block", 64, "-D", "BY=3", "--arch", "sm_80", "--shared", 1024)
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "scaled: machine code for sm_80, blocks of 64 threads" in words
    assert "1,024 bytes of shared memory" in words and "A100: " in words
    assert "1 FMUL, 1 LDG.32, 1 STG.32" in words


def test_the_machine_code_of_a_line(inspect):
    result = inspect("one.cu", "--line", 3)
    assert result.exit_code == 0 and "LDG.E" in result.stdout and "registers" not in result.stdout


@seldom(6)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("two.cu",), "name one of its kernels: twice, scaled"),
        (("two.cu", "none", "-D", "BY=3"), "there is no kernel 'none' in the source, only scaled, twice"),
        (("one.cu", "--arch", "sm_75"), 'say "requires: sm_80": it cannot be compiled for sm_75'),
        (("one.cu", "--line", 1), "line 1 has no machine code"),
        (("two.cu", "scaled", "-D", "BY=3"), "block has 256 threads; __launch_bounds__ allow 64"),
    ],
)
def test_errors_are_one_line(inspect, arguments, message):
    result = inspect(*arguments)
    assert result.exit_code == 2 and message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_name_that_is_undefined_is_shown_in_its_line_with_the_option_that_defines_it(inspect):
    result = inspect("two.cu", "scaled")
    assert result.exit_code == 2
    _, error, line, mend = result.stderr.strip().splitlines()
    assert error == 'line 6: identifier "BY" is undefined' and "x[threadIdx.x] *= BY;" in line
    assert mend.endswith("-D BY=VALUE")


def test_a_rung_has_its_launchers_options_and_others_in_their_place(invoke):
    file = KERNELS / "pointwise" / "1_naive.cu"
    result = invoke("inspect", file)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1].startswith("compiled with -D scalar_t=float -D ")
    assert "HADD2.F32" in invoke("inspect", file, "-D", "scalar_t=__half", "--line", 30).stdout  # __half to float


def test_a_file_without_kernels(inspect, tmp_path):
    (tmp_path / "none.cu").write_text("__device__ int f() { return 1; }")
    assert "it has no extern C kernel" in inspect("none.cu").stderr
