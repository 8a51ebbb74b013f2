// conv2d, rung 5 "halo": the pixels under a block's windows are copied to shared memory once, and all taps read them there.
// requires: sm_80
//
//   Rung 4 copies kH·kW elements per pixel and channel, and neighbouring pixels need nearly the same ones.
//   Here the block's BP pixels, in the order (n, strip, oh, ow), are rows of an image or of a strip, at most COLUMNS wide.
//   The rows of x under their windows (the pixels' own and the halo around them) are copied to shared memory for
//   CHANNELS channels at a time, pixel by pixel, channels innermost in both layouts. Then a tap is an offset: ldmatrix takes
//   the addresses of eight rows from eight lanes, and a row is a piece, 16 bytes of channels, of a pixel. k counts (tap, piece);
//   an mma takes two pieces. The weights come in slices of SLICE pieces, as in rung 4. Split-K: sums go to `partial`.
//
// Moves   per channel of x (rows + (kH - 1)·dilation)·(columns + (kW - 1)·dilation) elements at stride 1, not BP·kH·kW:
//         for 128 pixels of a 28×28 image, 3×3, up to 8 rows of 30, 240 instead of 1,152. Of weight as rung 4: BO·K per block.
// Gains   fewer copies, and less arithmetic for their addresses, which is done once instead of kH·kW times.
// Costs   the size of the tile follows from the image's shape, so fewer blocks may fit on an SM. Each block begins with
//         divisions that find its rows and windows. With few channels pieces are not full: 3 channels fill 3 of 8 halves, so
//         the 27 products of a 3×3 window take 5 mma instead of rung 4's 2. And rung 4's copies are hidden behind its mma
//         already, so fewer copies do not always mean less time.
#include "epilogue.h"
#include "tf32x3.h"

#ifndef NHWC
#define NHWC 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef VECTOR_IN
#define VECTOR_IN 1  // in NHWC 16 bytes' worth where C/G is a multiple of it, and x and weight begin at multiples of 16 bytes
#endif
#ifndef VECTOR_OUT
#define VECTOR_OUT 1  // elements of y, residual and bias that one access takes
#endif
#define THREADS (BO / WO * (BP / WP) * 32)
#define PIECE (16 / (int)sizeof(scalar_t))     // elements in 16 bytes
#define PIECES (CHANNELS / PIECE)              // of a pixel
#define PITCH_X ((PIECES | 1) * PIECE)         // an odd number of pieces: neighbouring pixels begin in different banks
#define PITCH_W ((SLICE + 1) * PIECE)
#define ROWS (THREADS / SLICE)                 // of weights that the threads bring at a time
#define PARTS (sizeof(scalar_t) == 4 ? 2 : 1)  // numbers that a factor is taken apart into
#define BM (NHWC ? BP : BO)  // the block's tile of y as a matrix, its columns side by side in memory
#define BN (NHWC ? BO : BP)
#define WM (NHWC ? WP : WO)
#define WN (NHWC ? WO : WP)

// A piece of elements that lie `apart` from each other: `count` of them, zeros for the rest.
__device__ __forceinline__ void copy_piece(float* to, const float* from, int apart, int count) {
#pragma unroll
    for (int e = 0; e < 4; ++e) cp_async_4(to + e, from + e * apart, e < count);
}
__device__ __forceinline__ void copy_piece(__half* to, const __half* from, int apart, int count) {
    __align__(16) __half piece[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) piece[e] = e < count ? from[e * apart] : (__half)0.0f;
    *(uint4*)to = *(const uint4*)piece;
}

