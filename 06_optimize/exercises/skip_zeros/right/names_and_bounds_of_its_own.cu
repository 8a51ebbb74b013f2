constexpr int LANES = 32;
template <class T> __device__ T from_lane(T v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
extern "C" {
__global__ void __launch_bounds__(1024) skip_zeros(const float* x, const float* weight, float* y, int P, int C, int O) {
    const int lane = threadIdx.x % LANES, p = blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES;
    if (p >= P) return;
    float sum = 0.0f;
    int shuffles = 0;
    for (int first = 0; first < C; first += LANES) {
        const float mine = first + lane < C ? __ldg(x + p * C + first + lane) : 0.0f;
        for (unsigned set = __ballot_sync(0xffffffffu, mine != 0.0f); set; ++shuffles) {
            const int channel = 31 - __clz(set);
            set ^= 1u << channel;
            const float value = from_lane(mine, channel);
            if (lane < O) sum += value * weight[(first + channel) * O + lane];
        }
    }
    if (lane < O) y[p * O + lane] = sum;
}
}
