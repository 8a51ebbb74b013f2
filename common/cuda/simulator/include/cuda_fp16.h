// cuda_fp16.h - half precision: 1 sign, 5 exponent and 10 fraction bits.
//
// Every operation is computed in a wider type and rounded once to the nearest half, as the hardware rounds.
#pragma once

#if defined(__aarch64__)
typedef __fp16 SimHalf;  // (g++ has _Float16 there only from version 13 on)
#else
typedef _Float16 SimHalf;
#endif

struct __attribute__((aligned(2))) __half {
    unsigned short bits;
    typedef unsigned short __attribute__((may_alias)) Bits;
    __half() = default;
    SIM_MEMBER __half(const __half& other) : bits(*(const Bits*)&other.bits) {}
    SIM_MEMBER __half& operator=(const __half& other) { *(Bits*)&bits = *(const Bits*)&other.bits; return *this; }
    SIM_MEMBER __half(float value) : bits(sim_bits<unsigned short>((SimHalf)value)) {}
    SIM_MEMBER __half(double value) : bits(sim_bits<unsigned short>((SimHalf)value)) {}
    SIM_MEMBER __half(int value) : __half((double)value) {}  // (by way of float some would be rounded twice)
    SIM_MEMBER __half(unsigned value) : __half((double)value) {}
    SIM_MEMBER operator float() const { return (float)sim_bits<SimHalf>(bits); }
};
typedef __half half;
SIM_TYPE(__half, "float16")

SIM_INLINE __half __float2half(float x) { return __half(x); }
SIM_INLINE __half __float2half_rn(float x) { return __half(x); }
SIM_INLINE __half __double2half(double x) { return __half(x); }
SIM_INLINE float __half2float(__half x) { return (float)x; }
SIM_INLINE __half __int2half_rn(int x) { return __half((double)x); }
SIM_INLINE __half __uint2half_rn(unsigned x) { return __half((double)x); }
SIM_INLINE int __half2int_rn(__half x) { return __float2int_rn((float)x); }
SIM_INLINE int __half2int_rz(__half x) { return __float2int_rz((float)x); }
SIM_INLINE unsigned short __half_as_ushort(__half x) { return x.bits; }
SIM_INLINE __half __ushort_as_half(unsigned short bits) { __half x; x.bits = bits; return x; }

#define SIM_HALF_OPERATOR(op, name)                                                             \
    SIM_INLINE __half name(__half a, __half b) { return __half((float)a op (float)b); }         \
    SIM_INLINE __half operator op(__half a, __half b) { return name(a, b); }                    \
    SIM_MEMBER __half& operator op##=(__half& a, __half b) { return a = name(a, b); }
SIM_HALF_OPERATOR(+, __hadd) SIM_HALF_OPERATOR(-, __hsub) SIM_HALF_OPERATOR(*, __hmul) SIM_HALF_OPERATOR(/, __hdiv)
SIM_INLINE __half operator-(__half a) { return __ushort_as_half(a.bits ^ 0x8000); }
#define SIM_HALF_COMPARE(op, name)                                                              \
    SIM_INLINE bool operator op(__half a, __half b) { return (float)a op (float)b; }            \
    SIM_INLINE bool name(__half a, __half b) { return (float)a op (float)b; }
SIM_HALF_COMPARE(<, __hlt) SIM_HALF_COMPARE(<=, __hle) SIM_HALF_COMPARE(>, __hgt) SIM_HALF_COMPARE(>=, __hge)
SIM_HALF_COMPARE(==, __heq) SIM_HALF_COMPARE(!=, __hne)
SIM_INLINE __half __hneg(__half a) { return -a; }
SIM_INLINE __half __habs(__half a) { return __ushort_as_half(a.bits & 0x7fff); }
SIM_INLINE bool __hisnan(__half a) { return (a.bits & 0x7fff) > 0x7c00; }
SIM_INLINE int __hisinf(__half a) { return a.bits == 0x7c00 ? 1 : a.bits == 0xfc00 ? -1 : 0; }
#if defined(SIM_TRACE) && !defined(__clang__)  // (clang's pattern is an ordinary half)
SIM_INLINE bool sim_unset(__half a) { return a.bits == 0x7ffa || a.bits == 0xfefe; }
#else
SIM_INLINE bool sim_unset(__half) { return false; }
#endif
SIM_CHOOSE(__half, __hmax, __half(__builtin_fmaxf((float)a, (float)b)))
SIM_CHOOSE(__half, __hmin, __half(__builtin_fminf((float)a, (float)b)))
// the product of two halves is exact in double, so that the sum is rounded to a half only once
SIM_INLINE __half __hfma(__half a, __half b, __half c) {
    return __half((double)(float)a * (double)(float)b + (double)(float)c);
}
SIM_INLINE __half hexp(__half a) { return __half(expf((float)a)); }
SIM_INLINE __half hsqrt(__half a) { return __half(sqrtf((float)a)); }
SIM_INLINE __half hrsqrt(__half a) { return __half(rsqrtf((float)a)); }
SIM_INLINE __half hrcp(__half a) { return __half(1.0f / (float)a); }
SIM_INLINE __half hlog(__half a) { return __half(logf((float)a)); }
SIM_INLINE __half htrunc(__half a) { return __half(__builtin_truncf((float)a)); }
SIM_INLINE __half hfloor(__half a) { return __half(__builtin_floorf((float)a)); }
SIM_INLINE __half hceil(__half a) { return __half(__builtin_ceilf((float)a)); }
SIM_INLINE __half hrint(__half a) { return __half(__builtin_rintf((float)a)); }

