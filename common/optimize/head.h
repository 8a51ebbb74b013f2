// head.h - the end of a network: a 1×1 convolution with clamp and global average pool in one, and the linear layer.
//
//   Head<S> head(work, weights);                 S: a struct of compile-time numbers, see common/optimize/head.py
//   head.prefetch(w, slice);                     a slice of the weights is on its way: needs no kernel before this one
//   head.run(x, w, y, N, slices, images, after);     slices of channels and images, each a first one and a step
//
//   Linear<S> linear(weights);
//   linear.prefetch(w, first);
//   linear.run(x, w, y, N, first, step);         groups of rows first, first + step, …
//
// Head: a thread block takes CHANNELS output channels of all pixels of an image. Weights are the rows of mma and pixels
// its columns, so that a channel's sums lie in the 4 lanes of a quad: clamped and added up there, none of them is ever
// stored. WARPS_C·WARPS_P·WARPS_K warps: side by side along channels, pixels, and input channels, whose sums are added
// up through shared memory. A block keeps its weights and walks over images, the next of which is on its way if
// X_STAGES is 2.
// Linear: a warp takes ROWS outputs, whose weights it reads once, 16 bytes per lane; for few images, of which each is
// read by every warp.
//
// What is spent where:  tensor cores   head: C·O multiply-accumulates a pixel, of floats three times over
//                       shared memory  head: CHANNELS rows of weights, X_STAGES images; linear: ROWS rows for each warp
//                       registers      head: CHANNELS × pixels sums over all threads; linear: K / 32 inputs a lane
//                       L2             each block of head reads the whole image, so CHANNELS / O of its reads are new
#pragma once
#include "fused/arithmetic.h"
#include "grid.h"

template <class T> struct HeadWeights {  // (O, C) and (O,) or 0
    const T *weight, *bias;
    float low, high;
};
struct Walk {
    int first, step;
};

// 16 bytes of what this very kernel may have written: not __ldg, which may give what was there before
__device__ __forceinline__ void load_written(float (&v)[4], const float* p) {
    const float4 a = *(const float4*)p;
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
}
__device__ __forceinline__ void load_written(float (&v)[8], const __half* p) {
    const uint4 a = *(const uint4*)p;
    unpack(v[0], v[1], a.x), unpack(v[2], v[3], a.y), unpack(v[4], v[5], a.z), unpack(v[6], v[7], a.w);
}

