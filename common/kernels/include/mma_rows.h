// mma_rows.h - products of matrices in shared memory whose rows both have their channels innermost, by one warp.
//
//   multiply_rows<T>(acc, a, b, row, channels)   acc (16×16) += a (16×channels) · b (16×channels)ᵀ
//
// a and b point to their first rows; rows are `row` elements apart, an odd number of 16 bytes, so that the 8 rows of an
// ldmatrix begin in different banks. channels: a multiple of 32 bytes. acc[j] is columns 8j to 8j + 7, of which a
// lane holds what it holds of an mma's d (ptx.h): with g = lane / 4, t = lane % 4, acc[j][i] is row g + i / 2 * 8,
// column 8j + 2t + i % 2. Sums of 128 bytes of channels begin at zero and are added to acc: tf32x3.h says why.
#pragma once
#include "tf32x3.h"

template <class T>
__device__ __forceinline__ void multiply_rows(float (&acc)[2][4], const T* a, const T* b, int row, int channels) {
    constexpr int E = 16 / sizeof(T), STEP = 2 * E, CHUNK = 8 * E;
    const int lane = threadIdx.x % 32;
    a += lane % 16 * row + lane / 16 * E;
    b += (lane % 8 + lane / 16 * 8) * row + lane / 8 % 2 * E;
    for (int k0 = 0; k0 < channels; k0 += CHUNK) {
        float part[2][4] = {};
#pragma unroll
        for (int k = 0; k < CHUNK; k += STEP) {
            if (k0 + k >= channels) break;
            unsigned rows[4], columns[4];
            ldmatrix_x4(rows, a + k0 + k);
            ldmatrix_x4(columns, b + k0 + k);
            multiply<T>(part[0], rows, {columns[0], columns[1]});
            multiply<T>(part[1], rows, {columns[2], columns[3]});
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i / 4][i % 4] += part[i / 4][i % 4];
    }
}
