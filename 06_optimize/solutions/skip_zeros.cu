// skip_zeros: y[p][o] = sum over c of x[p][c] · weight[c][o], and no channel of x that is zero
// is looked at twice. x is (P, C), weight (C, O), y (P, O), as NHWC has them; C is any number,
// O at most 32. A warp a pixel, a lane an output; x[p][c] is read by lane c % 32, once, and a
// row of weights only for a channel that is not zero. −0.0 is zero, NaN is not.
extern "C" __global__ void skip_zeros(const float* x, const float* weight, float* y, int P,
                                      int C, int O) {
    int lane = threadIdx.x % 32, p = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (p >= P) return;  // of the whole warp
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: 32 channels at a time, a lane a channel. Which of the 32 are not zero? The vote
    // write: of the warp says it in 32 bits
    // write: for each bit that is set: the value from the lane that has it to all lanes, and
    // write: on to their sums
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
