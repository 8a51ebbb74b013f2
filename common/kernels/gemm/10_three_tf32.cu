// gemm, rung 10 "three_tf32": fp32 products as three products of TF32 parts on tensor cores, with fp32's accuracy.
// requires: sm_80
//
// A TF32 number has 11 bits, a float 24: x = big + small, and (a + a')·(b + b') = a'·b + a·b' + a·b + a'·b'. The last is less
// than 2^-22 of a·b, a few roundings of a float, and errs to both sides: left out. The two other small ones are added up first,
// lest they lose their bits in a large sum. Tensor cores cut off what does not fit into a sum, always towards 0, and that adds
// up: so their sums are those of one slice, BK long, and FADD, which rounds to nearest, adds them to the rest. Measured, in
// parts of the error allowed, 1e-6·√K: without that 0.45 at K = 4,096 and 1.3 at 32,768, with it 0.005 at both.
//
// Moves   what rung 9 does, 4 bytes an element. 3·M·N·K multiply-adds in TF32, at half the rate of fp16; for a warp's 64×32×8
//         that is 48 mma, and 24 values a lane to split, 3 instructions each.
// Gains   3 TF32 products cost less than one FMA on cards whose tensor cores multiply TF32 more than 3 times as fast as fp32
//         units. With Bᵀ all fragments come by ldmatrix, which is faster.
// Costs   three times the sums, fragments and splits in registers: 255 of them, so smaller warps than rung 9's. An infinity
//         times anything becomes NaN, as its small part is ∞ − ∞.
#include "ptx.h"
#include "vec.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 4  // elements that a copy moves: rows begin at multiples of so many
#endif
#define THREADS (BM / WM * (BN / WN) * 32)

// The element (row, column) of a tile with rows of COLUMNS; column is a multiple of 4. The 16-byte pieces of a row are
// exchanged by an XOR with the row's number, so that 8 pieces below each other lie in 8 different quartets of banks; its
// bits are turned by one, so that 4 rows of two neighbouring pieces do, too.
template <int COLUMNS> __device__ __forceinline__ scalar_t* at(scalar_t* tile, int row, int column) {
    constexpr int PIECES = COLUMNS / 4;
    return tile + row * COLUMNS + (column / 4 ^ (PIECES < 8 ? row * PIECES / 8 % PIECES : row * 2 % 8 + row / 4 % 2)) * 4;
}

// ROWS×COLUMNS elements from (row0, column0) on of a matrix (rows, columns), zeros where it ends, on their way to a tile.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void fetch(scalar_t* tile, const scalar_t* matrix, int row0, int column0, int rows, int columns) {
    constexpr int PIECES = COLUMNS / 4, STEP = THREADS / PIECES;  // the block's threads take STEP rows at a time
    static_assert(THREADS % PIECES == 0 && ROWS % STEP == 0, "");
    const int row = threadIdx.x / PIECES, column = threadIdx.x % PIECES * 4;
    const int inside = columns - column0 - column;  // so many of the 4 lie inside, or more
    const scalar_t* from = matrix + ((size_t)row0 + row) * columns + column0 + column;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP, from += (size_t)STEP * columns) {
        const int wanted = row + i < rows - row0 ? inside : 0;
        scalar_t* to = at<COLUMNS>(tile, row + i, column);
        if (VECTOR == 4) cp_async_16(to, from, wanted > 0);
        else
            for (int e = 0; e < 4; ++e) cp_async_4(to + e, from + e, wanted > e);
    }
}

