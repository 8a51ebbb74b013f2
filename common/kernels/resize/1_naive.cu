// resize, rung 1 "naive": each element of out from the pixels of x around its own position in x, one thread per element.
//
//   COORDINATES computes the position in x, along one axis, of index i of out; scale is out / in, or a number near to it.
//   LINEAR = 0: the pixel that ROUNDING selects. LINEAR = 1: the two pixels around it, per axis, weighted by distance.
//   A position outside x counts as the nearest one inside. x (N, C, H, W), out (N, C, oH, oW): NCHW, or with NHWC = 1 NHWC.
//
// Moves   x in, out out, once each, where caches hold what up to 4·scale² outputs read again.
// Gains   any size, up or down, with the coordinates of PyTorch, TensorFlow and ONNX, in either layout.
// Costs   divisions in every thread for a position that all channels share, and in NCHW all rows of a column as well.
//         Downwards pixels between the samples are not read: the picture aliases.
// Source  ONNX, operator Resize: https://onnx.ai/onnx/operators/onnx__Resize.html
#include <cuda_fp16.h>

__device__ __forceinline__ float asymmetric(int i, float scale, int in, int out) { return (float)i / scale; }
__device__ __forceinline__ float half_pixel(int i, float scale, int in, int out) { return ((float)i + 0.5f) / scale - 0.5f; }
__device__ __forceinline__ float pytorch_half_pixel(int i, float scale, int in, int out) {
    return out > 1 ? half_pixel(i, scale, in, out) : 0.0f;
}
__device__ __forceinline__ float align_corners(int i, float scale, int in, int out) {
    return out > 1 ? (float)i * (float)(in - 1) / (float)(out - 1) : 0.0f;
}

__device__ __forceinline__ float down(float v) { return floorf(v); }
__device__ __forceinline__ float up(float v) { return ceilf(v); }
__device__ __forceinline__ float nearest_down(float v) { return ceilf(v - 0.5f); }  // 1.5 becomes 1
__device__ __forceinline__ float nearest_up(float v) { return floorf(v + 0.5f); }   // 1.5 becomes 2

extern "C" __global__ void resize(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int C, int H, int W, int oH, int oW,
                                  float scale_h, float scale_w, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, n), n = N·C·oH·oW, rounded up to whole blocks
    if (i >= n) return;
    unsigned pixel = NHWC ? i / C : i;
    int ow = pixel % oW, oh = pixel / oW % oH;
    unsigned image = pixel / oW / oH;                               // of N, or in NCHW of N·C
    const scalar_t* in = x + image * (H * W * (NHWC ? C : 1)) + (NHWC ? i % C : 0);
    int next = NHWC ? C : 1;                                        // from a pixel to the one on its right

    float h = COORDINATES(oh, scale_h, H, oH), w = COORDINATES(ow, scale_w, W, oW);
    if (!LINEAR) h = ROUNDING(h), w = ROUNDING(w);
    h = fminf(fmaxf(h, 0.0f), (float)(H - 1)), w = fminf(fmaxf(w, 0.0f), (float)(W - 1));
    int top = (int)h, left = (int)w;
    if (!LINEAR) {
        out[i] = in[(top * W + left) * next];
        return;
    }
    int bottom = min(top + 1, H - 1), right = min(left + 1, W - 1);
    float below = h - (float)top, after = w - (float)left;          // the weights of the lower and the right pixels
    float upper = (float)in[(top * W + left) * next] * (1.0f - after) + (float)in[(top * W + right) * next] * after;
    float lower = (float)in[(bottom * W + left) * next] * (1.0f - after) + (float)in[(bottom * W + right) * next] * after;
    out[i] = (scalar_t)(upper * (1.0f - below) + lower * below);
}
