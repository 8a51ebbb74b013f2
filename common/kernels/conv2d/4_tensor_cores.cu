// conv2d, rung 4 "tensor_cores": the implicit GEMM on tensor cores: fp16 directly, fp32 as three products of TF32 numbers.
// requires: sm_80
//
//   Tiles, k and pixels are rung 3's. A warp multiplies WO channels × WP pixels of the block's BO×BP with mma instructions.
//   Their 16 rows are y's slower index, their 8 columns the faster one: channels × pixels in NCHW, pixels × channels in NHWC.
//   STAGES slices of BK values of k are in flight or in use; they arrive by cp.async, zeros where a window leaves the image.
//   fp32: three products of TF32 numbers each, and tensor cores' sums of 8 products; tf32x3.h says why.
//   partial: null, or room for S arrays of y's size. Then each block takes an S-th of k and stores its unfinished sums there,
//   and a launch compiled with SUM=S adds them up (split-K): S times as many blocks, for few pixels and many channels.
//
// Moves   as rung 3, in 16-byte copies where C/G is a multiple of 16 bytes in NHWC; element by element elsewhere.
// Gains   an mma does 2,048 multiply-adds (fp16; 1,024 in TF32); a warp's FMA does 32. Slices no longer pass through registers.
// Costs   fp32: three mma per product, 3 instructions to split a factor, a second set of sums. In NCHW a window's elements are
//         copied one by one; in fp16 they are too small for cp.async and go through registers, which takes longer than mma.
#include "epilogue.h"
#include "tap.h"
#include "tf32x3.h"

#ifndef NHWC
#define NHWC 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef VECTOR_IN
#define VECTOR_IN 1  // 16 bytes' worth where the rows of weight, and in NHWC of x, begin at multiples of 16 bytes
#endif
#ifndef VECTOR_OUT
#define VECTOR_OUT 1  // elements of y, residual and bias that one access takes
#endif
#define THREADS (BO / WO * (BP / WP) * 32)
#define PIECE (16 / (int)sizeof(scalar_t))            // elements in 16 bytes
#define PITCH (BK + PIECE)                            // of a tile's rows: eight below each other lie in different banks
#define WHOLE (NHWC && VECTOR_IN > 1)                 // x comes in pieces too
#define TAPS (WHOLE ? PIECE : BK * BP / THREADS)      // of a column, side by side, that a thread brings
#define PIXELS (BK * BP / THREADS / TAPS)             // of which it brings so many
#define APART (THREADS / (BK / TAPS))                 // one from the next
#define PARTS (sizeof(scalar_t) == 4 ? 2 : 1)         // numbers that a factor is taken apart into
#define BM (NHWC ? BP : BO)  // the block's tile of y as a matrix, its columns side by side in memory
#define BN (NHWC ? BO : BP)
#define WM (NHWC ? WP : WO)
#define WN (NHWC ? WO : WP)

__device__ __forceinline__ void copy_one(float* to, const float* from, bool inside) { cp_async_4(to, from, inside); }
__device__ __forceinline__ void copy_one(__half* to, const __half* from, bool inside) { *to = inside ? *from : (__half)0.0f; }

