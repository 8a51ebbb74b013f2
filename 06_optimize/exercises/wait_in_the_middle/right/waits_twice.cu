#include "grid.h"
extern "C" __global__ void __launch_bounds__(64) pointwise(const float* x, const float* w, float* y, int pixels) {
    __shared__ float s[16][9];
    const int t = threadIdx.x, p = blockIdx.x * blockDim.x + t;
    launch_dependents();
    for (int i = t; i < 128; i += blockDim.x) s[i % 16][i / 16] = __ldg(w + i);
    wait_for_inputs();
    __syncthreads();
    wait_for_inputs();
    if (p < pixels) {
        float in[16];
        for (int c = 0; c < 16; ++c) in[c] = x[p * 16 + c];
        for (int o = 0; o < 8; ++o) {
            float sum = 0.0f;
            for (int c = 0; c < 16; ++c) sum = fmaf(s[c][o], in[c], sum);
            y[p * 8 + o] = sum;
        }
    }
}
