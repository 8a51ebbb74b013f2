// gemm, rung 5 "register_block": a thread computes TM×TN elements of C from TM of A and TN of B, all of them in registers.
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null.
//
// Moves   M·N·K·(1/BM + 1/BN) elements into shared memory, M·N·K·(1/TM + 1/TN) out of it: with 8×8, 16 loads per 64
//         multiply-adds, where rung 4 has 72. The compiler merges neighbours, four k of a row of As, four columns of Bs.
// Gains   wavefronts: as compiled half of rung 4's. Lanes load TN elements apart and meet in the same banks.
// Costs   registers for TM·TN sums and for four k of As: one block per SM, 8 warps. When they wait, at a
//         barrier or for the next slice, the SM has nothing else to run.
#include <cuda_fp16.h>

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
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
    __shared__ float As[BM][BK], Bs[BK][BN + TRANSPOSE_B];  // one more where columns are written: other banks
    const int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;  // of the thread's first element

    float acc[TM][TN] = {};
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
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            for (int i = 0; i < TM; ++i) a[i] = As[row + i][k];
            for (int j = 0; j < TN; ++j) b[j] = Bs[k][col + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
        A += BK;
        B += TRANSPOSE_B ? BK : (size_t)BK * N;
    }

    for (int j = 0; j < TN; ++j) {
        if (col + j >= N - col0) break;
        const float add = bias ? (float)bias[col0 + col + j] : 0.0f;
        for (int i = 0; i < TM; ++i) {
            if (row + i >= M - row0) break;
            const float sum = acc[i][j] + add;
            C[(row + i) * N + col + j] = (scalar_t)(sum < low ? low : sum > high ? high : sum);
        }
    }
}
