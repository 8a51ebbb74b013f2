// gemm, rung 2 "coalesced": one thread per element of C; a warp's lanes lie along a row of C.
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null.
//
// Moves   2·M·N·K elements loaded, M·N·K multiply-adds, as in rung 1. But in one step a warp loads one element of A, the
//         same for all lanes, and 32 neighbours of B: 1 + 4 sectors where rung 1 has 32 + 1.
// Gains   2 clocks of L1 per step instead of 33, for one line of source: neighbours in C are neighbours in memory.
// Costs   two loads per multiply-add from L1, the slowest unit. With TRANSPOSE_B neighbours in a row of C lie in
//         32 rows of B: nothing is gained there.
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
    const int row = threadIdx.x / BN, col = threadIdx.x % BN;  // in the block's part of C
    if (row >= M - row0 || col >= N - col0) return;
    A += (row0 + row) * K;
    B += TRANSPOSE_B ? (col0 + col) * K : col0 + col;

    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += (float)A[k] * (float)B[TRANSPOSE_B ? k : k * N];
    if (bias) acc += (float)bias[col0 + col];
    C[(row0 + row) * N + col0 + col] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
