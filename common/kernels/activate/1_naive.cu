// activate, rung 1 "naive": out[i] = f(x[i]), one thread an element; f is sigmoid, hardsigmoid or hardswish.
//
// Moves   n elements in, n out, once each.
// Gains   one kernel for three functions: -DFUNCTION names the one that is compiled in, so no thread asks which.
// Costs   a pass over the whole activation for a few operations an element, and as many threads as elements.
#include <cuda_fp16.h>

__device__ __forceinline__ float cut(float v, float low, float high) {
    return v < low ? low : v > high ? high : v;  // a NaN is neither: it stays
}
__device__ __forceinline__ float sigmoid(float x, float, float) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float hardsigmoid(float x, float alpha, float beta) { return cut(alpha * x + beta, 0.0f, 1.0f); }
__device__ __forceinline__ float hardswish(float x, float, float) { return x * (cut(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f)); }

extern "C" __global__ void activate(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, float alpha, float beta, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), rounded up to whole blocks
    if (i < n) out[i] = (scalar_t)FUNCTION((float)x[i], alpha, beta);
}
