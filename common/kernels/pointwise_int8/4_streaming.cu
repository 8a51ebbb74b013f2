// pointwise_int8, rung 4 "streaming": for many pixels and few channels. The weights stay in shared memory, pixels stream past.
// requires: sm_80
//
//   x (P, C), weight (O, C), y and residual (P, O): NHWC. BLOCKS blocks per multiprocessor take BN outputs each and walk over
//   all pixels, a warp 16·TM of them at a time; STAGES - 1 such tiles of x are in flight while one is multiplied.
//
// Moves   x + residual + y once, if BN holds all outputs, and the weights once per block: the minimum. 112×112, 16→96
//         channels take 112 bytes and 3,072 operations per pixel, 27 per byte: memory bandwidth is the limit.
// Gains   weights are loaded once per block, not once per tile, and the grid is started once. After the weights have come
//         there is no barrier: a warp waits for its own copies only.
// Costs   shared memory for C·BN weights and WARPS·STAGES·16·TM rows: the launcher gives longer rows to rung 3. A row is
//         filled up to multiples of 64 bytes. Requantizing is more than half of the instructions at 16 channels.
#include "epilogue_int8.h"
#include "unit.h"

constexpr int E = 8;          // neighbouring outputs of a thread
constexpr int GROUP = E / 2;  // tiles of 8 outputs that hold them
constexpr int THREADS = 32 * WARPS;
constexpr bool WHOLE = PIECE >= E;

// A piece is 64 channels of 8 rows, 512 bytes of shared memory. Lane 4g + t asks for 16 bytes of row g.
__device__ __forceinline__ void fetch(uint4* piece, int lane, const signed char* from, int left) {
    copy_unit<VECTOR>(piece + (lane ^ lane / 8), from, left);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) pointwise_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, const signed char* __restrict__ residual, out_t* __restrict__ y,
    int N, int C, int O, int pixels, int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    extern __shared__ uint4 pieces[];
    const int chunks = (C - 1) / 64 + 1;
    const int P = N * pixels, o0 = blockIdx.x * BN;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    uint4* const weights = pieces;                                                                          // [chunks][BN / 8][32]
    uint4* const rows = pieces + (chunks * (BN / 8) + warp * STAGES * chunks * 2 * TM) * 32;  // [STAGES][chunks][2 * TM][32]

#pragma unroll 1
    for (int i = warp; i < chunks * (BN / 8); i += WARPS) {
        const int n = i % (BN / 8), k = (i / (BN / 8) * 4 + t) * 16;
        const int o = o0 + n / GROUP * (4 * E) + g / 2 * E + n % GROUP * 2 + g % 2;  // d's columns become a thread's neighbours
        fetch(weights + i * 32, lane, weight + (o < O ? o * C + k : 0), o < O ? C - k : 0);
    }
    cp_async_commit();

    const int tiles = (P - 1) / (16 * TM) + 1, step = gridDim.y * WARPS;
    auto ahead = [&](int tile, int stage) {
        if (tile < tiles) {
            const signed char* from[2 * TM];
#pragma unroll
            for (int m = 0; m < 2 * TM; ++m) {
                const int p = tile * 16 * TM + 8 * m + g;
                from[m] = x + (p < P ? p : P - 1) * C + t * 16;
            }
#pragma unroll 1
            for (int c = 0; c < chunks; ++c)
#pragma unroll
                for (int m = 0; m < 2 * TM; ++m)
                    fetch(rows + ((stage * chunks + c) * 2 * TM + m) * 32, lane, from[m] + c * 64, C - (4 * c + t) * 16);
        }
        cp_async_commit();
    };
    // where a lane's row lies in a piece: of weight, in the matrices 0 … 3 of 16 bytes; of x, in 0, 0, 1, 1, of rows 0 … 7 and 8 … 15
    const int w_place = 4 * (lane % 8) + (lane / 8 ^ lane % 8 / 2);
    const int x_place = lane / 8 % 2 * 32 + 4 * (lane % 8) + (lane / 16 ^ lane % 8 / 2);
    const Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};
    int tile = blockIdx.y * WARPS + warp;
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; ++s) ahead(tile + s * step, s);
    cp_async_wait<STAGES - 1>();
    __syncthreads();  // the weights are here

    for (int stage = 0; tile < tiles; tile += step, stage = stage + 1 < STAGES ? stage + 1 : 0) {
        __syncwarp();
        ahead(tile + (STAGES - 1) * step, stage > 0 ? stage - 1 : STAGES - 1);
        cp_async_wait<STAGES - 1>();
        __syncwarp();
        const uint4* const now = rows + stage * chunks * 2 * TM * 32;
        const int first = (tile * 16 * TM + g) * O + o0 + t * E;  // of y, and of residual; a row of 8 further: + 8·O
#pragma unroll 1
        for (int n = 0; n < BN / 8 && o0 + 8 * n < O; n += GROUP) {
            const int o = o0 + 8 * n + t * E;
            int acc[TM][GROUP][4], b[E];
            get_row<WHOLE>(b, bias + o, bias ? O - o : 0);
#pragma unroll
            for (int m = 0; m < 2 * TM; ++m)
#pragma unroll
                for (int e = 0; e < E; ++e) acc[m / 2][e / 2][m % 2 * 2 + e % 2] = b[e];
#pragma unroll 1
            for (int c = 0; c < chunks; ++c) {
                unsigned b[GROUP][4];
#pragma unroll
                for (int j = 0; j < GROUP; ++j) ldmatrix_x4(b[j], weights + (c * (BN / 8) + n + j) * 32 + w_place);
#pragma unroll
                for (int s = 0; s < 2; ++s)
                    if (64 * c + 32 * s < C) {
#pragma unroll
                        for (int m = 0; m < TM; ++m) {
                            unsigned a[4];
                            ldmatrix_x4(a, now + (c * 2 * TM + 2 * m) * 32 + (s ? x_place ^ 2 : x_place));
#pragma unroll
                            for (int j = 0; j < GROUP; ++j) mma_s8(acc[m][j], a, {b[j][2 * s], b[j][2 * s + 1]});
                        }
                    }
            }
            float scale[E];
            get_row<WHOLE>(scale, multiplier + o, O - o);
#pragma unroll
            for (int m = 0; m < 2 * TM; ++m) {
                const int left = tile * 16 * TM + 8 * m + g < P ? O - o : 0, i = first + 8 * n + m * 8 * O;
                int sum[E];
#pragma unroll
                for (int e = 0; e < E; ++e) sum[e] = acc[m / 2][e / 2][m % 2 * 2 + e % 2];
                finish<WHOLE>(y + i, sum, scale, residual ? residual + i : residual, left, to);
            }
        }
    }
}
