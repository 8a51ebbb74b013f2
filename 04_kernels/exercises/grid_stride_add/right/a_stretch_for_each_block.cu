extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    int share = (n + gridDim.x - 1) / gridDim.x, end = min(n, (int)(blockIdx.x + 1) * share);
    for (int i = blockIdx.x * share + threadIdx.x; i < end; i += blockDim.x) out[i] = a[i] + b[i];
}
