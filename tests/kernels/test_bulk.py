"""Bulk copies and mbarriers (include/bulk.h): what they bring, and which mistakes the simulator tells."""

import re
from pathlib import Path

import numpy as np
import pytest
from nvrtc import compile_with_nvrtc

from common import cuda
from common.kernels.ladder import header_options

on_gpu = cuda.backend() == "gpu"
simulator_only = pytest.mark.skipif(on_gpu, reason="a GPU waits for ever, or says nothing")
needs_hopper = pytest.mark.skipif(on_gpu and cuda.compute_capability() < 90, reason="needs a card of sm_90")
OPTIONS = header_options()

# Warp 0's first thread brings pieces of 128 numbers into a ring of STAGES; warps 1 to 4 add them up. Each part can be
# replaced by a mistake.
RING = """#include "bulk.h"
#define PIECE 128
extern "C" __global__ void k(int pieces, const float* x, float* y) {
    __shared__ __align__(16) float ring[STAGES][PIECE];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) full[s].init(1), empty[s].init(EMPTY_COUNT);
        mbarriers_ready();
    }
    AFTER_INIT;
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            for (int i = 0; i < pieces; ++i) {
                const int s = i % STAGES, turn = i / STAGES;
                WAIT_EMPTY;
                EXPECT;
                bulk_copy(ring[s], x + i * PIECE, PIECE * 4, full[s]);
            }
    } else {
        const int t = threadIdx.x - 32;
        float sum = 0;
        for (int i = 0; i < pieces; ++i) {
            const int s = i % STAGES, turn = i / STAGES;
            WAIT_FULL;
            sum += ring[s][PIECE - 1 - t];
            ARRIVE;
        }
        y[t] = sum;
    }
}"""
RIGHT = {
    "STAGES": "3",
    "AFTER_INIT": "__syncthreads()",
    "EMPTY_COUNT": "128",
    "WAIT_EMPTY": "empty[s].wait((turn+1)%2)",
    "EXPECT": "full[s].expect(PIECE*4)",
    "WAIT_FULL": "full[s].wait(turn%2)",
    "ARRIVE": "empty[s].arrive()",
}
PIECES = 11


def compiled(source, changes=None):
    defines = tuple(f"-D{name}={value}" for name, value in (RIGHT | (changes or {})).items()) if source is RING else ()
    return cuda.RawKernel(source, "k", options=(*OPTIONS, *defines))


def ring(changes=None, trace=False):
    """(y, its right value, the report) of the ring with some of its parts replaced."""
    x = np.random.default_rng(0).standard_normal((PIECES, 128)).astype(np.float32)
    given = (PIECES, cuda.asarray(x), y := cuda.full(128, np.nan))
    kernel = compiled(RING, changes)
    report = cuda.trace(kernel, (1,), (160,), given) if trace else kernel((1,), (160,), given)
    return cuda.asnumpy(y), x.astype(np.float64).sum(0)[::-1], report


@needs_hopper
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"STAGES": "1"},
        {"STAGES": "11"},
        {"EMPTY_COUNT": "4", "ARRIVE": "__syncwarp(),empty[s].arrive(t%32==0)"},  # one arrival per warp
    ],
    ids=str,
)
def test_a_ring_of_stages(changes):
    y, want, _ = ring(changes)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


@simulator_only
@pytest.mark.parametrize(
    "changes", [{}, {"STAGES": "1"}, {"EMPTY_COUNT": "4", "ARRIVE": "__syncwarp(),empty[s].arrive(t%32==0)"}], ids=str
)
def test_the_trace_finds_nothing_in_a_right_ring(changes):
    y, want, report = ring(changes, trace=True)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    assert report.findings == ()
    assert report.global_loads.sectors == report.global_loads.ideal == PIECES * 128 * 4 // 32
    assert report.bytes_in_flight == int((RIGHT | changes)["STAGES"]) * 512


