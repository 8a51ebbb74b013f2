// expect: a whole grid later
extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    int share = (n + threads - 1) / threads;
    for (int i = thread * share; i < (thread + 1) * share && i < n; ++i) out[i] = a[i] + b[i];
}
