// expect: the last channels, fewer than 32
extern "C" __global__ void skip_zeros(const float* x, const float* weight, float* y, int P, int C, int O) {
    int lane = threadIdx.x % 32, p = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (p >= P) return;  // of the whole warp
    float sum = 0.0f;
    for (int first = 0; first + 32 <= C; first += 32) {
        float mine = first + lane < C ? x[p * C + first + lane] : 0.0f;
        unsigned set = __ballot_sync(0xffffffffu, mine != 0.0f);
        while (set) {
            int channel = __ffs(set) - 1;
            float value = __shfl_sync(0xffffffffu, mine, channel);
            if (lane < O) sum = fmaf(value, weight[(first + channel) * O + lane], sum);
            set &= set - 1;
        }
    }
    if (lane < O) y[p * O + lane] = sum;
}
