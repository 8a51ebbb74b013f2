// conv2d, rung 3 "implicit_gemm": the product of the weights and im2col's columns, without writing the columns to memory.
//
//   y[o, p] = sum over k of weight[o, k] · column[k, p]: p counts the pixels (n, oh, ow), k the weights of an output channel in
//   the order in which they lie in memory, (c, kh, kw) in NCHW and (kh, kw, c) in NHWC. A block computes BO channels of BP
//   pixels. It copies both factors to shared memory, BK values of k at a time; an element of a column is loaded from x where
//   im2col would have read it. A thread keeps TO×TP sums in registers and loads the next slice while it adds up this one.
//
// Moves   K·(O·P/BP + O·P/BO) elements from global to shared memory for K·O·P multiply-adds, K = C/G·kH·kW. Of these
//         K·P elements of columns only one in kH·kW is different (at stride 1), and caches serve most of the others.
// Gains   im2col's buffer is gone, K·P elements written and read: nine times the input for a 3×3 kernel. A pair of loads from
//         shared memory serves TO·TP multiply-adds, 2·TO·TP / (TO + TP) times as many as in rung 1.
// Costs   a division, two comparisons and an address per element of a column, again for each BO channels. Where a group
//         has fewer channels than BO, or there are fewer pixels than BP, part of the tile is computed and thrown away.
#include "tap.h"
#include "vec.h"

#ifndef NHWC
#define NHWC 0
#endif
#ifndef VECTOR
#define VECTOR 1  // 4 where rows of 4 elements, of x in NHWC and of y, begin at multiples of 4
#endif
#define THREADS (BO / TO * (BP / TP))
#define TAPS (NHWC ? 4 : BK * BP / THREADS)     // of a column, side by side, that a thread brings
#define PIXELS (BK * BP / THREADS / TAPS)       // of which it brings so many
#define WEIGHTS (BK * BO / THREADS)

// N numbers from shared memory, four at a time: a thread's fours lie `apart` from each other, those of its neighbours between.
template <int N> __device__ __forceinline__ void gather(float (&v)[N], const float* row, int apart) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        float4 four = *(const float4*)(row + i / 4 * apart);
        v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
       const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, float* __restrict__ partial,
       int N, int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w,
       int pad_top, int pad_left, int dilation_h, int dilation_w, int groups,
       float low, float high) {
    __shared__ __align__(16) float Ws[2][BK][BO + 4], Xs[2][BK][BP + 4];  // + 4: neighbouring k begin in other banks

    const int channels = C / groups, outs = O / groups, K = channels * kH * kW;
    const unsigned pixels = (unsigned)N * (oH * oW);
    const int tiles = groups * ((outs - 1) / BO + 1);  // of output channels; blocks of the same pixels run side by side
    const int group = blockIdx.x % tiles / (tiles / groups);
    const int o0 = blockIdx.x % (tiles / groups) * BO;  // range [0, O/G)
    const unsigned p0 = blockIdx.x / tiles * BP;        // range [0, N·oH·oW)
    weight += (size_t)group * outs * K;

    // What this thread brings: of its pixels' columns the rows first_k, first_k + 1, …
    const int first_k = (NHWC ? threadIdx.x % (BK / TAPS) : threadIdx.x / BP) * TAPS;
    const int first_p = NHWC ? threadIdx.x / (BK / TAPS) : threadIdx.x % BP;
    const scalar_t* image[PIXELS];
    int ih0[PIXELS], iw0[PIXELS];  // where a pixel's window begins
#pragma unroll
    for (int i = 0; i < PIXELS; ++i) {
        const unsigned p = p0 + first_p + i * (THREADS / (BK / TAPS));
        const int n = p / (oH * oW), oh = p / oW % oH, ow = p % oW;
        image[i] = x + ((size_t)n * C * H * W + (size_t)group * channels * (NHWC ? 1 : H * W));
        ih0[i] = p < pixels ? oh * stride_h - pad_top : -(1 << 30);  // a window that does not exist has all in the padding
        iw0[i] = ow * stride_w - pad_left;
    }

    float from_x[PIXELS][TAPS], from_weight[WEIGHTS];
    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; ++i) {
            const int at = threadIdx.x + i * THREADS, k = k0 + at % BK, o = o0 + at / BK;
            from_weight[i] = k < K && o < outs ? (float)weight[o * K + k] : 0.0f;
        }
        Tap<NHWC> tap(k0 + first_k, channels, kH, kW);
