// pad, rung 1 "naive": out[n, c, h, w] = x[n, c, h - top, w - left], or `value` outside x; one thread an element of out.
//
//   Seen as images of H×W elements each: in NCHW there are N·C of them, in NHWC there are N, and W, oW and left count
//   W·C, oW·C and left·C elements.
//
// Moves   x in, out out, once each; what lies around x is not read from anywhere.
// Gains   one text for both layouts. Neighbouring threads write neighbouring elements.
// Costs   a pass over an activation that the next step's own padding (conv2d's `padding`) would save.
#include <cuda_fp16.h>

extern "C" __global__ void pad(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int H, int W, int oH, int oW, int top, int left,
                               float value, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), n elements of out, rounded up to whole blocks
    if (i >= n) return;
    unsigned row = i / oW, image = row / oH;
    int h = (int)(row % oH) - top, w = (int)(i % oW) - left;
    bool inside = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W;
    out[i] = inside ? x[(image * H + h) * W + w] : (scalar_t)value;
}
