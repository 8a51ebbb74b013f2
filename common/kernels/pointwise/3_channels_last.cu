// pointwise, rung 3 "channels_last": the same product in NHWC, pixels × weights: rows begin at multiples of 16 bytes.
//
//   NHWC: x is one matrix (P, C), P = N·pixels, and y = x · weightᵀ is (P, O). A block computes BM pixels × BN outputs.
//
// Moves   P·O·C·(1/BM + 1/BN) elements to shared memory, as before, but 16 bytes per load: 4 floats or 8 halves of a row of
//         x or weight, which are neighbours in k for both. A thread's TN outputs are neighbours too: one store.
// Gains   4 (fp32) or 8 (fp16) times fewer loads and stores, and as much less address arithmetic. This holds for any image
//         size: a row is a pixel's channels, and networks have channels in multiples of 8.
// Costs   both tiles are transposed when they are stored, k outermost: the four stores after a load lie BM + 4 words apart,
//         and lanes that share a row meet in a bank, two by two. Rows of other lengths go element by element, VECTOR=0.
#include "vec.h"

#ifndef VECTOR
#define VECTOR 1  // 0: rows of x, weight, residual or y do not begin at multiples of 16 bytes
#endif
constexpr int E = 16 / sizeof(scalar_t);  // elements in 16 bytes
constexpr int THREADS = BM / TM * (BN / TN);

// ROWS rows of BK channels from k0 on, transposed; zeros beyond the matrix.
template <int ROWS>
__device__ __forceinline__ void fetch(float (&tile)[BK][ROWS + 4], const scalar_t* __restrict__ matrix, int row0, int rows, int k0, int C) {
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * BK / E; i += THREADS) {
        const int r = i / (BK / E), k = i % (BK / E) * E;
        const scalar_t* from = matrix + (row0 + r) * C + k0 + k;
        float v[E] = {};
#if VECTOR
        if (row0 + r < rows && k0 + k < C) load(v, from);
#else
        for (int e = 0; e < E; ++e)
            if (row0 + r < rows && k0 + k + e < C) v[e] = (float)from[e];
#endif
#pragma unroll
        for (int e = 0; e < E; ++e) tile[k + e][r] = v[e];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
pointwise(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    __shared__ __align__(16) float Xs[BK][BM + 4], Ws[BK][BN + 4];
    const int P = N * pixels;
    const int tile_p = blockIdx.z * gridDim.y + blockIdx.y;
    if (tile_p > (P - 1) / BM) return;
    const int p0 = tile_p * BM, o0 = blockIdx.x * BN;
    const int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < C; k0 += BK) {
        fetch<BM>(Xs, x, p0, P, k0, C);
        fetch<BN>(Ws, weight, o0, O, k0, C);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float v[TM], w[TN];
#pragma unroll
            for (int m = 0; m < TM; ++m) v[m] = Xs[k][row + m];
#pragma unroll
            for (int n = 0; n < TN; ++n) w[n] = Ws[k][col + n];
#pragma unroll
            for (int m = 0; m < TM; ++m)
#pragma unroll
                for (int n = 0; n < TN; ++n) acc[m][n] += v[m] * w[n];
        }
        __syncthreads();
    }

    const int o = o0 + col;
#pragma unroll
    for (int m = 0; m < TM; ++m) {
        const int p = p0 + row + m, i = p * O + o;
        if (p < P && o < O) {
            float out[TN] = {}, more[TN] = {};
#if VECTOR
            if (bias) load(out, bias + o);
            if (residual) load(more, residual + i);
#else
            for (int e = 0; e < TN && o + e < O; ++e) {
                if (bias) out[e] = (float)bias[o + e];
                if (residual) more[e] = (float)residual[i + e];
            }
#endif
#pragma unroll
            for (int e = 0; e < TN; ++e) {
                out[e] += acc[m][e] + more[e];
                out[e] = out[e] < low ? low : out[e];
                out[e] = out[e] > high ? high : out[e];
            }
#if VECTOR
            store(y + i, out);
#else
            for (int e = 0; e < TN && o + e < O; ++e) y[i + e] = (scalar_t)out[e];
#endif
        }
    }
}
