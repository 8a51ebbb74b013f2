// pointwise_int8, rung 3 "tensor_cores": tiles come by cp.async into a ring of STAGES slices and are multiplied by mma_s8.
// requires: sm_80
//
//   x (P, C), weight (O, C), y and residual (P, O): NHWC. A block computes BM×BN, a warp WM×WN, BK channels per slice.
//   A row of a tile is BK bytes, U units of 16: what mma reads of a row at a time. pointwise, rung 4, is the same for halves.
//
// Moves   P·O·C·(1/BM + 1/BN) bytes from the L2 cache, and P·O·C·(1/WM + 1/WN) from shared memory to registers by ldmatrix,
//         to which 16 bytes of a row are 8 halves: as a fragment of mma_s8 they are 16 channels.
// Gains   4,096 multiply-adds per instruction, twice those of fp16, and half the bytes. The sums begin with the bias. The rows of
//         weight are permuted such that a thread's 8 outputs are neighbours: four lanes write 32 bytes, a whole sector.
// Costs   BK is 32, 64 or 128; short rows are filled up with zeros, but no mma multiplies a k-step of zeros alone. Rows that
//         begin at multiples of 8 or 4 bytes only (VECTOR) take 2 or 4 copies per unit, others come byte by byte.
#include "epilogue_int8.h"
#include "unit.h"

constexpr int E = 8;         // neighbouring outputs of a thread
constexpr int GROUP = E / 2; // tiles of 8 outputs that hold them
constexpr int U = BK / 16;   // units of a row
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int TM = WM / 16, TN = WN / 8;
constexpr int ROWS = ((BM + BN) * U - 1) / THREADS + 1;  // of the tiles, of which a thread copies a unit each
constexpr bool WHOLE = PIECE >= E;
static_assert(THREADS / U % 8 == 0, "the rows that a thread copies lie in the same place of eight");

extern "C" __global__ void __launch_bounds__(THREADS) pointwise_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, const signed char* __restrict__ residual, out_t* __restrict__ y,
    int N, int C, int O, int pixels, int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    extern __shared__ uint4 tiles[];  // [STAGES][BM rows of x, BN of weight][U]
    const int P = N * pixels;
    const int p0 = (blockIdx.z * gridDim.y + blockIdx.y) * BM, o0 = blockIdx.x * BN;
    if (p0 < 0 || p0 >= P) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp_row = threadIdx.x / 32 / (BN / WN) * WM, warp_col = threadIdx.x / 32 % (BN / WN) * WN;
    const int slices = (C - 1) / BK + 1;

    const int r0 = threadIdx.x / U, u = threadIdx.x % U;
    const signed char* from[ROWS];  // rows beyond the last are the last: their results are not stored
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int r = r0 + i * (THREADS / U), n = r - BM;
        const int o = o0 + n / (4 * E) * (4 * E) + n % 8 / 2 * E + n / 8 % GROUP * 2 + n % 2;  // d's columns become neighbours
        from[i] = r < BM ? x + min(p0 + r, P - 1) * C + u * 16 : weight + min(o, O - 1) * C + u * 16;
    }
    auto fetch_slice = [&](int slice, int stage) {
        uint4* to = tiles + stage * ((BM + BN) * U) + place<U>(r0, u);
        const int left = C - slice * BK - u * 16;
#pragma unroll
        for (int i = 0; i < ROWS; ++i, to += THREADS) {
            if ((BM + BN) * U % THREADS == 0 || r0 + i * (THREADS / U) < BM + BN) {
                copy_unit<VECTOR>(to, from[i], left);
                from[i] += BK;
            }
        }
        cp_async_commit();
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) fetch_slice(s, s);

    int acc[TM][TN][4];  // begins as the bias, which arrives while the first slices do
#pragma unroll
    for (int n = 0; n < TN; n += GROUP) {
        const int o = o0 + warp_col + 8 * n + t * E;
        int b[E];
        get_row<WHOLE>(b, bias + o, bias ? O - o : 0);
#pragma unroll
        for (int m = 0; m < 2 * TM; ++m)
#pragma unroll
            for (int e = 0; e < E; ++e) acc[m / 2][n + e / 2][m % 2 * 2 + e % 2] = b[e];
    }

    for (int slice = 0, stage = 0; slice < slices; ++slice, stage = stage + 1 < STAGES ? stage + 1 : 0) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        fetch_slice(slice + STAGES - 1, stage > 0 ? stage - 1 : STAGES - 1);
        const uint4 *xs = tiles + stage * ((BM + BN) * U), *ws = xs + BM * U;
#pragma unroll
        for (int k = 0; k < U; k += 2) {  // 32 channels, the depth of an mma
            if (slice * BK + 16 * k >= C) break;
            unsigned a[TM][4], b[TN][2];
#pragma unroll
            for (int m = 0; m < TM; ++m) ldmatrix_x4(a[m], xs + (warp_row + 16 * m) * U + place<U>(lane % 16, k + lane / 16));
#pragma unroll
            for (int n = 0; n < TN; n += 2) {
                unsigned two[4];  // b of two neighbours
                ldmatrix_x4(two, ws + (warp_col + 8 * n) * U + place<U>(lane / 16 * 8 + lane % 8, k + lane / 8 % 2));
                b[n][0] = two[0], b[n][1] = two[1], b[n + 1][0] = two[2], b[n + 1][1] = two[3];
            }
#pragma unroll
            for (int m = 0; m < TM; ++m)
#pragma unroll
                for (int n = 0; n < TN; ++n) mma_s8(acc[m][n], a[m], b[n]);
        }
    }

    const Output to = {zero_point, low, high, scale_a, scale_b, shift, offset};
#pragma unroll
    for (int n = 0; n < TN; n += GROUP) {
        const int o = o0 + warp_col + 8 * n + t * E;
        float scale[E];
        get_row<WHOLE>(scale, multiplier + o, O - o);
#pragma unroll
        for (int m = 0; m < 2 * TM; ++m) {
            const int p = p0 + warp_row + 8 * m + g, i = p * O + o;
            int sum[E];
#pragma unroll
            for (int e = 0; e < E; ++e) sum[e] = acc[m / 2][n + e / 2][m % 2 * 2 + e % 2];
            finish<WHOLE>(y + i, sum, scale, residual ? residual + i : residual, p < P ? O - o : 0, to);
        }
    }
}
