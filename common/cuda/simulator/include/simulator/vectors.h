// vectors.h - float4 and its relatives: structures that a GPU loads and stores in one instruction.
//
// Each holds a compiler vector over the same bytes, and copies through it, so that one load or store in
// the kernel is one access here as well. CUDA's alignments: the whole size, except for vectors of three.
#pragma once

#define SIM_VECTOR2(T, name)                                                              \
    struct __attribute__((aligned(2 * sizeof(T)), may_alias)) name {                      \
        typedef T whole __attribute__((vector_size(2 * sizeof(T)), may_alias));           \
        union {                                                                           \
            struct { T x, y; };                                                           \
            whole all;                                                                    \
        };                                                                                \
        name() = default;                                                                 \
        SIM_MEMBER name(T x_, T y_) : all(whole{x_, y_}) {}                               \
        SIM_MEMBER name(const name& other) : all(other.all) {}                            \
        SIM_MEMBER name& operator=(const name& other) { all = other.all; return *this; }  \
    };                                                                                    \
    SIM_INLINE name make_##name(T x, T y) { return name(x, y); }

#define SIM_VECTOR3(T, name)                                                              \
    struct name { T x, y, z; };                                                           \
    SIM_INLINE name make_##name(T x, T y, T z) { return name{x, y, z}; }

#define SIM_VECTOR4(T, name)                                                              \
    struct __attribute__((aligned(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)), may_alias)) name { \
        typedef T whole __attribute__((vector_size(4 * sizeof(T)), aligned(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)), may_alias)); \
        union {                                                                           \
            struct { T x, y, z, w; };                                                     \
            whole all;                                                                    \
        };                                                                                \
        name() = default;                                                                 \
        SIM_MEMBER name(T x_, T y_, T z_, T w_) : all(whole{x_, y_, z_, w_}) {}           \
        SIM_MEMBER name(const name& other) : all(other.all) {}                            \
        SIM_MEMBER name& operator=(const name& other) { all = other.all; return *this; }  \
    };                                                                                    \
    SIM_INLINE name make_##name(T x, T y, T z, T w) { return name(x, y, z, w); }

SIM_VECTOR2(signed char, char2)     SIM_VECTOR3(signed char, char3)     SIM_VECTOR4(signed char, char4)
SIM_VECTOR2(unsigned char, uchar2)  SIM_VECTOR3(unsigned char, uchar3)  SIM_VECTOR4(unsigned char, uchar4)
SIM_VECTOR2(short, short2)          SIM_VECTOR3(short, short3)          SIM_VECTOR4(short, short4)
SIM_VECTOR2(unsigned short, ushort2) SIM_VECTOR3(unsigned short, ushort3) SIM_VECTOR4(unsigned short, ushort4)
SIM_VECTOR2(int, int2)              SIM_VECTOR3(int, int3)              SIM_VECTOR4(int, int4)
SIM_VECTOR2(unsigned, uint2)                                            SIM_VECTOR4(unsigned, uint4)
SIM_VECTOR2(long long, longlong2)   SIM_VECTOR2(unsigned long long, ulonglong2)
SIM_VECTOR2(float, float2)          SIM_VECTOR3(float, float3)          SIM_VECTOR4(float, float4)
SIM_VECTOR2(double, double2)        SIM_VECTOR3(double, double3)        SIM_VECTOR4(double, double4)
SIM_INLINE uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return uint3{x, y, z}; }
