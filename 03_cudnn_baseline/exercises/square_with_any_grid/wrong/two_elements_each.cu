// expect: must go on to its next element
extern "C" __global__ void square_with_any_grid(const float* in, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
        if (thread < n) out[thread] = in[thread] * in[thread];
        if (thread + threads < n) out[thread + threads] = in[thread + threads] * in[thread + threads];
}
