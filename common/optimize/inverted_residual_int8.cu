// inverted_residual_int8 - MobileNetV2's block in int8 as one kernel: expand → depthwise 3×3 → project, hidden on chip.
// requires: sm_80
//
//   x (N, H, W, C), residual and y (N, OUT_H, OUT_W, O): NHWC. Weights: expand (HIDDEN, C), depthwise (HIDDEN, 9),
//   project (O, HIDDEN). Of each of the three: bias int32 with the zero point of its input folded in, multiplier
//   float32, zero point and bounds. Each convolution is requantized to int8 as if it were a kernel of its own: the same
//   bits come out.
//
// A block computes TILE_H×TILE_W pixels of IMAGES images and walks over the hidden channels, SLICE at a time:
//
//     x tile  ──expand (mma_s8)──►  hidden slice  ──depthwise (dp4a)──►  dw slice  ──project (mma_s8)──►  sums → y
//     shared                        shared, halo                         shared                           registers
//
//   Weights of the next slice come by cp.async while this one is computed. Three barriers per slice.
//   Only pixels of x that lie in the image are expanded. Where the tile is not all of the image, its halo is computed
//   by the neighbouring blocks as well. A hidden pixel outside of the image is hidden_zero, the real number 0.
#include "epilogue_int8.h"
#include "taps.h"
#include "unit.h"

constexpr int C = CHANNELS, O = OUTPUTS, H = HEIGHT, W = WIDTH;  // of the block's input, and its output channels
__host__ __device__ constexpr int ceil_to(int a, int b) { return (a + b - 1) / b * b; }
constexpr int THREADS = 32 * WARPS, WARPS_M = WARPS / WARPS_N;
constexpr int OUT_H = (H - 1) / STRIDE + 1, OUT_W = (W - 1) / STRIDE + 1;
constexpr int TILES_H = (OUT_H - 1) / TILE_H + 1, TILES_W = (OUT_W - 1) / TILE_W + 1;
constexpr int IN_H = (TILE_H - 1) * STRIDE + 3, IN_W = (TILE_W - 1) * STRIDE + 3;  // hidden pixels of an image's tile
// those that may lie in the image: all of the image, without a halo, if the tile is all of it
constexpr bool WHOLE_H = TILES_H == 1, WHOLE_W = TILES_W == 1;
constexpr int REAL_H = WHOLE_H ? H : IN_H, REAL_W = WHOLE_W ? W : IN_W;
constexpr int PIXELS_IN = IMAGES * REAL_H * REAL_W, M_IN = ceil_to(PIXELS_IN, 16);
constexpr int PIXELS_OUT = IMAGES * TILE_H * TILE_W, M_OUT = ceil_to(PIXELS_OUT, 16);
constexpr int SLICES = (HIDDEN - 1) / SLICE + 1, QUADS = SLICE / 4;
// rows of shared memory are an odd number of 16 bytes: 8 of them begin in 8 different groups of banks
constexpr int K1 = ceil_to(C, 32), ROW1 = K1 + 16, ROW = SLICE + 16, O_PADDED = ceil_to(O, 32);
constexpr int X_SIZE = EXPAND ? M_IN * ROW1 : 0, HIDDEN_SIZE = (IMAGES * IN_H * IN_W + 1) * ROW, DW_SIZE = M_OUT * ROW;
constexpr int W1_SIZE = EXPAND ? SLICE * ROW1 : 0, W2_SIZE = SLICE * 9, STAGE = W1_SIZE + W2_SIZE + O_PADDED * ROW;
constexpr int SHARED = X_SIZE + HIDDEN_SIZE + DW_SIZE + 2 * STAGE;
// project: a warp's tiles of 16 pixels and its groups of 32 outputs, of which a thread holds 8 neighbours
constexpr int TILES_M = (M_OUT / 16 - 1) / WARPS_M + 1, GROUPS = (O_PADDED / 32 - 1) / WARPS_N + 1;
constexpr int COLUMNS = STRIDE == 1 ? 2 : 1, PAIRS = (TILE_W - 1) / COLUMNS + 1,
              STRIPS = TILE_H / STRIP;  // of depthwise
static_assert(SLICE % 32 == 0 && TILE_H % STRIP == 0 && WARPS % WARPS_N == 0 && C % 8 == 0 && O % 8 == 0 &&
                  HIDDEN % 8 == 0,
              "tile");

