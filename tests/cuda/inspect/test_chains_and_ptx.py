"""Chains of dependent arithmetic in the hot loop, and the PTX of a line."""

import pytest

from common import cuda
from common.cuda import nvrtc
from common.cuda.machine_code import compiled
from common.cuda.machine_code.chains import growth, loaded
from common.cuda.machine_code.ptx import of_line


@pytest.fixture(autouse=True)
def _tools():
    try:
        nvrtc.version()
        compiled.find_disassembler()
    except RuntimeError as error:
        pytest.skip(str(error))


def inspected(body):
    text = 'extern "C" __global__ void k(const float* in, float* out, int n) {\n    const int t = threadIdx.x;\n'
    return cuda.inspect(cuda.RawKernel(f"{text}{body}\n}}\n", "k"), block=128)


def test_one_sum_grows_with_every_addition():
    found = inspected("float s = 0; for (int i = t; i < n; i += 128) s += in[i]; out[t] = s;")
    assert loaded(found) == growth(found) >= 1


def test_four_sums_grow_by_one_per_turn():
    found = inspected(
        "float a = 0, b = 0, c = 0, d = 0;\n"
        "#pragma unroll 1\n"
        "for (int i = t; i + 384 < n; i += 512) { a += in[i]; b += in[i + 128]; c += in[i + 256]; d += in[i + 384]; }\n"
        "out[t] = a + b + c + d;"
    )
    assert (loaded(found), growth(found)) == (4, 1)


def test_a_tree_before_the_sum_does_not_count():
    found = inspected(
        "float s = 0;\n"
        "#pragma unroll 1\n"
        "for (int i = t; i + 384 < n; i += 512) s += (in[i] + in[i + 128]) + (in[i + 256] + in[i + 384]);\n"
        "out[t] = s;"
    )
    assert (loaded(found), growth(found)) == (4, 1)


def test_no_loop_no_chain():
    assert growth(inspected("out[t] = in[t] * in[t];")) == 0


def test_the_ptx_of_a_line():
    found = inspected("float x = in[t];\nout[t] = x * x + 1.0f;")
    assert "ld.global" in found.ptx(3) and "fma.rn" in found.ptx(4) and "fma.rn" not in found.ptx(3)
    assert found.ptx(4) in found.ptx() or all(row in found.ptx() for row in found.ptx(4).splitlines())
    with pytest.raises(ValueError, match="line 40 has no PTX"):
        found.ptx(40)
    with pytest.raises(ValueError, match="no kernel 'other'"):
        of_line(".visible .entry k(\n{\n}\n", "other", None)
