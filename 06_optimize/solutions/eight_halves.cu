// clamp_halves: y[i] = x[i] held between 0 and 6, for i < n. x and y begin at multiples of 16
// bytes, n is any number. Thread i has the eight halves from 8·i on: one load and one store of
// 16 bytes, a uint4, where there are eight; one by one where the array ends before. There are
// at least as many threads as groups of eight; the last group may have fewer halves.
#include <cuda_fp16.h>
__device__ __half held(__half x) {
    float value = __half2float(x);
    return __float2half(value < 0.0f ? 0.0f : value > 6.0f ? 6.0f : value);
}
extern "C" __global__ void clamp_halves(const __half* x, __half* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    // write: eight at a time
    // write: fewer than eight at the end
    if (8 * i + 8 <= n) {
        uint4 eight = ((const uint4*)x)[i];
        __half* half = (__half*)&eight;
        for (int k = 0; k < 8; ++k) half[k] = held(half[k]);
        ((uint4*)y)[i] = eight;
    } else {
        for (int k = 8 * i; k < n; ++k) y[k] = held(x[k]);
    }
    // END SOLUTION
}
