// requires: sm_80
#include "ptx.h"
extern "C" __global__ void backwards(const float* in, float* out, int n) {
    constexpr int STAGES = 3, AHEAD = STAGES - 1;
    __shared__ float s[STAGES][128];
    const int t = threadIdx.x, chunks = (n + 127) / 128;
    auto begin = [&](int stage, int c) {
        if (c < chunks) cp_async_4(&s[stage][t], &in[128 * c + t], 128 * c + t < n);
        cp_async_commit();
    };
    for (int i = 0; i < AHEAD; ++i) begin(i, blockIdx.x + i * gridDim.x);
    int stage = 0;
    for (int c = blockIdx.x; c < chunks; c += gridDim.x) {
        cp_async_wait<AHEAD - 1>();
        __syncthreads();
        begin((stage + AHEAD) % STAGES, c + AHEAD * gridDim.x);
        if (128 * c + t < n) out[128 * c + t] = s[stage][127 - t];
        stage = (stage + 1) % STAGES;
    }
}
