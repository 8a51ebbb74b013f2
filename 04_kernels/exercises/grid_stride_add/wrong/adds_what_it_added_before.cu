// expect: launched a second time
// grid_stride_add: out[i] = a[i] + b[i] for n numbers, with any grid: the launch may have far
// fewer threads than n, or more.
__device__ float kept[8192];
extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n; i += threads) kept[i] += a[i] + b[i], out[i] = kept[i];
}
