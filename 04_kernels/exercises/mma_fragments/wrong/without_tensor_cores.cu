// expect: takes 0 mma_f16
// requires: sm_80
#include "ptx.h"
extern "C" __global__ void product(const __half* A, const __half* B, float* D, int M, int N, int K) {
    for (int i = threadIdx.x; i < 16 * 8; i += 32) {
        int row = blockIdx.y * 16 + i / 8, col = blockIdx.x * 8 + i % 8;
        if (row >= M || col >= N) continue;
        float sum = 0.0f;
        for (int k = 0; k < K; ++k) sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);
        D[row * N + col] = sum;
    }
}
