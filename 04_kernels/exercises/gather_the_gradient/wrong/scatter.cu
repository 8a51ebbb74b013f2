// expect: each pixel belongs to one thread
extern "C" __global__ void input_gradient(const float* grad, const float* weight, float* out, int planes, int C, int H, int W,
                                          int oH, int oW, int accumulate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < planes * H * W && !accumulate) out[i] = 0.0f;
    if (i >= planes * oH * oW) return;
    int p = i / (oH * oW), oh = i / oW % oH, ow = i % oW;
    for (int kh = 0; kh < 3; ++kh) {
        for (int kw = 0; kw < 3; ++kw) {
            int h = 2 * oh - 1 + kh, w = 2 * ow - 1 + kw;
            if (h >= 0 && h < H && w >= 0 && w < W) out[(p * H + h) * W + w] += weight[(p % C * 3 + kh) * 3 + kw] * grad[i];
        }
    }
}