#pragma unroll
        for (int j = 0; j < TAPS; ++j) {
            const int dh = tap.kh * dilation_h, dw = tap.kw * dilation_w;
#pragma unroll
            for (int i = 0; i < PIXELS; ++i) {
                const int ih = ih0[i] + dh, iw = iw0[i] + dw;
                const bool inside = (unsigned)ih < (unsigned)H && (unsigned)iw < (unsigned)W && k0 + first_k + j < K;
                const scalar_t* from = image[i] + (NHWC ? (ih * W + iw) * C + tap.c : (tap.c * H + ih) * W + iw);
                if (!NHWC || VECTOR == 1) from_x[i][j] = inside ? (float)*from : 0.0f;
                else if (j == 0) {  // four channels under one tap
                    float four[4] = {};
                    if (inside) load(four, from);
                    for (int e = 0; e < 4; ++e) from_x[i][e % TAPS] = four[e];
                }
            }
            tap.next(channels, kH, kW);
        }
    };
    auto put = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < WEIGHTS; ++i) {
            const int at = threadIdx.x + i * THREADS;
            Ws[buffer][at % BK][at / BK] = from_weight[i];
        }
#pragma unroll
        for (int i = 0; i < PIXELS; ++i)
#pragma unroll
            for (int j = 0; j < TAPS; ++j) Xs[buffer][first_k + j][first_p + i * (THREADS / (BK / TAPS))] = from_x[i][j];
    };

    const int to = threadIdx.x % (BO / TO) * 4, tp = threadIdx.x / (BO / TO) * 4;  // the first of its outputs in the tile
    float acc[TO][TP] = {};
    fetch(0);
    for (int k0 = 0, buffer = 0; k0 < K; k0 += BK, buffer ^= 1) {
        put(buffer);
        __syncthreads();  // the buffer is full, and nobody reads the other one any more
        if (k0 + BK < K) fetch(k0 + BK);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float w[TO], v[TP];
            gather(w, Ws[buffer][k] + to, 4 * BO / TO);
            gather(v, Xs[buffer][k] + tp, 4 * BP / TP);
#pragma unroll
            for (int i = 0; i < TO; ++i)
#pragma unroll
                for (int j = 0; j < TP; ++j) acc[i][j] += w[i] * v[j];
        }
    }

    // Four outputs at a time, side by side in memory: of pixels in NCHW, of channels in NHWC.
#pragma unroll
    for (int i = 0; i < TO; i += NHWC ? 4 : 1)
#pragma unroll
        for (int j = 0; j < TP; j += NHWC ? 1 : 4) {
            int o = o0 + to + i / 4 * (4 * BO / TO) + i % 4;
            unsigned p = p0 + tp + j / 4 * (4 * BP / TP) + j % 4;
            float v[4];
            for (int e = 0; e < 4; ++e) v[e] = NHWC ? acc[(i + e) % TO][j] : acc[i][(j + e) % TP];
#pragma unroll
            for (int e = 0; e < 4; e += VECTOR, NHWC ? o += VECTOR : p += VECTOR) {
                if (o >= outs || p >= pixels) continue;
                const int channel = group * outs + o;
                const size_t at = NHWC ? (size_t)p * O + channel : ((size_t)(p / (oH * oW)) * O + channel) * (oH * oW) + p % (oH * oW);
                float sum[VECTOR], more[VECTOR] = {};
                if (residual) load(more, residual + at);
                for (int u = 0; u < VECTOR; ++u) {
                    sum[u] = v[e + u] + (bias ? (float)bias[channel + (NHWC ? u : 0)] : 0.0f) + more[u];
                    sum[u] = sum[u] < low ? low : sum[u] > high ? high : sum[u];
                }
                store(y + at, sum);
            }
        }
}
