// three_tf32: D (16×8) = A (16×K) · B (K×8) by three products of TF32 on tensor cores. K is a
// multiple of 8. A block is one warp.
// requires: sm_80
#include "ptx.h"

extern "C" __global__ void three_tf32(const float* A, const float* B, float* D, int K) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4] = {};
    for (int k = 0; k < K; k += 8) {
        // bits of floats; mma_tf32 ignores the last 13 of each
        unsigned a_high[4], a_low[4], b_high[2], b_low[2];
        for (int i = 0; i < 4; ++i) {
            const float x = A[(g + i % 2 * 8) * K + k + t + i / 2 * 4];
            // BEGIN SOLUTION
            // write: a_high[i] is x in TF32, a_low[i] what is lacking
            a_high[i] = to_tf32(x);
            a_low[i] = __float_as_uint(x - __uint_as_float(a_high[i]));
            // END SOLUTION
        }
        for (int i = 0; i < 2; ++i) {
            const float x = B[(k + t + i * 4) * 8 + g];
            // BEGIN SOLUTION
            // write: b_high[i] and b_low[i], alike
            b_high[i] = to_tf32(x);
            b_low[i] = __float_as_uint(x - __uint_as_float(b_high[i]));
            // END SOLUTION
        }
        // BEGIN SOLUTION
        // write: three mma_tf32(d, …, …), the small products first
        mma_tf32(d, a_low, b_high);
        mma_tf32(d, a_high, b_low);
        mma_tf32(d, a_high, b_high);
        // END SOLUTION
    }
    for (int i = 0; i < 4; ++i) D[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}
