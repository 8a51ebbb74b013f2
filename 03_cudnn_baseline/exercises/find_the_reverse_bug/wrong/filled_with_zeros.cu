// expect: the last block may have fewer elements than threads
extern "C" __global__ void reverse(const float* in, float* out, int n) {
    __shared__ float s[256];
    int first = blockIdx.x * blockDim.x, t = threadIdx.x;
    int length = min(n - first, (int)blockDim.x);
        s[t] = t < length ? in[first + t] : 0.0f;
        __syncthreads();
        if (t < length) out[first + t] = s[blockDim.x - 1 - t];
}
