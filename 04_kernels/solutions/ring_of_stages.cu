// requires: sm_90
// column_sums: y[b · 128 + t] = the sum of x[r][t] over the rows r = b, b + gridDim.x, … of
// block b. x is (rows, 128). Blocks of 160 threads: warps 0 to 3 add, and thread 128 asks for
// the rows, one bulk copy of 512 bytes each. A ring of 4 stages.
#include "bulk.h"

extern "C" __global__ void column_sums(const float* x, float* y, int rows) {
    // BEGIN SOLUTION
    // write: ring and mbarriers, initialised by one thread
    // write: the producer, thread 128; the consumers, threads 0 to 127; y
    __shared__ __align__(16) float ring[4][128];
    __shared__ Mbarrier full[4], empty[4];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int s = 0; s < 4; ++s) full[s].init(1), empty[s].init(128);
        mbarriers_ready();
    }
    __syncthreads();
    float sum = 0.0f;
    for (int row = blockIdx.x, i = 0; row < rows; row += gridDim.x, ++i) {
        const int s = i % 4, turn = i / 4;
        if (t == 128) {
            empty[s].wait((turn + 1) % 2);
            full[s].expect(512);
            bulk_copy(ring[s], x + row * 128, 512, full[s]);
        } else if (t < 128) {
            full[s].wait(turn % 2);
            sum += ring[s][t];
            empty[s].arrive();
        }
    }
    if (t < 128) y[blockIdx.x * 128 + t] = sum;
    // END SOLUTION
}
