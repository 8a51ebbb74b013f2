// depthwise, rung 6 "async_tile": NHWC; a block copies its input with halo to shared memory by cp.async, then slides over it.
// requires: sm_80
//
// Moves   the same bytes in 16-byte copies that pass through no register. A block of DOWN·TH × ACROSS·TW pixels and LANES·V
//         channels copies each input once; a block as wide as the image has no halo to its left and right. From shared
//         memory (TH + 2)(TW + 2) / (TH·TW) loads of V elements per output: 1.9 for 7×4 pixels, 3×3, stride 1.
// Gains   a block's whole input is in flight at once: bytes in flight no longer take registers, and L1 looks up each line
//         once instead of once per thread that needs a part of it. After the barrier no bounds check is left: what lies
//         outside the image is a zero in the tile. An input row is added to all output rows that need it and is then
//         dropped, so a thread walks down TH rows with the registers of KH.
// Costs   shared memory: (TH·DOWN + 2)(TW·ACROSS + 2) vectors per lane for 3×3 at stride 1. And a wait for the slowest copy,
//         which the other blocks of the multiprocessor hide if there are any; at batch 1 there are none.
#include <cuda_fp16.h>

#include "ptx.h"
#include "vec.h"

enum {
    TAPS = KH * KW, CHANNELS = LANES * V, THREADS = LANES * ACROSS * DOWN,
    ROWS = (TH - 1) * STRIDE_H + (KH - 1) * DILATION_H + 1,     // of the input, for TH rows of the output
    COLUMNS = (TW - 1) * STRIDE_W + (KW - 1) * DILATION_W + 1,  // for TW columns
    IN_H = (TH * DOWN - 1) * STRIDE_H + (KH - 1) * DILATION_H + 1, IN_W = (TW * ACROSS - 1) * STRIDE_W + (KW - 1) * DILATION_W + 1,
};
template <int BYTES> struct Access;
template <> struct Access<2> { typedef unsigned short type; };
template <> struct Access<4> { typedef unsigned type; };
template <> struct Access<8> { typedef uint2 type; };
template <> struct Access<16> { typedef uint4 type; };
typedef Access<V * sizeof(scalar_t)>::type Vector;  // V elements, as one access has them

__device__ __forceinline__ void floats(float (&v)[V], const float* of) {
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] = of[e];
}
__device__ __forceinline__ void floats(float (&v)[V], const __half* of) {
    if (V == 1) v[0] = __half2float(of[0]);
#pragma unroll
    for (int e = 0; e + 1 < V; e += 2) {
        float2 two = __half22float2(*(const __half2*)(of + e));
        v[e] = two.x, v[e + 1] = two.y;
    }
}

// PIECE elements from global to shared memory, zeros if not inside
__device__ __forceinline__ void copy(scalar_t* to, const scalar_t* from, bool inside) {
    if (PIECE * sizeof(scalar_t) == 16) cp_async_16(to, from, inside);
    else if (PIECE * sizeof(scalar_t) == 8) cp_async_8(to, from, inside);
    else if (PIECE * sizeof(scalar_t) == 4) cp_async_4(to, from, inside);
    else *to = inside ? *from : (scalar_t)0.0f;  // a single half: cp.async takes 4 bytes at the least
}

