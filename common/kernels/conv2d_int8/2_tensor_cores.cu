// conv2d_int8, rung 2 "tensor_cores": an implicit matrix product, pixels × (taps and channels), multiplied by mma_s8.
// requires: sm_80
//
//   The matrix of im2col has a row per output pixel and K = kH·kW·C columns, a tap's channels side by side. Its tiles are put
//   together in shared memory, BK columns at a time, and never exist as a whole. weight is (O, K) as it lies in memory.
//   The stem of MobileNetV2, 3×3 on 3 channels, has K = 27: one k-step of mma for all of it.
//
// Moves   each byte of x up to kH·kW / stride² times from the caches; weight once per block and slice; y once.
// Gains   4,096 multiply-adds per instruction. Padding is a byte like any other: input_zero_point is stored into the tile.
// Costs   with C a multiple of 16 (VECTOR) a unit of 16 columns is one load, else 16 loads of a byte, each with its own tap. The
//         slices are not overlapped: a block loads, then multiplies. No groups.
#include "epilogue_int8.h"
#include "tap.h"
#include "unit.h"

constexpr int E = 8;          // neighbouring outputs of a thread
constexpr int GROUP = E / 2;  // tiles of 8 outputs that hold them
constexpr int U = BK / 16;    // units of a row
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int TM = WM / 16, TN = WN / 8;
constexpr bool WHOLE = PIECE >= E;

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_int8(
    const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
    const float* __restrict__ multiplier, const signed char* __restrict__ residual, signed char* __restrict__ y,
    int N, int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left,
    int dilation_h, int dilation_w, int groups, int input_zero_point, int zero_point, int low, int high,
    float scale_a, float scale_b, float shift, int offset) {
    __shared__ uint4 xs[BM * U], ws[BN * U];
    const int P = N * oH * oW, K = kH * kW * C;
    const int p0 = (blockIdx.z * gridDim.y + blockIdx.y) * BM, o0 = blockIdx.x * BN;
    if (p0 < 0 || p0 >= P) return;
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int warp_row = threadIdx.x / 32 / (BN / WN) * WM, warp_col = threadIdx.x / 32 % (BN / WN) * WN;
    const unsigned zeros = (input_zero_point & 255) * 0x01010101u;

    int acc[TM][TN][4];
#pragma unroll
    for (int n = 0; n < TN; n += GROUP) {
        int b[E];
        get_row<WHOLE>(b, bias + (o0 + warp_col + 8 * n + t * E), bias ? O - (o0 + warp_col + 8 * n + t * E) : 0);
#pragma unroll
        for (int m = 0; m < 2 * TM; ++m)
#pragma unroll
            for (int e = 0; e < E; ++e) acc[m / 2][n + e / 2][m % 2 * 2 + e % 2] = b[e];
    }

    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * U; i += THREADS) {  // unit u of the tile's row r
            const int r = i / U, u = i % U, p = min(p0 + r, P - 1), k = k0 + u * 16;
            const int ih0 = p / oW % oH * stride_h - pad_top, iw0 = p % oW * stride_w - pad_left;
            const signed char* const image = x + p / oW / oH * H * W * C;
            Tap<true> tap(k, C, kH, kW);
            unsigned words[4] = {zeros, zeros, zeros, zeros};
            if (VECTOR == 16) {
                const int ih = ih0 + tap.kh * dilation_h, iw = iw0 + tap.kw * dilation_w;
                if (k < K && ih >= 0 && ih < H && iw >= 0 && iw < W) {
                    const uint4 unit = __ldg((const uint4*)(image + (ih * W + iw) * C + tap.c));
                    words[0] = unit.x, words[1] = unit.y, words[2] = unit.z, words[3] = unit.w;
                }
            } else {
#pragma unroll
                for (int e = 0; e < 16; ++e, tap.next(C, kH, kW)) {
                    const int ih = ih0 + tap.kh * dilation_h, iw = iw0 + tap.kw * dilation_w;
                    if (k + e < K && ih >= 0 && ih < H && iw >= 0 && iw < W)
                        words[e / 4] = words[e / 4] & ~(255u << e % 4 * 8) | (image[(ih * W + iw) * C + tap.c] & 255u) << e % 4 * 8;
                }
            }
            xs[place<U>(r, u)] = make_uint4(words[0], words[1], words[2], words[3]);
        }
        for (int i = threadIdx.x; i < BN * U; i += THREADS) {
            const int n = i / U, u = i % U, k = k0 + u * 16;
            const int o = o0 + n / (4 * E) * (4 * E) + n % 8 / 2 * E + n / 8 % GROUP * 2 + n % 2;  // d's columns become neighbours
            copy_unit<VECTOR>(ws + place<U>(n, u), weight + min(o, O - 1) * K + k, K - k);  // zeros from K on: x does not matter there
        }
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
#pragma unroll
        for (int k = 0; k < U; k += 2) {  // 32 columns, the depth of an mma
            if (k0 + 16 * k >= K) break;
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
        __syncthreads();
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
