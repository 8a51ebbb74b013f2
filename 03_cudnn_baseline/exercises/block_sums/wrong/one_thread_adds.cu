// expect: one after the other
extern "C" __global__ void block_sums(const float* in, float* out, int n) {
    __shared__ float s[1024];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (t == 0) {
        float sum = 0.0f;
        for (int k = 0; k < blockDim.x; ++k) sum += s[k];
        out[blockIdx.x] = sum;
    }
}
