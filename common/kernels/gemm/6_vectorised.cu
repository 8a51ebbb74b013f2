// gemm, rung 6 "vectorised": VECTOR elements per load from global memory, four per load from shared; As is transposed.
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null.
//
// Moves   the elements of rung 5, 4 loads of 16 bytes per 64 multiply-adds, now in the source, too. For that a thread's TM
//         elements of A must be neighbours: rows of A become columns of As on their way in. VECTOR is 1 where
//         rows of A, B or C do not begin at multiples of 4 elements; shared memory is loaded in fours all the same.
// Gains   registers: one k of As instead of four, so two blocks per SM where rung 5 has one. And wide loads from global
//         memory. Wavefronts of shared loads are those of rung 5 as compiled.
// Costs   4 floats more per row of As and Bs, so that the stores of a column do not all meet in one bank.
#include "vec.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 4  // elements that an access to global memory takes; 1 where rows do not begin at multiples of 4
#endif
#define THREADS (BM / TM * (BN / TN))

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    const int tiles_n = (N - 1) / BN + 1;  // blocks side by side; blockIdx.x counts along them, row of blocks by row
    const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
    A += (size_t)row0 * K;
    B += TRANSPOSE_B ? (size_t)col0 * K : col0;
    C += (size_t)row0 * N + col0;
    __shared__ __align__(16) float As[BK][BM + 4], Bs[BK][BN + 4];  // 4 more where columns are written: other banks
    const int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;  // of the thread's first element

    float acc[TM][TN] = {};
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
            for (int i = 0; i < TM; i += 4) *(float4*)&a[i] = *(const float4*)&As[k][row + i];
            for (int j = 0; j < TN; j += 4) *(float4*)&b[j] = *(const float4*)&Bs[k][col + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
        A += BK;
        B += TRANSPOSE_B ? BK : (size_t)BK * N;
    }

    for (int j = 0; j < TN; j += VECTOR) {
        const int col_j = col + j;
        if (col_j >= N - col0) break;
        float add[VECTOR] = {};
        if (bias) load(add, bias + col0 + col_j);
        for (int i = 0; i < TM; ++i) {
            const int row_i = row + i;
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
