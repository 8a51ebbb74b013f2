// group_norm, rung 1 "naive": out = (x - mean) / sqrt(variance + eps) · weight + bias over a group of an image's channels, one
// block per image and group.
//
//   A group has WIDTH = C / groups neighbouring channels of all H·W pixels; weight and bias are per channel. Element e of a
//   group lies in NCHW at e, in NHWC at pixel e / WIDTH, channel e mod WIDTH. One group is a layer norm over C, H and W; one
//   channel per group an instance norm.
//
// Moves   x in three times (mean, variance, result), out out once; only groups that fit into caches are read once from memory.
// Gains   accuracy: the variance is the mean of squared deviations, not E[x²] - E[x]², which cancels for a large mean; and
//         a thread sums one in THREADS of the elements.
// Costs   two reductions with their barriers; as many blocks as there are groups: 32 per image leave most of a card idle. In
//         NHWC a warp reads WIDTH neighbours at a time, a part of a sector where WIDTH is small.
// Source  Y. Wu, K. He, "Group Normalization", arXiv:1803.08494; D. Ulyanov et al., "Instance Normalization", arXiv:1607.08022
#include <cuda_fp16.h>

__device__ __forceinline__ float total(float sum, float* s) {  // of a block, in every thread; s: THREADS numbers
    int t = threadIdx.x;
    s[t] = sum;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) s[t] += s[t + half];
    }
    __syncthreads();
    float result = s[0];
    __syncthreads();  // before the next sum is written to s
    return result;
}

extern "C" __global__ void group_norm(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                                      const scalar_t* __restrict__ bias, scalar_t* __restrict__ out, int C, int pixels, int groups,
                                      float eps) {
    __shared__ float s[THREADS];
    int image = blockIdx.x / groups, group = blockIdx.x % groups;  // blockIdx.x: range [0, N·groups)
    int width = C / groups, elements = width * pixels;
    int start = image * C * pixels + group * width * (NHWC ? 1 : pixels);

    float sum = 0.0f, squares = 0.0f;
    for (int e = threadIdx.x; e < elements; e += THREADS) sum += (float)x[start + (NHWC ? e / width * C + e % width : e)];
    float mean = total(sum, s) / (float)elements;
    for (int e = threadIdx.x; e < elements; e += THREADS) {
        float deviation = (float)x[start + (NHWC ? e / width * C + e % width : e)] - mean;
        squares += deviation * deviation;
    }
    float scale = 1.0f / sqrtf(total(squares, s) / (float)elements + eps);
    for (int e = threadIdx.x; e < elements; e += THREADS) {
        int at = start + (NHWC ? e / width * C + e % width : e), c = group * width + (NHWC ? e % width : e / pixels);
        float v = ((float)x[at] - mean) * scale;
        out[at] = (scalar_t)(v * (weight ? (float)weight[c] : 1.0f) + (bias ? (float)bias[c] : 0.0f));
    }
}
