// requires: sm_80
// backwards: every chunk of 128 numbers in reverse: out[128·c + t] = in[128·c + 127 − t].
// There are n numbers; past its end, in counts as 0. A block takes the chunks blockIdx.x,
// blockIdx.x + gridDim.x and so on: while it writes one chunk, the next is on its way.
#include "ptx.h"

extern "C" __global__ void backwards(const float* in, float* out, int n) {
    __shared__ float s[2][128];
    const int t = threadIdx.x, chunks = (n + 127) / 128;
    int now = 0, c = blockIdx.x;  // the host starts no more blocks than there are chunks
    cp_async_4(&s[now][t], &in[128 * c + t], 128 * c + t < n);
    // here?
    for (; c < chunks; c += gridDim.x) {
        const int next = c + gridDim.x;
        if (next < chunks) {
            cp_async_4(&s[1 - now][t], &in[128 * next + t], 128 * next + t < n);
            // here?
        }
        // here?
        if (128 * c + t < n) out[128 * c + t] = s[now][127 - t];
        // here?
        now = 1 - now;
    }
}
