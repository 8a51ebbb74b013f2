// gemm, rung 11 "split_k": for a C of few tiles, the WARPS warps of a block share out K and add up their sums at the end.
// requires: sm_80
//
// A row of 1,280 numbers by 1,000 columns: with rung 9's tiles 8 blocks would work, and each would wait for 20 slices, one after
// the other. In tiles of 8 columns there are 125. Warp w takes every WARPS-th step of K and nobody shares anything before the
// end, so there is nothing to put into shared memory: fragments come right from global memory, DEPTH steps in flight at a time.
//
// Moves   M·N·K·(1/BM + 1/BN) elements from L2 into registers, and WARPS·BM·BN floats through shared memory at the end.
// Gains   WARPS·DEPTH steps in flight in each block, small tiles, so blocks on all SMs: the time of few loads one after the other,
//         where a loop over K in one warp would take that of K / STEP. Sums are added up in one order: the same bits each time.
// Costs   small tiles read A and B more often: BM = BN = 16 asks L2 for 8 times what 128 would. B that is not transposed comes
//         element by element. Loses as soon as there are tiles enough for all SMs.
#include "tf32x3.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR PIECE  // elements that a load takes: rows begin at multiples of so many, if not of PIECE then of 1
#endif
#define PIECE (16 / (int)sizeof(scalar_t))  // elements in 16 bytes
#define STEP (4 * PIECE)                    // products that a warp does at a time: a piece for each of 4 lanes

// 16 bytes of a row or column, zeros from the `left`-th element on.
template <bool IN_A_ROW> __device__ __forceinline__ void load_piece(unsigned (&words)[4], const scalar_t* from, int left, int stride) {
    if (IN_A_ROW && VECTOR == PIECE) {
        const uint4 v = left > 0 ? __ldg((const uint4*)from) : make_uint4(0, 0, 0, 0);
        words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else {
        __align__(16) scalar_t v[PIECE];
#pragma unroll
        for (int e = 0; e < PIECE; ++e) v[e] = e < left ? from[(size_t)e * stride] : (scalar_t)0.0f;
#pragma unroll
        for (int w = 0; w < 4; ++w) words[w] = ((const unsigned*)v)[w];
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    __shared__ float sums[WARPS][BM][BN | 8];  // rows of 8 more where 4 of them would else begin in the same bank

    const int tiles_n = (N - 1) / BN + 1;
    const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int g = lane / 4, t = lane % 4;

    // A sum does not ask for an order, so lane t takes a whole piece of a row, where mma would have it take words t and t + 4:
    // the words of a piece are those of STEP / 16 or / 8 mma, in A and B alike.
    float acc[BM / 16][BN / 8][4] = {};
    const int steps = (K - 1) / STEP + 1;
    for (int step = warp; step < steps; step += WARPS * DEPTH) {
        unsigned a[DEPTH][BM / 8][4], b[DEPTH][BN / 8][4];
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            const int k = (step + d * WARPS) * STEP + t * PIECE;
#pragma unroll
            for (int i = 0; i < BM / 8; ++i) {
                const int row = i * 8 + g;
                load_piece<true>(a[d][i], A + ((size_t)row0 + row) * K + k, row < M - row0 ? K - k : 0, 1);
            }
#pragma unroll
            for (int j = 0; j < BN / 8; ++j) {
                const int col = j * 8 + g, left = col < N - col0 ? K - k : 0;
                if (TRANSPOSE_B) load_piece<true>(b[d][j], B + ((size_t)col0 + col) * K + k, left, 1);
                else load_piece<false>(b[d][j], B + (size_t)k * N + col0 + col, left, N);
            }
        }
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
#pragma unroll
            for (int w = 0; w < 4; w += 2)
#pragma unroll
                for (int i = 0; i < BM / 16; ++i)
#pragma unroll
                    for (int j = 0; j < BN / 8; ++j)
                        multiply<scalar_t>(acc[i][j], {a[d][2 * i][w], a[d][2 * i + 1][w], a[d][2 * i][w + 1], a[d][2 * i + 1][w + 1]},
                                         {b[d][j][w], b[d][j][w + 1]});
    }

#pragma unroll
    for (int i = 0; i < BM / 16; ++i)
#pragma unroll
        for (int j = 0; j < BN / 8; ++j)
#pragma unroll
            for (int r = 0; r < 4; r += 2) {
                float* two = &sums[warp][i * 16 + r / 2 * 8 + g][j * 8 + 2 * t];
                *(float2*)two = make_float2(acc[i][j][r], acc[i][j][r + 1]);
            }
    __syncthreads();
    for (int e = threadIdx.x; e < BM * BN; e += WARPS * 32) {
        const int row = e / BN, col = e % BN;
        if (row >= M - row0 || col >= N - col0) continue;
        float sum = bias ? (float)bias[col0 + col] : 0.0f;
        for (int w = 0; w < WARPS; ++w) sum += sums[w][row][col];  // always in this order
        C[((size_t)row0 + row) * N + col0 + col] = (scalar_t)clamp(sum, low, high);
    }
}
