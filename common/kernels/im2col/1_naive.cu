// im2col, rung 1 "naive": columns[n, (c, kh, kw), (oh, ow)] = x[n, c, ih, iw], or 0 in the padding; one thread per
// element of the columns. A convolution is then a gemm of the weights with the columns.
//
// Moves   N·C·kH·kW·oH·oW elements out, and as many in, of which kH·kW times fewer are different: for a 3×3 kernel the
//         input is written out nine times.
// Gains   a convolution of any shape becomes a gemm.
// Costs   that buffer: for a 3×3 convolution nine activations written and read again. And to find its place a thread divides
//         five times by numbers that the compiler does not know, some 20 instructions each, for one element.
#include <cuda_fp16.h>

extern "C" __global__ void im2col(const scalar_t* __restrict__ x, scalar_t* __restrict__ columns, int H, int W, int oH, int oW,
                                  int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_left,
                                  int dilation_h, int dilation_w, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, N·C·kH·kW·oH·oW), rounded up to whole blocks
    if (i >= n) return;
    int ow = i % oW, oh = i / oW % oH;
    int kw = i / (oW * oH) % kW, kh = i / (oW * oH) / kW % kH;
    int image_channel = i / (oW * oH) / kW / kH;  // range [0, N·C)

    int ih = oh * stride_h - pad_top + kh * dilation_h;
    int iw = ow * stride_w - pad_left + kw * dilation_w;
    bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
    columns[i] = inside ? x[(image_channel * H + ih) * W + iw] : (scalar_t)0.0f;
}
