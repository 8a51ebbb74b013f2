// channel_means: out[c] = the mean of x[c][0] … x[c][pixels − 1]. A block a channel, of any
// number of threads up to 256. Its author tried it with blocks of 64, 128 and 256 threads and
// found nothing. Yet something is missing. Any line may change.
extern "C" __global__ void channel_means(const float* x, float* out, int pixels) {
    __shared__ float s[256];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int p = t; p < pixels; p += blockDim.x) sum += x[blockIdx.x * pixels + p];
    s[t] = sum;
    __syncthreads();
    for (int left = blockDim.x; left > 1; left /= 2) {
        if (t < left / 2) s[t] += s[t + left / 2];
        // of an odd number of sums the last has no partner
        if (t == 0 && left % 2 == 1) s[0] += s[left - 1];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0] / pixels;
}