extern "C" __global__ void __launch_bounds__(SUM ? 256 : THREADS)
conv2d(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
       const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, float* __restrict__ partial,
       int N, int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w,
       int pad_top, int pad_left, int dilation_h, int dilation_w, int groups,
       float low, float high) {
    const unsigned pixels = (unsigned)N * (oH * oW);
    const size_t size = (size_t)pixels * O;
#if SUM
    const size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * VECTOR_OUT;
    if (at >= size) return;
    float sum[VECTOR_OUT] = {};
#pragma unroll
    for (int s = 0; s < SUM; ++s) {
        float some[VECTOR_OUT];
        load(some, partial + s * size + at);
        for (int e = 0; e < VECTOR_OUT; ++e) sum[e] += some[e];
    }
    finish<NHWC>(sum, bias, residual, y, at, NHWC ? at % O : at / (oH * oW) % O, low, high);
#else
    extern __shared__ __align__(16) char shared[];
    scalar_t* const tiles = (scalar_t*)shared;  // [STAGES][BM + BN][PITCH]: the factors, then
    float* const sums = (float*)shared;         // [BM][BN + 8]: their product

    const int channels = C / groups, outs = O / groups, K = channels * kH * kW;
    const int tiles_o = (outs - 1) / BO + 1, tiles_p = (pixels - 1) / BP + 1;
    unsigned block = blockIdx.x;  // blocks of the same pixels run side by side
    const int o0 = block % tiles_o * BO;  // range [0, O/G)
    const int group = (block /= tiles_o) % groups;
    const unsigned p0 = (block /= groups) % tiles_p * BP;  // range [0, N·oH·oW)
    const int part = block / tiles_p, parts = gridDim.x / (tiles_o * groups * tiles_p);
    const int all_slices = (K - 1) / BK + 1;
    const int first_slice = (int)((long long)all_slices * part / parts);
    const int slices = (int)((long long)all_slices * (part + 1) / parts) - first_slice;
    weight += ((size_t)group * outs + o0) * K;

    // What this thread brings: of its pixels' columns the rows first_k, first_k + 1, …
    const int first_k = (WHOLE ? threadIdx.x % (BK / TAPS) : threadIdx.x / BP) * TAPS;
    const int first_p = WHOLE ? threadIdx.x / (BK / TAPS) : threadIdx.x % BP;
    int image[PIXELS], ih0[PIXELS], iw0[PIXELS];  // where in x its image lies, and in the image its window begins
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        const unsigned p = p0 + first_p + i * APART;
        const int n = p / (oH * oW), oh = p / oW % oH, ow = p % oW;
        image[i] = n * C * H * W + group * channels * (NHWC ? 1 : H * W);
        ih0[i] = p < pixels ? oh * stride_h - pad_top : -(1 << 30);  // a window that does not exist has all in the padding
        iw0[i] = ow * stride_w - pad_left;
    }
    Tap<NHWC> tap(first_slice * BK + first_k, channels, kH, kW);  // the next one to be brought

    auto fetch = [&](int slice) {
        scalar_t* const as = tiles + slice % STAGES * ((BM + BN) * PITCH);
        scalar_t *const xs = as + (NHWC ? 0 : BM * PITCH), *const ws = as + (NHWC ? BM * PITCH : 0);
        const int k0 = (first_slice + slice) * BK;
#pragma unroll
        for (int i = 0; i < (BO * BK / PIECE + THREADS - 1) / THREADS; ++i) {
            const int row = threadIdx.x / (BK / PIECE) + i * (THREADS / (BK / PIECE)), k = threadIdx.x % (BK / PIECE) * PIECE;
            if (BO * BK / PIECE % THREADS && row >= BO) continue;
            const scalar_t* from = weight + (size_t)row * K + k0 + k;
            const bool exists = o0 + row < outs;
            if (VECTOR_IN > 1) cp_async_16(ws + row * PITCH + k, from, exists && k0 + k < K);
            else
                for (int e = 0; e < PIECE; ++e) copy_one(ws + row * PITCH + k + e, from + e, exists && k0 + k + e < K);
        }
        if (WHOLE) {
#pragma unroll
            for (int i = 0; i < PIXELS; ++i) {
                const int ih = ih0[i] + tap.kh * dilation_h, iw = iw0[i] + tap.kw * dilation_w;
                const bool inside = (unsigned)ih < (unsigned)H && (unsigned)iw < (unsigned)W && tap.kh < kH;
                cp_async_16(xs + (first_p + i * APART) * PITCH + first_k, x + (image[i] + (ih * W + iw) * C + tap.c), inside);
            }
            for (tap.c += BK; tap.c >= channels; tap.c -= channels)  // a slice further
                if (++tap.kw == kW) tap.kw = 0, ++tap.kh;
        } else {
            tap = Tap<NHWC>(k0 + first_k, channels, kH, kW);
#pragma unroll
            for (int j = 0; j < TAPS; ++j) {
                const int ih = ih0[0] + tap.kh * dilation_h, iw = iw0[0] + tap.kw * dilation_w;
                const bool inside = (unsigned)ih < (unsigned)H && (unsigned)iw < (unsigned)W && k0 + first_k + j < K;
                const int from = image[0] + (NHWC ? (ih * W + iw) * C + tap.c : (tap.c * H + ih) * W + iw);
                copy_one(xs + first_p * PITCH + first_k + j, x + from, inside);
                tap.next(channels, kH, kW);
            }
        }
    };

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row0 = warp / (BN / WN) * WM, col0 = warp % (BN / WN) * WN;  // of the warp's tile in the block's
    float acc[WM / 16][WN / 8][4] = {};

