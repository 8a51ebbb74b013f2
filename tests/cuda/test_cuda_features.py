"""Every feature of CUDA C++ that the course uses, against NumPy, on whichever backend is there.

test_nvrtc.py compiles every kernel text of this file with NVRTC as well, so it is CUDA and not a dialect.
"""

import ctypes

import numpy as np
import pytest

from common import cuda

simulator_only = pytest.mark.skipif(cuda.backend() == "gpu", reason="a property of the simulator")


def launch(source, name, grid, block, *args, shared_mem=0, **options):
    """Compiles and runs a kernel on copies of `args`; returns its arrays, in order, as NumPy's."""
    kernel = cuda.RawKernel(source, name, **options)
    if shared_mem > 48 * 1024:
        kernel.max_dynamic_shared_size_bytes = shared_mem
    args = [cuda.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    kernel(grid, block, tuple(args), shared_mem=shared_mem)
    return [cuda.asnumpy(a) for a in args if not isinstance(a, (int, np.generic)) and a is not None]


def random(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---- Where a thread stands


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1,), (1,)),
        ((3,), (33,)),
        ((7, 2), (5, 3)),
        ((2, 3, 4), (3, 5, 7)),
        ((5, 1, 2), (1, 1, 64)),
        ((1, 9), (31, 33)),
    ],
)
def test_indices_in_up_to_three_dimensions(grid, block):
    source = r"""
    extern "C" __global__ void where(int* out) {
        long thread = threadIdx.x + blockDim.x * (threadIdx.y + (long)blockDim.y * threadIdx.z);
        long block = blockIdx.x + gridDim.x * (blockIdx.y + (long)gridDim.y * blockIdx.z);
        int* o = out + 6 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
        o[0] = threadIdx.x; o[1] = threadIdx.y; o[2] = threadIdx.z;
        o[3] = blockIdx.x;  o[4] = blockIdx.y;  o[5] = blockIdx.z;
    }"""
    full = (*grid, 1, 1)[:3][::-1] + (*block, 1, 1)[:3][::-1]
    bz, by, bx, tz, ty, tx = np.indices(full).reshape(6, -1)
    (out,) = launch(source, "where", grid, block, np.zeros((np.prod(full), 6), np.int32))
    np.testing.assert_array_equal(out, np.stack([tx, ty, tz, bx, by, bz], 1))


def test_a_big_grid_of_small_blocks():
    source = r"""
    extern "C" __global__ void count(unsigned long long* sum) {
        if (threadIdx.x == 0) atomicAdd(sum, (unsigned long long)blockIdx.x);
    }"""
    (out,) = launch(source, "count", (200_000,), (2,), np.zeros(1, np.uint64))
    assert out[0] == 200_000 * 199_999 // 2


def test_dim3_and_uint3_convert():
    source = r"""
    __device__ unsigned volume(dim3 d) { return d.x * d.y * d.z; }
    extern "C" __global__ void k(unsigned* out) {
        dim3 a = blockDim; uint3 b = threadIdx; dim3 c(2, 3);
        out[b.x] = volume(a) + volume(gridDim) * 100 + volume(c) * 10000;
    }"""
    (out,) = launch(source, "k", (2, 1, 2), (3,), np.zeros(3, np.uint32))
    assert (out == 3 + 400 + 60000).all()


# ---- Barriers and shared memory


@pytest.mark.parametrize("threads", [1, 7, 32, 33, 100, 256, 1000, 1024])
def test_a_barrier_separates_writes_from_reads(threads):
    source = r"""
    extern "C" __global__ void reverse(const float* x, float* y) {
        __shared__ float tile[1024];
        tile[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
        __syncthreads();
        y[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
    }"""
    x = random((5, threads))
    _, y = launch(source, "reverse", (5,), (threads,), x, np.zeros_like(x))
    np.testing.assert_array_equal(y, x[:, ::-1])


def test_barriers_that_count():
    source = r"""
    extern "C" __global__ void vote(const int* x, int* out) {
        int v = x[threadIdx.x];
        int count = __syncthreads_count(v > 2), all = __syncthreads_and(v > 0), any = __syncthreads_or(v > 8);
        int none = __syncthreads_or(v > 100), second = __syncthreads_count(v > 4);
        int o[5] = {count, all != 0, any != 0, none != 0, second};
        for (int i = 0; i < 5; ++i) out[threadIdx.x * 5 + i] = o[i];
    }"""
    x = np.random.default_rng(1).integers(1, 10, 77).astype(np.int32)
    _, out = launch(source, "vote", (1,), (77,), x, np.zeros((77, 5), np.int32))
    assert (out == [(x > 2).sum(), 1, (x > 8).any(), 0, (x > 4).sum()]).all()


def test_threads_that_return_are_not_waited_for():
    source = r"""
    extern "C" __global__ void early(int n, float* y) {
        __shared__ float s[128];
        int i = threadIdx.x;
        if (i >= n) return;
        s[i] = i;
        __syncthreads();
        if (i % 3 == 0) return;
        y[i] = s[n - 1 - i];
        __syncthreads();
        y[i] += 1;
    }"""
    (y,) = launch(source, "early", (1,), (128,), 50, np.zeros(128, np.float32))
    i = np.arange(128)
    np.testing.assert_array_equal(y, np.where((i < 50) & (i % 3 > 0), 50 - i, 0))


@pytest.mark.parametrize("n", [1, 17, 300])
def test_dynamic_shared_memory(n):
    source = r"""
    extern "C" __global__ void rotate(int n, const double* x, double* y) {
        extern __shared__ double s[];
        for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[(i + 1) % n];
    }"""
    x = random(n, np.float64)
    _, y = launch(source, "rotate", (2,), (64,), n, x, np.zeros_like(x), shared_mem=8 * n)
    np.testing.assert_array_equal(y, np.roll(x, -1))


def test_more_dynamic_shared_memory_than_48_kib():
    source = r"""
    extern "C" __global__ void far(int n, int* y) {
        extern __shared__ int s[];
        for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = i * i;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[n - 1 - i];
    }"""
    n = 60 * 1024 // 4
    (y,) = launch(source, "far", (1,), (96,), n, np.zeros(n, np.int32), shared_mem=4 * n)
    np.testing.assert_array_equal(y, np.arange(n, dtype=np.int32)[::-1] ** 2)


def test_ways_to_declare_dynamic_shared_memory():
    source = r"""
    extern __shared__ unsigned char everywhere[];     // outside of a function, and a comment: extern __shared__ int no[];
    extern __shared__ float rows[][4];
    extern "C" __global__ void a(float* y) {
        extern __shared__ __align__(16) unsigned char raw[];
        float* s = reinterpret_cast<float*>(raw);
        float* late = s + 32;
        s[threadIdx.x] = threadIdx.x;
        late[threadIdx.x] = 2 * threadIdx.x;
        __syncthreads();
        y[threadIdx.x] = s[31 - threadIdx.x] + late[threadIdx.x] + ((float*)everywhere)[1];
        y[threadIdx.x] += rows[2][3] - 11;
    }
    extern "C" __global__ void b(float* y) {
        extern __shared__ float4 v[];
        extern __shared__
            float same[];
        v[threadIdx.x] = make_float4(threadIdx.x, 1, 2, 3);
        __syncthreads();
        y[threadIdx.x] = same[4 * (31 - threadIdx.x)] + v[threadIdx.x].w;
    }
    template <typename T> __global__ void c(T* y) {
        extern __shared__ __align__(16) char memory[];
        T* s = (T*)memory;
        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        y[threadIdx.x] = s[threadIdx.x ^ 1];
    }"""
    module = cuda.RawModule(code=source, name_expressions=["c<float>", "c<double>"])
    i = np.arange(32)
    for name, shared, expected in [
        ("a", 256, 32 + i),
        ("b", 512, 34 - i),
        ("c<float>", 128, i ^ 1),
        ("c<double>", 256, i ^ 1),
    ]:
        y = cuda.zeros(32, np.float64 if "double" in name else np.float32)
        module.get_function(name)((1,), (32,), (y,), shared_mem=shared)
        np.testing.assert_array_equal(cuda.asnumpy(y), expected, err_msg=name)


