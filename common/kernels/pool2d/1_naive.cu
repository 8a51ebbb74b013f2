// pool2d, rung 1 "naive": out[n, c, oh, ow] = the largest input of a window (MAX = 1) or their mean (MAX = 0), one thread
// an output element.
//
//   A window's inputs are x[n, c, oh·stride_h - pad_top + kh·dilation_h, ow·stride_w - pad_left + kw·dilation_w] where these
//   lie in the image. The mean divides by their number, or with count_include_pad by that of all taps in the image and its
//   padding; not by those that lie beyond, where ceil_mode lets the last window reach.
//   x (N, C, H, W) and out (N, C, oH, oW) lie in memory as NCHW, or with NHWC = 1 as NHWC.
//
// Moves   x once where windows do not overlap; where they do, kH·kW loads per output, and caches serve most of them.
// Gains   any kernel size, stride, padding, dilation, dtype and layout. Neighbouring threads write neighbouring elements.
// Costs   four divisions to find an output, a question a tap whether it is inside. In NCHW a stride of 2 leaves half of
//         the bytes of each request unused, until the window's next tap asks for them.
#include <cuda_fp16.h>

extern "C" __global__ void pool2d(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int C, int H, int W, int oH, int oW,
                                  int kH, int kW, int stride_h, int stride_w, int pad_top, int pad_bottom, int pad_left, int pad_right,
                                  int dilation_h, int dilation_w, int count_include_pad, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), n = N·C·oH·oW, rounded up to whole blocks
    if (i >= n) return;
    unsigned pixel = NHWC ? i / C : i;
    int ow = pixel % oW, oh = pixel / oW % oH;
    unsigned image = pixel / oW / oH;                               // of N, or in NCHW of N·C
    const scalar_t* in = x + image * (H * W * (NHWC ? C : 1)) + (NHWC ? i % C : 0);
    int next = NHWC ? C : 1;                                        // from a pixel to the one on its right

    float acc = MAX ? __int_as_float(0xff800000) : 0.0f;            // -infinity
    int count = 0;
    for (int kh = 0; kh < kH; ++kh)
        for (int kw = 0; kw < kW; ++kw) {
            int ih = oh * stride_h - pad_top + kh * dilation_h, iw = ow * stride_w - pad_left + kw * dilation_w;
            bool inside = (unsigned)ih < (unsigned)H && (unsigned)iw < (unsigned)W;
            count += inside || (count_include_pad && ih < H + pad_bottom && iw < W + pad_right);
            if (!inside) continue;
            float v = (float)in[(ih * W + iw) * next];
            acc = !MAX ? acc + v : v > acc || isnan(v) ? v : acc;   // once NaN, acc stays NaN
        }
    out[i] = (scalar_t)(MAX ? acc : acc / (float)count);
}
