// out[n, c, y, x] = (pixels[n, y, x, c] / 255 - mean[c]) / std[c], one thread per pixel of three channels.
//
// Moves   3 bytes in and 3 elements out per pixel: a picture crosses the bus as bytes, a quarter of its fp32 input.
// Layout  pixels (N, H, W, 3); out (N, 3, H, W), in memory NCHW or, with CHANNELS_LAST, NHWC.
#include <cuda_fp16.h>

#ifndef CHANNELS_LAST
#define CHANNELS_LAST 0
#endif

extern "C" __global__ void normalise(const unsigned char* __restrict__ pixels, scalar_t* __restrict__ out,
                                     int count, int area, float mean0, float mean1, float mean2,
                                     float std0, float std1, float std2) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, count), count = N·H·W, area = H·W
    if (i >= count) return;
    const float mean[3] = {mean0, mean1, mean2}, std[3] = {std0, std1, std2};
    for (unsigned c = 0; c < 3; c++) {
        float value = (pixels[3ull * i + c] / 255.0f - mean[c]) / std[c];
        size_t place = CHANNELS_LAST ? 3ull * i + c : (i / area * 3ull + c) * area + i % area;
        out[place] = (scalar_t)value;
    }
}
