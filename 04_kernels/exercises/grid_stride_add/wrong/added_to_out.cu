// expect: what it holds before the launch does not count
extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n; i += threads) out[i] += a[i] + b[i];
}
