extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    const long long threads = (long long)gridDim.x * blockDim.x;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + threads < n; i += 2 * threads) {
        const float first = a[i] + b[i], second = a[i + threads] + b[i + threads];
        out[i] = first, out[i + threads] = second;
    }
    while (i < n) {
        out[i] = __ldg(a + i) + __ldg(b + i);
        i += threads;
    }
}
