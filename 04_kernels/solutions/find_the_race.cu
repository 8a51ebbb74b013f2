// block_scan: out[i] = in[b] + … + in[i], where b is the first index of i's block of 256. n
// numbers. Barriers are missing; any line may change.
extern "C" __global__ void block_scan(const float* in, float* out, int n) {
    __shared__ float s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        float left = 0.0f;
        if (t >= step) left = s[t - step];
        __syncthreads();
        s[t] += left;  // s[t] is now the sum of 2·step numbers up to t, or of all there are
        __syncthreads();
    }
    if (i < n) out[i] = s[t];
}
