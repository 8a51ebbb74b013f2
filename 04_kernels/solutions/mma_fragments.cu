// requires: sm_80
// product: D = A·B on tensor cores. A (M, K) and B (K, N) are halves, D (M, N) floats, all
// row-major. M, N and K may be anything. A block is one warp and computes 16×8 of D: the rows
// from 16 · blockIdx.y on, the columns from 8 · blockIdx.x on.
#include "ptx.h"

// Two elements of X (rows, columns) in a register, X[r0][c0] in the lower half, X[r1][c1] in
// the upper; 0 outside of X.
__device__ unsigned two(const __half* X, int rows, int columns, int r0, int c0,
                        int r1, int c1) {
    const __half low = r0 < rows && c0 < columns ? X[r0 * columns + c0] : __float2half(0.0f);
    const __half high = r1 < rows && c1 < columns ? X[r1 * columns + c1] : __float2half(0.0f);
    return __half_as_ushort(low) | (unsigned)__half_as_ushort(high) << 16;
}

extern "C" __global__ void product(const __half* A, const __half* B, float* D, int M, int N,
                                   int K) {
    const int row0 = blockIdx.y * 16, col0 = blockIdx.x * 8;
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {};
    for (int k = 0; k < K; k += 16) {
        unsigned a[4] = {}, b[2] = {};
        // the second and fourth 8 rows down, the third and fourth 8 columns on
        for (int i = 0; i < 4; ++i) {
            const int row = row0 + g + i % 2 * 8, col = k + 2 * t + i / 2 * 8;
            a[i] = two(A, M, K, row, col, row, col + 1);
        }
        // BEGIN SOLUTION
        // write: b, the lane's part of 16×8 of B
        for (int i = 0; i < 2; ++i) {
            const int row = k + 2 * t + i * 8, col = col0 + g;
            b[i] = two(B, K, N, row, col, row + 1, col);
        }
        // END SOLUTION
        mma_f16(d, a, b);
    }
    // BEGIN SOLUTION
    // write: d, the lane's part of 16×8 of D
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + g + i / 2 * 8, col = col0 + 2 * t + i % 2;
        if (row < M && col < N) D[row * N + col] = d[i];
    }
    // END SOLUTION
}
