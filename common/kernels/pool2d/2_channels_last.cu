// pool2d, rung 2 "channels_last": for NHWC, VECTOR neighbouring channels of one output pixel a thread.
//
// Moves   as rung 1, with a VECTOR-th of the requests, 16 bytes each where VECTOR channels are that many.
// Gains   where a window lies is worked out once for VECTOR outputs: the divisions, and for each tap whether it is inside.
//         A warp's loads are side by side whatever the stride.
// Costs   VECTOR times fewer threads: of a small image they may not fill the card.
#include "vec.h"

extern "C" __global__ void pool2d(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int C, int H, int W, int oH, int oW,
                                  int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_bottom, int pad_left, int pad_right,
                                  int dilation_h, int dilation_w, int count_include_pad, int n) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;  // range [0, n), n = N·oH·oW·C, rounded up
    if (i >= n) return;
    unsigned pixel = i / C;
    int ow = pixel % oW, oh = pixel / oW % oH;
    unsigned image = pixel / oW / oH;
    const scalar_t* in = x + image * (H * W * C) + i % C;           // VECTOR divides C

    float acc[VECTOR];
    for (int k = 0; k < VECTOR; ++k) acc[k] = MAX ? __int_as_float(0xff800000) : 0.0f;  // -infinity
    int count = 0;
    for (int kh = 0; kh < kH; ++kh)
        for (int kw = 0; kw < kW; ++kw) {
            int ih = oh * stride_h - pad_top + kh * dilation_h, iw = ow * stride_w - pad_left + kw * dilation_w;
            bool inside = (unsigned)ih < (unsigned)H && (unsigned)iw < (unsigned)W;
            count += inside || (count_include_pad && ih < H + pad_bottom && iw < W + pad_right);
            if (!inside) continue;
            float v[VECTOR];
            load(v, in + (ih * W + iw) * C);
            for (int k = 0; k < VECTOR; ++k) acc[k] = !MAX ? acc[k] + v[k] : v[k] > acc[k] || isnan(v[k]) ? v[k] : acc[k];
        }
    for (int k = 0; k < VECTOR; ++k) acc[k] = MAX ? acc[k] : acc[k] / (float)count;
    store(out + i, acc);
}
