// gemm, rung 1 "naive": C = clamp(A·B + bias, low, high), one thread an element of C.
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null.
//
// Moves   every thread reads a row of A and a column of B: 2·M·N·K elements asked for, of which caches serve most;
//         at the least M·K + K·N + M·N. M·N·K multiply-adds.
// Gains   a reference that is hard to get wrong. Threads of a warp share a row of A and read B side by side.
// Costs   two loads for each multiply-add: bound by the load units, far from the arithmetic peak.
#include <cuda_fp16.h>

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif

extern "C" __global__ void gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias,
                                scalar_t* __restrict__ C, int M, int N, int K, float low, float high) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N), rounded up to whole blocks
    int row = blockIdx.y * blockDim.y + threadIdx.y;  // range [0, M), rounded up to whole blocks
    if (row >= M || col >= N) return;

    float acc = 0.0f;
    for (int k = 0; k < K; ++k) acc += (float)A[row * K + k] * (float)(TRANSPOSE_B ? B[col * K + k] : B[k * N + col]);
    if (bias) acc += (float)bias[col];
    C[row * N + col] = (scalar_t)(acc < low ? low : acc > high ? high : acc);
}
