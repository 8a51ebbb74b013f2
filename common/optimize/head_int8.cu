// head_int8 - a 1×1 convolution of int8 numbers and the mean of each of its output channels, as one kernel.
// requires: sm_80
//
//   code = clamp(round((bias + Σ weight·x) · multiplier) + zero_point, low, high)          as pointwise_int8, per pixel
//   y = clamp(round((pool_bias + Σ of an image's codes) · pool_multiplier) + pool_zero_point)   as global_avg_pool_int8
//   x (N, PIXELS, C), weight (O, C), y (N, O): NHWC.
//
// A thread block takes CHANNELS output channels of all pixels of an image, and walks over images, the next of which is
// on its way. Weights are the rows of mma and stay in registers; pixels are its columns: a channel's sums lie in
// the four lanes of a quad. Four of their codes are packed to a register, and added up by one dp4a:
//
//   d (16 channels × 8 pixels), two of them  ──► codes of 4 pixels of a channel ──dp4a──► sum ──shuffles──► y
//
// WARPS_C warps lie side by side along the channels, each with 16·M of them, WARPS_P along the pixels.
//
// Moves   x once for every CHANNELS outputs, weight once per block, y: N·O bytes. N·PIXELS·O codes stay in registers.
// Gains   7×7 pixels, 320 → 1280: 62,720 bytes an image are neither written nor read.
// Costs   columns of no pixel: 49 pixels take 56.
#include "epilogue_int8.h"
#include "grid.h"
#include "one_step.h"
#include "unit.h"

#ifndef SMALL_SUMS
#define SMALL_SUMS 0  // see requantize.h
#endif

#ifndef ONE_STEP
#define ONE_STEP 0  // whether bias and multiplier are those of one_step.h: multiplier [2][O], then offsets
#endif

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int THREADS = 32 * WARPS_C * WARPS_P, CHANNELS = 16 * M * WARPS_C, SLICES = ceil_div(O, CHANNELS);
constexpr int K_STEPS = ceil_div(C, 32), DEEP = 32 * K_STEPS;
constexpr int ROW = DEEP | 16;  // bytes: an odd number of 16, so that 8 rows lie in 8 groups of banks
constexpr int TILES = ceil_div(PIXELS, 8), PER = ceil_div(TILES, WARPS_P);  // of 8 pixels; of a warp
constexpr int PAIRS = ceil_div(PER, 2);
constexpr int X_SIZE = PIXELS * ROW;
static_assert(C % 8 == 0 && CHANNELS <= THREADS * 4 && M <= 2, "tile");

// ROWS rows of C bytes to shared memory, of which `rows` are there; zeros beyond.
template <int ROWS> __device__ __forceinline__ void fetch(signed char* to, const signed char* from, int rows) {
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * (DEEP / 16); i += THREADS) {
        const int row = i / (DEEP / 16), k = i % (DEEP / 16) * 16;
        const bool inside = row < rows && k < C;
        copy_unit<C % 16 ? 8 : 16>((uint4*)(to + row * ROW + k), from + (inside ? row * C + k : 0), inside ? C - k : 0);
    }
    cp_async_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS, THREADS > 128 ? 1 : 256 / THREADS)
    head_int8(const signed char* __restrict__ x, const signed char* __restrict__ weight, const int* __restrict__ bias,
              const float* __restrict__ multiplier, signed char* __restrict__ y, int N, int zero_point, int low,
              int high, int pool_bias, float pool_multiplier, int pool_zero_point) {
    extern __shared__ uint4 shared[];
    signed char* const weights = (signed char*)shared;       // [CHANNELS][ROW]
    signed char* const images = weights + CHANNELS * ROW;    // [2][PIXELS][ROW]
    int* const pooled = (int*)(images + 2 * X_SIZE);         // [WARPS_P][CHANNELS], if WARPS_P > 1
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const int warp_c = warp % WARPS_C, warp_p = warp / WARPS_C;
    const int slice = blockIdx.x % SLICES, step = gridDim.x / SLICES, start = blockIdx.x / SLICES;

    fetch<CHANNELS>(weights, weight + slice * CHANNELS * C, O - slice * CHANNELS);
    int begins[M][4];  // as mma takes them: rows g, g, g + 8, g + 8
    float scale[M][2], shift[M][2];
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
        const int o = slice * CHANNELS + (warp_c * M + i / 2) * 16 + i % 2 * 8 + g;
        scale[i / 2][i % 2] = o < O ? __ldg(multiplier + o) : 0.0f;
        if (ONE_STEP) shift[i / 2][i % 2] = o < O ? __ldg(multiplier + O + o) : 0.0f;
        const int b = begin<ONE_STEP ? 0 : SMALL_SUMS>(o < O && bias ? __ldg(bias + o) : 0);
        begins[i / 2][i % 2 * 2] = b, begins[i / 2][i % 2 * 2 + 1] = b;
    }
    // which of four codes are of pixels: two of a tile of 8, two of the next
    const int first = warp_p * PER;
    int counted[PAIRS];
