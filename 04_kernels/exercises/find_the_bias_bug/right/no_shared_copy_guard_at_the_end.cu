extern "C" __global__ void bias_relu(const float* bias, float* y, int pixels, int O) {
    __shared__ float b[64];
    const int first = blockIdx.x * 64, t = threadIdx.x;
    if (t < 64) b[t] = first + t < O ? bias[first + t] : 0.0f;
    __syncthreads();
    const int o = first + t % 64;
    if (o >= O) return;
    for (int p = blockIdx.y * 32 + t / 64; p < min(pixels, (int)blockIdx.y * 32 + 32); p += 4) {
        const float v = y[p * O + o] + b[t % 64];
        y[p * O + o] = v < 0.0f ? 0.0f : v;
    }
}
