// skip_zeros: y[p][o] = sum over c of x[p][c] · weight[c][o]. x is (P, C), weight (C, O) and
// y (P, O), row-major; C is any number, O at most 32. One warp per pixel, one lane per output.
// Lane c % 32 reads x[p][c], once. A row of weights is read only for a channel that is not
// zero. −0.0 is zero, NaN is not.
extern "C" __global__ void skip_zeros(const float* x, const float* weight, float* y, int P,
                                      int C, int O) {
    int lane = threadIdx.x % 32, p = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (p >= P) return;  // of the whole warp
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: for 32 channels at a time, one per lane: the warp votes which are not zero
    // write: for each bit that is set: give that number to all lanes, and add to their sums
    for (int first = 0; first < C; first += 32) {
        float mine = first + lane < C ? x[p * C + first + lane] : 0.0f;
        unsigned set = __ballot_sync(0xffffffffu, mine != 0.0f);
        while (set) {
            int channel = __ffs(set) - 1;
            float value = __shfl_sync(0xffffffffu, mine, channel);
            if (lane < O) sum = fmaf(value, weight[(first + channel) * O + lane], sum);
            set &= set - 1;
        }
    }
    // END SOLUTION
    if (lane < O) y[p * O + lane] = sum;
}
