// unit.h - 16 bytes of a row of int8 numbers, on their way from global to shared memory: what mma_s8 reads of a row at a time.
//
//   copy_unit<ALIGN>(to, from, left)    16 bytes, of which `left` are there; zeros where there are none. ALIGN: rows begin at
//                                        multiples of 16, 8, 4 or 1 bytes. By cp.async, or byte by byte if ALIGN is 1
//   place<U>(r, u)                       where unit u of row r lies in a tile with rows of U units, in units: 8 rows below each
//                                        other, which ldmatrix reads at once, lie in 8 different groups of banks. It is
//                                        8·i·U + place<U>(r - 8·i, u): what is the same for all lanes can be added outside
#pragma once
#include "ptx.h"

template <int U> __device__ __forceinline__ int place(int r, int u) { return r * U + (u ^ r / (8 / U) % U); }  // 128 bytes are 8 / U rows

template <int ALIGN> __device__ __forceinline__ void copy_unit(uint4* to, const signed char* from, int left) {
    if constexpr (ALIGN == 16) cp_async_16(to, from, left > 0);
    else if constexpr (ALIGN == 8)
#pragma unroll
        for (int i = 0; i < 16; i += 8) cp_async_8((char*)to + i, from + i, left > i);
    else if constexpr (ALIGN == 4)
#pragma unroll
        for (int i = 0; i < 16; i += 4) cp_async_4((char*)to + i, from + i, left > i);
    else
        for (int i = 0; i < 16; ++i) ((signed char*)to)[i] = i < left ? from[i] : (signed char)0;
}
