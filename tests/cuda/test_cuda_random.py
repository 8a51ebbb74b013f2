"""Random launches against NumPy: sizes, strides, masks and shapes that nobody would think of."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from common import cuda

few = settings(max_examples=60, derandomize=True, database=None)


@st.composite
def sizes(draw, threads_max):
    """A grid of up to 60 blocks and a block of up to `threads_max` threads, each in one to three dimensions."""
    block = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    while np.prod(block) > threads_max:
        block[int(np.argmax(block))] = (max(block) + 1) // 2
    grid = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    return tuple(grid), tuple(block)


ELEMENTWISE = r"""
#define THREAD (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))
#define BLOCK (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))
template <typename T> __global__ void strided(int n, int start, int step, T a, const T* x, T* y) {
    int threads = blockDim.x * blockDim.y * blockDim.z;
    int all = threads * gridDim.x * gridDim.y * gridDim.z;
    for (int i = BLOCK * threads + THREAD; i < n; i += all) { y[start + i * step] = a * x[i] + T(i % 7); }
}"""
MODULE = cuda.RawModule(
    code=ELEMENTWISE, name_expressions=[f"strided<{t}>" for t in ("float", "double", "int", "long long")]
)


@few
@given(sizes(1024), st.integers(0, 3000), st.integers(0, 5), st.integers(1, 4),
       st.sampled_from([("float", "f4"), ("double", "f8"), ("int", "i4"), ("long long", "i8")]), st.integers(0, 2**32 - 1))  # fmt: skip
def test_elementwise_in_any_launch(size, n, start, step, type, seed):
    grid, block = size
    rng = np.random.default_rng(seed)
    x = rng.integers(-1000, 1000, n).astype(type[1])
    y = rng.integers(-1000, 1000, start + n * step).astype(type[1])
    out = cuda.asarray(y)
    kernel = MODULE.get_function(f"strided<{type[0]}>")
    kernel(grid, block, (n, start, step, np.dtype(type[1]).type(3), cuda.asarray(x), out))
    y[start : start + n * step : step] = 3 * x + np.arange(n) % 7
    np.testing.assert_array_equal(cuda.asnumpy(out), y)


# ---- Warps in lockstep

LOCKSTEP = r"""
extern "C" __global__ void run(int steps, const int* program, const unsigned* masks, const int* x, int* y) {
    int i = threadIdx.x, lane = i & 31, v = x[i];
    for (int s = 0; s < steps; ++s) {
        int operation = program[3 * s], argument = program[3 * s + 1], width = program[3 * s + 2], r = 0;
        unsigned mask = masks[s];
        if (mask >> lane & 1) {
            switch (operation) {
                case 0: r = __shfl_sync(mask, v, argument, width); break;
                case 1: r = __shfl_up_sync(mask, v, argument, width); break;
                case 2: r = __shfl_down_sync(mask, v, argument, width); break;
                case 3: r = __shfl_xor_sync(mask, v, argument, width); break;
                case 4: r = __ballot_sync(mask, v & 1); break;
                case 5: r = __any_sync(mask, v % 5 == argument % 5) != 0; break;
                case 6: r = __all_sync(mask, v % 5 != argument % 5) != 0; break;
                case 7: r = __match_any_sync(mask, v % 3); break;
            }
            v = v * 5 + r;
        }
    }
    y[i] = v;
}"""


def lockstep(program, masks, x):
    """What the kernel above computes, for all lanes of a warp at a time."""
    v = x.astype(np.int64)
    for (operation, argument, width), mask in zip(program.tolist(), masks.tolist(), strict=True):
        lanes = [i for i in range(32) if mask >> i & 1]
        new = v.copy()
        for i in lanes:
            new[i] = v[i] * 5 + result(operation, argument, width, i, lanes, v)
        v = new.astype(np.int32).astype(np.int64)
    return v.astype(np.int32)


def result(operation, argument, width, i, lanes, v):
    """What lane i gets out of one operation of `lanes`, whose values are v."""
    section, last = i & ~(width - 1), i | (width - 1)
    if operation < 4:
        j = (section | argument & (width - 1), i - argument, i + argument, i ^ argument)[operation]
        if (operation == 1 and j < section) or (operation > 1 and j > last):
            j = i
        assert j in lanes, "the strategy chooses masks that leave no source out"
        return int(v[j])
    if operation == 4:
        return sum(1 << k for k in lanes if v[k] & 1)
    if operation == 7:
        return sum(1 << k for k in lanes if np.fmod(v[k], 3) == np.fmod(v[i], 3))
    hits = [np.fmod(v[k], 5) == argument % 5 for k in lanes]
    return int(any(hits)) if operation == 5 else int(not any(hits))


@st.composite
def programs(draw):
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        operation = draw(st.integers(0, 7))
        argument, width = draw(st.integers(0, 31)), draw(st.sampled_from([2, 4, 8, 16, 32]))
        # shuffles read from lanes that must take part: all of them, or whole sections of the warp
        if operation < 3:
            chosen = draw(st.integers(1, (1 << (32 // width)) - 1))
            mask = sum(((1 << width) - 1) << s * width for s in range(32 // width) if chosen >> s & 1)
        else:
            mask = 0xFFFFFFFF if operation == 3 else draw(st.integers(1, 2**32 - 1))
        steps.append((operation, argument, width, mask))
    return np.array(steps, np.int64)


KERNEL = cuda.RawKernel(LOCKSTEP, "run")


@settings(few, max_examples=120)
@given(programs(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_warp_operations_are_those_of_lanes_in_lockstep(program, warps, seed):
    x = np.random.default_rng(seed).integers(-100, 100, 32 * warps).astype(np.int32)
    masks, y = program[:, 3].astype(np.uint32), cuda.zeros(32 * warps, np.int32)
    steps = np.ascontiguousarray(program[:, :3]).astype(np.int32)
    KERNEL((1,), (32 * warps,), (len(steps), cuda.asarray(steps), cuda.asarray(masks), cuda.asarray(x), y))
    expected = np.concatenate([lockstep(steps, masks, x[32 * w :][:32]) for w in range(warps)])
    np.testing.assert_array_equal(cuda.asnumpy(y), expected)


# ---- Shared memory

SHARED = r"""
template <typename T> __global__ void transpose(int h, int w, const T* x, T* y) {     // a whole tile of any shape in one block
    extern __shared__ __align__(16) unsigned char memory[];
    T* tile = (T*)memory;
    int me = threadIdx.x + blockDim.x * threadIdx.y, threads = blockDim.x * blockDim.y;
    for (int i = me; i < h * w; i += threads) tile[i] = x[blockIdx.x * h * w + i];
    __syncthreads();
    for (int i = me; i < h * w; i += threads) y[blockIdx.x * h * w + i] = tile[i % h * w + i / h];
}
template <typename T> __global__ void scan(int n, const T* x, T* y) {                 // inclusive, as Hillis and Steele do it
    extern __shared__ __align__(16) unsigned char memory[];
    T* s = (T*)memory;
    int i = threadIdx.x;
    s[i] = i < n ? x[blockIdx.x * n + i] : T(0);
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        T other = i >= d ? s[i - d] : T(0);
        __syncthreads();
        s[i] += other;
        __syncthreads();
    }
    if (i < n) y[blockIdx.x * n + i] = s[i];
}
extern "C" __global__ void reduce(int rows, int columns, const float* x, float* y) {  // the sum of each row, a block a row
    __shared__ float partial[32];
    float v = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) v += x[blockIdx.x * columns + c];
    for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int w = 0; w < (blockDim.x + 31) / 32; ++w) sum += partial[w];
        y[blockIdx.x] = sum;
    }
}"""
TYPES = [("float", "f4"), ("double", "f8"), ("short", "i2")]
SHARED_MODULE = cuda.RawModule(
    code=SHARED, name_expressions=[f"{k}<{t}>" for k in ("transpose", "scan") for t, _ in TYPES]
)


@few
@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 4),
    st.integers(1, 33),
    st.integers(1, 31),
    st.sampled_from(TYPES),
)
def test_transposes_through_shared_memory(h, w, blocks, tx, ty, type):
    x = np.arange(blocks * h * w).reshape(blocks, h, w).astype(type[1])
    y = cuda.zeros((blocks, w, h), type[1])
    kernel = SHARED_MODULE.get_function(f"transpose<{type[0]}>")
    kernel((blocks,), (tx, ty), (h, w, cuda.asarray(x), y), shared_mem=h * w * x.itemsize)
    np.testing.assert_array_equal(cuda.asnumpy(y), x.transpose(0, 2, 1))


@few
@given(st.integers(1, 1024), st.integers(1, 3), st.sampled_from(TYPES), st.integers(0, 2**32 - 1))
def test_scans_of_any_length(threads, blocks, type, seed):
    n = max(1, threads - seed % 5)
    x = np.random.default_rng(seed).integers(-20, 20, (blocks, n)).astype(type[1])
    y = cuda.zeros((blocks, n), type[1])
    kernel = SHARED_MODULE.get_function(f"scan<{type[0]}>")
    kernel((blocks,), (threads,), (n, cuda.asarray(x), y), shared_mem=threads * x.itemsize)
    np.testing.assert_array_equal(cuda.asnumpy(y), np.cumsum(x, 1, dtype=type[1]))


@few
@given(st.integers(1, 20), st.integers(1, 3000), st.integers(1, 32), st.integers(0, 2**32 - 1))
def test_reductions_of_any_row(rows, columns, warps, seed):
    x = np.random.default_rng(seed).integers(-100, 100, (rows, columns)).astype(np.float32)
    y = cuda.full(rows, np.nan)
    SHARED_MODULE.get_function("reduce")((rows,), (32 * warps,), (rows, columns, cuda.asarray(x), y))
    np.testing.assert_array_equal(cuda.asnumpy(y), x.sum(1))
