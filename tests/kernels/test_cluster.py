"""Clusters, barriers of the grid and programmatic launches (cluster.h, grid.h in common/kernels/include). One body for
a GPU and the simulator.
"""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from nvrtc import compile_with_nvrtc
from tiers import seldom

from common import cuda
from common.kernels.ladder import INCLUDE, Launch

OPTIONS = ("-std=c++17", f"-I{INCLUDE}")
on_gpu = cuda.backend() == "gpu"
needs_clusters = pytest.mark.skipif(
    on_gpu and cuda.compute_capability() < 90, reason="clusters need a card of sm_90 or later"
)
needs_cooperation = pytest.mark.skipif(
    on_gpu and cuda.compute_capability() < 80, reason="cooperative launches are tested on sm_80 or later"
)
simulator_only = pytest.mark.skipif(on_gpu, reason="undefined on a GPU; the simulator says what is wrong")


def compiled(source, name="k", options=(), **how):
    return cuda.RawKernel(source, name, options=OPTIONS + tuple(options), **how)


def launch(source, grid, block, *args, shared_mem=0, options=(), **how):
    """Runs kernel `k` on copies of `args`; returns its arrays as NumPy's."""
    args = [cuda.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    kernel = compiled(source, options=options, **how)
    if shared_mem > 48 * 1024:
        kernel.max_dynamic_shared_size_bytes = shared_mem
    kernel(grid, block, tuple(args), shared_mem=shared_mem)
    return [cuda.asnumpy(a) for a in args if hasattr(a, "dtype") and getattr(a, "ndim", 0)]


# ---- Clusters

REDUCTION = """#include "cluster.h"
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(128) k(const float* x, float* y) {
    __shared__ float s[128];
    const unsigned t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int d = 64; d; d /= 2) {
        if (t < d) s[t] += s[t + d];
        __syncthreads();
    }
    cluster_sync();
    float sum = 0;
    for (unsigned r = 0; r < cluster_size(); ++r) sum += *cluster_map(s, r);
    if (t == 0) y[blockIdx.x] = sum;
    cluster_sync();
}"""


@needs_clusters
@pytest.mark.parametrize("split", [1, 2, 4, 8])
@pytest.mark.parametrize("clusters", [1, 3, 200])
def test_a_sum_of_all_blocks_of_a_cluster(rng, split, clusters):
    x = rng.standard_normal((clusters, split * 128)).astype(np.float32)
    y = np.full(clusters * split, np.nan, np.float32)
    _, y = launch(REDUCTION, (clusters * split,), (128,), x, y, options=(f"-DSPLIT={split}",))
    want = np.repeat(x.sum(1, dtype=np.float64), split)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-4)