template <class S> struct Head {
    using T = typename S::T;
    using A = typename Default<T>::Arithmetic;
    static constexpr bool HALVES = sizeof(T) == 2;
    static constexpr int E = 16 / sizeof(T), K_STEP = 2 * E;  // elements in 16 bytes; channels of one mma
    static constexpr int WARPS_CP = S::WARPS_C * S::WARPS_P, THREADS = 32 * WARPS_CP * S::WARPS_K;
    static constexpr int C_PADDED = ceil_div(S::C, K_STEP * S::WARPS_K) * K_STEP * S::WARPS_K, CHUNKS = C_PADDED / E;
    // an odd number of 16 bytes: 8 rows begin in 8 different groups of banks
    static constexpr int ROW = (CHUNKS | 1) * E;
    static constexpr int PAIRS = ceil_div(S::PIXELS, 16), SLICES = ceil_div(S::O, S::CHANNELS);  // pairs of 8 pixels
    static constexpr int CT = S::CHANNELS / 16 / S::WARPS_C, PT = ceil_div(PAIRS, S::WARPS_P),
                         KT = C_PADDED / K_STEP / S::WARPS_K;
    static constexpr int X_BYTES = S::PIXELS * ROW * (int)sizeof(T),
                         PARTS_BYTES = (S::WARPS_K - 1) * WARPS_CP * CT * PT * 2 * 32 * 16;
    static constexpr int WORK = S::X_STAGES * X_BYTES + PARTS_BYTES + S::WARPS_P * S::CHANNELS * 4;
    static constexpr int WEIGHTS = S::CHANNELS * ROW * (int)sizeof(T), SHARED = WORK + WEIGHTS;
    static_assert(S::CHANNELS % (16 * S::WARPS_C) == 0 && S::CHANNELS <= THREADS && S::C % E == 0, "tile");

    T *images, *weights;
    float4* parts;
    float* pooled;
    int lane, g, t, warp_c, warp_p, warp_k;

    __device__ __forceinline__ Head(void* work, void* of_weights) {
        images = (T*)work, parts = (float4*)((char*)work + S::X_STAGES * X_BYTES),
        pooled = (float*)((char*)parts + PARTS_BYTES);
        weights = (T*)of_weights;
        const int warp = threadIdx.x / 32;
        lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        warp_c = warp % S::WARPS_C, warp_p = warp / S::WARPS_C % S::WARPS_P, warp_k = warp / WARPS_CP;
    }
    // Which slices and images are whose, in a grid of so many blocks.
    __device__ __forceinline__ static void place(int block, int blocks, int N, Walk& slices, Walk& of_images) {
        const int beside = blocks / SLICES;  // images at a time
        slices = {beside ? block % SLICES : block, beside ? SLICES : blocks};
        of_images = {beside ? block / SLICES : 0, beside ? beside : 1};
        if (of_images.first >= of_images.step) of_images.first = N;  // what is left over when all slices have as many
    }

    template <int ROWS> __device__ __forceinline__ static void fetch(T* to, const T* array, int start, int rows) {
        int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
#pragma unroll 8
        for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
            const bool inside = row < rows && (C_PADDED == S::C || chunk * E < S::C);
            cp_async_16(to + row * ROW + chunk * E, array + (inside ? (start + row) * S::C + chunk * E : 0), inside);
            row += THREADS / CHUNKS, chunk += THREADS % CHUNKS;  // without a division
            if (THREADS % CHUNKS && chunk >= CHUNKS) chunk -= CHUNKS, ++row;
        }
        cp_async_commit();
    }
    __device__ __forceinline__ void prefetch(const HeadWeights<T>& w, int slice) {
        fetch<S::CHANNELS>(weights, w.weight, slice * S::CHANNELS, S::O - slice * S::CHANNELS);
    }

    // sums += weights · pixels, over this warp's part of the input channels
    __device__ __forceinline__ void multiply(const T* image, float (&acc)[CT][PT][2][4]) {
        const int k_first = warp_k * KT * K_STEP;
        const T* const a_row = weights + (warp_c * 16 + lane % 16) * ROW + lane / 16 * E + k_first;
        const T* b_row[PT];
#pragma unroll
        for (int j = 0; j < PT; ++j) {
            const int pixel = (warp_p + j * S::WARPS_P) * 16 + lane % 8 + lane / 16 * 8;
            b_row[j] = image + smaller(pixel, S::PIXELS - 1) * ROW + lane / 8 % 2 * E + k_first;
        }
        // tensor cores cut sums off: of floats no more than 32 products at a time
        constexpr int CHUNK = HALVES ? (KT <= 10 ? KT : KT % 5 == 0 ? 5 : 4) : smaller(4, KT);
#pragma unroll 1
        for (int k0 = 0; k0 < KT; k0 += CHUNK) {
            float part[HALVES ? 1 : CT][HALVES ? 1 : PT][2][4] = {};
#pragma unroll
            for (int k = 0; k < CHUNK; ++k)
                if (KT % CHUNK == 0 || k0 + k < KT) {
                    typename A::Columns b[PT];
#pragma unroll
                    for (int j = 0; j < PT; ++j) b[j].load(b_row[j] + (k0 + k) * K_STEP);
#pragma unroll
                    for (int i = 0; i < CT; ++i) {
                        typename A::Rows a;
                        a.load(a_row + i * S::WARPS_C * 16 * ROW + (k0 + k) * K_STEP);
                        a.split();
#pragma unroll
                        for (int j = 0; j < PT; ++j)
                            if constexpr (HALVES) b[j].multiply(acc[i][j], a);
                            else b[j].multiply(part[i][j], a);
                    }
                }
            if constexpr (!HALVES) {
#pragma unroll
                for (int i = 0; i < CT * PT * 8; ++i)
                    acc[i / 8 / PT][i / 8 % PT][i / 4 % 2][i % 4] += part[i / 8 / PT][i / 8 % PT][i / 4 % 2][i % 4];
            }
        }
    }
    // The parts of the input channels added up: whole fragments, 16 bytes per lane.
    __device__ __forceinline__ void add_parts(float (&acc)[CT][PT][2][4]) {
        constexpr int FRAGMENTS = CT * PT * 2;
        float4* const mine = parts + (warp_p * S::WARPS_C + warp_c) * FRAGMENTS * 32 + lane;
        if (warp_k > 0)
#pragma unroll
            for (int i = 0; i < FRAGMENTS; ++i) {
                const float(&d)[4] = acc[i / 2 / PT][i / 2 % PT][i % 2];
                mine[((warp_k - 1) * WARPS_CP * FRAGMENTS + i) * 32] = make_float4(d[0], d[1], d[2], d[3]);
            }
        __syncthreads();
        if (warp_k == 0)
#pragma unroll
            for (int i = 0; i < FRAGMENTS; ++i) {
                float(&d)[4] = acc[i / 2 / PT][i / 2 % PT][i % 2];
#pragma unroll
                for (int k = 0; k < S::WARPS_K - 1; ++k) {
                    const float4 more = mine[(k * WARPS_CP * FRAGMENTS + i) * 32];
                    d[0] += more.x, d[1] += more.y, d[2] += more.z, d[3] += more.w;
                }
            }
    }
    // Which channel of a slice the i-th of this thread's rows of sums is.
    __device__ __forceinline__ int channel_of(int i) const {
        return (warp_c + i / 2 * S::WARPS_C) * 16 + i % 2 * 8 + g;
    }
    __device__ __forceinline__ void get_bias(T (&bias)[CT * 2], const HeadWeights<T>& w, int slice) const {
#pragma unroll
        for (int i = 0; i < CT * 2; ++i) {
            const int o = slice * S::CHANNELS + channel_of(i);
            bias[i] = w.bias && o < S::O ? w.bias[o] : (T)0.0f;
        }
    }
    // Clamped, and the sum over the pixels of this warp.
    __device__ __forceinline__ void pool(const float (&acc)[CT][PT][2][4], const HeadWeights<T>& w,
                                         const T (&biases)[CT * 2]) {
#pragma unroll
        for (int i = 0; i < CT * 2; ++i) {
            const int channel = channel_of(i);
            const float bias = (float)biases[i];
            float sum = 0;
#pragma unroll
            for (int j = 0; j < PT * 4; ++j) {
                const int pixel = (warp_p + j / 4 * S::WARPS_P) * 16 + j / 2 % 2 * 8 + 2 * t + j % 2;
                const float v = clamp(acc[i / 2][j / 4][j / 2 % 2][i % 2 * 2 + j % 2] + bias, w.low, w.high);
                if (pixel < S::PIXELS) sum += v;
            }
            sum += __shfl_xor_sync(0xffffffff, sum, 1);
            sum += __shfl_xor_sync(0xffffffff, sum, 2);
            if (t == 0) pooled[warp_p * S::CHANNELS + channel] = sum;
        }
    }
    // The weights of the first slice must have been fetched. after() is called once, when nothing is waited for any
    // more that cp.async brings for the first image.
    template <class After> __device__ __forceinline__ void run(const T* x, const HeadWeights<T>& w, T* y, int N,
                                                               Walk slices, Walk of_images, const After& after) {
        bool first = true;
#pragma unroll 1
        for (int slice = slices.first; slice < SLICES && of_images.first < N; slice += slices.step) {
            if (slice != slices.first) prefetch(w, slice);
            T bias[CT * 2];
            get_bias(bias, w, slice);
            fetch<S::PIXELS>(images, x, of_images.first * S::PIXELS, S::PIXELS);
            int stage = 0;
#pragma unroll 1
            for (int n = of_images.first; n < N; n += of_images.step) {
                const int next = n + of_images.step;
                cp_async_wait<0>();
                __syncthreads();
                if (first) after();
                first = false;
                if (S::X_STAGES > 1 && next < N)
                    fetch<S::PIXELS>(images + (1 - stage) * S::PIXELS * ROW, x, next * S::PIXELS, S::PIXELS);
                float acc[CT][PT][2][4] = {};
                multiply(images + stage * S::PIXELS * ROW, acc);
                if constexpr (S::WARPS_K > 1) add_parts(acc);
                if (warp_k == 0) pool(acc, w, bias);
                __syncthreads();
                if (S::X_STAGES == 1 && next < N) fetch<S::PIXELS>(images, x, next * S::PIXELS, S::PIXELS);
                const int o = slice * S::CHANNELS + threadIdx.x;
                if (threadIdx.x < S::CHANNELS && o < S::O) {
                    float sum = 0;
#pragma unroll
                    for (int i = 0; i < S::WARPS_P; ++i) sum += pooled[i * S::CHANNELS + threadIdx.x];
                    y[n * S::O + o] = (T)(sum * (1.0f / S::PIXELS));
                }
                if (S::X_STAGES > 1) stage = 1 - stage;
            }
        }
        if (first) after();
    }
};

