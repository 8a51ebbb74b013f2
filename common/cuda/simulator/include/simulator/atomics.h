// atomics.h - read-modify-write operations that no other thread can come between.
//
// Relaxed, as CUDA's are: they order nothing but themselves. Each returns the value that stood there before.
#pragma once

#define SIM_ATOMIC_INTEGER(T)                                                                       \
    SIM_INLINE T atomicAdd(T* p, T value) { SIM_NOTE_ATOMIC(p); return __atomic_fetch_add(p, value, __ATOMIC_RELAXED); }\
    SIM_INLINE T atomicExch(T* p, T value) { SIM_NOTE_ATOMIC(p); return __atomic_exchange_n(p, value, __ATOMIC_RELAXED); } \
    SIM_INLINE T atomicCAS(T* p, T compare, T value) {                                              \
        SIM_NOTE_ATOMIC(p); \
        __atomic_compare_exchange_n(p, &compare, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);     \
        return compare;                                                                             \
    }                                                                                               \
    SIM_INLINE T atomicAnd(T* p, T value) { SIM_NOTE_ATOMIC(p); return __atomic_fetch_and(p, value, __ATOMIC_RELAXED); }\
    SIM_INLINE T atomicOr(T* p, T value) { SIM_NOTE_ATOMIC(p); return __atomic_fetch_or(p, value, __ATOMIC_RELAXED); }  \
    SIM_INLINE T atomicXor(T* p, T value) { SIM_NOTE_ATOMIC(p); return __atomic_fetch_xor(p, value, __ATOMIC_RELAXED); }\
    SIM_INLINE T atomicMin(T* p, T value) {                                                         \
        SIM_NOTE_ATOMIC(p); \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                               \
        while (value < old && !__atomic_compare_exchange_n(p, &old, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
        return old;                                                                                 \
    }                                                                                               \
    SIM_INLINE T atomicMax(T* p, T value) {                                                         \
        SIM_NOTE_ATOMIC(p); \
        T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                               \
        while (old < value && !__atomic_compare_exchange_n(p, &old, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {} \
        return old;                                                                                 \
    }
SIM_ATOMIC_INTEGER(int)
SIM_ATOMIC_INTEGER(unsigned)
SIM_ATOMIC_INTEGER(long long)
SIM_ATOMIC_INTEGER(unsigned long long)
SIM_INLINE int atomicSub(int* p, int value) { SIM_NOTE_ATOMIC(p); return __atomic_fetch_sub(p, value, __ATOMIC_RELAXED); }
SIM_INLINE unsigned atomicSub(unsigned* p, unsigned value) { SIM_NOTE_ATOMIC(p); return __atomic_fetch_sub(p, value, __ATOMIC_RELAXED); }

// counts up to `limit` and starts again at 0; counts down from `limit`
SIM_INLINE unsigned atomicInc(unsigned* p, unsigned limit) {
        SIM_NOTE_ATOMIC(p);
    unsigned old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, old >= limit ? 0 : old + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}
SIM_INLINE unsigned atomicDec(unsigned* p, unsigned limit) {
        SIM_NOTE_ATOMIC(p);
    unsigned old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, old == 0 || old > limit ? limit : old - 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}

// Floating point: read, compute, and write only if the bits are still what was read.
#define SIM_ATOMIC_FLOAT(T, Bits)                                                                   \
    SIM_INLINE T atomicAdd(T* p, T value) {                                                         \
        SIM_NOTE_ATOMIC(p); \
        typedef Bits __attribute__((may_alias)) Alias;                                              \
        Bits old = __atomic_load_n((Alias*)p, __ATOMIC_RELAXED);                                    \
        while (!__atomic_compare_exchange_n((Alias*)p, &old, sim_bits<Bits>(sim_bits<T>(old) + value), 1, \
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}                 \
        return sim_bits<T>(old);                                                                    \
    }                                                                                               \
    SIM_INLINE T atomicExch(T* p, T value) {                                                        \
        SIM_NOTE_ATOMIC(p); \
        typedef Bits __attribute__((may_alias)) Alias;                                              \
        return sim_bits<T>(__atomic_exchange_n((Alias*)p, sim_bits<Bits>(value), __ATOMIC_RELAXED)); \
    }
SIM_ATOMIC_FLOAT(float, unsigned)
SIM_ATOMIC_FLOAT(double, unsigned long long)
