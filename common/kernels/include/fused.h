// fused.h - what the rungs of inverted_residual share.
//
//   dot(a, b, n)             Σ a[k]·b[k] as a float, in loads of 16 bytes: so are a and b aligned, and n is that many
//   bounded(v, low, high)    v cut to [low, high]; a NaN stays
//   or_zero(p, i)            p[i] as a float; 0 if p is null: a bias or residual that is not given
//   read(v, p)               two neighbours as floats, from shared memory (vec.h's load reads global memory alone)
#pragma once
#include "vec.h"

template <class T> __device__ __forceinline__ float dot(const T* a, const T* b, int n) {
    constexpr int E = 16 / sizeof(T);
    float sum = 0.0f;
#pragma unroll 2
    for (int k = 0; k < n; k += E) {
        const uint4 pieces[2] = {*(const uint4*)(a + k), *(const uint4*)(b + k)};
#pragma unroll
        for (int e = 0; e < E; ++e) sum = fmaf((float)((const T*)&pieces[0])[e], (float)((const T*)&pieces[1])[e], sum);
    }
    return sum;
}

__device__ __forceinline__ float bounded(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

template <class T> __device__ __forceinline__ float or_zero(const T* p, size_t i) { return p ? (float)p[i] : 0.0f; }

__device__ __forceinline__ void read(float (&v)[2], const float* p) {
    const float2 two = *(const float2*)p;
    v[0] = two.x, v[1] = two.y;
}
__device__ __forceinline__ void read(float (&v)[2], const __half* p) { unpack(v[0], v[1], *(const unsigned*)p); }
