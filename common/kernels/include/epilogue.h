// epilogue.h - the end of a convolution: from sums to outputs, with bias, residual and bounds; rows that end within a piece.
//
//   finish<CHANNELS_LAST>(sum, bias, residual, y, at, channel, low, high)   y[at…] from as many sums: of one channel, or with
//                                                     CHANNELS_LAST of so many from `channel` on. bias, residual may be null
//   get<WHOLE>(v, from, left)     neighbouring elements as floats, of which `left` are there; zeros where there are none
//   begin_sums(acc, bias, residual, p, o, P, O)   a lane's sums of a product (P, O) before the first one, laid out as wgmma.h
//                                 says: outputs o, o + 1, o + 8, … of rows p and p + 8 begin at bias + residual. All reads are
//                                 under way before the first one is waited for
//   put<WHOLE>(to, v, left)       stores them. WHOLE: rows consist of whole pieces and begin at multiples of their size
#pragma once
#include "vec.h"

template <bool CHANNELS_LAST, int N, class T>
__device__ __forceinline__ void finish(float (&sum)[N], const T* bias, const T* residual, T* y, size_t at, int channel, float low,
                                       float high) {
    float more[N] = {}, b[N] = {};
    if (residual) load(more, residual + at);
    if (bias && CHANNELS_LAST) load(b, bias + channel);
    if (bias && !CHANNELS_LAST)
        for (int e = 0; e < N; ++e) b[e] = (float)bias[channel];
    for (int e = 0; e < N; ++e) {
        sum[e] += b[e] + more[e];
        sum[e] = sum[e] < low ? low : sum[e] > high ? high : sum[e];
    }
    store(y + at, sum);
}

template <bool WHOLE, int N, class T> __device__ __forceinline__ void get(float (&v)[N], const T* from, int left) {
#pragma unroll
    for (int e = 0; e < N; ++e) v[e] = 0.0f;
    if constexpr (WHOLE) {
        if (left > 0) load(v, from);
    } else
        for (int e = 0; e < N; ++e)
            if (e < left) v[e] = (float)from[e];
}
template <bool WHOLE, int N, class T> __device__ __forceinline__ void put(T* to, const float (&v)[N], int left) {
    if constexpr (WHOLE) {
        if (left > 0) store(to, v);
    } else
        for (int e = 0; e < N; ++e)
            if (e < left) to[e] = (T)v[e];
}

template <int J, class T>
__device__ __forceinline__ void begin_sums(float (&acc)[J][4], const T* bias, const T* residual, int p, int o, int P, int O) {
    using Two = decltype(read_two(bias));
    Two add[J] = {}, more[2][J] = {};
    if (bias) {
#pragma unroll
        for (int j = 0; j < J; ++j)
            if (o + j * 8 < O) add[j] = read_two(bias + o + j * 8);
    }
    if (residual) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < J; ++j)
                if (p + i * 8 < P && o + j * 8 < O) more[i][j] = read_two(residual + (size_t)(p + i * 8) * O + o + j * 8);
    }
#pragma unroll
    for (int j = 0; j < J; ++j) {
        float first[2], second[2];
        unpack(first[0], first[1], add[j]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            unpack(second[0], second[1], more[i][j]);
            for (int e = 0; e < 2; ++e) acc[j][i * 2 + e] = first[e] + second[e];
        }
    }
}
