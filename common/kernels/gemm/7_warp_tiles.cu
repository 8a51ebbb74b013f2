// gemm, rung 7 "warp_tiles": a warp has a tile of its own, WM×WN, and its lanes take 4×4 squares of it that lie apart.
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null.
//
// Moves   the elements of rung 6. There the two vectors of 4 that a thread loads are neighbours, so lanes load 32 bytes apart
//         and use half of the banks. Here a thread's vectors lie LANES_N vectors apart, and neighbouring lanes load
//         neighbouring vectors.
// Gains   no bank conflicts: 12 wavefronts per 64 multiply-adds where rung 6 has 20.
// Costs   nothing but this arithmetic with indices.
#include "vec.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 4  // elements that an access to global memory takes; 1 where rows do not begin at multiples of 4
#endif
#define THREADS (BM / TM * (BN / TN))
#define LANES_M (WM / TM)  // of a warp's lanes so many stand below each other
#define LANES_N (WN / TN)  // and so many side by side: LANES_M * LANES_N is 32

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    const int tiles_n = (N - 1) / BN + 1;  // blocks side by side; blockIdx.x counts along them, row of blocks by row
    const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
    A += (size_t)row0 * K;
    B += TRANSPOSE_B ? (size_t)col0 * K : col0;
    C += (size_t)row0 * N + col0;
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN + 4];  // 4 more where columns are written: other banks
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (BN / WN) * WM + lane / LANES_N * 4, col = warp % (BN / WN) * WN + lane % LANES_N * 4;

    float acc[TM][TN] = {};  // in groups of 4 rows and 4 columns, LANES_M and LANES_N groups apart
    for (int left = K; left > 0; left -= BK) {
        for (int first = 0; first < BM * BK; first += THREADS * VECTOR) {  // along rows of A
            const int i = first + threadIdx.x * VECTOR, row = i / BK, k = i % BK;
            float v[VECTOR] = {};
            if (row < M - row0 && k < left) load(v, A + row * K + k);
            for (int e = 0; e < VECTOR; ++e) As[k + e][row] = v[e];
        }
        for (int first = 0; first < BK * BN; first += THREADS * VECTOR) {  // along rows of B
            const int i = first + threadIdx.x * VECTOR, k = TRANSPOSE_B ? i % BK : i / BN, col = TRANSPOSE_B ? i / BK : i % BN;
            float v[VECTOR] = {};
            if (k < left && col < N - col0) load(v, B + (TRANSPOSE_B ? col * K + k : k * N + col));
            for (int e = 0; e < VECTOR; ++e) (TRANSPOSE_B ? Bs[k + e][col] : Bs[k][col + e]) = v[e];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            __align__(16) float a[TM], b[TN];
            for (int i = 0; i < TM; i += 4) *(float4*)&a[i] = *(const float4*)&As[k][row + i * LANES_M];
            for (int j = 0; j < TN; j += 4) *(float4*)&b[j] = *(const float4*)&Bs[k][col + j * LANES_N];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
        A += BK;
        B += TRANSPOSE_B ? BK : (size_t)BK * N;
    }

    for (int j = 0; j < TN; j += VECTOR) {
        const int col_j = col + j / 4 * 4 * LANES_N + j % 4;
        if (col_j >= N - col0) break;
        float add[VECTOR] = {};
        if (bias) load(add, bias + col0 + col_j);
        for (int i = 0; i < TM; ++i) {
            const int row_i = row + i / 4 * 4 * LANES_M + i % 4;
            if (row_i >= M - row0) break;
            float sum[VECTOR];
            for (int e = 0; e < VECTOR; ++e) {
                sum[e] = acc[i][j + e] + add[e];
                sum[e] = sum[e] < low ? low : sum[e] > high ? high : sum[e];
            }
            store(C + row_i * N + col_j, sum);
        }
    }
}