@needs_clusters
@pytest.mark.parametrize("shape", [(2, 2, 1), (1, 2, 4), (8,), (3, 1, 2), (1, 7, 1)])
@pytest.mark.parametrize("many", [(1, 1, 1), (2, 3, 2)])
def test_ranks_count_x_first(shape, many):
    """Each block writes its place into the shared memory of every block of its cluster, at its rank."""
    x, y, z = (*shape, 1, 1)[:3]
    n = x * y * z
    source = f"""#include "cluster.h"
    extern "C" __global__ void __launch_bounds__(32) __cluster_dims__({", ".join(map(str, shape))}) k(int* out) {{
        __shared__ int places[8];
        cluster_sync();
        int place = blockIdx.x + 100 * blockIdx.y + 10000 * blockIdx.z;
        if (threadIdx.x < cluster_size()) cluster_map(places, threadIdx.x)[cluster_rank()] = place;
        cluster_sync();
        int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        if (threadIdx.x < {n}) out[block * {n} + threadIdx.x] = places[threadIdx.x];
    }}"""
    grid = tuple(a * b for a, b in zip(many, (x, y, z), strict=True))
    (out,) = launch(source, grid, (32,), np.full((grid[0] * grid[1] * grid[2], n), -1, np.int32))
    bz, by, bx = np.indices(grid[::-1]).reshape(3, -1)
    r = np.arange(n)
    want = (
        (bx // x * x)[:, None] + r % x
        + 100 * ((by // y * y)[:, None] + r // x % y)
        + 10000 * ((bz // z * z)[:, None] + r // (x * y))
    )  # fmt: skip
    np.testing.assert_array_equal(out, want)


@needs_clusters
@pytest.mark.parametrize("n", [1, 100, 20_000])
def test_dynamic_shared_memory_of_other_blocks(n):
    """Every block fills its own, then copies that of the block after it, from two places behind one another."""
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(4) k(int n, int* out) {
        extern __shared__ int s[];
        int *first = s, *second = s + n;
        for (int i = threadIdx.x; i < n; i += blockDim.x) first[i] = 10 * i + blockIdx.x, second[i] = -first[i];
        cluster_sync();
        const int* a = cluster_map(first, (cluster_rank() + 1) % 4);
        const int* b = cluster_map(second, (cluster_rank() + 2) % 4);
        for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = a[i] * 3 + b[i];
        cluster_sync();
    }"""
    (out,) = launch(source, (8,), (96,), n, np.zeros((8, n), np.int32), shared_mem=8 * n)
    block, i = np.arange(8)[:, None], 10 * np.arange(n)
    after = [block // 4 * 4 + (block + k) % 4 for k in (1, 2)]
    np.testing.assert_array_equal(out, 3 * (i + after[0]) - (i + after[1]))


@needs_clusters
def test_atomics_in_another_blocks_shared_memory():
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(8, 1, 1) k(unsigned* out) {
        __shared__ unsigned sum;
        if (threadIdx.x == 0) sum = 0;
        cluster_sync();
        atomicAdd(cluster_map(&sum, 0), blockIdx.x + threadIdx.x);
        cluster_sync();
        if (cluster_rank() == 0 && threadIdx.x == 0) out[blockIdx.x / 8] = sum;
    }"""
    (out,) = launch(source, (24,), (40,), np.zeros(3, np.uint32))
    np.testing.assert_array_equal(out, [40 * sum(range(8 * c, 8 * c + 8)) + 8 * sum(range(40)) for c in range(3)])


@needs_clusters
def test_many_rounds_in_a_ring():
    """In each round every block takes what its neighbour had; a barrier that lets one through early would show."""
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(8, 1, 1) k(int rounds, int* out) {
        __shared__ int s[2][64];
        s[0][threadIdx.x] = blockIdx.x * 64 + threadIdx.x;
        for (int r = 0; r < rounds; ++r) {
            cluster_sync();
            s[(r + 1) & 1][threadIdx.x] = cluster_map(&s[r & 1][0], (cluster_rank() + 1) & 7)[threadIdx.x];
        }
        cluster_sync();
        out[blockIdx.x * 64 + threadIdx.x] = s[rounds & 1][threadIdx.x];
    }"""
    (out,) = launch(source, (16,), (64,), 43, np.zeros(16 * 64, np.int32))
    want = np.roll(np.arange(16 * 64).reshape(2, 8, 64), -43 % 8 - 8, axis=1)
    np.testing.assert_array_equal(out, want.ravel())


MAIL = """#include "cluster.h"
#ifndef WAIT
#define WAIT box.wait(turn, mine)
#endif
#ifndef OPEN
#define OPEN box.open()
#endif
#ifndef BYTES
#define BYTES SPLIT * 32 * 16
#endif
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) k(int rounds, const float4* x, float4* y) {
    __shared__ Mailbox box;
    __shared__ float4 parts[SPLIT][32];
    const unsigned t = threadIdx.x, rank = cluster_rank();
    if (t == 0) OPEN;
    cluster_started();
    unsigned turn = 0;
    for (int r = 0; r < rounds; ++r) {
        const bool mine = (r + rank) % 2 == 0;                     // every second block gets mail
        const float4 v = x[blockIdx.x * 32 + t];
        for (unsigned to = r % 2; to < SPLIT; to += 2)
            box.send(&parts[rank][t], to, make_float4(v.x + r, v.y, v.z, v.w));
        if (mine && t == 0) box.expect(BYTES);
        WAIT;
        turn ^= mine;
        for (int i = 0; mine && i < SPLIT; ++i) {
            float4& sum = y[blockIdx.x * 32 + t];
            sum.x += parts[i][t].x, sum.y += parts[i][t].y, sum.z += parts[i][t].z, sum.w += parts[i][t].w;
        }
        if (r + 1 < rounds) cluster_sync();                        // all have read: the next round's may come
    }
}"""


@needs_clusters
@pytest.mark.parametrize("split", [2, 3, 8])
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_what_a_mailbox_waits_for_is_there(rng, split, rounds):
    x = rng.standard_normal((20, split, 32, 4)).astype(np.float32)
    for _ in range(5):
        _, y = launch(MAIL, (20 * split,), (32,), np.int32(rounds), x, np.zeros_like(x), options=(f"-DSPLIT={split}",))
        want = np.zeros(x.shape)
        for r in range(rounds):
            want[:, r % 2 :: 2] += (x.astype(np.float64) + np.array([r, 0, 0, 0])).sum(1, keepdims=True)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-4)


@simulator_only
def test_mail_that_nobody_waits_for_is_a_race():
    x = cuda.zeros((8, 32, 4), np.float32)
    for options, races in (((), False), (("-DWAIT=(void)0",), True)):
        kernel = compiled(MAIL, options=("-DSPLIT=2", *options))
        report = cuda.trace(kernel, (8,), (32,), (np.int32(1), x, cuda.zeros((8, 32, 4), np.float32)))
        assert bool(report.findings) == races


@simulator_only
@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("-DBYTES=(SPLIT*32*16+16)", "missing == 0"),  # a GPU waits for ever
        ("-DBYTES=(SPLIT*32*16-16)", "missing == 0"),  # goes on too early, or waits for ever
        ("-DBYTES=16*(r==0)*SPLIT*32", "missing == 0"),  # right in the first round
        ("-DWAIT=box.wait(1-turn,mine)", "expected % 2 != turn"),  # goes on too early
        ("-DWAIT=box.wait(0,mine)", "expected % 2 != turn"),  # right in the first round
    ],
)
def test_a_mailbox_that_a_gpu_would_wait_for_in_vain_or_not_at_all_is_told(capfd, option, told):
    kernel = compiled(MAIL, options=("-DSPLIT=2", option))
    arguments = np.int32(3), cuda.zeros((2, 32, 4), np.float32), cuda.zeros((2, 32, 4), np.float32)
    with pytest.raises(cuda.KernelError):
        kernel((2,), (32,), arguments)
    assert f"Assertion `{told}` failed" in capfd.readouterr().out


@simulator_only
def test_a_mailbox_that_was_not_opened_is_seen():
    kernel = compiled(MAIL, options=("-DSPLIT=2", "-DOPEN=(void)0"))
    arguments = np.int32(1), cuda.zeros((2, 32, 4), np.float32), cuda.zeros((2, 32, 4), np.float32)
    report = cuda.trace(kernel, (2,), (32,), arguments)
    assert "uninitialised-read" in {finding.kind for finding in report.findings}


# The box lies where the round before had numbers, and numbers where it had its box.
REUSED = """#include "cluster.h"
#ifndef CLOSE
#define CLOSE box->close()
#endif
extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int rounds, const float4* x, float4* y) {
    __shared__ float4 memory[2 * 32 + 1];
    const unsigned t = threadIdx.x, rank = cluster_rank();
    for (int r = 0; r < rounds; ++r) {
        Mailbox* const box = (Mailbox*)(memory + (r % 2 ? 64 : 0));
        float4* const parts = memory + (r % 2 ? 0 : 1);
        if (t == 0) box->open();
        cluster_sync();
        for (unsigned to = 0; to < 2; ++to) box->send(&parts[rank * 32 + t], to, x[blockIdx.x * 32 + t]);
        if (t == 0) box->expect(2 * 32 * 16);
        box->wait(0);
        float4& sum = y[blockIdx.x * 32 + t];
        for (int i = 0; i < 2; ++i) {
            const float4 v = parts[i * 32 + t];
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
        __syncthreads();
        if (t == 0) CLOSE;
        cluster_sync();  // all have read: the next round's may come
    }
}"""


@needs_clusters
def test_memory_of_a_closed_mailbox_is_free_for_anything(rng):
    x = rng.standard_normal((20, 2, 32, 4)).astype(np.float32)
    _, y = launch(REUSED, (40,), (32,), np.int32(9), x, np.zeros_like(x))
    np.testing.assert_allclose(y, np.broadcast_to(9 * x.sum(1, keepdims=True, dtype=np.float64), y.shape), rtol=1e-5)


@simulator_only
@pytest.mark.parametrize(
    ("option", "rounds", "told"),
    [
        # what an H200 did to memory that had been a mailbox: numbers in it became a mailbox's state again
        ("-DCLOSE=(void)0", 2, "wrote something else into the memory of a mailbox that it had not closed"),
        ("-DCLOSE=box->open()", 1, "opened a mailbox where one is open already"),
        ("-DCLOSE=box->close(),box->close()", 1, "closed a mailbox that is not open"),
    ],
)
def test_a_mailbox_that_is_not_closed_is_told(option, rounds, told):
    kernel = compiled(REUSED, options=(option,))
    arguments = np.int32(rounds), cuda.zeros((2, 32, 4), np.float32), cuda.zeros((2, 32, 4), np.float32)
    with pytest.raises(cuda.KernelError, match=told):
        kernel((2,), (32,), arguments)
    kernel = compiled(REUSED)  # a fault leaves nothing behind
    kernel((2,), (32,), arguments)


@needs_clusters
def test_threads_that_have_returned_are_not_waited_for():
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(4, 1, 1) k(int* out) {
        if (cluster_rank() == 3) return;
        if (threadIdx.x >= 32) return;
        cluster_sync();
        out[blockIdx.x * 32 + threadIdx.x] = 1;
        cluster_sync();
    }"""
    (out,) = launch(source, (8,), (64,), np.zeros((8, 32), np.int32))
    np.testing.assert_array_equal(out, np.repeat((np.arange(8) % 4 < 3)[:, None], 32, 1))


@needs_clusters
def test_cooperative_groups_know_the_cluster():
    source = """// requires: sm_90
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(2, 2, 1) k(int* out) {
        __shared__ int s;
        cg::cluster_group cluster = cg::this_cluster();
        if (threadIdx.x == 0) s = 10 * cluster.block_rank() + cluster.num_blocks();
        cluster.sync();
        int next = *cluster.map_shared_rank(&s, (cluster.block_rank() + 1) % cluster.num_blocks());
        int* o = out + (blockIdx.x + blockIdx.y * gridDim.x) * 32;
        o[threadIdx.x] = next + 1000 * cluster.thread_rank() + 1000000 * cluster.num_threads();
        cluster.sync();
    }"""
    (out,) = launch(source, (4, 2), (32,), np.zeros((2, 4, 32), np.int32))
    y, x, t = np.indices((2, 4, 32))
    rank = x % 2 + 2 * (y % 2)
    np.testing.assert_array_equal(out, 10 * ((rank + 1) % 4) + 4 + 1000 * (32 * rank + t) + 128_000_000)


def test_without_the_attribute_a_block_is_alone():
    source = """#include "cluster.h"
    extern "C" __global__ void k(int* out) {
        __shared__ int s[32];
        s[threadIdx.x] = threadIdx.x;
        cluster_sync();
        out[blockIdx.x * 32 + threadIdx.x] = cluster_map(s, cluster_rank())[31 - threadIdx.x] + 100 * cluster_size();
    }"""
    (out,) = launch(source, (3,), (32,), np.zeros((3, 32), np.int32))
    np.testing.assert_array_equal(out, np.tile(131 - np.arange(32), (3, 1)))


@needs_clusters
@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((12,), "grid.x must be a multiple of 8 (__cluster_dims__(8, 1, 1)), got 12"),
        ((7, 8), "grid.x must be a multiple of 8"),
    ],
)
def test_a_grid_that_clusters_do_not_divide(grid, message):
    kernel = compiled(REDUCTION, options=("-DSPLIT=8",))
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel(grid, (128,), (cuda.zeros(8 * 128), cuda.zeros(8)))


@needs_clusters
def test_a_cluster_has_at_most_eight_blocks():
    with pytest.raises(ValueError, match=re.escape("k: __cluster_dims__(4, 4, 1) makes clusters of 16 blocks")):
        compiled('#define FOUR 4\nextern "C" __global__ void __cluster_dims__(FOUR, FOUR) k(float* y) { y[0] = 1; }')


@simulator_only
def test_only_shared_memory_of_blocks_that_there_are_can_be_mapped():
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(unsigned rank, bool shared, float* y) {
        __shared__ float s[32];
        cluster_sync();
        *cluster_map(shared ? s : y, rank) = 1;
        cluster_sync();
    }"""
    with pytest.raises(cuda.KernelError, match=r"block 2 of its cluster, which has 2 \(__cluster_dims__\(2, 1, 1\)\)"):
        launch(source, (2,), (1,), np.uint32(2), True, np.zeros(1, np.float32))
    with pytest.raises(cuda.KernelError, match="does not point into its block's shared memory"):
        launch(source, (2,), (1,), np.uint32(1), False, np.zeros(1, np.float32))


@simulator_only
def test_a_fault_ends_the_blocks_that_wait_for_the_faulty_one():
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(8, 1, 1) k(float* y) {
        if (blockIdx.x == 13) __trap();
        cluster_sync();
        y[0] = 1;
    }"""
    for _ in range(20):
        with pytest.raises(cuda.KernelError, match=r"block \(13, 0, 0\) executed __trap"):
            launch(source, (64,), (33,), np.zeros(1, np.float32))


@simulator_only
def test_other_blocks_dynamic_shared_memory_ends_where_it_was_asked_to():
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int i) {
        extern __shared__ float s[];
        cluster_sync();
        cluster_map(s, cluster_rank() ^ 1)[i] = 1;
        cluster_sync();
    }"""
    launch(source, (2,), (1,), 31, shared_mem=128)
    with pytest.raises(cuda.KernelError, match="byte 128 of dynamic shared memory"):
        launch(source, (2,), (1,), 32, shared_mem=128)


@simulator_only
def test_the_shared_memory_of_a_block_that_has_returned_is_gone():
    """On a GPU the access fails; here it finds NaN."""
    source = """#include "cluster.h"
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(float* y) {
        __shared__ float s;
        s = 1;
        cluster_sync();
        if (cluster_rank() == 1) return;
        cluster_sync();                     // block 1 has returned by now: nobody else is waited for
        y[0] = *cluster_map(&s, 1);
    }"""
    (y,) = launch(source, (2,), (1,), np.zeros(1, np.float32))
    assert np.isnan(y[0])


# ---- The whole grid

RING = """#include "grid.h"
extern "C" __global__ void __cluster_dims__(SPLIT) k(int rounds, const int* x, int* a, int* b, unsigned* counter) {
    const int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = x[i];
    for (int r = 0; r < rounds; ++r) {   // each round every number goes one place on, through all blocks
        BARRIER(counter);
        b[(i + 1) % n] = a[i];
        BARRIER(counter);
        a[i] = b[i];
    }
}"""


@needs_cooperation
@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (2, 32), (16, 33), (60, 7), (128, 64)])
def test_a_barrier_of_the_grid_over_many_rounds(blocks, threads):
    """Launched several times, also with another grid, on one counter that nobody resets."""
    counter = cuda.zeros(1, np.uint32)
    kernel = compiled(RING, options=("-DSPLIT=1", "-DBARRIER=grid_barrier"), enable_cooperative_groups=True)
    for grid in (blocks, blocks, 3, blocks):
        x = np.arange(grid * threads, dtype=np.int32)
        a, b = cuda.zeros(x.shape, np.int32), cuda.zeros(x.shape, np.int32)
        kernel((grid,), (threads,), (20, cuda.asarray(x), a, b, counter))
        np.testing.assert_array_equal(cuda.asnumpy(a), np.roll(x, 20))
    assert int(cuda.asnumpy(counter)[0]) in (0, 1 << 31)


@needs_clusters
@pytest.mark.parametrize("barrier", ["grid_barrier", "grid_barrier_cluster"])
@pytest.mark.parametrize("blocks", [8, 128])
def test_a_barrier_of_a_grid_of_clusters(blocks, barrier):
    x = np.arange(blocks * 64, dtype=np.int32)
    zero = np.zeros_like(x)
    options = ("-DSPLIT=8", f"-DBARRIER={barrier}")
    arrays = x, zero, zero, np.zeros(1, np.uint32)
    _, a, *_ = launch(RING, (blocks,), (64,), 5, *arrays, options=options, enable_cooperative_groups=True)
    np.testing.assert_array_equal(a, np.roll(x, 5))


MIXED = """#include "grid.h"
extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(256)
k(int rounds, float* partial, float* y, unsigned* counter) {
    __shared__ float s;
    float v = blockIdx.x;
    for (int r = 0; r < rounds; ++r) {
        if (threadIdx.x == 0) s = v;
        cluster_sync();
        if (cluster_rank() == 0 && threadIdx.x == 0) {
            float sum = 0;
            for (int k = 0; k < 8; ++k) sum += *cluster_map(&s, k);
            partial[blockIdx.x / 8] = sum;
        }
        grid_barrier(counter);
        float sum = 0;
        for (int k = 0; k < gridDim.x / 8; ++k) sum += __ldcg(partial + k);
        v = sum / gridDim.x + blockIdx.x;
        grid_barrier(counter);
    }
    if (threadIdx.x == 0) y[blockIdx.x] = v;
}"""


@needs_clusters
@pytest.mark.parametrize("blocks", [8, 64, 128])
def test_barriers_of_clusters_and_of_the_grid_in_turn(blocks):
    arrays = np.zeros(blocks // 8, np.float32), np.zeros(blocks, np.float32), np.zeros(1, np.uint32)
    _, y, _ = launch(MIXED, (blocks,), (256,), 6, *arrays, enable_cooperative_groups=True)
    v = np.arange(blocks, dtype=np.float64)
    for _ in range(6):
        v = v.mean() + np.arange(blocks)
    np.testing.assert_allclose(y, v, rtol=1e-5)


@simulator_only
def test_blocks_that_wait_for_each_other_at_two_barriers():
    source = """#include "grid.h"
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(unsigned* counter) {
        if (blockIdx.x == 3) cluster_sync();
        grid_barrier(counter);
    }"""
    with pytest.raises(cuda.KernelError, match="some for their cluster"):
        launch(source, (8,), (32,), np.zeros(1, np.uint32), enable_cooperative_groups=True)


@simulator_only
def test_a_barrier_of_the_grid_needs_a_cooperative_launch():
    source = '#include "grid.h"\nextern "C" __global__ void k(unsigned* counter) { grid_barrier(counter); }'
    with pytest.raises(cuda.KernelError, match="not cooperative"):
        launch(source, (2,), (1,), np.zeros(1, np.uint32))


# ---- Programmatic dependent launch

CHAIN = """#include "grid.h"
extern "C" __global__ void k(int n, const float* x, float* y) {
    launch_dependents();
    wait_for_inputs();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(i + 12345) % n] + 1;
}"""
programmatic = pytest.mark.parametrize("programmatic", [False, True])


def can_be_programmatic():
    if on_gpu and cuda.compute_capability() >= 90 and importlib.util.find_spec("cuda.bindings") is None:
        pytest.skip("the package cuda-bindings is not installed")


@pytest.mark.parametrize("launches_first", [False, True])
@programmatic
def test_launches_that_overlap_wait_for_their_inputs(programmatic, launches_first):
    """A hundred launches, each of which reads what other blocks of the one before have written."""
    if programmatic:
        can_be_programmatic()
    n = 100_000 if on_gpu else 1000
    kernel = compiled("#define LAUNCHES_FIRST 1\n" * launches_first + CHAIN)
    a, b = cuda.asarray(np.arange(n, dtype=np.float32) % 1000), cuda.full(n, np.nan)
    grid = (-(-n // 256),)
    there, back = (kernel.bound(grid, (256,), (n, *two), programmatic=programmatic) for two in ((a, b), (b, a)))
    for _ in range(50):
        there()
        back()
    want = np.roll(np.arange(n, dtype=np.float32) % 1000, -12345 * 100 % n) + 100
    np.testing.assert_array_equal(cuda.asnumpy(a), want)


@programmatic
def test_a_recorded_launch_can_be_programmatic(programmatic):
    if programmatic:
        can_be_programmatic()
    y = cuda.zeros(1000)
    args = (1000, cuda.asarray(np.arange(1000, dtype=np.float32)), y)
    made = Launch("k", lambda: compiled(CHAIN), (4,), (256,), args, 0, 0, programmatic=programmatic)
    made()
    made()
    np.testing.assert_array_equal(cuda.asnumpy(y), np.roll(np.arange(1000), -345) + 1)


@pytest.mark.skipif(not on_gpu, reason="graphs are a GPU's")
def test_programmatic_launches_are_captured():
    import cupy

    can_be_programmatic()
    kernel = compiled(CHAIN)
    a, b = cuda.asarray(np.arange(1000, dtype=np.float32)), cuda.full(1000, np.nan)
    there, back = (kernel.bound((4,), (256,), (1000, *two), programmatic=True) for two in ((a, b), (b, a)))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        for _ in range(10):
            there()
            back()
        graph = stream.end_capture()
        for _ in range(3):
            graph.launch(stream)
        stream.synchronize()
    np.testing.assert_array_equal(cuda.asnumpy(a), np.roll(np.arange(1000), -12345 * 60 % 1000) + 60)


@pytest.mark.skipif(not on_gpu, reason="every kind of launch is one on the simulator")
def test_a_cooperative_kernel_is_not_launched_programmatically():
    kernel = compiled(CHAIN, enable_cooperative_groups=True)
    with pytest.raises(ValueError, match="programmatic=True is not for kernels with enable_cooperative_groups"):
        kernel.bound((1,), (32,), (1, cuda.zeros(1), cuda.zeros(1)), programmatic=True)


# ---- NVIDIA's compiler


def texts():
    """The kernels of this file that are no f-strings."""
    found = re.findall(r'"""((?://[^\n]*\s*)?#include .*?)"""', Path(__file__).read_text(), flags=re.S)
    return [text for text in found if "{n}" not in text]


@seldom(6)
@pytest.mark.parametrize("card", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_nvrtc_compiles_both_headers(card):
    """Without clusters, where a card has none, as well."""
    assert len(texts()) >= 15
    for source in texts():
        if "requires: sm_90" in source and card in ("sm_75", "sm_80"):
            continue
        given = (*OPTIONS, "-DSPLIT=8", "-DBARRIER=grid_barrier_cluster")
        assert compile_with_nvrtc(source, card, given) is None, source
