// conv2d, rung 2 "direct": a thread keeps TO channels of TP pixels in registers; weights come from shared memory.
//
//   For each tap and input channel a thread loads TP elements of x, one per pixel, and TO weights, and does TO·TP multiply-adds
//   with them. LO adjacent lanes share their pixels and divide the block's BO = LO·TO channels, in fours, so that what a warp
//   stores at once is adjacent: pixels in NCHW with LO = 1, channels in NHWC.
//
// Moves   1/TO + 1/TP elements per multiply-add instead of 2; there are K·O·P of them, K = C/G·kH·kW, P = N·oH·oW. The
//         elements of x mostly come from L1, because the windows of neighbouring pixels overlap.
// Gains   more arithmetic per load. The next element of x is requested before the present one is used. Best where C/G is
//         small, as in a network's first convolution: only the weights are copied to shared memory.
// Costs   TO·TP registers, so few threads per SM. Every block of BO channels reads all of x again. And finding the windows of
//         TP pixels and their places in y takes 5·TP divisions per thread: with 27 weights per channel a good part of its time.
#include "vec.h"

#ifndef NHWC
#define NHWC 0
#endif
#ifndef VECTOR
#define VECTOR 1  // 4 where channels lie side by side in y, and fours of them begin at multiples of 4
#endif
#define BO (LO * TO)
#define APART (THREADS / LO)  // from one pixel of a thread to its next

extern "C" __global__ void __launch_bounds__(THREADS)
conv2d(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
       const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, float* __restrict__ partial,
       int N, int C, int H, int W, int O, int oH, int oW, int kH, int kW, int stride_h, int stride_w,
       int pad_top, int pad_left, int dilation_h, int dilation_w, int groups,
       float low, float high) {
    __shared__ __align__(16) float Ws[BK][BO];  // BK of the K weights of BO channels, taps outside, input channels inside

    const int channels = C / groups, outs = O / groups, K = channels * kH * kW;
    const unsigned pixels = (unsigned)N * (oH * oW);
    const int tiles = groups * ((outs - 1) / BO + 1);  // of output channels; blocks of the same pixels run side by side
    const int group = blockIdx.x % tiles / (tiles / groups);
    const int o0 = blockIdx.x % (tiles / groups) * BO;  // range [0, O/G)
    const unsigned p0 = blockIdx.x / tiles * (TP * APART) + threadIdx.x / LO;  // range [0, N·oH·oW)
    const int to = threadIdx.x % LO * 4;  // its channels are o0 + to, + 1, + 2, + 3, then 4·LO on
    const int next_channel = NHWC ? 1 : H * W;
    weight += (size_t)group * outs * K;

    int image[TP], ih0[TP], iw0[TP];  // where in x a pixel's image lies, and in the image its window begins
#pragma unroll
    for (int j = 0; j < TP; ++j) {
        const unsigned p = p0 + j * APART;
        const int n = p / (oH * oW), oh = p / oW % oH, ow = p % oW;
        image[j] = n * C * H * W + group * channels * next_channel;
        ih0[j] = p < pixels ? oh * stride_h - pad_top : -(1 << 30);  // a window that does not exist has all in the padding
        iw0[j] = ow * stride_w - pad_left;
    }

    int c = 0, kh = 0, kw = 0;  // of the element to be loaded next
    int from[TP];               // where it lies, -1 in the padding
    auto find = [&]() {
#pragma unroll
        for (int j = 0; j < TP; ++j) {
            const int ih = ih0[j] + kh * dilation_h, iw = iw0[j] + kw * dilation_w;
            const bool inside = (unsigned)ih < (unsigned)H && (unsigned)iw < (unsigned)W;
            from[j] = inside ? image[j] + (ih * W + iw) * (NHWC ? C : 1) : -1;
        }
    };
    float ahead[TP];
    auto load_next = [&]() {
#pragma unroll
        for (int j = 0; j < TP; ++j) ahead[j] = from[j] >= 0 ? (float)x[from[j] + c * next_channel] : 0.0f;
        if (++c < channels) return;
        c = 0;
        if (++kw == kW) kw = 0, ++kh;
        find();
    };

    float acc[TO][TP] = {};
    find();
    load_next();
    for (int k0 = 0; k0 < K; k0 += BK) {
        __syncthreads();  // nobody reads the weights before these any more
        for (int i = threadIdx.x; i < BK * BO; i += THREADS) {
            const int k = k0 + i % BK, o = o0 + i / BK;
            const int at = NHWC ? k : k % channels * (kH * kW) + k / channels;
            Ws[i % BK][i / BK] = k < K && o < outs ? (float)weight[o * K + at] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < BK && k0 + k < K; ++k) {
            float v[TP];
#pragma unroll
            for (int j = 0; j < TP; ++j) v[j] = ahead[j];
            if (k0 + k + 1 < K) load_next();
#pragma unroll
            for (int i = 0; i < TO; i += 4) {
                const float4 w = *(const float4*)&Ws[k][i * LO + to];
#pragma unroll
                for (int j = 0; j < TP; ++j) {
                    acc[i][j] += w.x * v[j], acc[i + 1][j] += w.y * v[j];
                    acc[i + 2][j] += w.z * v[j], acc[i + 3][j] += w.w * v[j];
                }
            }
        }
    }

#pragma unroll
    for (int j = 0; j < TP; ++j) {
        const unsigned p = p0 + j * APART;
        const size_t first = NHWC ? (size_t)p * O : (size_t)(p / (oH * oW)) * O * (oH * oW) + p % (oH * oW);
#pragma unroll
        for (int i = 0; i < TO; i += VECTOR) {
            const int o = o0 + to + i / 4 * 4 * LO + i % 4, channel = group * outs + o;
            if (p >= pixels || o >= outs) continue;
            const size_t at = first + (size_t)channel * (NHWC ? 1 : oH * oW);
            float sum[VECTOR], b[VECTOR] = {}, more[VECTOR] = {};
            if (bias) load(b, bias + channel);
            if (residual) load(more, residual + at);
            for (int e = 0; e < VECTOR; ++e) {
                sum[e] = acc[i + e][j] + b[e] + more[e];
                sum[e] = sum[e] < low ? low : sum[e] > high ? high : sum[e];
            }
            store(y + at, sum);
        }
    }
}