@simulator_only
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"EXPECT": "(void)0"},
            "at mbarrier 1 for the end of phase 0, which lacks 1 of 1 arrivals and has 512 bytes that",
        ),
        (
            {"EXPECT": "full[s].expect(1024)"},
            "128 threads wait at mbarrier 1 .* which lacks 512 bytes that are expected",
        ),
        ({"EXPECT": "full[s].expect(256)"}, "mbarrier 1 .* which has 256 bytes that nobody expected"),
        ({"ARRIVE": "(void)0"}, "1 thread waits at mbarrier 2 for the end of phase 0, which lacks 128 of 128 arrivals"),
        ({"EMPTY_COUNT": "129"}, "mbarrier 2 .* lacks 1 of 129 arrivals"),
        ({"WAIT_EMPTY": "empty[s].wait(turn%2)"}, "1 thread waits at mbarrier 2 .* lacks 128 of 128 arrivals"),
    ],
    ids=str,
)
def test_a_deadlock_says_what_is_missing(changes, told):
    with pytest.raises(cuda.KernelError, match=told):
        ring(changes)
    _, _, report = ring(changes, trace=True)
    (finding,) = [found for found in report.findings if found.kind == "deadlock"]
    assert re.search(told, finding.message)


@simulator_only
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"WAIT_FULL": "(void)0"}, "of shared memory, which no thread of the block has written"),
        ({"WAIT_FULL": "full[s].wait((turn+1)%2)"}, "has not waited for that phase of the copy's mbarrier"),
        # one thread waits, the others do not
        ({"WAIT_FULL": "if(t==0)full[s].wait(turn%2)"}, "which no thread of the block has written"),
        # the stage is filled again before all have read it
        (
            {"ARRIVE": "if(t==0)for(int a=0;a<128;++a)empty[s].arrive()"},
            r"writes ring\[\d+\], which thread .* uses in line 25: no mbarrier orders the two",
        ),
        # others use an mbarrier that may not be initialised yet
        ({"AFTER_INIT": "(void)0"}, r"updates full\[0\], thread \(0, 0, 0\) uses it in line 7: no __syncthreads lies"),
        # lane 0 arrives for a warp whose other lanes may still read
        ({"EMPTY_COUNT": "4", "ARRIVE": "empty[s].arrive(t%32==0)"}, "no mbarrier orders the two"),
    ],
    ids=str,
)
def test_a_wait_that_is_missing_is_told(changes, told):
    _, _, report = ring(changes, trace=True)
    assert any(re.search(told, found.message) for found in report.findings), report.findings


@simulator_only
@pytest.mark.parametrize("waits", [0, 1])
def test_a_barrier_of_the_block_waits_for_no_copy(waits):
    """But it passes on what one thread has waited for."""
    source = f"""#include "bulk.h"
    extern "C" __global__ void k(const float* x, float* y) {{
        __shared__ __align__(16) float s[128];
        __shared__ Mbarrier full;
        if (threadIdx.x == 0) full.init(1), mbarriers_ready(), full.expect(512), bulk_copy(s, x, 512, full);
        __syncthreads();
        if ({waits} && threadIdx.x == 0) full.wait(0);
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x];
        __syncthreads();
        if (threadIdx.x == 0) full.wait(0);
    }}"""
    report = cuda.trace(compiled(source), (1,), (64,), (cuda.zeros(128), cuda.zeros(64)))
    assert [found.kind for found in report.findings] == ([] if waits else ["race"])


@simulator_only
@pytest.mark.parametrize("early", [True, False])
def test_what_is_read_too_early_is_nan(early):
    """Also untraced: a copy comes when nobody can go on without it, and until then its target holds NaN."""
    source = f"""#include "bulk.h"
    extern "C" __global__ void k(const float* x, float* y) {{
        __shared__ __align__(16) float s[128];
        __shared__ Mbarrier full;
        full.init(1), mbarriers_ready(), full.expect(512);
        bulk_copy(s, x, 512, full);
        {"y[0] = s[0];" if early else ""}
        full.wait(0);
        {"" if early else "y[0] = s[0];"}
    }}"""
    x, y = cuda.asarray(np.full(128, 7, np.float32)), cuda.zeros(1)
    compiled(source)((1,), (1,), (x, y))
    np.testing.assert_array_equal(cuda.asnumpy(y), [np.nan if early else 7])
    report = cuda.trace(compiled(source), (1,), (1,), (x, y))
    assert [found.kind for found in report.findings] == (["race"] if early else [])


