// the copy of the next chunk is waited for after this one was written
// requires: sm_80
#include "ptx.h"
extern "C" {
__global__ void __launch_bounds__(128) backwards(const float* in, float* out, int n) {
    __shared__ float s[2][128];
    const int t = threadIdx.x, chunks = (n + 127) / 128;
    int now = 0, c = blockIdx.x;
    cp_async_4(&s[now][t], &in[128 * c + t], 128 * c + t < n);
    cp_async_commit();
    constexpr int none = 0;
    cp_async_wait<none>();
    __syncthreads();
    for (; c < chunks; c += gridDim.x) {
        const int next = c + gridDim.x;
        if (next < chunks) cp_async_4(&s[1 - now][t], &in[128 * next + t], 128 * next + t < n);
        cp_async_commit();
        if (128 * c + t < n) out[128 * c + t] = s[now][127 - t];
        cp_async_wait<none>();
        cp_async_wait<0>();
        __syncthreads();
        now = 1 - now;
    }
}
}
