// pointwise_int8, rung 2 "dp4a": four channels per instruction, from tiles in shared memory; a thread TM×TN outputs.
//
//   x (P, C), weight (O, C), y and residual (P, O): NHWC. A block computes BM pixels × BN outputs, BK channels at a time.
//   A tile holds words of four channels of a row, word k of all rows side by side.
//
// Moves   P·O·C·(1/BM + 1/BN) bytes from the L2 cache, and as many words / 4 from shared memory to registers.
// Gains   __dp4a multiplies four pairs of bytes and adds all products to an int32: 4 multiply-adds per instruction, with
//         both operands in one register each. A load of 4 bytes serves 4 channels. It runs on cards without mma_s8.
// Costs   channels are filled up with zeros to multiples of BK. Rows that do not begin at multiples of 4 bytes (VECTOR=0) are
//         loaded byte by byte.
#include "epilogue_int8.h"

constexpr int WORDS = BK / 4;
constexpr int THREADS = BM / TM * (BN / TN);

// ROWS rows of BK channels from k0 on, a word of four channels each; zeros beyond the matrix.
template <int ROWS>
__device__ __forceinline__ void fetch(int (&tile)[WORDS][ROWS + 4], const signed char* __restrict__ matrix, int row0, int rows, int k0, int C) {
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * WORDS; i += THREADS) {
        const int r = i / WORDS, k = k0 + i % WORDS * 4;
        const signed char* from = matrix + (row0 + r) * C + k;
        int word = 0;
        if (row0 + r < rows) {
            if (VECTOR >= 4) {
                if (k < C) word = *(const int*)from;
            } else
                for (int e = 0; e < 4; ++e)
                    if (k + e < C) word |= (from[e] & 255) << 8 * e;
        }
        tile[i % WORDS][r] = word;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) pointwise_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, const signed char* __restrict__ residual, out_t* __restrict__ y,
    int N, int C, int O, int pixels, int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    __shared__ int Xs[WORDS][BM + 4], Ws[WORDS][BN + 4];
    const int P = N * pixels;
    const int tile_p = blockIdx.z * gridDim.y + blockIdx.y;
    if (tile_p > (P - 1) / BM) return;
    const int p0 = tile_p * BM, o0 = blockIdx.x * BN;
    const int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN) * TN;

    int acc[TM][TN] = {};
    for (int k0 = 0; k0 < C; k0 += BK) {
        fetch<BM>(Xs, x, p0, P, k0, C);
        fetch<BN>(Ws, weight, o0, O, k0, C);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
            int v[TM], w[TN];
#pragma unroll
            for (int m = 0; m < TM; ++m) v[m] = Xs[k][row + m];
#pragma unroll
            for (int n = 0; n < TN; ++n) w[n] = Ws[k][col + n];
#pragma unroll
            for (int m = 0; m < TM; ++m)
#pragma unroll
                for (int n = 0; n < TN; ++n) acc[m][n] = __dp4a(v[m], w[n], acc[m][n]);
        }
        __syncthreads();
    }

    const int o = o0 + col;
    int b[TN];
    float scale[TN];
    get_row<(PIECE >= TN)>(b, bias + o, bias ? O - o : 0);
    get_row<(PIECE >= TN)>(scale, multiplier + o, O - o);
#pragma unroll
    for (int m = 0; m < TM; ++m) {
        const int p = p0 + row + m, i = p * O + o;
#pragma unroll
        for (int n = 0; n < TN; ++n) acc[m][n] += b[n];
        if (p < P)
            finish<(PIECE >= TN)>(y + i, acc[m], scale, residual ? residual + i : residual, O - o,
                                  {zero_point, low, high, scale_a, scale_b, shift, offset});
    }
}