@simulator_only
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"WAIT_EMPTY": "(void)0"}, "whose phase has all its arrivals and is not over"),
        ({"EXPECT": "full[s].expect(512),full[s].arrive()"}, "whose phase has all its arrivals and is not over"),
        ({"EMPTY_COUNT": "0"}, "was not initialised"),
    ],
    ids=str,
)
def test_other_mistakes_stop_the_launch(changes, told):
    with pytest.raises(cuda.KernelError, match=told):
        ring(changes)


@simulator_only
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("full.wait(0);", "was not initialised"),
        ("full.init(1); mbarriers_ready(); bulk_copy(s, x + 1, 512, full);", "not multiples of 16"),
        ("full.init(1); full.expect(512); bulk_copy(s, x, 512, full);", "not known to the copy unit"),
        (
            "full.init(1); mbarriers_ready(); full.expect(512); bulk_copy(s, x, 512, full);",
            "ended while a bulk copy was under way",
        ),
        ("full.init(1); full.state = 0; full.arrive();", "holds something else"),
    ],
)
def test_misuse(body, told):
    source = f"""#include "bulk.h"
    extern "C" __global__ void k(const float* x) {{
        __shared__ __align__(16) float s[128];
        __shared__ Mbarrier full;
        {body}
    }}"""
    with pytest.raises(cuda.KernelError, match=told):
        compiled(source)((1,), (1,), (cuda.zeros(256),))


@simulator_only
@pytest.mark.parametrize("thread", [0, 1])
def test_the_thread_that_initialises_makes_it_known(thread):
    source = f"""#include "bulk.h"
    extern "C" __global__ void k(const float* x) {{
        __shared__ __align__(16) float s[128];
        __shared__ Mbarrier full;
        if (threadIdx.x == 0) full.init(1);
        if (threadIdx.x == {thread}) mbarriers_ready();
        __syncthreads();
        if (threadIdx.x == 1) full.expect(512), bulk_copy(s, x, 512, full);
        full.wait(0);
    }}"""
    report = cuda.trace(compiled(source), (1,), (2,), (cuda.zeros(128),))
    assert [found.kind for found in report.findings] == ([] if thread == 0 else ["stopped"])


@simulator_only
@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("__align__(16) float s[128]", []),
        ("__align__(128) float s[2][64]", []),
        ("float4 s[32]", []),
        ("float s[128]", ["misaligned"]),
        ("double2 s[32]", []),
        ("double s[64]", ["misaligned"]),
    ],
)
def test_an_array_that_lies_right_by_luck_is_told(declared, found):
    source = f"""#include "bulk.h"
    extern "C" __global__ void k(const float* x) {{
        __shared__ {declared};
        __shared__ Mbarrier bars[2];
        bars[0].init(1), mbarriers_ready(), bars[0].expect(512);
        bulk_copy(s, x, 512, bars[0]);
        bars[0].wait(0);
    }}"""
    report = cuda.trace(compiled(source), (1,), (1,), (cuda.zeros(128),))
    assert [one.kind for one in report.findings] == found, report.findings


@simulator_only
def test_a_copy_from_beyond_an_array_is_told():
    source = """#include "bulk.h"
    extern "C" __global__ void k(const float* x) {
        __shared__ __align__(16) float s[128];
        __shared__ Mbarrier full;
        full.init(1), mbarriers_ready(), full.expect(512);
        bulk_copy(s, x, 512, full);
        full.wait(0);
    }"""
    report = cuda.trace(compiled(source), (1,), (1,), (cuda.zeros(100),))
    assert [found.kind for found in report.findings] == ["out-of-bounds"]


# ---- Boxes of a matrix

