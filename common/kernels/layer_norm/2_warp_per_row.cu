// layer_norm, rung 2 "warp_per_row": a warp per row; its lanes lie along the columns, and shuffles add their sums up.
//
//   For inner = 1, as of channels in NHWC.
//
// Moves   as rung 1: x three times, mostly from L1, out once.
// Gains   neighbouring lanes read neighbouring elements: of 32 floats 4 sectors per request, where rung 1 asks for 32.
//         Sums of 32 lanes are shorter, so less is lost to rounding.
// Costs   five shuffles for each of two sums per row; of a row with fewer than 32 columns the other lanes are idle.
#include <cuda_fp16.h>

__device__ __forceinline__ float total(float sum) {  // of a warp, in every lane
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    return sum;
}

extern "C" __global__ void layer_norm(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                                      const scalar_t* __restrict__ bias, scalar_t* __restrict__ out, int rows, int columns,
                                      int inner, float eps) {
    unsigned r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;  // range [0, rows), rounded up to whole blocks
    int lane = threadIdx.x % 32;
    if (r >= rows) return;
    x += r * columns;
    out += r * columns;

    float sum = 0.0f, squares = 0.0f;
    for (int c = lane; c < columns; c += 32) sum += (float)x[c];
    float mean = total(sum) / (float)columns;
    for (int c = lane; c < columns; c += 32) {
        float deviation = (float)x[c] - mean;
        squares += deviation * deviation;
    }
    float scale = 1.0f / sqrtf(total(squares) / (float)columns + eps);
    for (int c = lane; c < columns; c += 32) {
        float v = ((float)x[c] - mean) * scale;
        out[c] = (scalar_t)(v * (weight ? (float)weight[c] : 1.0f) + (bias ? (float)bias[c] : 0.0f));
    }
}
