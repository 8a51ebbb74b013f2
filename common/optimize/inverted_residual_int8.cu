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
//   The hidden slice is in words of four pixels beside each other of one channel, as dp4a wants them: expand multiplies
//   weights (16 channels) · pixels (32), whose result gives each thread 8 neighbouring pixels of two channels.
//
//     words of a row   │-1  0  1  2│ 3  4  5  6│ 7 …      outputs 0 … 3 of a row read words 0 and 1: the windows of
//     outputs            0  1  2  3                       outputs 0 and 1 lie in word 0, those of 2 and 3 in the middle
//
//   Where the tile is not all of the image, its halo is computed by the neighbouring blocks as well. A hidden pixel
//   outside of the image is hidden_zero, the real number 0.
//   SMALL_EXPAND, SMALL_DEPTHWISE, SMALL_PROJECT: see requantize.h.
#include "epilogue_int8.h"
#include "grid.h"
#include "taps.h"
#include "unit.h"

#ifndef SMALL_EXPAND
#define SMALL_EXPAND 0
#define SMALL_DEPTHWISE 0
#define SMALL_PROJECT 0
#endif

constexpr int C = CHANNELS, O = OUTPUTS, H = HEIGHT, W = WIDTH;  // of the block's input, and its output channels
__host__ __device__ constexpr int ceil_to(int a, int b) { return (a + b - 1) / b * b; }
constexpr int THREADS = 32 * WARPS, WARPS_M = WARPS / WARPS_N;
constexpr int OUT_H = (H - 1) / STRIDE + 1, OUT_W = (W - 1) / STRIDE + 1;
constexpr int TILES_H = (OUT_H - 1) / TILE_H + 1, TILES_W = (OUT_W - 1) / TILE_W + 1;
constexpr int IN_H = (TILE_H - 1) * STRIDE + 3, IN_W = (TILE_W - 1) * STRIDE + 3;  // hidden pixels of an image's tile
// rows that may lie in the image: all of the image, without a halo, if the tile is all of it
constexpr bool WHOLE_H = TILES_H == 1, WHOLE_W = TILES_W == 1;
constexpr int REAL_H = WHOLE_H ? H : IN_H;
// words of a row: those with pixels of the image, and those that outputs read
constexpr int PIECES = (TILE_W - 1) / 4 + 1;  // of four outputs
constexpr int REAL_WORDS = ((WHOLE_W ? W + 1 : IN_W) - 1) / 4 + 1, READ_WORDS = PIECES * STRIDE + 1,
              ROW_WORDS = REAL_WORDS > READ_WORDS ? REAL_WORDS : READ_WORDS;
constexpr int WORDS = IMAGES * REAL_H * REAL_WORDS, M_IN = ceil_to(4 * WORDS, 32), PITCH = SLICE + 4;
constexpr int PIXELS_OUT = IMAGES * TILE_H * TILE_W, M_OUT = ceil_to(PIXELS_OUT, 16);
constexpr int SLICES = (HIDDEN - 1) / SLICE + 1, QUADS = SLICE / 4;
// rows of shared memory are an odd number of 16 bytes: 8 of them begin in 8 different groups of banks
constexpr int K1 = ceil_to(C, 32), ROW1 = K1 + 16, ROW = SLICE + 16, O_PADDED = ceil_to(O, 32);
constexpr int X_SIZE = EXPAND ? M_IN * ROW1 : 0, DW_SIZE = M_OUT * ROW;
constexpr int PLACES_SIZE = ceil_to(M_IN / 4 * 8, 16);
constexpr int TILE_WORDS = IMAGES * IN_H * ROW_WORDS;  // and after them those beyond WORDS, which nobody reads
constexpr int HIDDEN_WORDS = (TILE_WORDS + M_IN / 4 - WORDS) * PITCH;
constexpr int W1_SIZE = EXPAND ? SLICE * ROW1 : 0, W2_SIZE = SLICE * 9, STAGE = W1_SIZE + W2_SIZE + O_PADDED * ROW;
constexpr int SHARED = X_SIZE + PLACES_SIZE + 4 * HIDDEN_WORDS + DW_SIZE + 2 * STAGE;
// project: a warp's tiles of 16 pixels and its groups of 32 outputs, of which a thread holds 8 neighbours
constexpr int TILES_M = (M_OUT / 16 - 1) / WARPS_M + 1, GROUPS = (O_PADDED / 32 - 1) / WARPS_N + 1;
constexpr int STRIPS = TILE_H / STRIP;         // of depthwise
constexpr int CHANNEL_GROUPS = SLICE / 16;     // of expand
static_assert(SLICE % 32 == 0 && TILE_H % STRIP == 0 && WARPS % WARPS_N == 0 && WARPS % CHANNEL_GROUPS == 0 &&
                  C % 8 == 0 && O % 8 == 0 &&
                  HIDDEN % 8 == 0,
              "tile");

