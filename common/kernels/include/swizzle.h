// swizzle.h - tiles in shared memory whose rows are stored by copies of 16 bytes and loaded by ldmatrix, without bank conflicts.
//
//   at<COLUMNS>(tile, row, column)   the element of a tile with rows of COLUMNS; column is a multiple of a piece, 16 bytes
//   fetch<ROWS, COLUMNS, BLOCK, WIDTH, PADDING>(tile, matrix, row0, column0, rows, columns)
//                                    ROWS×COLUMNS elements from (row0, column0) on of a matrix (rows, columns), zeros where it
//                                    ends, on their way to a tile, by the BLOCK threads of a block together. WIDTH: elements
//                                    that a copy moves; rows begin at multiples of so many. PADDING: 0, or elements by which
//                                    a tile that ldmatrix does not read has longer rows, without a swizzle
//
// The swizzle: in each row the pieces are exchanged by an XOR with a number of the row, so that 8 pieces below each other lie in
// 8 different groups of four banks. Rows shorter than 128 bytes share a line of 32 banks, and their number is that of the line.
// Tiles of floats are also accessed with 2 neighbours per lane: there, two neighbouring pieces of 4 rows must lie apart. So row r
// has the number 2r mod 8, plus r / 4 mod 2.
#pragma once
#include "ptx.h"

template <int COLUMNS, class T> __device__ __forceinline__ T* at(T* tile, int row, int column) {
    constexpr int PIECE = 16 / sizeof(T), PIECES = COLUMNS / PIECE;
    const int turn = PIECES < 8 ? row * PIECES / 8 % PIECES : sizeof(T) == 2 ? row % 8 : row * 2 % 8 + row / 4 % 2;
    return tile + row * COLUMNS + (column / PIECE ^ turn) * PIECE;
}

template <int ROWS, int COLUMNS, int BLOCK, int WIDTH, int PADDING = 0, class T>
__device__ __forceinline__ void fetch(T* tile, const T* matrix, int row0, int column0, int rows, int columns) {
    constexpr int PIECE = 16 / sizeof(T), PIECES = COLUMNS / PIECE, STEP = BLOCK / PIECES;  // STEP rows at a time
    static_assert(BLOCK % PIECES == 0 && ROWS % STEP == 0, "");
    const int row = threadIdx.x / PIECES, column = threadIdx.x % PIECES * PIECE;
    const int inside = columns - column0 - column;  // so many of a piece lie inside, or more
    const T* from = matrix + ((size_t)row0 + row) * columns + column0 + column;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP, from += (size_t)STEP * columns) {
        const int wanted = row + i < rows - row0 ? inside : 0;
        T* to = PADDING ? tile + (row + i) * (COLUMNS + PADDING) + column : at<COLUMNS>(tile, row + i, column);
        if (WIDTH == PIECE) cp_async_16(to, from, wanted > 0);
        else
            for (int e = 0; e < PIECE; e += WIDTH)
                if (WIDTH * sizeof(T) == 4) cp_async_4(to + e, from + e, wanted > e);
                else to[e] = wanted > e ? from[e] : (T)0.0f;
    }
}