template <class S> struct Linear {
    using T = typename S::T;
    static constexpr int E = 16 / sizeof(T), CHUNKS = ceil_div(S::K, 32 * E);  // accesses of a lane to a row
    static constexpr int GROUP = S::WARPS * S::ROWS, GROUPS = ceil_div(S::O, GROUP);
    static constexpr int WEIGHTS = GROUP * S::K * (int)sizeof(T), SHARED = WEIGHTS;
    static_assert(S::K % E == 0 && S::ROWS <= 32, "tile");

    T* rows;  // of this warp, which alone reads what it has fetched
    int lane, warp;

    __device__ __forceinline__ explicit Linear(void* weights) {
        lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        rows = (T*)weights + warp * S::ROWS * S::K;
    }
    __device__ __forceinline__ void prefetch(const HeadWeights<T>& w, int group) {
        const int first = (group * S::WARPS + warp) * S::ROWS;
#pragma unroll 1
        for (int i = lane; i < S::ROWS * S::K / E; i += 32) {
            const bool inside = first + i / (S::K / E) < S::O;
            cp_async_16(rows + i * E, w.weight + (inside ? first * S::K + i * E : 0), inside);
        }
        cp_async_commit();
    }
    // The weights of the first group must have been fetched.
    __device__ __forceinline__ void run(const T* x, const HeadWeights<T>& w, T* y, int N, int first, int step) {
#pragma unroll 1
        for (int group = first; group < GROUPS; group += step) {
            if (group != first) {
                __syncwarp();
                prefetch(w, group);
            }
            const int o = (group * S::WARPS + warp) * S::ROWS + lane;
            const bool mine = lane < S::ROWS && o < S::O;  // the output that this lane writes
            const float bias = mine && w.bias ? (float)w.bias[o] : 0.0f;
#pragma unroll 1
            for (int n = 0; n < N; ++n) {
                float v[CHUNKS][E];
#pragma unroll
                for (int i = 0; i < CHUNKS; ++i) {
                    const int k = (i * 32 + lane) * E;
                    if (S::K % (32 * E) == 0 || k < S::K) load_written(v[i], x + n * S::K + k);
                }
                cp_async_wait<0>();
                __syncwarp();
                float result = 0;
#pragma unroll
                for (int row = 0; row < S::ROWS; ++row) {
                    float sum = 0;
#pragma unroll
                    for (int i = 0; i < CHUNKS; ++i) {
                        const int k = (i * 32 + lane) * E;
                        if (S::K % (32 * E) == 0 || k < S::K) {
                            float weight[E];
                            load_written(weight, rows + row * S::K + k);
#pragma unroll
                            for (int e = 0; e < E; ++e) sum = fmaf(v[i][e], weight[e], sum);
                        }
                    }
#pragma unroll
                    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
                    if (lane == row) result = sum;
                }
                if (mine) y[n * S::O + o] = (T)(result + bias);
            }
        }
    }
};
