extern "C" __global__ void channel_means(const float* x, float* out, int pixels) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int p = t; p < pixels; p += blockDim.x) sum += x[blockIdx.x * pixels + p];
    s[t] = sum;
    __syncthreads();
    for (int left = blockDim.x; left > 1;) {
        int half = (left + 1) / 2;
        if (t + half < left) s[t] += s[t + half];
        __syncthreads();
        left = half;
    }
    if (t == 0) out[blockIdx.x] = s[0] / pixels;
}