def test_shared_memory_of_a_2d_block_in_odd_sizes():
    source = r"""
    extern "C" __global__ void transpose(int h, int w, const float* x, float* y) {
        __shared__ float tile[16][17];
        int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
        if (r < h && c < w) tile[threadIdx.y][threadIdx.x] = x[r * w + c];
        __syncthreads();
        int rt = blockIdx.x * 16 + threadIdx.y, ct = blockIdx.y * 16 + threadIdx.x;
        if (rt < w && ct < h) y[rt * h + ct] = tile[threadIdx.x][threadIdx.y];
    }"""
    for h, w in [(1, 1), (7, 7), (17, 33), (101, 53)]:
        x = random((h, w))
        _, y = launch(
            source,
            "transpose",
            (-(-w // 16), -(-h // 16)),
            (16, 16),
            h,
            w,
            x,
            np.full((w, h), np.nan, np.float32),
        )
        np.testing.assert_array_equal(y, x.T)


def test_shared_arrays_of_two_instances_of_a_template_are_two():
    source = r"""
    template <int K> __device__ int* buffer() { __shared__ int s[4]; return s; }
    extern "C" __global__ void k(int* y) {
        buffer<1>()[threadIdx.x] = 10; buffer<2>()[threadIdx.x] = 20;
        __syncthreads();
        y[threadIdx.x] = buffer<1>()[3 - threadIdx.x] + buffer<2>()[threadIdx.x] * 100;
    }"""
    (y,) = launch(source, "k", (1,), (4,), np.zeros(4, np.int32))
    assert (y == 2010).all()


# ---- Warps

SHUFFLES = r"""
extern "C" __global__ void shuffle(int kind, int argument, int width, unsigned mask, const int* x, int* y) {
    int i = threadIdx.x, v = x[i], r = -1;
    if (mask >> (i & 31) & 1) {
        if (kind == 0) r = __shfl_sync(mask, v, argument, width);
        if (kind == 1) r = __shfl_up_sync(mask, v, argument, width);
        if (kind == 2) r = __shfl_down_sync(mask, v, argument, width);
        if (kind == 3) r = __shfl_xor_sync(mask, v, argument, width);
    }
    y[i] = r;
}"""


def source_lane(kind, lane, argument, width):
    """Which lane's value a lane gets: the pseudo-code of `shfl` in the PTX manual."""
    section, last = lane & ~(width - 1), lane | (width - 1)
    b = argument & 31
    j, ok = {
        0: lambda: (section | (b & (width - 1)), True),
        1: lambda: (lane - b, lane - b >= section),
        2: lambda: (lane + b, lane + b <= last),
        3: lambda: (lane ^ b, (lane ^ b) <= last),
    }[kind]()
    return j if ok else lane


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("kind", range(4), ids=["idx", "up", "down", "xor"])
def test_every_shuffle_at_every_width(kind, width):
    kernel = cuda.RawKernel(SHUFFLES, "shuffle")
    x = np.random.default_rng(2).integers(0, 10**9, 96).astype(np.int32)
    device = cuda.asarray(x)
    for argument in [0, 1, 2, 3, 5, 8, 15, 16, 17, 31]:
        y = cuda.zeros(96, np.int32)
        kernel((1,), (96,), (kind, argument, width, np.uint32(0xFFFFFFFF), device, y))
        expected = [x[i // 32 * 32 + source_lane(kind, i % 32, argument, width)] for i in range(96)]
        np.testing.assert_array_equal(cuda.asnumpy(y), expected, err_msg=f"argument {argument}")


@pytest.mark.parametrize("mask", [0x0000FFFF, 0xF0F0F0F0, 0x00000001, 0x80000001, 0x12345678])
def test_shuffles_of_some_lanes(mask):
    lanes = [i for i in range(32) if mask >> i & 1]
    x = np.arange(100, 132, dtype=np.int32)
    y = launch(SHUFFLES, "shuffle", (1,), (32,), 0, lanes[-1], 32, np.uint32(mask), x, np.zeros(32, np.int32))[1]
    np.testing.assert_array_equal(y, [x[lanes[-1]] if i in lanes else -1 for i in range(32)])


def test_shuffles_of_every_type():
    source = r"""
    #include <cuda_fp16.h>
    template <typename T> __global__ void k(const T* x, T* y) { y[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 5); }
    """
    for name, dtype in {"int": "i4", "unsigned": "u4", "long long": "i8", "unsigned long long": "u8", "float": "f4",
                        "double": "f8", "__half": "f2"}.items():  # fmt: skip
        x = (random(32) * 1000).astype(dtype) if dtype[0] != "u" else np.arange(32).astype(dtype) << np.uint8(20)
        x, y = cuda.asarray(x), cuda.zeros(32, dtype)
        cuda.RawModule(code=source, name_expressions=[f"k<{name}>"]).get_function(f"k<{name}>")((1,), (32,), (x, y))
        np.testing.assert_array_equal(cuda.asnumpy(y), cuda.asnumpy(x)[np.arange(32) ^ 5], err_msg=name)


def test_votes_and_matches():
    source = r"""
    extern "C" __global__ void k(const int* x, unsigned* y) {
        int v = x[threadIdx.x], same;
        unsigned* o = y + threadIdx.x * 6;
        o[0] = __ballot_sync(~0u, v & 1);
        o[1] = __any_sync(~0u, v == 3) != 0;
        o[2] = __all_sync(~0u, v < 8) != 0;
        o[3] = __match_any_sync(~0u, v);
        o[4] = __match_all_sync(~0u, v / 8, &same) == ~0u && same;
        o[5] = __match_all_sync(~0u, v, &same) == 0 && !same;
    }"""
    x = np.random.default_rng(3).integers(0, 8, 64).astype(np.int32)
    _, y = launch(source, "k", (1,), (64,), x, np.zeros((64, 6), np.uint32))
    bits = 1 << np.arange(32, dtype=np.uint64)
    for i in range(64):
        w = x[i // 32 * 32 :][:32]
        np.testing.assert_array_equal(y[i], [bits[w % 2 == 1].sum(), (w == 3).any(), 1, bits[w == x[i]].sum(), 1, 1])


def test_warp_reductions_of_sm_80():
    source = r"""  // requires: sm_80
    extern "C" __global__ void k(const int* x, int* y) {
        int v = x[threadIdx.x], *o = y + threadIdx.x * 9;
        unsigned u = v;
        o[0] = __reduce_add_sync(~0u, v); o[1] = __reduce_min_sync(~0u, v); o[2] = __reduce_max_sync(~0u, v);
        o[3] = __reduce_min_sync(~0u, u); o[4] = __reduce_max_sync(~0u, u); o[5] = __reduce_and_sync(~0u, u);
        o[6] = __reduce_or_sync(~0u, u);  o[7] = __reduce_xor_sync(~0u, u);
        o[8] = threadIdx.x < 8 ? __reduce_add_sync(0xffu, v) : 0;
    }"""
    needs_sm_80()
    x = np.random.default_rng(4).integers(-(2**31), 2**31, 32).astype(np.int32)
    _, y = launch(source, "k", (1,), (32,), x, np.zeros((32, 9), np.int32))
    u = x.view(np.uint32)
    with np.errstate(over="ignore"):
        unsigned = [
            u.min(),
            u.max(),
            np.bitwise_and.reduce(u),
            np.bitwise_or.reduce(u),
            np.bitwise_xor.reduce(u),
        ]
        expected = [x.sum(dtype=np.int32), x.min(), x.max(), *np.array(unsigned, np.uint32).view(np.int32)]
        np.testing.assert_array_equal(y[0], [*expected, x[:8].sum(dtype=np.int32)])
    assert (y[:, :8] == y[0, :8]).all()
    assert (y[8:, 8] == 0).all()


def needs_sm_80():
    if cuda.backend() == "gpu":
        import cupy

        if int(cupy.cuda.Device().compute_capability) < 80:
            pytest.skip("needs a card of sm_80 or later")


def test_divergent_branches_with_their_own_masks():
    source = r"""
    extern "C" __global__ void k(int* y) {
        int i = threadIdx.x, v = i;
        if (i < 16) { for (int d = 8; d; d >>= 1) v += __shfl_xor_sync(0x0000ffffu, v, d); __syncwarp(0x0000ffffu); }
        else        { for (int d = 8; d; d >>= 1) v = max(v, __shfl_xor_sync(0xffff0000u, v, d)); __syncwarp(0xffff0000u); }
        __syncwarp();
        y[i] = v + __shfl_sync(~0u, v, 31 - i);
    }"""
    (y,) = launch(source, "k", (1,), (32,), np.zeros(32, np.int32))
    assert (y == 120 + 31).all()


def test_a_partial_warp_at_the_end_of_a_block():
    source = r"""
    extern "C" __global__ void sum(const float* x, float* y) {
        float v = x[threadIdx.x];
        unsigned mask = __ballot_sync(~0u, 1);
        for (int d = 16; d; d >>= 1) { float o = __shfl_down_sync(mask, v, d); if ((threadIdx.x & 31) + d < 16 || threadIdx.x < 32) v += o; }
        if ((threadIdx.x & 31) == 0) y[threadIdx.x / 32] = v;
        if (threadIdx.x == 47) y[2] = mask;
    }"""
    x = np.arange(48, dtype=np.float32)
    _, y = launch(source, "sum", (1,), (48,), x, np.zeros(3, np.float32))
    np.testing.assert_array_equal(y, [x[:32].sum(), x[32:].sum(), 0xFFFF])


def test_syncwarp_orders_shared_memory():
    source = r"""
    extern "C" __global__ void k(int* y) {
        __shared__ int s[64];
        for (int round = 0; round < 5; ++round) {
            s[threadIdx.x] = threadIdx.x + round;
            __syncwarp();
            int v = s[threadIdx.x ^ 31];
            __syncwarp();
            y[threadIdx.x] += v;
        }
    }"""
    (y,) = launch(source, "k", (1,), (64,), np.zeros(64, np.int32))
    np.testing.assert_array_equal(y, (np.arange(64) ^ 31) * 5 + 10)


def test_a_thread_that_waits_lets_the_others_go_on():
    source = r"""
    extern "C" __global__ void relay(volatile int* turn, int* order) {
        int mine = blockDim.x - 1 - threadIdx.x;      // the last thread goes first
        while (*turn != mine) __nanosleep(20);
        order[mine] = threadIdx.x;
        __threadfence();
        *turn = mine + 1;
    }"""
    _, order = launch(source, "relay", (1,), (70,), np.zeros(1, np.int32), np.zeros(70, np.int32))
    np.testing.assert_array_equal(order, np.arange(70)[::-1])


# ---- Atomics


@pytest.mark.parametrize(("type", "dtype"), [("int", "i4"), ("unsigned", "u4"), ("unsigned long long", "u8"), ("float", "f4"),
                                             ("double", "f8")])  # fmt: skip
def test_atomic_add_from_many_blocks(type, dtype):
    source = r"""
    template <typename T> __global__ void add(const T* x, T* sums, int bins) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        atomicAdd(&sums[i % bins], x[i]);
    }"""
    x = np.random.default_rng(5).integers(0, 100, 64 * 256).astype(dtype)
    kernel = cuda.RawModule(code=source, name_expressions=[f"add<{type}>"]).get_function(f"add<{type}>")
    sums = cuda.zeros(3, dtype)
    kernel((64,), (256,), (cuda.asarray(x), sums, 3))
    np.testing.assert_array_equal(cuda.asnumpy(sums), [x[i::3].sum() for i in range(3)])


def test_atomic_add_of_halves():
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(__half* s, __half2* t) {
        atomicAdd(s + threadIdx.x % 2, __half(1.0f));
        atomicAdd(t, __floats2half2_rn(1.0f, 2.0f));
    }"""
    s, t = launch(source, "k", (4,), (64,), np.zeros(2, np.float16), np.zeros(2, np.float16))
    assert s.tolist() == [128, 128]
    assert t.tolist() == [256, 512]


def test_every_other_atomic():
    source = r"""
    extern "C" __global__ void k(int* i, unsigned* u, long long* l, unsigned long long* ul, float* f) {
        int x = blockIdx.x * blockDim.x + threadIdx.x;
        atomicMin(i + 0, 7 - x);       atomicMax(i + 1, x - 7);        atomicSub(i + 2, 2);
        atomicAnd(i + 3, ~(1 << x % 31)); atomicOr(i + 4, 1 << x % 30); atomicXor(i + 5, x);
        if (atomicCAS(i + 6, 0, x + 1) == 0) atomicAdd(i + 7, 1);
        atomicMin(u + 0, 4000000000u - x); atomicMax(u + 1, 3000000000u + x);
        atomicInc(u + 2, 9);           atomicDec(u + 3, 9);            atomicAdd(u + 4, atomicExch(u + 5, x));
        atomicMin(l, (long long)-x * 10000000000LL); atomicMax(l + 1, x * 10000000000LL);
        unsigned long long old = ul[0], seen;
        do { seen = old; old = atomicCAS(ul, seen, seen + 3); } while (old != seen);
        atomicExch(f, 5.0f);
    }"""
    i = np.array([0, 0, 0, -1, 0, 0, 0, 0], np.int32)
    u = np.array([4294967295, 0, 0, 0, 0, 0], np.uint32)
    i, u, signed, ul, f = launch(
        source, "k", (5,), (64,), i, u, np.zeros(2, np.int64), np.zeros(1, np.uint64), np.zeros(1, np.float32)
    )
    n = 320
    assert i[:6].tolist() == [
        7 - (n - 1),
        n - 8,
        -2 * n,
        -(2**31),
        2**30 - 1,
        np.bitwise_xor.reduce(np.arange(n)),
    ]
    assert 1 <= i[6] <= n
    assert i[7] == 1
    # Inc counts 0..9 and starts again; Dec goes 0 -> 9 -> ... -> 0
    assert u[:4].tolist() == [4000000000 - (n - 1), 3000000000 + n - 1, n % 10, (-n) % 10]
    assert u[4] + u[5] == np.arange(n).sum()
    assert signed.tolist() == [-(n - 1) * 10**10, (n - 1) * 10**10]
    assert ul[0] == 3 * n
    assert f[0] == 5


def test_a_ticket_finds_the_last_block():
    source = r"""
    extern "C" __global__ void total(int n, const float* x, float* partial, unsigned* ticket, float* y) {
        __shared__ bool last;
        if (threadIdx.x == 0) {
            float s = 0;
            for (int i = blockIdx.x; i < n; i += gridDim.x) s += x[i];
            partial[blockIdx.x] = s;
            __threadfence();
            last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
        }
        __syncthreads();
        if (last && threadIdx.x == 0) for (int b = 0; b < gridDim.x; ++b) *y += partial[b];
    }"""
    x = np.ones(1000, np.float32)
    *_, ticket, y = launch(
        source,
        "total",
        (37,),
        (32,),
        1000,
        x,
        np.zeros(37, np.float32),
        np.zeros(1, np.uint32),
        np.zeros(1, np.float32),
    )
    assert y[0] == 1000
    assert ticket[0] == 0


# ---- Vector types


def test_vector_loads_and_stores():
    source = r"""
    extern "C" __global__ void k(const float4* a, float4* b, const int4* c, int2* d, const uchar4* e, char4* f,
                                 const double2* g, double2* h) {
        int i = threadIdx.x;
        float4 v = __ldg(a + i);
        b[i] = make_float4(v.w, v.z * 2, v.y + v.x, -v.x);
        int4 w = c[i];
        d[i] = make_int2(w.x + w.y, w.z - w.w);
        uchar4 p = e[i];
        f[i] = make_char4(p.x - 128, p.y - 128, p.z - 128, p.w - 128);
        double2 q = g[i];
        q.x += q.y;
        h[i] = q;
    }"""
    n = 37
    a, c, g = random((n, 4)), np.arange(4 * n, dtype=np.int32).reshape(n, 4), random((n, 2), np.float64)
    e = np.arange(4 * n).astype(np.uint8).reshape(n, 4)
    _, b, _, d, _, f, _, h = launch(
        source, "k", (1,), (n,), a, np.zeros_like(a), c, np.zeros((n, 2), np.int32), e, np.zeros((n, 4), np.int8),
        g, np.zeros_like(g),
    )  # fmt: skip
    np.testing.assert_array_equal(b, np.stack([a[:, 3], a[:, 2] * 2, a[:, 1] + a[:, 0], -a[:, 0]], 1))
    np.testing.assert_array_equal(d, np.stack([c[:, 0] + c[:, 1], c[:, 2] - c[:, 3]], 1))
    np.testing.assert_array_equal(f, (e.astype(int) - 128).astype(np.int8))
    np.testing.assert_array_equal(h, np.stack([g[:, 0] + g[:, 1], g[:, 1]], 1))


def test_scalars_read_as_vectors_and_back():
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        float4 v = *reinterpret_cast<const float4*>(&x[4 * threadIdx.x]);
        float2 w = ((const float2*)x)[2 * threadIdx.x];
        float r[4] = {v.x, v.y, v.z, v.w};
        r[0] += w.y;
        *reinterpret_cast<float4*>(y + 4 * threadIdx.x) = *reinterpret_cast<float4*>(r);
    }""".replace("float r[4]", "__align__(16) float r[4]")
    x = random((9, 4))
    _, y = launch(source, "k", (1,), (9,), x, np.zeros_like(x))
    np.testing.assert_array_equal(y, x + np.where(np.arange(4) == 0, x[:, 1:2], 0))


def test_sizes_of_vector_types():
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(int* y) {
        int s[] = {sizeof(float2), sizeof(float3), sizeof(float4), sizeof(double2), sizeof(int4), sizeof(char4), sizeof(short2),
                   sizeof(uchar3), sizeof(ulonglong2), sizeof(__half), sizeof(__half2), alignof(float4), alignof(float3),
                   alignof(double2), alignof(char4), alignof(__half2), sizeof(long), sizeof(size_t), sizeof(void*)};
        for (int i = 0; i < 19; ++i) y[i] = s[i];
    }"""
    (y,) = launch(source, "k", (1,), (1,), np.zeros(19, np.int32))
    assert y.tolist() == [8, 12, 16, 16, 16, 4, 4, 3, 16, 2, 4, 16, 4, 16, 4, 4, 8, 8, 8]


# ---- Half precision

ALL_HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def same_halves(got, expected):
    """Bit for bit, except that a NaN is a NaN."""
    got, expected = np.asarray(got, np.float16), np.asarray(expected, np.float16)
    differs = (got.view(np.uint16) != expected.view(np.uint16)) & ~(np.isnan(got) & np.isnan(expected))
    assert not differs.any(), f"{differs.sum()} differ, first: {got[differs][:5]} instead of {expected[differs][:5]}"


def test_half_to_float_and_back_is_exact_for_every_half():
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const __half* x, float* wide, __half* back) {
        int i = blockIdx.x * 256 + threadIdx.x;
        wide[i] = __half2float(x[i]);
        back[i] = __float2half(wide[i]);
    }"""
    x, wide, back = launch(
        source, "k", (256,), (256,), ALL_HALVES, np.zeros(65536, np.float32), np.zeros(65536, np.float16)
    )
    np.testing.assert_array_equal(wide, x.astype(np.float32))
    same_halves(back, x)


def test_float_to_half_rounds_to_nearest_even():
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(int n, const float* x, const double* d, __half* a, __half* b, __half* c) {
        int i = blockIdx.x * 256 + threadIdx.x;
        if (i >= n) return;
        a[i] = __float2half_rn(x[i]);
        b[i] = __half(x[i]);
        c[i] = __double2half(d[i]);
    }"""
    finite = np.sort(ALL_HALVES[np.isfinite(ALL_HALVES)].astype(np.float32))
    ties = (finite[1:] + finite[:-1]) / 2  # every midpoint of two halves, subnormal ones too
    x = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), random(5000) * 1e-6, random(5000) * 7e4,
                        np.array([np.inf, -np.inf, np.nan, 65519.9, 65520, 1e30, 2.0**-25, -(2.0**-25), 0.0, -0.0])]).astype(np.float32)  # fmt: skip
    d = x.astype(np.float64) * (1 + 2.0**-40)  # a hair beside a tie: rounding twice, by way of float, would show
    with np.errstate(over="ignore"):
        _, _, a, b, c = launch(
            source, "k", (-(-x.size // 256),), (256,), x.size, x, d, *np.zeros((3, x.size), np.float16)
        )
        same_halves(a, x.astype(np.float16))
        same_halves(b, x.astype(np.float16))
        same_halves(c, d.astype(np.float16))


HALF_ARITHMETIC = r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(int n, const __half* x, const __half* y, __half* add, __half* sub, __half* mul, __half* div) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    add[i] = x[i] + y[i]; sub[i] = __hsub(x[i], y[i]); mul[i] = x[i] * y[i]; div[i] = __hdiv(x[i], y[i]);
}
extern "C" __global__ void k2(int n, const __half2* x, const __half2* y, __half2* add, __half2* sub, __half2* mul, __half2* fma) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    add[i] = __hadd2(x[i], y[i]); sub[i] = x[i] - y[i]; mul[i] = __hmul2(x[i], y[i]); fma[i] = __hfma2(x[i], y[i], x[i]);
}"""


def pairs_of_halves():
    rng = np.random.default_rng(6)
    special = np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, 65504, -65504, 6e-8, -6e-8, 6.104e-5, 6.1e-5, 1, -1, 0.1, 3],
        np.float16,
    )
    x, y = np.meshgrid(special, special)
    bits = rng.integers(0, 65536, (2, 40_000)).astype(np.uint16).view(np.float16)
    near = random((2, 10_000)).astype(np.float16)
    return (np.concatenate([a.ravel(), b, c]) for a, b, c in zip((x, y), bits, near, strict=True))


@np.errstate(all="ignore")
def test_half_arithmetic_is_that_of_numpy_bit_for_bit():
    x, y = pairs_of_halves()
    n = x.size // 2 * 2
    x, y = x[:n], y[:n]
    zero = np.zeros(n, np.float16)
    _, _, add, sub, mul, div = launch(HALF_ARITHMETIC, "k", (-(-n // 256),), (256,), n, x, y, zero, zero, zero, zero)
    same_halves(add, x + y)
    same_halves(sub, x - y)
    same_halves(mul, x * y)
    if cuda.backend() == "simulator":
        same_halves(div, x / y)
    else:  # a GPU's division of halves is by way of a reciprocal in float
        np.testing.assert_allclose(div.astype(float), (x / y).astype(float), rtol=2e-3, atol=1e-7)
    _, _, add, sub, mul, fma = launch(
        HALF_ARITHMETIC, "k2", (-(-n // 512),), (256,), n // 2, x, y, zero, zero, zero, zero
    )
    same_halves(add, x + y)
    same_halves(sub, x - y)
    same_halves(mul, x * y)
    same_halves(fma, (x.astype(float) * y.astype(float) + x.astype(float)).astype(np.float16))


@np.errstate(all="ignore")
def test_hfma_rounds_once():
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(int n, const __half* a, const __half* b, const __half* c, __half* y) {
        int i = blockIdx.x * 256 + threadIdx.x;
        if (i < n) y[i] = __hfma(a[i], b[i], c[i]);
    }"""
    rng = np.random.default_rng(7)
    a, b, c = rng.integers(0, 65536, (3, 100_000)).astype(np.uint16).view(np.float16)
    # 1 + 2^-11 is the midpoint of two halves; a subnormal addend decides, and only a single rounding sees it
    a[:2], b[:2], c[:2] = np.float16(1.0009765625 * 32), np.float16(1 / 32), [6e-8, -6e-8]
    a[2:4], b[2:4], c[2:4] = np.float16(33 / 32), np.float16(1 - 31 / 2048), [6e-8, -6e-8]
    exact = a.astype(float) * b.astype(float) + c.astype(float)
    *_, y = launch(source, "k", (-(-a.size // 256),), (256,), a.size, a, b, c, np.zeros(a.size, np.float16))
    same_halves(y, exact.astype(np.float16))
    assert (exact.astype(np.float16) != (a * b + c)).any(), "no case tells one rounding from two"


def test_half_comparisons_and_helpers():
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const __half* x, const __half* y, int* o, __half* z) {
        int i = threadIdx.x;
        __half a = x[i], b = y[i];
        o[i] = __hlt(a, b) | (a <= b) << 1 | __hgt(a, b) << 2 | (a >= b) << 3 | __heq(a, b) << 4 | (a != b) << 5 | __hisnan(a) << 6;
        __half2 v = __halves2half2(a, b);
        float2 f = __half22float2(v);
        z[4 * i] = __hmax(a, b);
        z[4 * i + 1] = __low2half(v) ;
        z[4 * i + 2] = __float2half(f.y);
        z[4 * i + 3] = -__habs(__hneg(a));
    }"""
    special = np.array([0.5, -2, np.inf, -np.inf, np.nan, 1e-7, 1, 3], np.float16)
    x, y = (v.ravel() for v in np.meshgrid(special, special))
    _, _, o, z = launch(source, "k", (1,), (64,), x, y, np.zeros(64, np.int32), np.zeros((64, 4), np.float16))
    tests = [x < y, x <= y, x > y, x >= y, x == y, x != y, np.isnan(x)]
    expected = sum(t.astype(int) << i for i, t in enumerate(tests))
    # an unordered != is true in C++, and false as the intrinsic __hne; the operator is what is used here
    np.testing.assert_array_equal(o & ~32, expected & ~32)
    same_halves(z, np.stack([np.fmax(x, y), x, y, -np.abs(x)], 1))


def test_integers_to_half_are_rounded_once():
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void k(const int* x, __half* y, int* z) {
        y[threadIdx.x] = __int2half_rn(x[threadIdx.x]);
        z[threadIdx.x] = __half2int_rn(y[threadIdx.x]);
    }"""
    x = np.array([0, 1, -1, 2049, 2051, 4098, 4102, 65519, 65520, -70000, 16777217, 2**31 - 1, 33554433], np.int32)
    with np.errstate(over="ignore"):
        _, y, z = launch(source, "k", (1,), (x.size,), x, np.zeros(x.size, np.float16), np.zeros(x.size, np.int32))
        same_halves(y, x.astype(np.float16))
    finite = np.isfinite(y)
    np.testing.assert_array_equal(z[finite], y[finite].astype(np.int32))


# ---- The language


def test_templates_and_name_expressions():
    source = r"""
    template <typename T, int N> __global__ void scale(const T* x, T* y) {
        int i = threadIdx.x;
        T sum = 0;
        #pragma unroll
        for (int k = 0; k < N; ++k) sum += x[i];
        y[i] = sum;
    }
    template <bool Twice> __device__ float f(float x) { if constexpr (Twice) return 2 * x; else return x; }
    template <bool Twice> __global__ void g(float* y) { y[threadIdx.x] = f<Twice>(1); }
    __global__ void plain(float* y) { y[threadIdx.x] = 7; }
    extern "C" __global__ void c(float* y) { y[threadIdx.x] = 8; }
    """
    names = ["scale<float, 3>", "scale<double,5>", "g<true>", "g<false>", "plain"]
    module = cuda.RawModule(code=source, name_expressions=names)
    for name, dtype, factor in [(names[0], "f4", 3), (names[1], "f8", 5)]:
        x, y = cuda.asarray(np.arange(8, dtype=dtype)), cuda.zeros(8, dtype)
        module.get_function(name)((1,), (8,), (x, y))
        np.testing.assert_array_equal(cuda.asnumpy(y), factor * np.arange(8))
    for name, value in [("g<true>", 2), ("g<false>", 1), ("plain", 7), ("c", 8)]:
        y = cuda.zeros(8)
        module.get_function(name)((1,), (8,), (y,))
        assert (cuda.asnumpy(y) == value).all(), name


def test_structures_lambdas_recursion_and_constants():
    source = r"""
    __constant__ float table[4] = {1, 10, 100, 1000};
    __device__ const int primes[] = {2, 3, 5, 7};
    struct Point {
        float x, y;
        __device__ Point operator+(const Point& o) const { return {x + o.x, y + o.y}; }
    };
    __device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
    __device__ __forceinline__ float horner(float x) { return (x * 2.0f + 1.0f) * x; }
    static __device__ float apply(float (*f)(float), float x) { return f(x); }
    namespace inner { enum class Kind { A, B }; __device__ int number(Kind k) { return k == Kind::A ? 1 : 2; } }
    extern "C" __global__ void __launch_bounds__(64, 2) k(const float* __restrict__ x, float* __restrict__ y, int* f) {
        int i = threadIdx.x;
        auto twice = [=](float v) { return v * 2.0f + table[i % 4]; };
        Point p = {x[i], 1.0f}, q = p + Point{1.0f, 2.0f};
        y[i] = twice(q.x) + q.y + horner(2.0f) + apply(horner, 1.0f);
        f[i] = fibonacci(i % 10) + primes[i % 4] * 1000 + inner::number(inner::Kind::B) * 100000;
        static_assert(sizeof(Point) == 8, "two floats");
    }"""
    x = np.arange(64, dtype=np.float32)
    _, y, f = launch(source, "k", (1,), (64,), x, np.zeros(64, np.float32), np.zeros(64, np.int32))
    np.testing.assert_array_equal(y, 2 * (x + 1) + 10.0 ** (np.arange(64) % 4) + 3 + 10 + 3)
    fib = np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34])
    i = np.arange(64)
    np.testing.assert_array_equal(f, fib[i % 10] + np.array([2, 3, 5, 7])[i % 4] * 1000 + 200000)


def test_a_structure_as_an_argument():
    source = r"""
    struct Shape { int n, stride; float scale; };
    extern "C" __global__ void k(Shape s, float4 bias, float* y) {
        if (threadIdx.x < s.n) y[threadIdx.x * s.stride] = s.scale * threadIdx.x + bias.z;
    }"""
    shape = np.array([(5, 2, 0.5)], dtype=[("n", "i4"), ("stride", "i4"), ("scale", "f4")])[0]
    bias = np.array([(1, 2, 3, 4)], dtype=[(c, "f4") for c in "xyzw"])[0]
    y = cuda.zeros(10)
    cuda.RawKernel(source, "k")((1,), (32,), (shape, bias, y))
    np.testing.assert_array_equal(cuda.asnumpy(y)[::2], 0.5 * np.arange(5) + 3)


def test_options_define_macros():
    source = 'extern "C" __global__ void k(scalar_t* y, int N_) { y[threadIdx.x] = TILE * threadIdx.x + HAS(N_); }'
    kernel = cuda.RawKernel(
        source,
        "k",
        options=("-Dscalar_t=double", "-DTILE=(3 + 1)", "-DHAS(x)=(x + 1)", "--use_fast_math", "-std=c++17"),
    )
    y = cuda.zeros(4, np.float64)
    kernel((1,), (4,), (y, 9))
    assert cuda.asnumpy(y).tolist() == [10, 14, 18, 22]


def test_none_is_a_null_pointer():
    source = r"""
    extern "C" __global__ void k(const float* bias, float* y) { y[threadIdx.x] = bias ? bias[threadIdx.x] : -1.0f; }"""
    kernel = cuda.RawKernel(source, "k")
    y = cuda.zeros(3)
    kernel((1,), (3,), (None, y))
    assert (cuda.asnumpy(y) == -1).all()
    kernel((1,), (3,), (cuda.full(3, 4), y))
    assert (cuda.asnumpy(y) == 4).all()


def test_every_scalar_type():
    source = r"""
    extern "C" __global__ void k(bool a, signed char b, unsigned char c, short d, unsigned short e, int f, unsigned g, long h,
                                 unsigned long i, long long j, unsigned long long k_, float l, double m, size_t n, double* y) {
        double v[] = {(double)a, (double)b, (double)c, (double)d, (double)e, (double)f, (double)g, (double)h, (double)i, (double)j,
                      (double)k_, l, m, (double)n};
        for (int q = 0; q < 14; ++q) y[q] = v[q];
    }"""
    values = [True, -128, 255, -(2**15), 2**16 - 1, -(2**31), 2**32 - 1, -(2**40), 2**40, -(2**50), 2**50, np.float32(0.5),
              np.float64(0.1), 12]  # fmt: skip
    y = cuda.zeros(14, np.float64)
    cuda.RawKernel(source, "k")((1,), (1,), (*values, y))
    assert cuda.asnumpy(y).tolist() == [float(v) for v in values]


def test_python_and_numpy_integers_and_zero_dimensional_arrays_are_scalars():
    source = 'extern "C" __global__ void k(int n, float a, float* y) { y[0] = n * a; }'
    kernel = cuda.RawKernel(source, "k")
    for n in (3, np.int64(3), np.uint8(3), np.int32(3), np.array(3)):
        y = cuda.zeros(1)
        kernel((1,), (1,), (n, np.float32(2), y))
        assert cuda.asnumpy(y)[0] == 6


def test_arrays_in_fortran_order_and_of_no_elements():
    source = r"""
    extern "C" __global__ void k(int n, const float* x, float* y) { if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x]; }"""
    kernel = cuda.RawKernel(source, "k")
    x = cuda.asarray(np.arange(6, dtype=np.float32).reshape(2, 3)).T
    y = cuda.zeros(6)
    kernel((1,), (32,), (6, x, y))
    np.testing.assert_array_equal(cuda.asnumpy(y), np.arange(6))
    kernel((1,), (32,), (0, cuda.empty(0), cuda.empty((3, 0))))


# ---- Arithmetic


UNARY = {
    "sqrtf": np.sqrt, "expf": np.exp, "exp2f": np.exp2, "expm1f": np.expm1, "logf": np.log, "log2f": np.log2, "log10f": np.log10,
    "log1pf": np.log1p, "sinf": np.sin, "cosf": np.cos, "tanf": np.tan, "atanf": np.arctan, "tanhf": np.tanh, "cbrtf": np.cbrt,
    "fabsf": np.abs, "floorf": np.floor, "ceilf": np.ceil, "truncf": np.trunc, "rintf": np.rint, "sinhf": np.sinh,
    "rsqrtf": lambda x: 1 / np.sqrt(x), "exp": np.exp, "sqrt": np.sqrt, "floor": np.floor, "asinhf": np.arcsinh,
    "nearbyintf": np.rint, "exp10f": lambda x: 10.0**x,
    # the fast ones lose a few bits on a GPU
    "__expf": np.exp, "__logf": np.log, "__sinf": np.sin, "__cosf": np.cos, "__frcp_rn": lambda x: 1 / x,
    "__fsqrt_rn": np.sqrt, "__saturatef": lambda x: np.clip(x, 0, 1),
}  # fmt: skip
MATH = "".join(
    f'extern "C" __global__ void t_{name}(const float* x, float* y) {{ int i = blockIdx.x * 64 + threadIdx.x; y[i] = {name}(x[i]); }}\n'
    for name in UNARY
)


def test_math_functions():
    module = cuda.RawModule(code=MATH)
    x = (np.random.default_rng(8).random(512) * 5 + 0.1).astype(np.float32)
    device = cuda.asarray(x)
    for name, reference in UNARY.items():
        y = cuda.empty(512)
        module.get_function(f"t_{name}")((8,), (64,), (device, y))
        expected = reference(x.astype(np.float64))
        tolerance = 2e-6 if not name.startswith("__") or cuda.backend() == "simulator" else 1e-5
        np.testing.assert_allclose(cuda.asnumpy(y), expected, rtol=tolerance, atol=tolerance, err_msg=name)


def test_functions_of_two_and_of_mixed_arguments():
    source = r"""
    extern "C" __global__ void k(const float* a, const float* b, double* y) {
        int i = threadIdx.x;
        float x = a[i], z = b[i];
        int n = (int)(x * 10); unsigned u = 7;
        double v[] = {powf(fabsf(x), z), fmodf(x, z), atan2f(x, z), fminf(x, z), fmaxf(x, z), copysignf(x, z), hypotf(x, z),
            fmaf(x, z, 0.5f), fdividef(x, z), pow((double)fabsf(x), (double)z), (double)min(n, 3), (double)max(n, -2), (double)min(x, z),
            max(x, 0.25), (double)min(n & 15, u), (double)abs(n), (double)abs(-5L), (double)(isnan(x) + isinf(x) + isfinite(x)),
            (double)signbit(x), remainderf(x, z)};
        for (int j = 0; j < 20; ++j) y[20 * i + j] = v[j];
    }"""
    a, b = random((2, 40), seed=9)
    *_, y = launch(source, "k", (1,), (40,), a, b, np.zeros((40, 20)))
    x, z = a.astype(float), b.astype(float)
    n = np.trunc(a * np.float32(10)).astype(int)
    expected = [np.abs(x) ** z, np.fmod(x, z), np.arctan2(x, z), np.minimum(x, z), np.maximum(x, z), np.copysign(x, z), np.hypot(x, z),
                x * z + 0.5, x / z, np.abs(x) ** z, np.minimum(n, 3), np.maximum(n, -2), np.minimum(x, z), np.maximum(x, 0.25),
                np.minimum(n & 15, 7), np.abs(n), np.full(40, 5), np.ones(40), np.signbit(x), x - z * np.rint(x / z)]  # fmt: skip
    np.testing.assert_allclose(y, np.stack(expected, 1), rtol=3e-6, atol=1e-6)


def test_a_nan_loses_against_a_number_in_min_and_max():
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        y[0] = fminf(x[0], x[1]); y[1] = fmaxf(x[1], x[0]); y[2] = min(x[0], x[1]); y[3] = max(x[1], x[0]);
    }"""
    _, y = launch(source, "k", (1,), (1,), np.array([np.nan, 2], np.float32), np.zeros(4, np.float32))
    assert (y == 2).all()


def test_integer_intrinsics():
    source = r"""
    extern "C" __global__ void k(const unsigned* x, unsigned* y) {
        unsigned a = x[2 * threadIdx.x], b = x[2 * threadIdx.x + 1], *o = y + 17 * threadIdx.x;
        o[0] = __popc(a); o[1] = __clz(a); o[2] = __ffs(a); o[3] = __brev(a); o[4] = __umulhi(a, b); o[5] = __mulhi((int)a, (int)b);
        o[6] = __byte_perm(a, b, 0x5140); o[7] = __funnelshift_l(a, b, 7); o[8] = __funnelshift_r(a, b, 9);
        o[9] = __dp4a((int)a, (int)b, 5); o[10] = __popcll((unsigned long long)a << 32 | b); o[11] = __mul24((int)a, (int)b);
        o[12] = __clzll((long long)b); o[13] = __ffsll((long long)a << 7); o[14] = __dp4a(a, b, 5u);
        o[15] = __dp4a(*(char4*)&a, *(char4*)&b, 5); o[16] = __dp4a(*(uchar4*)&a, *(uchar4*)&b, 5u);
    }"""
    rng = np.random.default_rng(10)
    x = np.concatenate([[[0, 0], [1, 2**31], [2**32 - 1, 3]], rng.integers(0, 2**32, (30, 2))]).astype(np.uint32)
    _, y = launch(source, "k", (1,), (33,), x, np.zeros((33, 17), np.uint32))
    for (a, b), o in zip(x.tolist(), y.tolist(), strict=True):
        signed = [v - 2**32 if v >> 31 else v for v in (a, b)]
        low24 = [(v & 0xFFFFFF) - (1 << 24 if v >> 23 & 1 else 0) for v in (a, b)]
        octets = [np.array([v], np.uint32).view(np.int8).astype(int) for v in (a, b)]
        dots = [int(x @ y) + 5 for x, y in (octets, [v & 255 for v in octets])]
        both = b << 32 | a
        perm = [a & 255, b & 255, a >> 8 & 255, b >> 8 & 255]
        expected = [
            a.bit_count(), 32 - a.bit_length(), (a & -a).bit_length(), int(f"{a:032b}"[::-1], 2), a * b >> 32,
            signed[0] * signed[1] >> 32, sum(v << 8 * i for i, v in enumerate(perm)), both << 7 >> 32, both >> 9,
            dots[0], a.bit_count() + b.bit_count(), low24[0] * low24[1], 64 - b.bit_length(),
            (a << 7 & -(a << 7)).bit_length(), dots[1], *dots,
        ]  # fmt: skip
        assert o == [v % 2**32 for v in expected]


def test_dp4a_of_int_and_unsigned_does_not_compile():
    source = """extern "C" __global__ void k(const unsigned* x, int* y) { y[0] = __dp4a(x[0], 1, 0); }"""
    with pytest.raises(cuda.CompileError, match="__dp4a.*ambiguous"):
        launch(source, "k", (1,), (1,), np.zeros(1, np.uint32), np.zeros(1, np.int32))


def test_conversions_clamp():
    source = r"""
    extern "C" __global__ void k(const float* x, int* y, unsigned* u) {
        int i = threadIdx.x;
        y[6 * i] = __float2int_rn(x[i]); y[6 * i + 1] = __float2int_rz(x[i]); y[6 * i + 2] = __float2int_rd(x[i]);
        y[6 * i + 3] = __float2int_ru(x[i]); y[6 * i + 4] = __float_as_int(x[i]); y[6 * i + 5] = __float_as_int(__int_as_float(i));
        u[i] = __float2uint_rn(x[i]);
    }"""
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.7, -2.7, 1e10, -1e10, np.nan, np.inf, 2147483520], np.float32)
    _, y, u = launch(source, "k", (1,), (x.size,), x, np.zeros((x.size, 6), np.int32), np.zeros(x.size, np.uint32))
    wide = np.nan_to_num(x.astype(float), nan=0, posinf=1e30)
    for column, rounded in enumerate([np.rint, np.trunc, np.floor, np.ceil]):
        np.testing.assert_array_equal(y[:, column], np.clip(rounded(wide), -(2**31), 2**31 - 1).astype(np.int64))
    np.testing.assert_array_equal(y[:, 4], x.view(np.int32))
    np.testing.assert_array_equal(y[:, 5], np.arange(x.size))
    np.testing.assert_array_equal(u, np.clip(np.rint(wide), 0, 2**32 - 1).astype(np.int64))


def test_a_product_and_a_sum_are_one_fma_and_mul_rn_prevents_it():
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        y[0] = x[0] * x[0] - x[1];
        y[1] = __fmul_rn(x[0], x[0]) - x[1];
    }"""
    a = np.float32(1 + 2**-12)
    _, y = launch(source, "k", (1,), (1,), np.array([a, a * a], np.float32), np.zeros(2, np.float32))
    assert y[1] == 0
    exact = float(a) ** 2 - float(np.float32(a * a))
    assert y[0] in (np.float32(exact), 0)  # 0 on a CPU without fused multiply-add
    if cuda.backend() == "gpu":
        assert y[0] == np.float32(exact)


# ---- printf


def printed(capsys, capfd):
    """What kernels have printed: on a GPU the driver writes to the process's output, not to Python's."""
    cuda.synchronize()
    return capfd.readouterr().out if cuda.backend() == "gpu" else capsys.readouterr().out


def test_printf_is_shown_through_python(capsys):
    if cuda.backend() == "gpu":
        pytest.skip("on a GPU the driver prints, past Python")
    source = r"""
    extern "C" __global__ void hello(float x, int n) {
        printf("thread %d of block %u: ", threadIdx.x, blockIdx.x);
        printf("%s %5.2f %c %lld %x %%\n", "text", x, 'z', 1LL << 40, n);
    }"""
    cuda.RawKernel(source, "hello")((1,), (2,), (np.float32(1.5), 255))
    line = "text  1.50 z 1099511627776 ff %\n"
    assert capsys.readouterr().out == f"thread 0 of block 0: {line}thread 1 of block 0: {line}"


@simulator_only
def test_printf_keeps_the_order_within_a_thread(capsys):
    source = r"""
    extern "C" __global__ void steps() {
        for (int i = 0; i < 3; ++i) { printf("%d.%d.%d\n", blockIdx.x, threadIdx.x, i); __syncthreads(); }
    }"""
    cuda.RawKernel(source, "steps")((4,), (3,), ())
    lines = [tuple(map(int, line.split("."))) for line in capsys.readouterr().out.split()]
    assert len(lines) == 36
    for who in {line[:2] for line in lines}:
        assert [step for *w, step in lines if tuple(w) == who] == [0, 1, 2]


@simulator_only
def test_printf_says_when_its_buffer_was_full(capsys):
    source = r"""
    extern "C" __global__ void chatter(int n) { for (int i = 0; i < n; ++i) printf("%0100d\n", i); }"""
    kernel = cuda.RawKernel(source, "chatter")
    kernel((1,), (1,), (20_000,))
    text = capsys.readouterr().out
    assert len(text) < 2**20 + 200
    assert text.endswith("[printf: the buffer of 1 MiB was full, the rest is lost]\n")
    kernel((1,), (1,), (1,))
    assert capsys.readouterr().out == "0" * 100 + "\n"


# ---- Cooperative groups


def test_groups_of_a_block_and_tiles_of_a_warp():
    source = r"""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(const int* x, int* y) {
        cg::thread_block block = cg::this_thread_block();
        auto tile = cg::tiled_partition<8>(block);
        __shared__ int s[96];
        int v = x[block.thread_rank()];
        for (int d = tile.size() / 2; d; d /= 2) v += tile.shfl_down(v, d);
        s[block.thread_rank()] = tile.shfl(v, 0) + tile.thread_rank() * 1000 + tile.meta_group_rank() * 10000;
        block.sync();
        y[block.thread_rank()] = s[block.size() - 1 - block.thread_rank()];
        tile.sync();
        if (tile.any(tile.thread_rank() == 3) && !tile.all(tile.thread_rank() == 3) && tile.ballot(tile.thread_rank() > 5) == 0xc0)
            y[block.thread_rank()] += 1000000;
        cg::sync(block);
    }"""
    x = np.random.default_rng(11).integers(0, 50, 96).astype(np.int32)
    _, y = launch(source, "k", (1,), (24, 4), x, np.zeros(96, np.int32))
    i = np.arange(96)
    s = np.repeat(x.reshape(12, 8).sum(1), 8) + i % 8 * 1000 + i // 8 * 10000
    np.testing.assert_array_equal(y, s[::-1] + 1000000)


GRID_SYNC = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int rounds, const int* x, int* a, int* b) {
    auto grid = cooperative_groups::this_grid();
    int n = grid.size(), i = grid.thread_rank();
    a[i] = x[i];
    for (int r = 0; r < rounds; ++r) {       // each round every number goes one place on, through all blocks
        grid.sync();
        b[(i + 1) % n] = a[i];
        grid.sync();
        a[i] = b[i];
    }
}"""


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (2, 32), (16, 33), (60, 7)])
def test_a_barrier_of_the_whole_grid(blocks, threads):
    x = np.arange(blocks * threads, dtype=np.int32)
    zero = np.zeros_like(x)
    _, a, _ = launch(GRID_SYNC, "k", (blocks,), (threads,), 5, x, zero, zero, enable_cooperative_groups=True)
    np.testing.assert_array_equal(a, np.roll(x, 5))


@simulator_only
def test_shared_arrays_are_aligned_for_vectors():
    source = r"""
    extern "C" __global__ void k(unsigned long long* y) {
        __shared__ __align__(16) float a[3];
        __shared__ double2 b[2];
        extern __shared__ float4 c[];
        a[0] = 1; b[0].x = 2; c[0].x = 3;
        y[0] = (unsigned long long)a; y[1] = (unsigned long long)b; y[2] = (unsigned long long)c;
    }"""
    (y,) = launch(source, "k", (1,), (1,), np.zeros(3, np.uint64), shared_mem=40)
    assert (y % 16 == 0).all()


@simulator_only
def test_kernels_that_are_hidden_by_the_preprocessor_or_in_a_namespace():
    source = """
    #if 0
    extern "C" __global__ void hidden(float* y) {}
    #endif
    namespace n { __global__ void inner(float* y) { y[0] = 3; } }
    extern "C" __global__ void shown(float* y) { y[0] = 2; }
    """
    module = cuda.RawModule(code=source, name_expressions=["n::inner"])
    y = cuda.zeros(1)
    module.get_function("shown")((1,), (1,), (y,))
    assert y[0] == 2
    module.get_function("n::inner")((1,), (1,), (y,))
    assert y[0] == 3
    with pytest.raises(ValueError, match="hidden"):
        module.get_function("hidden")


@simulator_only
def test_an_assertion_that_fails_is_printed_and_stops_the_launch(capsys):
    source = 'extern "C" __global__ void k(int n) {\n    assert(threadIdx.x < n);\n}'
    kernel = cuda.RawKernel(source, "k")
    kernel((1,), (4,), (4,))
    with pytest.raises(cuda.KernelError, match=r"thread \(2, 0, 0\)"):
        kernel((1,), (4,), (2,))
    assert "kernel.cu:2: block: [0,0,0], thread: [2,0,0] Assertion `threadIdx.x < n` failed." in capsys.readouterr().out


def test_arrays_are_aligned_to_128_bytes():
    for shape in [(1,), (3, 5), (1000,), (0,)]:
        array = cuda.empty(shape)
        pointer = (
            array.data.ptr
            if cuda.backend() == "gpu"
            else ctypes.addressof(ctypes.c_char.from_buffer(array))
            if array.size
            else 0
        )
        assert pointer % 128 == 0