// ---- Two halves in one 32-bit register
struct __attribute__((aligned(4))) __half2 {
    __half x, y;
    typedef unsigned __attribute__((may_alias)) Whole;  // loads and stores are one 4-byte access
    __half2() = default;
    SIM_MEMBER __half2(__half x_, __half y_) : x(x_), y(y_) {}
    SIM_MEMBER __half2(const __half2& other) { *(Whole*)this = *(const Whole*)&other; }
    SIM_MEMBER __half2& operator=(const __half2& other) { *(Whole*)this = *(const Whole*)&other; return *this; }
};
typedef __half2 half2;
SIM_TYPE(__half2, "float16x2")

SIM_INLINE __half2 make_half2(__half x, __half y) { return __half2(x, y); }
SIM_INLINE __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
SIM_INLINE __half2 __half2half2(__half x) { return __half2(x, x); }
SIM_INLINE __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
SIM_INLINE __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
SIM_INLINE __half2 __float22half2_rn(float2 v) { return __half2(__half(v.x), __half(v.y)); }
SIM_INLINE float2 __half22float2(__half2 v) { return make_float2((float)v.x, (float)v.y); }
SIM_INLINE float __low2float(__half2 v) { return (float)v.x; }
SIM_INLINE float __high2float(__half2 v) { return (float)v.y; }
SIM_INLINE __half __low2half(__half2 v) { return v.x; }
SIM_INLINE __half __high2half(__half2 v) { return v.y; }
SIM_INLINE __half2 __low2half2(__half2 v) { return __half2(v.x, v.x); }
SIM_INLINE __half2 __high2half2(__half2 v) { return __half2(v.y, v.y); }
SIM_INLINE __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
SIM_INLINE __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
SIM_INLINE __half2 __lowhigh2highlow(__half2 v) { return __half2(v.y, v.x); }
#define SIM_HALF2_OPERATOR(op, name)                                                                \
    SIM_INLINE __half2 name(__half2 a, __half2 b) { return __half2(a.x op b.x, a.y op b.y); }       \
    SIM_INLINE __half2 operator op(__half2 a, __half2 b) { return name(a, b); }                     \
    SIM_MEMBER __half2& operator op##=(__half2& a, __half2 b) { return a = name(a, b); }
SIM_HALF2_OPERATOR(+, __hadd2) SIM_HALF2_OPERATOR(-, __hsub2) SIM_HALF2_OPERATOR(*, __hmul2) SIM_HALF2_OPERATOR(/, __h2div)
SIM_INLINE __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
SIM_INLINE __half2 __hmax2(__half2 a, __half2 b) { return __half2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }
SIM_INLINE __half2 __hmin2(__half2 a, __half2 b) { return __half2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }

SIM_INLINE __half sim_add_half(__half* p, __half value) {
    __half::Bits* at = (__half::Bits*)p;
    unsigned short old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, (__ushort_as_half(old) + value).bits, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return __ushort_as_half(old);
}
SIM_INLINE __half atomicAdd(__half* p, __half value) { SIM_NOTE_ATOMIC(p); return sim_add_half(p, value); }
SIM_INLINE __half2 atomicAdd(__half2* p, __half2 value) {  // one request, two additions: not one of both, on a GPU either
    SIM_NOTE_ATOMIC(p);
    return __half2(sim_add_half(&p->x, value.x), sim_add_half(&p->y, value.y));
}