extern "C" __global__ void __launch_bounds__(THREADS) depthwise(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    float low, float high) {
#if FIXED
    C = FIXED_C, H = FIXED_H, W = FIXED_W, oH = FIXED_OH, oW = FIXED_OW, pad_top = FIXED_TOP, pad_left = FIXED_LEFT;
#endif
    extern __shared__ uint4 shared[];
    scalar_t* tile = (scalar_t*)shared;                // [IN_H][IN_W][CHANNELS]
    scalar_t* taps = tile + IN_H * IN_W * CHANNELS;    // [CHANNELS][TAPS]
    int chunks = (C + CHANNELS - 1) / CHANNELS;
    int across = (oW + TW * ACROSS - 1) / (TW * ACROSS), down = (oH + TH * DOWN - 1) / (TH * DOWN);  // blocks of an image
    int first = blockIdx.x % chunks * CHANNELS, block = blockIdx.x / chunks, n = block / across / down;
    int ow = block % across * (TW * ACROSS), oh = block / across % down * (TH * DOWN);
    int ih = oh * STRIDE_H - pad_top, iw = ow * STRIDE_W - pad_left;

    for (int i = threadIdx.x * PIECE; i < CHANNELS * TAPS; i += THREADS * PIECE)
        copy(taps + i, weight + first * TAPS + i, first * TAPS + i < C * TAPS);
    for (int i = threadIdx.x * PIECE; i < IN_W * CHANNELS; i += THREADS * PIECE) {
        int c = first + i % CHANNELS, k = iw + i / CHANNELS;
        const scalar_t* from = x + ((n * H + ih) * W + k) * C + c;
#pragma unroll
        for (int r = 0; r < IN_H; ++r)
            copy(tile + r * IN_W * CHANNELS + i, from + r * W * C, c < C && k >= 0 && k < W && ih + r >= 0 && ih + r < H);
    }
    cp_async_commit();
    int lane = threadIdx.x % LANES, column = threadIdx.x / LANES % ACROSS, strip = threadIdx.x / LANES / ACROSS;
    int c = first + lane * V;
    ow += column * TW, oh += strip * TH;
    float w[TAPS * V], b[V] = {}, acc[TH][TW][V];
    if (bias && c < C) load(b, bias + c);
    cp_async_wait<0>();
    __syncthreads();
    if (c >= C || oh >= oH || ow >= oW) return;

    const scalar_t* in = tile + (strip * TH * STRIDE_H * IN_W + column * TW * STRIDE_W) * CHANNELS + lane * V;
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {  // of channel c + e the tap k: w[e·TAPS + k], as in memory
        float part[V];
        Vector of = *(const Vector*)(taps + lane * V * TAPS + k * V);
        floats(part, (const scalar_t*)&of);
#pragma unroll
        for (int e = 0; e < V; ++e) w[k * V + e] = part[e];
    }
#pragma unroll
    for (int p = 0; p < TH * TW * V; ++p) acc[p / V / TW][p / V % TW][p % V] = b[p % V];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float v[COLUMNS][V];
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) {
            Vector of = *(const Vector*)(in + (r * IN_W + k) * CHANNELS);
            floats(v[k], (const scalar_t*)&of);
        }
#pragma unroll
        for (int t = 0; t < TH; ++t) {
#pragma unroll
            for (int kh = 0; kh < KH; ++kh)
                if (t * STRIDE_H + kh * DILATION_H == r)  // row r is the kh-th of output row t: known when compiled
#pragma unroll
                    for (int u = 0; u < TW; ++u)
#pragma unroll
                        for (int kw = 0; kw < KW; ++kw)
#pragma unroll
                            for (int e = 0; e < V; ++e)
                                acc[t][u][e] += w[e * TAPS + kh * KW + kw] * v[u * STRIDE_W + kw * DILATION_W][e];
            if (t * STRIDE_H + (KH - 1) * DILATION_H != r) continue;  // else output row t is complete
#pragma unroll
            for (int u = 0; u < TW; ++u) {
                int i = ((n * oH + oh + t) * oW + ow + u) * C + c;
                // & of two cheap conditions, not &&, which would allow a branch between them
                if ((FIXED && oH % (TH * DOWN) == 0 || oh + t < oH) & (FIXED && oW % (TW * ACROSS) == 0 || ow + u < oW)) {
#if RESIDUAL
                    float more[V];
                    load(more, residual + i);
#pragma unroll
                    for (int e = 0; e < V; ++e) acc[t][u][e] += more[e];
#endif
#pragma unroll
                    for (int e = 0; e < V; ++e) acc[t][u][e] = clamp(acc[t][u][e], low, high);
                    store(y + i, acc[t][u]);
                }
            }
        }
    }
}
