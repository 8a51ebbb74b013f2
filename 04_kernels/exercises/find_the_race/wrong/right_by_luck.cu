// expect: between a write to s and another thread
extern "C" __global__ void block_scan(const float* in, float* out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? in[i] : 0.0f;
    if (t == 0)
        for (int k = 1; k < 256; ++k) s[k] += s[k - 1];  // on the simulator thread 0 may come last
    if (i < n) out[i] = s[t];
}
