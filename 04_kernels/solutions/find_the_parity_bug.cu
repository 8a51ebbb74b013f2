// requires: sm_90
// backwards: every chunk of 128 numbers in reverse, out[128·c + t] = in[128·c + 127 − t], for
// chunks of whole 128 numbers. One block of 160 threads: warps 0 to 3 write, thread 128 asks
// for the chunks. Lane 0 arrives for its warp.
#include "bulk.h"

extern "C" __global__ void backwards(const float* in, float* out, int chunks) {
    __shared__ __align__(16) float ring[3][128];
    __shared__ Mbarrier full[3], empty[3];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 3; ++s) full[s].init(1), empty[s].init(4);
        mbarriers_ready();
    }
    __syncthreads();
    for (int c = 0; c < chunks; ++c) {
        const int s = c % 3, turn = c / 3;
        if (t == 128) {
            empty[s].wait((turn + 1) % 2);
            full[s].expect(512);
            bulk_copy(ring[s], in + 128 * c, 512, full[s]);
        } else if (t < 128) {
            full[s].wait(turn % 2);
            out[128 * c + t] = ring[s][127 - t];
            __syncwarp();
            if (t % 32 == 0) empty[s].arrive();
        }
    }
}
