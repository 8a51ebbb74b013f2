// arithmetic.h - math functions and intrinsics.
//
// The functions are the C library's. Intrinsics that trade accuracy for speed on a GPU (__expf, __fdividef)
// are computed accurately here: results differ from a GPU's in the last bits, as they do between GPUs.
#pragma once

// ---- The C library's functions, and CUDA's overloads of the double names for float
#define SIM_MATH1(name)                                       \
    extern "C" { float name##f(float) noexcept; double name(double) noexcept; } \
    SIM_INLINE float name(float x) { return name##f(x); }
#define SIM_MATH2(name)                                       \
    extern "C" { float name##f(float, float) noexcept; double name(double, double) noexcept; } \
    SIM_INLINE float name(float x, float y) { return name##f(x, y); }
SIM_MATH1(sqrt) SIM_MATH1(cbrt) SIM_MATH1(exp) SIM_MATH1(exp2) SIM_MATH1(expm1)
SIM_MATH1(log) SIM_MATH1(log2) SIM_MATH1(log10) SIM_MATH1(log1p)
SIM_MATH1(sin) SIM_MATH1(cos) SIM_MATH1(tan) SIM_MATH1(asin) SIM_MATH1(acos) SIM_MATH1(atan)
SIM_MATH1(sinh) SIM_MATH1(cosh) SIM_MATH1(tanh) SIM_MATH1(erf) SIM_MATH1(erfc)
SIM_MATH1(asinh) SIM_MATH1(acosh) SIM_MATH1(atanh) SIM_MATH1(tgamma) SIM_MATH1(lgamma)
SIM_MATH1(fabs) SIM_MATH1(floor) SIM_MATH1(ceil) SIM_MATH1(trunc) SIM_MATH1(round) SIM_MATH1(rint) SIM_MATH1(nearbyint)
SIM_MATH2(pow) SIM_MATH2(fmod) SIM_MATH2(atan2) SIM_MATH2(fmin) SIM_MATH2(fmax) SIM_MATH2(copysign)
SIM_MATH2(hypot) SIM_MATH2(fdim) SIM_MATH2(remainder)
extern "C" { float ldexpf(float, int) noexcept; double ldexp(double, int) noexcept; long lroundf(float) noexcept; long lrintf(float) noexcept; }
SIM_INLINE float exp10f(float x) { return (float)pow(10.0, (double)x); }
SIM_INLINE double exp10(double x) { return pow(10.0, x); }
SIM_INLINE void sincosf(float x, float* sine, float* cosine) { *sine = sinf(x), *cosine = cosf(x); }
SIM_INLINE void sincos(double x, double* sine, double* cosine) { *sine = sin(x), *cosine = cos(x); }
SIM_INLINE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIM_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
SIM_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SIM_INLINE float fdividef(float a, float b) { return a / b; }
SIM_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
SIM_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
SIM_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
SIM_INLINE int abs(int x) { return x < 0 ? -x : x; }
SIM_INLINE long abs(long x) { return x < 0 ? -x : x; }
SIM_INLINE long long abs(long long x) { return x < 0 ? -x : x; }
SIM_INLINE long long llabs(long long x) { return x < 0 ? -x : x; }
SIM_INLINE bool signbit(float x) { return __builtin_signbit(x); }
SIM_INLINE bool signbit(double x) { return __builtin_signbit(x); }
SIM_INLINE float abs(float x) { return __builtin_fabsf(x); }
SIM_INLINE double abs(double x) { return __builtin_fabs(x); }
SIM_INLINE bool isnan(float x) { return x != x; }
SIM_INLINE bool isnan(double x) { return x != x; }
SIM_INLINE bool isinf(float x) { return __builtin_isinf(x); }
SIM_INLINE bool isinf(double x) { return __builtin_isinf(x); }
SIM_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
SIM_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }

// Does a variable hold what a checked build puts into one that nobody set? min and max must not lose it: on a GPU it may be
// anything. (The patterns of compiler.py: of g++ and of clang.)
#if !defined(SIM_TRACE)
template <class T> SIM_MEMBER bool sim_unset(T) { return false; }
#elif defined(__clang__)
SIM_INLINE bool sim_unset(float x) { return __builtin_bit_cast(unsigned, x) == 0xffffffffu; }
SIM_INLINE bool sim_unset(double x) { return __builtin_bit_cast(unsigned long, x) == ~0ul; }
template <class T> SIM_INLINE bool sim_unset(T x) { return x == (T)0xaaaaaaaaaaaaaaaaull; }
#else
SIM_INLINE bool sim_unset(float x) { return __builtin_bit_cast(unsigned, x) == 0x7ffa7ffau; }
SIM_INLINE bool sim_unset(double x) { return __builtin_bit_cast(unsigned long, x) == 0x7ffa7ffa7ffa7ffaul; }
template <class T> SIM_INLINE bool sim_unset(T x) { return x == (T)0x7ffa7ffa7ffa7ffaull; }
#endif
#define SIM_CHOOSE(T, name, chosen) \
    SIM_INLINE T name(T a, T b) { return sim_unset(a) ? a : sim_unset(b) ? b : chosen; }
#define SIM_MIN_MAX(T) SIM_CHOOSE(T, min, b < a ? b : a) SIM_CHOOSE(T, max, a < b ? b : a)
SIM_MIN_MAX(int) SIM_MIN_MAX(unsigned) SIM_MIN_MAX(long) SIM_MIN_MAX(unsigned long)
SIM_MIN_MAX(long long) SIM_MIN_MAX(unsigned long long)
// of mixed arguments the unsigned one, or the double, gives the type
#define SIM_MIN_MAX_MIXED(A, B, T)                                                      \
    SIM_INLINE T min(A a, B b) { return min((T)a, (T)b); }                              \
    SIM_INLINE T min(B a, A b) { return min((T)a, (T)b); }                              \
    SIM_INLINE T max(A a, B b) { return max((T)a, (T)b); }                              \
    SIM_INLINE T max(B a, A b) { return max((T)a, (T)b); }
SIM_MIN_MAX_MIXED(int, unsigned, unsigned) SIM_MIN_MAX_MIXED(long, unsigned long, unsigned long)
SIM_MIN_MAX_MIXED(long long, unsigned long long, unsigned long long)
// a NaN loses against a number
SIM_CHOOSE(float, min, __builtin_fminf(a, b)) SIM_CHOOSE(float, max, __builtin_fmaxf(a, b))
SIM_CHOOSE(double, min, __builtin_fmin(a, b)) SIM_CHOOSE(double, max, __builtin_fmax(a, b))
SIM_MIN_MAX_MIXED(float, double, double)
#ifdef SIM_TRACE
SIM_CHOOSE(float, sim_fminf, __builtin_fminf(a, b)) SIM_CHOOSE(float, sim_fmaxf, __builtin_fmaxf(a, b))
SIM_CHOOSE(float, sim_fmin, __builtin_fminf(a, b)) SIM_CHOOSE(float, sim_fmax, __builtin_fmaxf(a, b))
SIM_CHOOSE(double, sim_fmin, __builtin_fmin(a, b)) SIM_CHOOSE(double, sim_fmax, __builtin_fmax(a, b))
#define fminf sim_fminf
#define fmaxf sim_fmaxf
#define fmin sim_fmin
#define fmax sim_fmax
#endif

// ---- Intrinsics on float
SIM_INLINE float __expf(float x) { return expf(x); }
SIM_INLINE float __exp10f(float x) { return exp10f(x); }
SIM_INLINE float __logf(float x) { return logf(x); }
SIM_INLINE float __log2f(float x) { return log2f(x); }
SIM_INLINE float __sinf(float x) { return sinf(x); }
SIM_INLINE float __cosf(float x) { return cosf(x); }
SIM_INLINE float __tanf(float x) { return tanf(x); }
SIM_INLINE float __log10f(float x) { return log10f(x); }
SIM_INLINE void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
SIM_INLINE float __powf(float x, float y) { return powf(x, y); }
SIM_INLINE float __fdividef(float a, float b) { return a / b; }
SIM_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }  // NaN gives 0
SIM_INLINE float __fadd_rn(float a, float b) { return a + b; }
SIM_INLINE float __fsub_rn(float a, float b) { return a - b; }
SIM_INLINE float __fdiv_rn(float a, float b) { return a / b; }
SIM_INLINE float __frcp_rn(float x) { return 1.0f / x; }
SIM_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
SIM_INLINE float __frsqrt_rn(float x) { return 1.0f / __builtin_sqrtf(x); }
SIM_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// A product that must not be contracted into an fma with a later sum: the barrier hides it from the compiler.
SIM_INLINE float __fmul_rn(float a, float b) {
    float product = a * b;
    __asm__("" : "+m"(product));
    return product;
}

// ---- Conversions. A GPU clamps what does not fit; C++ leaves that undefined.
SIM_INLINE int sim_clamp_to_int(double x) {
    return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : (int)x;
}
SIM_INLINE int __float2int_rn(float x) { return sim_clamp_to_int(__builtin_rint(x)); }
SIM_INLINE int __float2int_rz(float x) { return sim_clamp_to_int(__builtin_trunc(x)); }
SIM_INLINE int __float2int_rd(float x) { return sim_clamp_to_int(__builtin_floor(x)); }
SIM_INLINE int __float2int_ru(float x) { return sim_clamp_to_int(__builtin_ceil(x)); }
SIM_INLINE float __int2float_rn(int x) { return (float)x; }
SIM_INLINE unsigned sim_clamp_to_unsigned(double x) {
    return x != x || x <= 0.0 ? 0u : x >= 4294967295.0 ? 4294967295u : (unsigned)x;
}
SIM_INLINE unsigned __float2uint_rn(float x) { return sim_clamp_to_unsigned(__builtin_rint(x)); }
SIM_INLINE unsigned __float2uint_rz(float x) { return sim_clamp_to_unsigned(__builtin_trunc(x)); }
SIM_INLINE int __double2int_rn(double x) { return sim_clamp_to_int(__builtin_rint(x)); }
SIM_INLINE int __double2int_rz(double x) { return sim_clamp_to_int(__builtin_trunc(x)); }
SIM_INLINE float __double2float_rn(double x) { return (float)x; }
SIM_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
template <class To, class From> SIM_INLINE To sim_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To result;
    __builtin_memcpy(&result, &value, sizeof result);
    return result;
}
SIM_INLINE int __float_as_int(float x) { return sim_bits<int>(x); }
SIM_INLINE unsigned __float_as_uint(float x) { return sim_bits<unsigned>(x); }
SIM_INLINE float __int_as_float(int x) { return sim_bits<float>(x); }
SIM_INLINE float __uint_as_float(unsigned x) { return sim_bits<float>(x); }
SIM_INLINE long long __double_as_longlong(double x) { return sim_bits<long long>(x); }
SIM_INLINE double __longlong_as_double(long long x) { return sim_bits<double>(x); }

// ---- Integers
SIM_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
SIM_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
SIM_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
SIM_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
SIM_INLINE int __ffs(int x) { return __builtin_ffs(x); }
SIM_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
SIM_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
SIM_INLINE int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
SIM_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
SIM_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
SIM_INLINE unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; ++i) r |= (x >> i & 1u) << (31 - i);
    return r;
}
SIM_INLINE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned r = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned s = selector >> 4 * i & 15;
        unsigned byte = (unsigned)(bytes >> 8 * (s & 7)) & 255;
        r |= (s & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return r;
}
SIM_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
SIM_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
// four 8-bit products added to a 32-bit sum; overloaded as in CUDA, where a call with int and unsigned does not compile
SIM_INLINE int __dp4a(int a, int b, int sum) {
    for (int i = 0; i < 4; ++i) sum += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return sum;
}
SIM_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (int i = 0; i < 4; ++i) sum += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return sum;
}
SIM_INLINE int __dp4a(char4 a, char4 b, int sum) { return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
SIM_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned sum) {
    return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