BOX = """#include "bulk.h"
extern "C" __global__ void k(const __grid_constant__ TensorMap map, int column, int row, float* y, int n) {
    extern __shared__ __align__(1024) float s[];
    Mbarrier& full = *(Mbarrier*)(s + n);
    if (threadIdx.x == 0) {
        full.init(1);
        mbarriers_ready();
        full.expect(n * 4);
        bulk_copy_tile(s, map, column, row, full);
    }
    __syncthreads();
    full.wait(0);
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[i];
}"""


@needs_hopper
@pytest.mark.parametrize("box", [(8, 32), (64, 32), (5, 8), (16, 4)])
@pytest.mark.parametrize("start", [(0, 0), (3, 4), (40, 28), (-2, -8), (100, 0), (0, 1000)])
def test_a_box_of_a_matrix(rng, box, start):
    """With zeros where the matrix ends, on all four sides; rows of 128 bytes are swizzled."""
    matrix = rng.standard_normal((47, 36)).astype(np.float32)
    wide = np.zeros((47 + 1200, 36 + 2200), np.float32)
    wide[600:647, 1100:1136] = matrix
    want = wide[600 + start[0] :, 1100 + start[1] :][: box[0], : box[1]].copy()
    if box[1] == 32:
        r, c = np.indices(box)
        swizzled = np.empty_like(want)
        swizzled[r, (c // 4 ^ r % 8) * 4 + c % 4] = want
        want = swizzled
    n = box[0] * box[1]
    y = cuda.full(n, np.nan)
    tensor = cuda.TensorMap(cuda.asarray(matrix), box)
    assert tensor.nbytes == 4 * n
    compiled(BOX)((1,), (64,), (tensor, start[1], start[0], y, n), shared_mem=4 * n + 1024 - 4 * n % 1024 + 1024)
    np.testing.assert_array_equal(cuda.asnumpy(y).reshape(box), want)


@simulator_only
def test_a_column_that_is_no_multiple_of_16_bytes():
    """An H200 ends the launch with an illegal instruction."""
    given = (cuda.TensorMap(cuda.zeros((47, 36)), (5, 8)), 30, 0, cuda.zeros(40), 40)
    with pytest.raises(cuda.KernelError, match="the column of a tile counts, too"):
        compiled(BOX)((1,), (64,), given, shared_mem=2048)


def test_what_a_tensor_map_cannot_describe():
    for shape, box, told in (
        ((8, 7), (4, 4), "rows must begin at multiples of 16 bytes"),
        ((8, 64), (4, 64), "at most 128 bytes"),
        ((8, 64), (257, 32), "at most 256 rows"),
        ((8, 64), (4, 3), "a multiple of 16"),
    ):
        with pytest.raises(ValueError, match=told):
            cuda.TensorMap(cuda.zeros(shape), box)
    with pytest.raises(ValueError, match="float16 or float32 matrix"):
        cuda.TensorMap(cuda.zeros((8, 8, 8)), (4, 4))
    with pytest.raises(TypeError, match="argument 'n' must be an int32, got a TensorMap"):
        given = (0, 0, cuda.zeros(4), cuda.TensorMap(cuda.zeros((8, 8)), (4, 4)))
        compiled(BOX)((1,), (1,), (cuda.TensorMap(cuda.zeros((8, 8)), (4, 4)), *given))


def test_a_tensor_map_is_asked_for_where_the_kernel_has_one():
    with pytest.raises(TypeError, match="argument 'map'"):
        compiled(BOX)((1,), (1,), (cuda.zeros(4), 0, 0, cuda.zeros(4), 4))


@pytest.mark.parametrize("card", ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100"])
def test_nvrtc_takes_the_header(card):
    """Older cards, too, where it stops a launch: there the kernels can be traced."""
    defines = tuple(f"-D{name}={value}" for name, value in RIGHT.items())
    for source in (RING, BOX):
        assert compile_with_nvrtc(source, card, (*[o for o in OPTIONS if "std" not in o], *defines)) is None
    assert "SIM_" not in re.sub(r"#ifdef __CUDA_SIMULATOR__.*?#elif", "", _header(), flags=re.S)


def _header():
    return (Path(cuda.__file__).parents[1] / "kernels/include/bulk.h").read_text()
