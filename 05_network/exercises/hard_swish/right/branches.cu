extern "C" __global__ void hard_swish(const float* x, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float v = x[i];
        float gate = v / 6.0f + 0.5f;
        if (gate < 0.0f) gate = 0.0f;
        if (gate > 1.0f) gate = 1.0f;
        out[i] = v != v ? v : v * gate;
    }
}
