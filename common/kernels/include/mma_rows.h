// mma_rows.h - matrices in shared memory, their channels innermost: copied there by cp.async, multiplied by mma.
//
//   copy_rows<BLOCK>(to, to_row, to_rows, to_columns, from, length, rows, columns)
//        to_rows×to_columns elements of a matrix whose rows are `length` apart, on their way to rows that are to_row
//        apart, by the BLOCK threads of a block; zeros where it has no more `rows` or `columns`. Columns are multiples
//        of 16 bytes, and so is every row's address
//   multiply_rows<T>(acc, a, b, row, channels)   acc (16×16) += a (16×channels) · b (16×channels)ᵀ, by one warp
//        a and b point to their first rows; rows are `row` elements apart, an odd number of 16 bytes, so that the 8
//        rows of an ldmatrix begin in different banks. channels: a multiple of 32 bytes
//
// acc[j] is columns 8j to 8j + 7, of which a lane holds what it holds of an mma's d (ptx.h): with g = lane / 4 and
// t = lane % 4, acc[j][i] is row g + i / 2 * 8, column 8j + 2t + i % 2.
#pragma once
#include "tf32x3.h"

template <int BLOCK, class T>
__device__ __forceinline__ void copy_rows(T* to, int to_row, int to_rows, int to_columns, const T* from, int length,
                                          int rows, int columns) {
    const int pieces = to_columns * (int)sizeof(T) / 16;
    for (int i = threadIdx.x; i < to_rows * pieces; i += BLOCK) {
        const int row = i / pieces, column = i % pieces * 16 / (int)sizeof(T);
        const bool inside = row < rows && column < columns;
        cp_async_16(to + row * to_row + column, inside ? from + (size_t)row * length + column : from, inside);
    }
}

template <class T>
__device__ __forceinline__ void multiply_rows(float (&acc)[2][4], const T* a, const T* b, int row, int channels) {
    constexpr int E = 16 / sizeof(T), STEP = 2 * E;
    const int lane = threadIdx.x % 32;
    a += lane % 16 * row + lane / 16 * E;
    b += (lane % 8 + lane / 16 * 8) * row + lane / 8 % 2 * E;
#pragma unroll 4
    for (int k = 0; k < channels; k += STEP) {
        unsigned rows[4], columns[4];
        ldmatrix_x4(rows, a + k);
        ldmatrix_x4(columns, b + k);
        multiply<T>(acc[0], rows, {columns[0], columns[1]});
        multiply<T>(acc[1], rows, {columns[2], columns[3]});
    }
}
