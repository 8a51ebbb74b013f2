// requires: sm_80
#include "ptx.h"
__device__ __half at(const __half* X, int rows, int columns, int row, int column) {
    return row < rows && column < columns ? X[row * columns + column] : (__half)0.0f;
}
__device__ unsigned both(__half low, __half high) {
    __half2 two = __halves2half2(low, high);
    return *(unsigned*)&two;
}
extern "C" __global__ void __launch_bounds__(32) product(const __half* A, const __half* B, float* D, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.x / 4, col = blockIdx.x * 8, t = threadIdx.x % 4 * 2, g = threadIdx.x / 4;
    float sum[4] = {0, 0, 0, 0};
    for (int k = 0; k < K; k += 16) {
        float part[4];
        const float none[4] = {};
        unsigned a[4], b[2];
        a[0] = both(at(A, M, K, row, k + t), at(A, M, K, row, k + t + 1));
        a[1] = both(at(A, M, K, row + 8, k + t), at(A, M, K, row + 8, k + t + 1));
        a[2] = both(at(A, M, K, row, k + t + 8), at(A, M, K, row, k + t + 9));
        a[3] = both(at(A, M, K, row + 8, k + t + 8), at(A, M, K, row + 8, k + t + 9));
        b[0] = both(at(B, K, N, k + t, col + g), at(B, K, N, k + t + 1, col + g));
        b[1] = both(at(B, K, N, k + t + 8, col + g), at(B, K, N, k + t + 9, col + g));
        mma_f16(part, a, b, none);
        for (int i = 0; i < 4; ++i) sum[i] += part[i];
    }
    for (int i = 0; i < 4; ++i)
        if (row + i / 2 * 8 < M && col + t + i % 2 < N) D[(row + i / 2 * 8) * N + col + t + i % 2] = sum[i];
}