extern "C" __global__ void __launch_bounds__(SUM ? 256 : THREADS)
conv2d(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
       const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, float* __restrict__ partial,
       int N, int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w,
       int pad_top, int pad_left, int dilation_h, int dilation_w, int groups,
       float low, float high) {
    const size_t size = (size_t)N * O * (oH * oW);
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
    const int channels = C / groups, outs = O / groups, taps = kH * kW, K = channels * taps, pieces = taps * PIECES;

    extern __shared__ __align__(16) char shared[];
    int* const windows = (int*)shared;                                 // [BP]: where in xs a pixel's window begins
    int* const places = windows + BP;                                  // [BP]: where in y the pixel's first channel lies, or -1
    scalar_t* const ws = (scalar_t*)(places + BP);                     // [STAGES][BO][PITCH_W]
    int* const offsets = (int*)(ws + STAGES * BO * PITCH_W);           // [pieces + 1]: from a window's begin to each piece of k
    scalar_t* const xs = (scalar_t*)(offsets + (pieces + 4) / 4 * 4);  // [2][rows][width][PITCH_X]
    float* const sums = (float*)ws;                                    // in the end [BM][BN + 8]: the tile of y

    const int strips = (oW - 1) / COLUMNS + 1, columns = (oW - 1) / strips + 1, strip_pixels = oH * columns;
    const unsigned pixels = (unsigned)N * strips * strip_pixels;  // where strips do not divide oW, a few that are not there
    const int tiles_o = (outs - 1) / BO + 1, tiles_p = (pixels - 1) / BP + 1;
    unsigned block = blockIdx.x;          // blocks of the same pixels run side by side
    const int o0 = block % tiles_o * BO;  // range [0, O/G)
    const int group = (block /= tiles_o) % groups;
    const unsigned p0 = (block /= groups) % tiles_p * BP;
    const int part = block / tiles_p, parts = gridDim.x / (tiles_o * groups * tiles_p);
    const int chunks = (channels - 1) / CHANNELS + 1, first_chunk = (int)((long long)chunks * part / parts);
    const int last_chunk = (int)((long long)chunks * (part + 1) / parts);  // the first that is not this block's
    const int chunk_slices = (pieces - 1) / SLICE + 1, slices = (last_chunk - first_chunk) * chunk_slices;
    weight += ((size_t)group * outs + o0) * K;
    x += (size_t)group * channels * (NHWC ? 1 : H * W);

    // The rows of x under the block's windows: of the strip of its first pixel from there on, of the next strips all.
    const int reach_h = (kH - 1) * dilation_h + 1, reach_w = (kW - 1) * dilation_w + 1;  // of a window
    const int width = (columns - 1) * stride_w + reach_w;
    const int strip0 = p0 / strip_pixels, oh0 = p0 % strip_pixels / columns;
    const int rows_first = (oH - 1 - oh0) * stride_h + reach_h, rows_strip = (oH - 1) * stride_h + reach_h;
    auto row_of = [&](unsigned p) {  // of the first row of a pixel's window
        const int strip = p / strip_pixels - strip0, oh = p % strip_pixels / columns;
        return strip == 0 ? (oh - oh0) * stride_h : rows_first + (strip - 1) * rows_strip + oh * stride_h;
    };
    const unsigned last_p = p0 + BP < pixels ? p0 + BP - 1 : pixels - 1;
    const int rows = row_of(last_p) + reach_h;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i <= pieces; i += THREADS) {
        const int tap = i / PIECES;
        offsets[i] = i < pieces ? (tap / kW * dilation_h * width + tap % kW * dilation_w) * PITCH_X + i % PIECES * PIECE : 0;
    }
    for (int i = threadIdx.x; i < BP; i += THREADS) {
        const unsigned p = p0 + i < last_p ? p0 + i : last_p;
        const int strip = p / strip_pixels, n = strip / strips, oh = p % strip_pixels / columns, col = p % strip_pixels % columns;
        const int ow = strip % strips * columns + col;
        windows[i] = (row_of(p) * width + col * stride_w) * PITCH_X;
        places[i] = p0 + i <= last_p && ow < oW ? (NHWC ? ((n * oH + oh) * oW + ow) * O : (n * O * oH + oh) * oW + ow) : -1;
    }
    __syncthreads();

    auto fetch_pixels = [&](int chunk) {
        const int c0 = (first_chunk + chunk) * CHANNELS;
        for (int row = warp; row < rows; row += THREADS / 32) {
            int strip = strip0, ih = oh0 * stride_h + row - pad_top;
            if (row >= rows_first) {
                strip += 1 + (row - rows_first) / rows_strip;
                ih = (row - rows_first) % rows_strip - pad_top;
            }
            const int iw0 = strip % strips * columns * stride_w - pad_left;
            const scalar_t* from = x + (size_t)(strip / strips) * C * H * W + (NHWC ? ((size_t)ih * W + iw0) * C : (size_t)ih * W + iw0);
            scalar_t* to = xs + (chunk % 2 * rows + row) * width * PITCH_X;
            if (NHWC && VECTOR_IN > 1) {
                for (int i = lane; i < width * PIECES; i += 32) {
                    const int col = i / PIECES, c = i % PIECES * PIECE;
                    const bool inside = (unsigned)ih < (unsigned)H && (unsigned)(iw0 + col) < (unsigned)W && c0 + c < channels;
                    cp_async_16(to + col * PITCH_X + c, from + (size_t)col * C + c0 + c, inside);
                }
            } else {
                for (int c = 0; c < CHANNELS; c += PIECE)
                    for (int col = lane; col < width; col += 32) {
                        const bool inside = (unsigned)ih < (unsigned)H && (unsigned)(iw0 + col) < (unsigned)W;
                        const scalar_t* first = from + (NHWC ? (size_t)col * C + c0 + c : (size_t)(c0 + c) * H * W + col);
                        copy_piece(to + col * PITCH_X + c, first, NHWC ? 1 : H * W, inside ? channels - c0 - c : 0);
                    }
            }
        }
    };
    int next_c = first_chunk * CHANNELS, next_piece = 0;  // where the next slice of weights begins
    auto fetch_weights = [&](int slice) {
        const int i = next_piece + threadIdx.x % SLICE, tap = i / PIECES, c = next_c + i % PIECES * PIECE;
        const int count = tap < taps ? channels - c : 0;
        const scalar_t* from = weight + (NHWC ? tap * channels + c : c * taps + tap);
        scalar_t* to = ws + slice % STAGES * (BO * PITCH_W) + threadIdx.x % SLICE * PIECE;
#pragma unroll
        for (int j = 0; j < (BO + ROWS - 1) / ROWS; ++j) {
            const int o = threadIdx.x / SLICE + j * ROWS;
            if ((BO % ROWS && o >= BO) || (THREADS % SLICE && threadIdx.x >= ROWS * SLICE)) continue;
            const bool exists = o0 + o < outs;
            if (NHWC && VECTOR_IN > 1) cp_async_16(to + o * PITCH_W, from + (size_t)o * K, exists && count > 0);
            else copy_piece(to + o * PITCH_W, from + (size_t)o * K, NHWC ? 1 : taps, exists ? count : 0);
        }
        if ((next_piece += SLICE) >= pieces) next_piece = 0, next_c += CHANNELS;
    };

    const int row0 = warp / (BN / WN) * WM, col0 = warp % (BN / WN) * WN;  // of the warp's tile in the block's
    const int second = NHWC ? lane / 16 : lane / 8 % 2;                    // which of an mma's two pieces the lane is asked for
    int window[WP / 16];  // of the pixels that this lane gives addresses of
