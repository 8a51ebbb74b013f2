// vec.h - several neighbouring elements in one access of 4, 8 or 16 bytes, as floats in registers.
//
//   float v[4];
//   load(v, x + i);     x + i must lie at a multiple of the access: 4 floats 16 bytes, 8 halves 16 bytes, 2 halves 4
//   store(y + i, v);
//   unpack(a, b, read_two(x + i))     the two steps of load(v, x + i) for two elements, so that others can come between
#pragma once
#include <cuda_fp16.h>

__device__ __forceinline__ void load(float (&v)[1], const float* p) { v[0] = __ldg(p); }
__device__ __forceinline__ void load(float (&v)[2], const float* p) {
    float2 a = __ldg((const float2*)p);
    v[0] = a.x, v[1] = a.y;
}
__device__ __forceinline__ void load(float (&v)[4], const float* p) {
    float4 a = __ldg((const float4*)p);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
}
__device__ __forceinline__ void load(float (&v)[8], const float* p) {  // two accesses
    float4 a = __ldg((const float4*)p), b = __ldg((const float4*)p + 1);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

__device__ __forceinline__ float2 read_two(const float* p) { return __ldg((const float2*)p); }
__device__ __forceinline__ unsigned read_two(const __half* p) { return __ldg((const unsigned*)p); }
__device__ __forceinline__ void unpack(float& a, float& b, float2 v) { a = v.x, b = v.y; }
__device__ __forceinline__ void unpack(float& a, float& b, unsigned bits) {
    float2 v = __half22float2(*(const __half2*)&bits);
    a = v.x, b = v.y;
}
__device__ __forceinline__ unsigned pack(float a, float b) {
    __half2 v = __floats2half2_rn(a, b);
    return *(unsigned*)&v;
}
__device__ __forceinline__ void load(float (&v)[1], const __half* p) { v[0] = __half2float(*p); }
__device__ __forceinline__ void load(float (&v)[2], const __half* p) { unpack(v[0], v[1], __ldg((const unsigned*)p)); }
__device__ __forceinline__ void load(float (&v)[4], const __half* p) {
    uint2 a = __ldg((const uint2*)p);
    unpack(v[0], v[1], a.x), unpack(v[2], v[3], a.y);
}
__device__ __forceinline__ void load(float (&v)[8], const __half* p) {
    uint4 a = __ldg((const uint4*)p);
    unpack(v[0], v[1], a.x), unpack(v[2], v[3], a.y), unpack(v[4], v[5], a.z), unpack(v[6], v[7], a.w);
}

__device__ __forceinline__ void store(float* p, const float (&v)[1]) { *p = v[0]; }
__device__ __forceinline__ void store(float* p, const float (&v)[2]) { *(float2*)p = make_float2(v[0], v[1]); }
__device__ __forceinline__ void store(float* p, const float (&v)[4]) { *(float4*)p = make_float4(v[0], v[1], v[2], v[3]); }
__device__ __forceinline__ void store(float* p, const float (&v)[8]) {  // two accesses
    *(float4*)p = make_float4(v[0], v[1], v[2], v[3]);
    *((float4*)p + 1) = make_float4(v[4], v[5], v[6], v[7]);
}
__device__ __forceinline__ void store(__half* p, const float (&v)[1]) { *p = __float2half_rn(v[0]); }
__device__ __forceinline__ void store(__half* p, const float (&v)[2]) { *(unsigned*)p = pack(v[0], v[1]); }
__device__ __forceinline__ void store(__half* p, const float (&v)[4]) {
    *(uint2*)p = make_uint2(pack(v[0], v[1]), pack(v[2], v[3]));
}
__device__ __forceinline__ void store(__half* p, const float (&v)[8]) {
    *(uint4*)p = make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
}
