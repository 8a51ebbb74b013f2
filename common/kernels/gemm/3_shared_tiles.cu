// gemm, rung 3 "shared_tiles": the block copies BM×BK of A and BK×BN of B into shared memory, and multiplies them there.
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null.
//
// Moves   M·N·K·(1/BM + 1/BN) elements from global memory instead of 2·M·N·K: with tiles of 32, one 32nd. From shared memory
//         2·M·N·K are loaded, as before from L1. Tiles hold floats: halves are converted once, on their way in.
// Gains   each element is loaded once per block, whatever a cache keeps, and along rows of B with TRANSPOSE_B, too.
// Costs   two barriers per slice, and two loads per multiply-add all the same: as written, 2 wavefronts per step of a warp,
//         one per clock; as compiled 1.5, because four neighbours of As become one load.
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
    A += (size_t)row0 * K;
    B += TRANSPOSE_B ? (size_t)col0 * K : col0;
    C += (size_t)row0 * N + col0;
    __shared__ float As[BM][BK], Bs[BK][BN + TRANSPOSE_B];  // one more where columns are written: other banks
    const int row = threadIdx.x / BN, col = threadIdx.x % BN;  // in the block's part of C

    float acc = 0.0f;
    for (int left = K; left > 0; left -= BK) {
        for (int first = 0; first < BM * BK; first += THREADS) {  // along rows of A
            const int i = first + threadIdx.x, row = i / BK, k = i % BK;
            As[row][k] = row < M - row0 && k < left ? (float)A[row * K + k] : 0.0f;
        }
        for (int first = 0; first < BK * BN; first += THREADS) {  // along rows of B
            const int i = first + threadIdx.x, k = TRANSPOSE_B ? i % BK : i / BN, col = TRANSPOSE_B ? i / BK : i % BN;
            Bs[k][col] = k < left && col < N - col0 ? (float)B[TRANSPOSE_B ? col * K + k : k * N + col] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) acc += As[row][k] * Bs[k][col];
        __syncthreads();
        A += BK;
        B += TRANSPOSE_B ? BK : (size_t)BK * N;
    }

    if (row >= M - row0 || col >= N - col0) return;
    if (bias) acc += (float)bias[col0 + col];
    C[row * N + col] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