#pragma unroll
    for (int slice = 0; slice < STAGES - 1; ++slice) {
        if (slice < slices) fetch(slice);
        cp_async_commit();  // one group per slice, empty ones too, so that counting groups is counting slices
    }
    for (int slice = 0; slice < slices; ++slice) {
        cp_async_wait<STAGES - 2>();  // this slice is here,
        __syncthreads();              // all parts of it; and nobody reads the one before any more
        if (slice + STAGES - 1 < slices) fetch(slice + STAGES - 1);
        cp_async_commit();
        const scalar_t* const as = tiles + slice % STAGES * ((BM + BN) * PITCH);
        const scalar_t* const bs = as + BM * PITCH;
#pragma unroll
        for (int k = 0; k < BK; k += 2 * PIECE) {  // 32 bytes of a row: an mma's 16 halves or 8 floats
            unsigned a[PARTS][WM / 16][4], b[PARTS][WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                ldmatrix_x4(a[0][i], as + (row0 + i * 16 + lane % 16) * PITCH + k + lane / 16 * PIECE);
                if (PARTS == 2) split(a[0][i], a[PARTS - 1][i]);
            }
#pragma unroll
            for (int j = 0; j < WN / 8; j += 2) {
                unsigned two[4];  // b of two neighbours
                ldmatrix_x4(two, bs + (col0 + j * 8 + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * PIECE);
                for (int e = 0; e < 4; ++e) {
                    b[0][j + e / 2][e % 2] = two[e];
                    if (PARTS == 2) split(b[0][j + e / 2][e % 2], b[PARTS - 1][j + e / 2][e % 2]);
                }
            }
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                for (int j = 0; j < WN / 8; ++j)
                    if (PARTS == 1) mma_f16(acc[i][j], a[0][i], b[0][j]);
                    else mma_tf32x3(acc[i][j], a[0][i], a[PARTS - 1][i], b[0][j], b[PARTS - 1][j]);
        }
    }

    // Through shared memory once more, so that neighbouring threads write what lies side by side in y.
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
            for (int e = 0; e < 4; e += 2) {
                float* to = sums + (row0 + i * 16 + e / 2 * 8 + lane / 4) * (BN + 8) + col0 + j * 8 + lane % 4 * 2;
                *(float2*)to = make_float2(acc[i][j][e], acc[i][j][e + 1]);
            }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN / VECTOR_OUT; i += THREADS) {
        const int row = i / (BN / VECTOR_OUT), col = i % (BN / VECTOR_OUT) * VECTOR_OUT;
        const int o = o0 + (NHWC ? col : row);
        const unsigned p = p0 + (NHWC ? row : col);
        if (o >= outs || p >= pixels) continue;
        const int channel = group * outs + o;
        const size_t at = NHWC ? (size_t)p * O + channel : ((size_t)(p / (oH * oW)) * O + channel) * (oH * oW) + p % (oH * oW);
        float sum[VECTOR_OUT];
        for (int e = 0; e < VECTOR_OUT; ++e) sum[e] = sums[row * (BN + 8) + col + e];
        if (partial) store(partial + part * size + at, sum);
        else finish<NHWC>(sum, bias, residual, y, at, channel, low, high);
    }
#endif
}
