// depthwise, rung 5 "register_tile": NHWC; a thread computes TH×TW pixels of V channels from inputs in its registers.
//
// Moves   the same bytes. Loads of x per output: (TH + 2)(TW + 2) / (TH·TW) vectors for a 3×3 filter at stride 1, so 4 with
//         2×2 pixels instead of 9. L1 serves what tiles share: a block has LANES·V channels of THREADS / LANES tiles.
// Gains   36 multiply-adds for 16 loads, and all 16 can be in flight before the first value is used: no load is behind a
//         branch, because outside the image the load is skipped and its register keeps a zero. With FIXED = 1 the shape is
//         a compile-time constant: offsets go into the load instructions, and most bounds checks are decided in advance.
// Costs   registers: the tile's inputs, V·KH·KW weights and TH·TW·V sums. They do not suffice for larger tiles.
#include <cuda_fp16.h>

#include "vec.h"

enum {
    TAPS = KH * KW,
    ROWS = (TH - 1) * STRIDE_H + (KH - 1) * DILATION_H + 1,     // of the input, for TH rows of the output
    COLUMNS = (TW - 1) * STRIDE_W + (KW - 1) * DILATION_W + 1,  // for TW columns
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

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) depthwise(
    const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
    const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int H, int W, int oH, int oW,
    int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h, int dilation_w,
    float low, float high) {
#if FIXED
    C = FIXED_C, H = FIXED_H, W = FIXED_W, oH = FIXED_OH, oW = FIXED_OW, pad_top = FIXED_TOP, pad_left = FIXED_LEFT;
#endif
    int chunks = (C + LANES * V - 1) / (LANES * V), across = (oW + TW - 1) / TW, down = (oH + TH - 1) / TH;
    int tile = blockIdx.x / chunks * (THREADS / LANES) + threadIdx.x / LANES;  // range [0, N·down·across), rounded up
    int c = (blockIdx.x % chunks * LANES + threadIdx.x % LANES) * V;           // range [0, C), rounded up
    int ow = tile % across * TW, oh = tile / across % down * TH, n = tile / across / down;
    if (c >= C || n >= N) return;
    int ih = oh * STRIDE_H - pad_top, iw = ow * STRIDE_W - pad_left;

    const scalar_t* in = x + ((n * H + ih) * W + iw) * C + c;
    float w[TAPS * V], b[V] = {}, acc[TH][TW][V];
#pragma unroll
    for (int k = 0; k < TAPS; ++k) {  // of channel c + e the tap k: w[e·TAPS + k], as in memory
        float part[V];
        load(part, weight + c * TAPS + k * V);
#pragma unroll
        for (int e = 0; e < V; ++e) w[k * V + e] = part[e];
    }
    if (bias) load(b, bias + c);
#pragma unroll
    for (int p = 0; p < TH * TW * V; ++p) acc[p / V / TW][p / V % TW][p % V] = b[p % V];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        float v[COLUMNS][V];
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) {
            // with a fixed shape: is there no tile whose row r, or column k, is outside?
            bool row_is = FIXED && r >= pad_top && oH % TH == 0 && (oH - TH) * STRIDE_H - pad_top + r < H;
            bool column_is = FIXED && k >= pad_left && oW % TW == 0 && (oW - TW) * STRIDE_W - pad_left + k < W;
            bool row_inside = row_is || (unsigned)(ih + r) < (unsigned)H;
            bool column_inside = column_is || (unsigned)(iw + k) < (unsigned)W;
            Vector of = {};
            // & of two cheap conditions, not &&, which would allow a branch between them
            if (row_inside & column_inside) of = *(const Vector*)(in + (r * W + k) * C);
            floats(v[k], (const scalar_t*)&of);
        }
#pragma unroll
        for (int t = 0; t < TH; ++t)
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
    }
#pragma unroll
    for (int t = 0; t < TH; ++t)
#pragma unroll
        for (int u = 0; u < TW; ++u) {
            int i = ((n * oH + oh + t) * oW + ow + u) * C + c;
            if ((FIXED && oH % TH == 0 || oh + t < oH) & (FIXED && oW % TW == 0 || ow + u < oW)) {
#if RESIDUAL
                float more[V];
                load(more, residual + i);
#pragma unroll
                for (int e = 0; e < V; ++e) acc[t][u][e] += more[e];
#endif
#pragma unroll
                for (int e = 0; e < V; ++e) {
                    acc[t][u][e] = acc[t][u][e] < low ? low : acc[t][u][e];
                    acc[t][u][e] = acc[t][u][e] > high ? high : acc[t][u][e];
                }
                store(y + i, acc[t][u]);
            }
        }
}
