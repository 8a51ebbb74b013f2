"""cuda.trace(merge=cuda.inspect(...)): shared loads and stores counted at the widths of the machine code."""

from types import SimpleNamespace

import numpy as np
import pytest

from common import cuda, kernels
from common.bench import trace as bench
from common.cuda import nvrtc
from common.cuda.machine_code import compiled
from common.report import results, tables

try:
    nvrtc.version()
    compiled.find_disassembler()
except RuntimeError as error:
    pytest.skip(str(error), allow_module_level=True)
if cuda.backend() == "gpu":
    pytest.skip("the counts are the simulator's", allow_module_level=True)


def both(kernel, grid, block, args):
    """(report as written, report as compiled)."""
    found = cuda.inspect(kernel, block)
    written = cuda.trace(kernel, grid, block, args)
    merged = cuda.trace(kernel, grid, block, args, merge=found)
    assert not written.findings and not merged.findings
    assert merged.shared_loads.bytes == written.shared_loads.bytes  # nothing is lost
    assert merged.shared_stores.bytes == written.shared_stores.bytes
    assert merged.global_loads == written.global_loads and merged.global_stores == written.global_stores
    return written, merged


def by_size(report, kind="load"):
    counts = {}
    for line in report.lines:
        if line.counts.space == "shared" and line.kind == kind:
            counts[line.size] = counts.get(line.size, 0) + line.counts.requests
    return counts


def test_the_product_of_the_trust_table():
    """Recorded on an H200: requests and wavefronts of the launch that the assembler merges."""
    case = next(one for one in bench.CASES if one.name == "sgemm")
    kernel, args = bench._prepared(case, bench.module())
    written, merged = both(kernel, case.grid, case.block, args)
    warps, slices = 16 * 32, 4
    assert by_size(written) == {4: warps * slices * 64}
    assert by_size(merged) == {4: warps * slices * 32, 16: warps * slices * 8}
    (wide,) = (line for line in merged.lines if line.size == 16)
    assert wide.array == "As" and wide.counts.requests == 16384
    (record,) = results.find(results.load(tables.CARD), suite="trace", case="sgemm")
    assert merged.shared_loads.wavefronts == record["measured"]["shared load wavefronts"]
    assert written.shared_loads.wavefronts == record["predicted"]["shared load wavefronts"]


def rung(variant, m=128, n=128, k=16):
    a, b = (np.random.default_rng(1).standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    with kernels.recorded() as launches:
        kernels.gemm(a, b, variant=variant)
    (launch,) = launches
    return launch.compiled(), launch.grid, launch.block, launch.args


@pytest.mark.parametrize(
    ("variant", "per_slice"),
    [("shared_tiles", {4: 32, 16: 8}), ("register_column", {4: 8, 16: 16}), ("register_block", {16: 32})],
)
def test_rungs_of_gemm(variant, per_slice):
    """Requests of one warp for one slice of K: those that the loop of the machine code has."""
    kernel, grid, block, args = rung(variant)
    found = kernels.inspect("gemm", variant)
    tile = {"shared_tiles": (32, 32, 32), "register_column": (64, 64, 8), "register_block": (128, 128, 8)}[variant]
    turns = (128 // tile[0]) * (128 // tile[1]) * -(-16 // tile[2]) * found.block // 32
    _, merged = both(kernel, grid, block, args)
    assert {size: number / turns for size, number in by_size(merged).items()} == per_slice
    assert {16: found.hot["LDS.128"], 4: found.hot["LDS.32"]} == {16: per_slice[16], 4: per_slice.get(4, 0)}


def test_wavefronts_of_rung_5():
    """Per slice 16 requests of A, each of one address for half a warp: 2 wavefronts. 16 of B, of every other 16 bytes: 8."""
    kernel, grid, block, args = rung("register_block")
    written, merged = both(kernel, grid, block, args)
    per_array = {line.array: line.counts for line in merged.lines if line.size == 16}
    assert per_array["As"].wavefronts == 2 * per_array["As"].requests
    assert per_array["Bs"].wavefronts == 8 * per_array["Bs"].requests
    assert per_array["As"].requests == per_array["Bs"].requests == 8 * 2 * 16  # 8 warps, 2 slices
    assert written.shared_loads.requests == 4 * merged.shared_loads.requests


def test_stores_are_merged_too():
    source = """
    extern "C" __global__ void k(const float4* __restrict__ x, float4* __restrict__ y) {
        __shared__ __align__(16) float s[128];
        float4 v = x[threadIdx.x];
        s[4 * threadIdx.x] = v.x, s[4 * threadIdx.x + 1] = v.y, s[4 * threadIdx.x + 2] = v.z, s[4 * threadIdx.x + 3] = v.w;
        __syncthreads();
        y[threadIdx.x] = make_float4(s[127 - threadIdx.x], 0.0f, 0.0f, 0.0f);
    }
    """
    kernel = cuda.RawKernel(source, "k")
    x, y = cuda.zeros((32, 4)), cuda.zeros((32, 4))
    found = cuda.inspect(kernel, 32)
    assert found.lines[5]["STS.128"] == 1
    written = cuda.trace(kernel, (1,), (32,), (x, y))
    merged = cuda.trace(kernel, (1,), (32,), (x, y), merge=found)
    assert by_size(written, "store") == {4: 4} and by_size(merged, "store") == {16: 1}
    assert by_size(written) == by_size(merged) == {4: 1}


def test_what_is_read_twice_is_two_requests():
    source = """
    extern "C" __global__ void k(float* y) {
        __shared__ __align__(16) float s[4];
        if (threadIdx.x < 4) s[threadIdx.x] = y[threadIdx.x];
        __syncthreads();
        float sum = 0.0f;
        for (int turn = 0; turn < 3; ++turn) {
            for (int i = 0; i < 4; ++i) sum = fmaf(sum, 1.5f, ((volatile float*)s)[i]);
        }
        y[threadIdx.x] = sum;
    }
    """
    kernel = cuda.RawKernel(source, "k")

    wide = SimpleNamespace(source=source, widths=lambda: {8: (16, 0)})  # as if line 8 had wide loads
    y = cuda.zeros(32)
    merged = cuda.trace(kernel, (1,), (32,), (y,), merge=wide)
    assert by_size(merged) == {16: 3}
    assert cuda.asnumpy(y).shape == (32,)


def test_another_source_is_refused():
    kernel = cuda.RawKernel('extern "C" __global__ void k(float* y) { y[0] = 1.0f; }', "k")
    with pytest.raises(ValueError, match="merge must be cuda.inspect of the same source, got one of add"):
        cuda.trace(kernel, (1,), (1,), (cuda.zeros(1),), merge=kernels.inspect("add", "naive"))
