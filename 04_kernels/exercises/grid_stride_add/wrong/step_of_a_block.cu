// expect: two of them are apart by how many numbers
extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = thread; i < n; i += blockDim.x) out[i] = a[i] + b[i];
}