// Row n of the second factor's tile is that of output (or pixel) n / 32 * 32 + …: then d's 32 columns are 8 neighbours
// of each thread.
__device__ __forceinline__ int output_of(int n) { return n / 32 * 32 + n % 8 / 2 * 8 + n / 8 % 4 * 2 + n % 2; }

// ROWS rows of COUNT bytes each to shared memory, of a matrix with rows of LENGTH bytes of which `left` are there;
// zeros beyond.
template <bool NEIGHBOURS, int ROWS, int COUNT, int TO_ROW, int LENGTH>
__device__ __forceinline__ void fetch_rows(signed char* to, const signed char* matrix, int rows, int left) {
    for (int i = threadIdx.x; i < ROWS * (COUNT / 16); i += THREADS) {
        const int n = i / (COUNT / 16), k = i % (COUNT / 16) * 16, row = NEIGHBOURS ? output_of(n) : n;
        copy_unit<LENGTH % 16 ? 8 : 16>((uint4*)(to + n * TO_ROW + k), matrix + (row < rows ? row : 0) * LENGTH + k,
                                        row < rows ? left - k : 0);
    }
}

// 32 columns of a second factor, 32 bytes deep, rows of ROW bytes. Of columns 8n …: b[n / 2][n % 2 * 2] and the next.
template <int ROW>
__device__ __forceinline__ void load_columns(unsigned (&b)[2][4], const signed char* tile, int lane) {
#pragma unroll
    for (int j = 0; j < 2; ++j) ldmatrix_x4(b[j], tile + (16 * j + lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 16);
}

// d (16 rows × 32 columns) += a (16 × K bytes) · b (32 × K), rows of ROW_A and ROW_B bytes
template <int K, int ROW_A, int ROW_B>
__device__ __forceinline__ void multiply(int (&d)[4][4], const signed char* a_tile, const signed char* b_tile,
                                         int lane) {
#pragma unroll
    for (int k = 0; k < K; k += 32) {
        unsigned a[4], b[2][4];
        ldmatrix_x4(a, a_tile + lane % 16 * ROW_A + k + lane / 16 * 16);
        load_columns<ROW_B>(b, b_tile + k, lane);
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
    uint2* const places = (uint2*)(x_tile + X_SIZE);  // [M_IN / 4]: of a word, its place and which pixels are real
    // [IMAGES][IN_H][ROW_WORDS][PITCH], and more
    unsigned* const hidden = (unsigned*)((signed char*)places + PLACES_SIZE);
    signed char* const dw = (signed char*)(hidden + HIDDEN_WORDS);  // [M_OUT][ROW]
    signed char* const stages = dw + DW_SIZE;                  // [2][STAGE]
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const int n0 = blockIdx.x / (TILES_H * TILES_W) * IMAGES;
    const int oy0 = blockIdx.x / TILES_W % TILES_H * TILE_H, ox0 = blockIdx.x % TILES_W * TILE_W;
    // of the first hidden pixel of a row, and of the first real row
    const int ix0 = ox0 * STRIDE - 1, iy0 = WHOLE_H ? 0 : oy0 * STRIDE - 1;

    auto from_x = [&](int m) -> const signed char* {  // pixel m of the words; null outside of the image
        const int word = m / 4, image = n0 + word / (REAL_H * REAL_WORDS);
        const int iy = iy0 + word / REAL_WORDS % REAL_H, ix = ix0 + word % REAL_WORDS * 4 + m % 4;
        const bool inside = word < WORDS && image < N && (unsigned)iy < H && (unsigned)ix < W;
        return inside ? x + ((image * H + iy) * W + ix) * C : nullptr;
    };
    auto fetch_slice = [&](int slice) {
        signed char* const stage = stages + slice % 2 * STAGE;
        const int first = slice * SLICE, left = HIDDEN - first;
        if (EXPAND) fetch_rows<false, SLICE, K1, ROW1, C>(stage, expand + first * C, left, C);
        for (int i = threadIdx.x; i < W2_SIZE / 16; i += THREADS)
            copy_unit<HIDDEN % 16 ? 8 : 16>((uint4*)(stage + W1_SIZE) + i, depthwise + first * 9 + i * 16,
                                            left * 9 - i * 16);
        fetch_rows<true, O_PADDED, SLICE, ROW, HIDDEN>(stage + W1_SIZE + W2_SIZE, project + first, O, left);
        cp_async_commit();
    };

    fetch_slice(0);
    for (int word = threadIdx.x; word < M_IN / 4; word += THREADS) {
        const int image = word / (REAL_H * REAL_WORDS), row = word / REAL_WORDS % REAL_H, column = word % REAL_WORDS;
        unsigned real = 0;
#pragma unroll
        for (int p = 0; p < 4; ++p) real |= from_x(4 * word + p) ? 255u << 8 * p : 0;
        const int at = ((image * IN_H + row + WHOLE_H) * ROW_WORDS + column) * PITCH;
        places[word] = make_uint2(word < WORDS ? at : (TILE_WORDS + word - WORDS) * PITCH, real);
    }
    const unsigned zeros = (hidden_zero & 255) * 0x01010101u;
    for (int i = threadIdx.x; i < HIDDEN_WORDS; i += THREADS) hidden[i] = zeros;  // the borders stay so
    for (int i = PIXELS_OUT * ROW / 4 + threadIdx.x; i < DW_SIZE / 4; i += THREADS)
        ((unsigned*)dw)[i] = 0;  // rows of no pixel

    wait_for_inputs();  // until here nothing depends on the kernel before
    for (int i = threadIdx.x; EXPAND && i < M_IN * (K1 / 16); i += THREADS) {
        const int m = i / (K1 / 16), k = i % (K1 / 16) * 16;
        const signed char* const from = from_x(output_of(m));
        copy_unit<C % 16 ? 8 : 16>((uint4*)(x_tile + m * ROW1 + k), from ? from + k : x, from ? C - k : 0);
    }
    cp_async_commit();
    launch_dependents();  // what follows may come and fetch its weights: behind this tile's x, and no later
    int acc[TILES_M][GROUPS][4][4];
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
        const int o = (warp % WARPS_N + j * WARPS_N) * 32 + t * 8;
        int b[8];
        get_row<true>(b, project_bias + o, project_bias ? O - o : 0);
#pragma unroll
        for (int m = 0; m < 2 * TILES_M; ++m)
#pragma unroll
            for (int e = 0; e < 8; ++e) acc[m / 2][j][e / 2][m % 2 * 2 + e % 2] = begin<SMALL_PROJECT>(b[e]);
    }

#pragma unroll 1
    for (int slice = 0; slice < SLICES; ++slice) {
        const signed char* const w1 = stages + slice % 2 * STAGE;
        const signed char *const w2 = w1 + W1_SIZE, *const w3 = w2 + W2_SIZE;
        const int first = slice * SLICE;
        cp_async_wait<0>();
        __syncthreads();  // this slice's weights are here, and all have read the slice before
        if (slice + 1 < SLICES) fetch_slice(slice + 1);

        if constexpr (EXPAND) {  // a warp takes 16 channels, and 32 pixels at a time
            const int group = warp % CHANNEL_GROUPS * 16;
            int c[4];
            float scale[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int channel = first + group + 8 * half + g;
                const bool there = channel < HIDDEN;
                scale[half] = there ? __ldg(expand_multiplier + channel) : 0.0f;
                c[2 * half] = begin<SMALL_EXPAND>(there && expand_bias ? __ldg(expand_bias + channel) : 0);
                c[2 * half + 1] = c[2 * half];
            }
            unsigned a[K1 / 32][4];
#pragma unroll
            for (int k = 0; k < K1; k += 32)
                ldmatrix_x4(a[k / 32], w1 + (group + lane % 16) * ROW1 + k + lane / 16 * 16);
#pragma unroll 1
            for (int m0 = warp / CHANNEL_GROUPS * 32; m0 < M_IN; m0 += WARPS / CHANNEL_GROUPS * 32) {
                int d[4][4];
#pragma unroll
                for (int k = 0; k < K1; k += 32) {
                    unsigned b[2][4];
                    load_columns<ROW1>(b, x_tile + m0 * ROW1 + k, lane);
#pragma unroll
                    for (int n = 0; n < 4; ++n) {
                        const unsigned column[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
                        if (k == 0) mma_s8(d[n], a[0], column, c);
                        else mma_s8(d[n], a[k / 32], column);
                    }
                }
                const uint4 two = *(const uint4*)(places + m0 / 4 + 2 * t);  // of this thread's two words
#pragma unroll
                for (int word = 0; word < 2; ++word) {
                    unsigned* const to = hidden + (word ? two.z : two.x) + group + g;
                    const unsigned real = word ? two.w : two.y;
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        int sum[4];
#pragma unroll
                        for (int e = 0; e < 4; ++e) sum[e] = d[word * 2 + e / 2][half * 2 + e % 2];
                        const float s = scale[half];
                        const unsigned four =
                            requantize_four<SMALL_EXPAND>(sum, s, s, s, s, hidden_zero, hidden_low, hidden_high);
                        to[8 * half] = (four & real) | (zeros & ~real);
                    }
                }
            }
        } else
            for (int i = threadIdx.x; i < WORDS * QUADS; i += THREADS) {  // four pixels of four channels
                const int quad = i % QUADS, word = i / QUADS, c = first + quad * 4;
                const int image = n0 + word / (REAL_H * REAL_WORDS), iy = iy0 + word / REAL_WORDS % REAL_H;
                const int from = ((image * H + iy) * W + ix0 + word % REAL_WORDS * 4) * C + c;  // of a real pixel
                const uint2 place = places[word];
                unsigned p[4];
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    p[k] = c < C && place.y >> 8 * k & 1 ? __ldg((const unsigned*)(x + (from + k * C))) : zeros;
                transpose(p);
                *(uint4*)(hidden + place.x + quad * 4) = make_uint4(p[0], p[1], p[2], p[3]);
            }
        __syncthreads();

#pragma unroll 1
        for (int i = threadIdx.x; i < IMAGES * STRIPS * PIECES * QUADS; i += THREADS) {  // 4 channels of 4 × STRIP
            const int quad = i % QUADS, piece = i / QUADS % PIECES, strip = i / QUADS / PIECES % STRIPS,
                      image = i / QUADS / PIECES / STRIPS;
            const int c = first + quad * 4, column0 = piece * 4, row0 = strip * STRIP;
            unsigned packed[9], w[4][3];
#pragma unroll
            for (int k = 0; k < 9; ++k) packed[k] = ((const unsigned*)w2)[quad * 9 + k];
            filters(w, packed);
            int b[4], sum[STRIP][4][4];  // [row][column][channel]
            float scale[4];
            get_row<true>(b, depthwise_bias + c, depthwise_bias ? HIDDEN - c : 0);
            get_row<true>(scale, depthwise_multiplier + c, HIDDEN - c);
#pragma unroll
            for (int k = 0; k < STRIP * 16; ++k) sum[k / 16][k / 4 % 4][k % 4] = begin<SMALL_DEPTHWISE>(b[k % 4]);
            const unsigned* from =
                hidden + ((image * IN_H + row0 * STRIDE) * ROW_WORDS + piece * STRIDE) * PITCH + quad * 4;
            signed char* const to = dw + ((image * TILE_H + row0) * TILE_W + column0) * ROW + quad * 4;
#pragma unroll
            for (int r = 0; r < (STRIP - 1) * STRIDE + 3; ++r, from += ROW_WORDS * PITCH) {
                uint4 read[STRIDE + 1];
#pragma unroll
                for (int k = 0; k <= STRIDE; ++k) read[k] = *(const uint4*)(from + k * PITCH);
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    unsigned word[STRIDE + 1], middle[STRIDE];  // pixels 4k … 4k + 3, and 4k + 2 … 4k + 5
#pragma unroll
                    for (int k = 0; k <= STRIDE; ++k)
                        word[k] = e == 0 ? read[k].x : e == 1 ? read[k].y : e == 2 ? read[k].z : read[k].w;
#pragma unroll
                    for (int k = 0; k < STRIDE; ++k) middle[k] = __funnelshift_r(word[k], word[k + 1], 16);
#pragma unroll
                    for (int row = 0; row < STRIP; ++row) {
                        const int kh = r - row * STRIDE;
                        if (kh < 0 || kh > 2) continue;
#pragma unroll
                        for (int k = 0; k < 4; ++k) {
                            const int start = k * STRIDE;
                            const unsigned pixels = start % 4 < 2 ? word[start / 4] : middle[start / 4];
                            sum[row][k][e] = __dp4a((int)pixels, (int)(w[e][kh] << start % 2 * 8), sum[row][k][e]);
                        }
                    }
                }
                if (r >= 2 && (r - 2) % STRIDE == 0) {  // the last row of taps of a row of outputs
                    const int row = (r - 2) / STRIDE;
#pragma unroll
                    for (int k = 0; k < 4; ++k)
                        if (column0 + k < TILE_W)
                            *(unsigned*)(to + (row * TILE_W + k) * ROW) = requantize_four<SMALL_DEPTHWISE>(
                                sum[row][k], scale[0], scale[1], scale[2], scale[3], dw_zero, dw_low, dw_high);
                }
            }
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
            finish_whole<SMALL_PROJECT>(y + at, sum, scale, residual ? residual + at : residual, there ? O - o : 0,
                                        {zero_point, low, high, scale_a, scale_b, shift, offset});
        }
    }
}
