// numbers.h - what sizes are computed with when a kernel is compiled, and clamping to bounds that are known then.
#pragma once
#include "ptx.h"
#include "vec.h"

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }
__host__ __device__ constexpr int larger(int a, int b) { return a > b ? a : b; }

// What a bound of infinity asks for costs nothing.
constexpr float LARGEST = 3.402823466e+38f;
__device__ __forceinline__ float bounded(float x, float low, float high) {
    if (low < -LARGEST && high > LARGEST) return x;
    return clamp(x, low, high);
}
struct Nothing {  // to be called where nothing is to be done
    __device__ __forceinline__ void operator()() const {}
};

// Two floats as halves, clamped: rounded first, then two at a time.
__device__ __forceinline__ unsigned bounded_halves(float a, float b, float low, float high) {
    unsigned two = low == 0.0f ? pack_relu(a, b) : pack(a, b);
    if (low != 0.0f && low >= -LARGEST) two = max_halves(two, pack(low, low));
    if (high <= LARGEST) two = min_halves(two, pack(high, high));
    return two;
}
// The sums of a lane that stmatrix_x4 stores as 16 pixels × 16 channels of halves.
__device__ __forceinline__ void store_bounded(__half* row, const float (&d)[2][4], float low, float high) {
    stmatrix_x4(row, {bounded_halves(d[0][0], d[0][1], low, high), bounded_halves(d[0][2], d[0][3], low, high),
                      bounded_halves(d[1][0], d[1][1], low, high), bounded_halves(d[1][2], d[1][3], low, high)});
}

// What lies to the left of a lane's even pixel and to the right of its odd one. Wrong left of 0 and right of 15.
template <class V> __device__ __forceinline__ V left_of(V odd, int lane) {
    return __shfl_sync(0xffffffffu, odd, (lane + 28) % 32);
}
template <class V> __device__ __forceinline__ V right_of(V even, int lane) {
    return __shfl_sync(0xffffffffu, even, (lane + 4) % 32);
}
