// gemm, rung 1 "naive": C = clamp(A·B + bias, low, high), one thread per element; a warp's lanes lie down a column of C.
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null.
// A block computes BM×BN elements of C.
//
// Moves   2·M·N·K elements loaded, M·N·K multiply-adds. In one step of the loop a warp loads one element in each of 32 rows
//         of A, 32 sectors of 32 bytes for 128 bytes that are used, and one element of B: 33 sectors.
// Gains   a reference that is hard to get wrong.
// Costs   33 clocks of L1 per step if K is a multiple of 32: all words of A lie in one bank. Multiply-adds take a quarter of one.
#include <cuda_fp16.h>

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#define THREADS (BM * BN)

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    const int tiles_n = (N - 1) / BN + 1;  // blocks side by side; blockIdx.x counts along them, row of blocks by row
    const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
    const int row = threadIdx.x % BM, col = threadIdx.x / BM;  // in the block's part of C
    if (row >= M - row0 || col >= N - col0) return;
    A += (row0 + row) * K;
    B += TRANSPOSE_B ? (col0 + col) * K : col0 + col;

    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += (float)A[k] * (float)B[TRANSPOSE_B ? k : k * N];
    if (bias) acc += (float)bias[col0 + col];
    C[(row0 + row) * N + col0 + col] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
