#include "grid.h"
__device__ unsigned counter;
extern "C" {
__global__ void __launch_bounds__(64) two_phases(const float* x, const float* a, float* h, const float* w, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float k[3] = {}, mine = 0.0f;
    if (i < n) {
        for (int j = 0; j < 3; ++j) k[j] = w[3 * i + j];
        mine = a[i] * x[i];
        mine = mine > 0.0f ? mine : 0.0f;
        h[i] = mine;
    }
    grid_barrier(&counter);
    if (i < n) {
        float sum = k[1] * mine;
        sum += i ? k[0] * h[i - 1] : 0.0f;
        sum += i < n - 1 ? k[2] * h[i + 1] : 0.0f;
        y[i] = sum;
    }
}
}