// A float as the sum of two TF32 numbers of 11 bits each: big, rounded to nearest, and small, the 12 bits and sign that are
// left, of which mma drops the last. On the way in big holds the float's bits.
__device__ __forceinline__ void split(unsigned& big, unsigned& small) {
    const float x = __uint_as_float(big);
    big = (big + 0x1000) & 0xffffe000;  // to_tf32, but for infinities, which are lost in small anyway: two instructions less
    small = __float_as_uint(x - __uint_as_float(big));
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    extern __shared__ __align__(128) scalar_t tiles[];
    scalar_t* const As = tiles;                     // [STAGES][BM][BK]
    scalar_t* const Bs = tiles + STAGES * BM * BK;  // [STAGES][BK][BN], with TRANSPOSE_B [STAGES][BN][BK]

    // Blocks that run at the same time shall read the same rows of A and columns of B: GROUP rows of tiles, column by column.
    const int tiles_m = (M - 1) / BM + 1, tiles_n = (N - 1) / BN + 1;
    const int first = blockIdx.x / (GROUP * tiles_n) * GROUP, in_group = blockIdx.x % (GROUP * tiles_n);
    const int group = tiles_m - first < GROUP ? tiles_m - first : GROUP;
    const int row0 = (first + in_group % group) * BM, col0 = in_group / group * BN;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;

    auto fetch_slice = [&](int slice) {
        scalar_t *a = As + slice % STAGES * (BM * BK), *b = Bs + slice % STAGES * (BK * BN);
        fetch<BM, BK>(a, A, row0, slice * BK, M, K);
        if (TRANSPOSE_B) fetch<BN, BK>(b, B, col0, slice * BK, N, K);
        else fetch<BK, BN>(b, B, slice * BK, col0, K, N);
    };
    unsigned a[2][WM / 16][4], b[2][WN / 8][2];  // the fragments in use, and the next ones
    auto load_fragments = [&](int to, int slice, int k) {
        scalar_t *as = As + slice % STAGES * (BM * BK), *bs = Bs + slice % STAGES * (BK * BN);
#pragma unroll
        for (int i = 0; i < WM / 16; ++i) ldmatrix_x4(a[to][i], at<BK>(as, warp_row + i * 16 + lane % 16, k + lane / 16 * 4));
#pragma unroll
        for (int j = 0; j < WN / 8; j += 2) {
            unsigned two[4];  // b of two neighbours
            if (TRANSPOSE_B) ldmatrix_x4(two, at<BK>(bs, warp_col + j * 8 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 4));
            else  // ldmatrix turns halves, not floats
                for (int r = 0; r < 4; ++r) {
                    const int col = warp_col + j * 8 + r / 2 * 8 + lane / 4;
                    two[r] = __float_as_uint(at<BN>(bs, k + r % 2 * 4 + lane % 4, col / 4 * 4)[col % 4]);
                }
            b[to][j][0] = two[0], b[to][j][1] = two[1], b[to][j + 1][0] = two[2], b[to][j + 1][1] = two[3];
        }
    };

    float acc[WM / 16][WN / 8][4] = {};
    const int slices = (K - 1) / BK + 1;
#pragma unroll
    for (int slice = 0; slice < STAGES - 1; ++slice) {
        if (slice < slices) fetch_slice(slice);
        cp_async_commit();  // a group a slice, empty ones too, so that counting groups is counting slices
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    load_fragments(0, 0, 0);

    for (int slice = 0; slice < slices; ++slice) {
        float sum[WM / 16][WN / 8][4] = {};  // of this slice
#pragma unroll
        for (int k = 0; k < BK; k += 8) {
            const int now = k / 8 % 2;
            if (k + 8 < BK) load_fragments(1 - now, slice, k + 8);
            else if (slice + 1 < slices) {
                cp_async_wait<STAGES - 2>();  // the next slice is here,
                __syncthreads();              // all parts of it; and nobody reads the one before this any more
                load_fragments(1 - now, slice + 1, 0);
            }
            if (k == 0) {
                if (slice + STAGES - 1 < slices) fetch_slice(slice + STAGES - 1);
                cp_async_commit();
            }
            unsigned a_small[WM / 16][4], b_small[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
                for (int r = 0; r < 4; ++r) split(a[now][i][r], a_small[i][r]);
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
                for (int r = 0; r < 2; ++r) split(b[now][j][r], b_small[j][r]);
#pragma unroll
            for (int product = 0; product < 3; ++product)  // the small ones first; a sum is used again WM/16·WN/8 mma later
#pragma unroll
                for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                    for (int j = 0; j < WN / 8; ++j)
                        mma_tf32(sum[i][j], product == 0 ? a_small[i] : a[now][i], product == 1 ? b_small[j] : b[now][j]);
        }
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
                for (int r = 0; r < 4; ++r) acc[i][j][r] += sum[i][j][r];
    }

    // C goes out by way of shared memory, where lanes with 2 neighbours each put together rows that are stored 4 at a time.
    cp_async_wait<0>();
    __syncthreads();  // nobody reads slices any more
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
        const int col = warp_col + j * 8 + lane % 4 * 2;
        float v[2], add[2] = {};
        for (int e = 0; e < 2; ++e)
            if (bias && col + e < N - col0) add[e] = (float)bias[col0 + col + e];
#pragma unroll
        for (int i = 0; i < WM / 8; ++i) {
            for (int e = 0; e < 2; ++e) v[e] = clamp(acc[i / 2][j][i % 2 * 2 + e] + add[e], low, high);
            store(at<BN>(tiles, warp_row + i * 8 + lane / 4, col / 4 * 4) + col % 4, v);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / 4; i += THREADS) {
        const int row = i / (BN / 4), col = i % (BN / 4) * 4;
        const scalar_t* from = at<BN>(tiles, row, col);
        scalar_t* to = C + ((size_t)row0 + row) * N + col0 + col;
        if (row >= M - row0) break;
        if (VECTOR == 4 && col < N - col0) *(uint4*)to = *(const uint4*)from;
        if (VECTOR < 4)
            for (int e = 0; e < 4 && col + e < N - col0; ++e) to[e] = from[e];
    }
}