#pragma unroll
    for (int i = 0; i < WP / 16; ++i) window[i] = windows[i * 16 + (NHWC ? row0 + lane % 16 : col0 + lane / 16 * 8 + lane % 8)];
    float acc[WM / 16][WN / 8][4] = {};

    fetch_pixels(0);
#pragma unroll
    for (int slice = 0; slice < STAGES - 1; ++slice) {
        if (slice < slices) fetch_weights(slice);
        cp_async_commit();  // one group per slice, empty ones too, so that counting groups is counting slices
    }
    for (int slice = 0, chunk = 0, in_chunk = 0; slice < slices; ++slice) {
        if (in_chunk == 0 && chunk_slices < STAGES - 1) cp_async_wait<0>();  // the pixels were asked for a chunk ago, not longer
        else cp_async_wait<STAGES - 2>();                                    // this slice is here,
        __syncthreads();                                                     // all of it; and nobody reads the one before any more
        if (in_chunk == 0 && first_chunk + chunk + 1 < last_chunk) fetch_pixels(chunk + 1);
        if (slice + STAGES - 1 < slices) fetch_weights(slice + STAGES - 1);
        cp_async_commit();

        const scalar_t* const pixels_here = xs + chunk % 2 * rows * width * PITCH_X;
        const scalar_t* const weights_here = ws + slice % STAGES * (BO * PITCH_W);
#pragma unroll
        for (int step = 0; step < SLICE; step += 2) {
            const int piece = in_chunk * SLICE + step;
            if (piece >= pieces) break;
            const int offset = offsets[piece + second];
            unsigned a[PARTS][WM / 16][4], b[PARTS][WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i) {
                if (NHWC) ldmatrix_x4(a[0][i], pixels_here + window[i % (WP / 16)] + offset);
                else ldmatrix_x4(a[0][i], weights_here + (row0 + i * 16 + lane % 16) * PITCH_W + (step + lane / 16) * PIECE);
                if (NHWC && piece + 1 == pieces) a[0][i][2] = a[0][i][3] = 0;  // there is no second piece
                if (PARTS == 2) split(a[0][i], a[PARTS - 1][i]);
            }
#pragma unroll
            for (int j = 0; j < WN / 8; j += 2) {
                unsigned two[4];  // b of two neighbours
                if (NHWC) ldmatrix_x4(two, weights_here + (col0 + j * 8 + lane / 16 * 8 + lane % 8) * PITCH_W + (step + lane / 8 % 2) * PIECE);
                else ldmatrix_x4(two, pixels_here + window[j / 2 % (WP / 16)] + offset);
                if (!NHWC && piece + 1 == pieces) two[1] = two[3] = 0;
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
        if (++in_chunk == chunk_slices) in_chunk = 0, ++chunk;
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
        const int o = o0 + (NHWC ? col : row), place = places[NHWC ? row : col];
        if (o >= outs || place < 0) continue;
        const int channel = group * outs + o, at = place + channel * (NHWC ? 1 : oH * oW);
        float sum[VECTOR_OUT];
        for (int e = 0; e < VECTOR_OUT; ++e) sum[e] = sums[row * (BN + 8) + col + e];
        if (partial) store(partial + part * size + at, sum);
        else finish<NHWC>(sum, bias, residual, y, at, channel, low, high);
    }
#endif
}
