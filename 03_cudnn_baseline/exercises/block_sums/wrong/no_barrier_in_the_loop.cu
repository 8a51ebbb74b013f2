// expect: a barrier must lie between
extern "C" __global__ void block_sums(const float* in, float* out, int n) {
    __shared__ float s[1024];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2)
        if (t < step) s[t] += s[t + step];
    __syncthreads();
    if (t == 0) out[blockIdx.x] = s[0];
}
