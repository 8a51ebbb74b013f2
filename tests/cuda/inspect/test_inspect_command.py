"""python -m common inspect: a file's kernel on the command line."""

import pytest

from common.cuda import nvrtc
from common.cuda.machine_code import compiled

try:
    nvrtc.version()
    compiled.find_disassembler()
except RuntimeError as error:
    pytest.skip(str(error), allow_module_level=True)

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("two.cu",), "name one of its kernels: twice, scaled"),
        (("two.cu", "scaled"), 'identifier "BY" is undefined'),
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


def test_a_file_without_kernels(inspect, tmp_path):
    (tmp_path / "none.cu").write_text("__device__ int f() { return 1; }")
    assert "it has no extern C kernel" in inspect("none.cu").stderr
