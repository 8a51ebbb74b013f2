// expect: the whole array is reversed
extern "C" __global__ void reverse(const float* in, float* out, int n) {
    __shared__ float s[256];
    int first = blockIdx.x * blockDim.x, t = threadIdx.x;
    int length = min(n - first, (int)blockDim.x);
        if (t < length) s[t] = in[first + t];
        __syncthreads();
        if (t < length) out[n - 1 - first - t] = s[t];
}
