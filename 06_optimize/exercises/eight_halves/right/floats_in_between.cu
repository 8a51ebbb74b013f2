#include <cuda_fp16.h>
extern "C" __global__ void clamp_halves(const __half* __restrict__ x, __half* __restrict__ y, int n) {
    const int first = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    union {
        uint4 whole;
        __half2 two[4];
    } v;
    if (first + 8 <= n) {
        v.whole = __ldg((const uint4*)(x + first));
        for (int i = 0; i < 4; ++i) {
            float2 f = __half22float2(v.two[i]);
            f.x = f.x < 0.0f ? 0.0f : f.x > 6.0f ? 6.0f : f.x;
            f.y = f.y < 0.0f ? 0.0f : f.y > 6.0f ? 6.0f : f.y;
            v.two[i] = __floats2half2_rn(f.x, f.y);
        }
        *(uint4*)(y + first) = v.whole;
        return;
    }
    for (int i = first; i < n; ++i) {
        const float f = __half2float(x[i]);
        y[i] = f < 0.0f ? __float2half(0.0f) : f > 6.0f ? __float2half(6.0f) : x[i];
    }
}
