// grid_stride_add: out[i] = a[i] + b[i] for n numbers, with any grid: the launch may have far
// fewer threads than n, or more. It moves too many sectors; any line may change.
extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    unsigned share = (n + threads - 1) / threads, first = thread * share;
    for (unsigned i = first; i < first + share && i < n; ++i) out[i] = a[i] + b[i];
}
