// im2col, rung 3 "vectorised": one thread per VECTOR neighbouring windows; a tap's elements of them leave in one store.
//
// Moves   as rung 1, the stores with a VECTOR-th of the requests. The loads stay single: under the next tap the same pixels
//         begin one element on, at no multiple of anything.
// Gains   16 bytes per store in place of 4, or of 2 for halves: so many more are in flight to memory, which is what the other
//         rungs are short of where an element is small.
// Costs   VECTOR windows' places in registers, VECTOR times fewer threads; planes of a size that VECTOR does not divide go by
//         smaller vectors, at last of 1.
#include "vec.h"

extern "C" __global__ void im2col(const scalar_t* __restrict__ x, scalar_t* __restrict__ columns, int H, int W, int oH, int oW,
                                  int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left,
                                  int dilation_h, int dilation_w, int n) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;  // range [0, N·C·oH·oW), rounded up to whole blocks
    if (i >= n / (kH * kW)) return;
    int image_channel = i / (oW * oH);  // range [0, N·C)
    int ih0[VECTOR], iw0[VECTOR];       // where the windows begin
    for (int e = 0, ow = i % oW, oh = i / oW % oH; e < VECTOR; ++e) {
        ih0[e] = oh * stride_h - pad_top, iw0[e] = ow * stride_w - pad_left;
        if (++ow == oW) ow = 0, ++oh;
    }
    columns += (size_t)image_channel * kH * kW * (oH * oW) + i % (oH * oW);

    for (int kh = 0; kh < kH; ++kh) {
        for (int kw = 0; kw < kW; ++kw) {
            float v[VECTOR];
            for (int e = 0; e < VECTOR; ++e) {
                int ih = ih0[e] + kh * dilation_h, iw = iw0[e] + kw * dilation_w;
                bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
                v[e] = inside ? (float)x[(image_channel * H + ih) * W + iw] : 0.0f;
            }
            store(columns, v);
            columns += oH * oW;
        }
    }
}
