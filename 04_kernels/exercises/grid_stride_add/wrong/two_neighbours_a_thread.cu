// expect: a whole grid later
extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = 2 * thread; i < n; i += 2 * threads)
        for (int k = i; k < i + 2 && k < n; ++k) out[k] = a[k] + b[k];
}