#pragma unroll
    for (int j = 0; j < PAIRS; ++j) {
        counted[j] = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int tile = 2 * j + e / 2, pixel = (first + tile) * 8 + 2 * t + e % 2;
            if (tile < PER && pixel < PIXELS) counted[j] |= 1 << 8 * e;
        }
    }
    wait_for_inputs();  // until here nothing depends on the kernel before
    if (start < N) fetch<PIXELS>(images, x + start * (PIXELS * C), PIXELS);
    else cp_async_commit();
    launch_dependents();
    cp_async_wait<1>();
    __syncthreads();  // the weights are here
    unsigned a[M][K_STEPS][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int k = 0; k < K_STEPS; ++k)
            ldmatrix_x4(a[m][k], weights + ((warp_c * M + m) * 16 + lane % 16) * ROW + k * 32 + lane / 16 * 16);
    int row[PAIRS];  // of an image, this lane's for ldmatrix; pixels beyond the last are the last, and not counted
#pragma unroll
    for (int j = 0; j < PAIRS; ++j) {
        const int pixel = (first + 2 * j) * 8 + lane / 16 * 8 + lane % 8;
        row[j] = (pixel < PIXELS ? pixel : PIXELS - 1) * ROW + lane / 8 % 2 * 16;
    }

    int stage = 0;
#pragma unroll 1
    for (int n = start; n < N; n += step, stage ^= 1) {
        cp_async_wait<0>();
        __syncthreads();  // this image is here, and all have read the one before
        if (n + step < N) fetch<PIXELS>(images + (1 - stage) * X_SIZE, x + (n + step) * (PIXELS * C), PIXELS);
        const signed char* const image = images + stage * X_SIZE;
        int acc[M][PER][4];
#pragma unroll
        for (int k = 0; k < K_STEPS; ++k)
#pragma unroll
            for (int j = 0; j < PAIRS; ++j) {
                unsigned b[4];
                if (2 * j + 1 < PER) ldmatrix_x4(b, image + row[j] + k * 32);
                else {
                    unsigned two[2];
                    ldmatrix_x2(two, image + row[j] + k * 32);
                    b[0] = two[0], b[1] = two[1], b[2] = b[3] = 0;
                }
#pragma unroll
                for (int i = 0; i < 2 && 2 * j + i < PER; ++i)
#pragma unroll
                    for (int m = 0; m < M; ++m)
                        if (k == 0) mma_s8(acc[m][2 * j + i], a[m][k], {b[2 * i], b[2 * i + 1]}, begins[m]);
                        else mma_s8(acc[m][2 * j + i], a[m][k], {b[2 * i], b[2 * i + 1]});
            }
        int sum[4];  // of rows g and g + 8 of each tile of channels
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sum[i] = 0;
            if (i >= 2 * M) continue;
            const float s = scale[i / 2][i % 2], r = ONE_STEP ? shift[i / 2][i % 2] : 0.0f;
#pragma unroll
            for (int j = 0; j < PAIRS; ++j) {
                const int(&d)[4] = acc[i / 2][2 * j];
                const int(&next)[4] = acc[i / 2][2 * j + 1 < PER ? 2 * j + 1 : 2 * j];
                const int four[4] = {d[i % 2 * 2], d[i % 2 * 2 + 1], next[i % 2 * 2], next[i % 2 * 2 + 1]};
                const unsigned codes = ONE_STEP ? codes_of_four(four, make_float4(s, s, s, s), make_float4(r, r, r, r))
                                                : requantize_four<SMALL_SUMS>(four, s, s, s, s, zero_point, low, high);
                sum[i] = __dp4a((int)codes, counted[j], sum[i]);
            }
            sum[i] += __shfl_xor_sync(0xffffffff, sum[i], 1);
            sum[i] += __shfl_xor_sync(0xffffffff, sum[i], 2);
        }
        // lane t of a quad has the channel of sum[t]
        int mine = t == 0 ? sum[0] : t == 1 ? sum[1] : t == 2 ? sum[2] : sum[3];
        int channel = (warp_c * M + t / 2) * 16 + t % 2 * 8 + g;
        bool writes = t < 2 * M;
        if constexpr (WARPS_P > 1) {
            if (writes) pooled[warp_p * CHANNELS + channel] = mine;
            __syncthreads();
            channel = threadIdx.x, writes = channel < CHANNELS, mine = 0;
#pragma unroll
            for (int p = 0; p < WARPS_P && writes; ++p) mine += pooled[p * CHANNELS + channel];
        }
        const int o = slice * CHANNELS + channel;
        if (writes && o < O)
            y[n * O + o] = (signed char)requantize(pool_bias + mine, pool_multiplier, pool_zero_point, -128, 127);
    }
}
