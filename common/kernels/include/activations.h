// activations.h - the elementwise functions of the operator activate, each (x, alpha, beta) → float; most ignore alpha, beta.
//
// A NaN stays NaN. The formulas keep their relative accuracy where the usual ones cancel: GELU's 1 + erf(z) is 2 for z → ∞
// and nothing but rounding for z → -∞, where erfc(-z) is exact; ELU's exp(x) - 1 loses all digits of a small x.
// Sources: GELU, arXiv:1606.08415; ELU, arXiv:1511.07289; hard swish, arXiv:1905.02244.
#pragma once

__device__ __forceinline__ float cut(float v, float low, float high) {
    return v < low ? low : v > high ? high : v;  // a NaN is neither: it stays
}
__device__ __forceinline__ float sigmoid(float x, float, float) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float hardsigmoid(float x, float alpha, float beta) { return cut(alpha * x + beta, 0.0f, 1.0f); }
__device__ __forceinline__ float hardswish(float x, float, float) { return x * (cut(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f)); }
__device__ __forceinline__ float tanh(float x, float, float) { return tanhf(x); }
__device__ __forceinline__ float sqrt(float x, float, float) { return sqrtf(x); }
__device__ __forceinline__ float erf(float x, float, float) { return erff(x); }
__device__ __forceinline__ float leaky_relu(float x, float alpha, float) { return x < 0.0f ? alpha * x : x; }
__device__ __forceinline__ float elu(float x, float alpha, float) { return x < 0.0f ? alpha * expm1f(x) : x; }
__device__ __forceinline__ float gelu(float x, float, float) { return 0.5f * x * erfcf(-0.70710678f * x); }
// x · (1 + tanh(u)) / 2 with u = √(2/π) · (x + 0.044715 x³), as x · sigmoid(2u)
__device__ __forceinline__ float gelu_tanh(float x, float, float) {
    return x / (1.0f + expf(-1.59576912f * (x + 0.044715f * x * x * x)));
}