// Row n of a tile of weights is that of output n / 32 * 32 + …: then d's columns of 32 outputs are 8 neighbours of each
// thread.
__device__ __forceinline__ int output_of(int n) { return n / 32 * 32 + n % 8 / 2 * 8 + n / 8 % 4 * 2 + n % 2; }

// ROWS rows of COUNT bytes each to shared memory, of a matrix with rows of LENGTH bytes of which `left` are there;
// zeros beyond.
template <int ROWS, int COUNT, int TO_ROW, int LENGTH>
__device__ __forceinline__ void fetch_rows(signed char* to, const signed char* matrix, int rows, int left) {
    for (int i = threadIdx.x; i < ROWS * (COUNT / 16); i += THREADS) {
        const int n = i / (COUNT / 16), k = i % (COUNT / 16) * 16, row = output_of(n);
        copy_unit<LENGTH % 16 ? 8 : 16>((uint4*)(to + n * TO_ROW + k), matrix + (row < rows ? row : 0) * LENGTH + k,
                                        row < rows ? left - k : 0);
    }
}

// d (16 rows × 32 columns) += a (16 × K bytes) · b (32 × K), rows of ROW_A and ROW_B bytes
template <int K, int ROW_A, int ROW_B>
__device__ __forceinline__ void multiply(int (&d)[4][4], const signed char* a_tile, const signed char* b_tile,
                                         int lane) {
#pragma unroll
    for (int k = 0; k < K; k += 32) {
        unsigned a[4], b[2][4];
        ldmatrix_x4(a, a_tile + lane % 16 * ROW_A + k + lane / 16 * 16);
#pragma unroll
        for (int j = 0; j < 2; ++j)
            ldmatrix_x4(b[j], b_tile + (16 * j + lane / 16 * 8 + lane % 8) * ROW_B + k + lane / 8 % 2 * 16);
#pragma unroll
        for (int n = 0; n < 4; ++n) mma_s8(d[n], a, {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]});
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    inverted_residual_int8(const signed char* __restrict__ x, const signed char* __restrict__ expand,
                           const int* __restrict__ expand_bias, const float* __restrict__ expand_multiplier,
                           const signed char* __restrict__ depthwise, const int* __restrict__ depthwise_bias,
                           const float* __restrict__ depthwise_multiplier, const signed char* __restrict__ project,
                           const int* __restrict__ project_bias, const float* __restrict__ project_multiplier,
                           const signed char* __restrict__ residual, signed char* __restrict__ y, int N,
                           int hidden_zero, int hidden_low, int hidden_high, int dw_zero, int dw_low, int dw_high,
                           int zero_point, int low, int high, float scale_a, float scale_b, float shift, int offset) {
    extern __shared__ uint4 shared[];
    signed char* const x_tile = (signed char*)shared;          // [M_IN][ROW1]
    signed char* const hidden = x_tile + X_SIZE;  // [IMAGES][IN_H][IN_W][ROW], and a pixel that pairs may read
    signed char* const dw = hidden + HIDDEN_SIZE;              // [M_OUT][ROW]
    signed char* const stages = dw + DW_SIZE;                  // [2][STAGE]
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const int n0 = blockIdx.x / (TILES_H * TILES_W) * IMAGES;
    const int oy0 = blockIdx.x / TILES_W % TILES_H * TILE_H, ox0 = blockIdx.x % TILES_W * TILE_W;
    // of the first real pixel: in the image, and in the hidden tile
    const int iy0 = WHOLE_H ? 0 : oy0 * STRIDE - 1, ix0 = WHOLE_W ? 0 : ox0 * STRIDE - 1;

    auto in_image = [&](int m) {  // pixel m of the real ones
        const int image = m / (REAL_H * REAL_W), iy = iy0 + m / REAL_W % REAL_H, ix = ix0 + m % REAL_W;
        return m < PIXELS_IN && n0 + image < N && iy >= 0 && iy < H && ix >= 0 && ix < W;
    };
    auto from_x = [&](int m) {
        return x + (((n0 + m / (REAL_H * REAL_W)) * H + iy0 + m / REAL_W % REAL_H) * W + ix0 + m % REAL_W) * C;
    };
    auto to_hidden = [&](int m) {
        const int image = m / (REAL_H * REAL_W), row = m / REAL_W % REAL_H + WHOLE_H, column = m % REAL_W + WHOLE_W;
        return hidden + ((image * IN_H + row) * IN_W + column) * ROW;
    };
    auto fetch_slice = [&](int slice) {
        signed char* const stage = stages + slice % 2 * STAGE;
        const int first = slice * SLICE, left = HIDDEN - first;
        if (EXPAND) fetch_rows<SLICE, K1, ROW1, C>(stage, expand + first * C, left, C);
        for (int i = threadIdx.x; i < W2_SIZE / 16; i += THREADS)
            copy_unit<HIDDEN % 16 ? 8 : 16>((uint4*)(stage + W1_SIZE) + i, depthwise + first * 9 + i * 16,
                                            left * 9 - i * 16);
        fetch_rows<O_PADDED, SLICE, ROW, HIDDEN>(stage + W1_SIZE + W2_SIZE, project + first, O, left);
        cp_async_commit();
    };

    for (int i = threadIdx.x; EXPAND && i < M_IN * (K1 / 16); i += THREADS) {
        const int m = i / (K1 / 16), k = i % (K1 / 16) * 16;
        copy_unit<C % 16 ? 8 : 16>((uint4*)(x_tile + m * ROW1 + k), in_image(m) ? from_x(m) + k : x,
                                   in_image(m) ? C - k : 0);
    }
    fetch_slice(0);
    const unsigned zeros = (hidden_zero & 255) * 0x01010101u;
    for (int i = threadIdx.x; i < HIDDEN_SIZE / 4; i += THREADS) ((unsigned*)hidden)[i] = zeros;  // the borders stay so
    for (int i = PIXELS_OUT * ROW / 4 + threadIdx.x; i < DW_SIZE / 4; i += THREADS)
        ((unsigned*)dw)[i] = 0;  // rows of no pixel

    int acc[TILES_M][GROUPS][4][4];
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
        const int o = (warp % WARPS_N + j * WARPS_N) * 32 + t * 8;
        int b[8];
        get_row<true>(b, project_bias + o, project_bias ? O - o : 0);
#pragma unroll
        for (int m = 0; m < 2 * TILES_M; ++m)
#pragma unroll
            for (int e = 0; e < 8; ++e) acc[m / 2][j][e / 2][m % 2 * 2 + e % 2] = b[e];
    }

#pragma unroll 1
    for (int slice = 0; slice < SLICES; ++slice) {
        const signed char* const w1 = stages + slice % 2 * STAGE;
        const signed char *const w2 = w1 + W1_SIZE, *const w3 = w2 + W2_SIZE;
        const int first = slice * SLICE;
        cp_async_wait<0>();
        __syncthreads();  // this slice's weights are here, and all have read the slice before
        if (slice + 1 < SLICES) fetch_slice(slice + 1);

        if (EXPAND)
            for (int i = warp; i < M_IN / 16 * (SLICE / 32);
                 i += WARPS) {  // a tile of 16 pixels, a group of 32 channels
                const int m0 = i / (SLICE / 32) * 16, group = i % (SLICE / 32) * 32, c = first + group + t * 8;
                int d[4][4], b[8];
                float scale[8];
                get_row<true>(b, expand_bias + c, expand_bias ? HIDDEN - c : 0);
                get_row<true>(scale, expand_multiplier + c, HIDDEN - c);
#pragma unroll
                for (int k = 0; k < 16; ++k) d[k % 8 / 2][k / 8 * 2 + k % 2] = b[k % 8];
                multiply<K1, ROW1, ROW1>(d, x_tile + m0 * ROW1, w1 + group * ROW1, lane);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int m = m0 + 8 * half + g;
                    int sum[8];
#pragma unroll
                    for (int e = 0; e < 8; ++e) sum[e] = d[e / 2][half * 2 + e % 2];
                    if (in_image(m))
                        finish<true>(to_hidden(m) + group + t * 8, sum, scale, nullptr, 8,
                                     {hidden_zero, hidden_low, hidden_high});
                }
            }
        else {
            for (int i = threadIdx.x; i < PIXELS_IN * (SLICE / 16); i += THREADS) {
                const int m = i / (SLICE / 16), k = i % (SLICE / 16) * 16;
                if (in_image(m))
                    copy_unit<C % 16 ? 8 : 16>((uint4*)(to_hidden(m) + k), from_x(m) + first + k, C - first - k);
            }
            cp_async_commit();
            cp_async_wait<0>();
        }
        __syncthreads();

        for (int i = threadIdx.x; i < IMAGES * STRIPS * PAIRS * QUADS;
             i += THREADS) {  // four channels of COLUMNS × STRIP pixels
            const int quad = i % QUADS, pair = i / QUADS % PAIRS, strip = i / QUADS / PAIRS % STRIPS,
                      image = i / QUADS / PAIRS / STRIPS;
            const int c = first + quad * 4, column0 = pair * COLUMNS, row0 = strip * STRIP;
            unsigned packed[9], w[4][3];
#pragma unroll
            for (int k = 0; k < 9; ++k) packed[k] = ((const unsigned*)w2)[quad * 9 + k];
            filters(w, packed);
            int b[4], sum[STRIP][COLUMNS][4];
            float scale[4];
            get_row<true>(b, depthwise_bias + c, depthwise_bias ? HIDDEN - c : 0);
            get_row<true>(scale, depthwise_multiplier + c, HIDDEN - c);
#pragma unroll
            for (int k = 0; k < STRIP * COLUMNS * 4; ++k) sum[k / 4 / COLUMNS][k / 4 % COLUMNS][k % 4] = b[k % 4];
            const signed char* from =
                hidden + ((image * IN_H + row0 * STRIDE) * IN_W + column0 * STRIDE) * ROW + quad * 4;
#pragma unroll
            for (int r = 0; r < (STRIP - 1) * STRIDE + 3; ++r, from += IN_W * ROW) {
                unsigned p[4] = {};
#pragma unroll
                for (int k = 0; k < COLUMNS + 2; ++k) p[k] = *(const unsigned*)(from + k * ROW);
                transpose(p);
#pragma unroll
                for (int row = 0; row < STRIP; ++row) {
                    const int kh = r - row * STRIDE;
                    if (kh < 0 || kh > 2) continue;
#pragma unroll
                    for (int e = 0; e < 4; ++e)
#pragma unroll
                        for (int k = 0; k < COLUMNS; ++k)
                            sum[row][k][e] = __dp4a((int)p[e], (int)(w[e][kh] << 8 * k), sum[row][k][e]);
                }
            }
#pragma unroll
            for (int row = 0; row < STRIP; ++row)
#pragma unroll
                for (int k = 0; k < COLUMNS; ++k)
                    if (column0 + k < TILE_W)
                        finish<true>(dw + ((image * TILE_H + row0 + row) * TILE_W + column0 + k) * ROW + quad * 4,
                                     sum[row][k], scale, nullptr, 4, {dw_zero, dw_low, dw_high});
        }
        __syncthreads();

#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < GROUPS; ++j) {
                const int m0 = (warp / WARPS_N + i * WARPS_M) * 16, group = (warp % WARPS_N + j * WARPS_N) * 32;
                if (m0 < M_OUT && group < O_PADDED)
                    multiply<SLICE, ROW, ROW>(acc[i][j], dw + m0 * ROW, w3 + group * ROW, lane);
            }
    }

#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
        const int o = (warp % WARPS_N + j * WARPS_N) * 32 + t * 8;
        float scale[8];
        get_row<true>(scale, project_multiplier + o, O - o);
#pragma unroll
        for (int i = 0; i < 2 * TILES_M; ++i) {
            const int m = (warp / WARPS_N + i / 2 * WARPS_M) * 16 + i % 2 * 8 + g, image = n0 + m / (TILE_H * TILE_W);
            const int oy = oy0 + m / TILE_W % TILE_H, ox = ox0 + m % TILE_W,
                      at = ((image * OUT_H + oy) * OUT_W + ox) * O + o;
            const bool there = m < PIXELS_OUT && image < N && oy < OUT_H && ox < OUT_W;
            int sum[8];
#pragma unroll
            for (int e = 0; e < 8; ++e) sum[e] = acc[i / 2][j][e / 2][i % 2 * 2 + e % 2];
            finish<true>(y + at, sum, scale, residual ? residual + at : residual, there ? O - o : 0,
                         {zero_point, low, high, scale_a, scale_b, shift, offset});
        }
    }
}
