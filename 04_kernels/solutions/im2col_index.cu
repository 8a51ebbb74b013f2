// im2col: columns[(c, kh, kw), (oh, ow)] = the element of channel c that lies under tap (kh,
// kw) of the window (oh, ow), or 0 where it would lie outside the image. x is (C, H, W),
// columns (C·kH·kW, oH·oW), n numbers in all, both row by row. Windows are stride_h and
// stride_w apart, taps dilation_h and dilation_w; the first window begins pad_top rows above
// the image and pad_left columns to its left. One thread a number.
extern "C" __global__ void im2col(const float* x, float* columns, int H, int W, int oH,
                                  int oW, int kH, int kW,
                                  int stride_h, int stride_w, int pad_top, int pad_left,
                                  int dilation_h, int dilation_w,
                                  int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    // write: which c, kh, kw, oh and ow does i stand for? The last runs fastest
    // write: the row and the column of x under that tap of that window
    // write: the number goes to columns[i]
    if (i >= n) return;
    int ow = i % oW, oh = i / oW % oH;
    int kw = i / (oW * oH) % kW, kh = i / (oW * oH * kW) % kH;
    int c = i / (oW * oH * kW * kH);
    int ih = oh * stride_h - pad_top + kh * dilation_h;
    int iw = ow * stride_w - pad_left + kw * dilation_w;
    bool inside = ih >= 0 && ih < H && iw >= 0 && iw < W;
    columns[i] = inside ? x[(c * H + ih) * W + iw] : 0.0f;
    // END SOLUTION
}
