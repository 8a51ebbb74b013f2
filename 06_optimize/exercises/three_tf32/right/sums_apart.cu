// requires: sm_80
#include "ptx.h"
__device__ void split(float x, unsigned& high, unsigned& low) {
    high = to_tf32(x);
    low = to_tf32(x - __uint_as_float(high));
}
extern "C" __global__ void three_tf32(const float* A, const float* B, float* D, int K) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {}, small[4] = {};
    for (int k = 0; k < K; k += 8) {
        unsigned a[2][4], b[2][2];
        for (int i = 0; i < 4; ++i) split(A[(g + i % 2 * 8) * K + k + t + i / 2 * 4], a[0][i], a[1][i]);
        for (int i = 0; i < 2; ++i) split(B[(k + t + i * 4) * 8 + g], b[0][i], b[1][i]);
        mma_tf32(d, a[0], b[0]);
        mma_tf32(small, a[1], b[0]);
        mma_tf32(small, a[0], b[1]);
    }
    for (int i = 0; i < 4; ++i) D[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i] + small[i];
}
