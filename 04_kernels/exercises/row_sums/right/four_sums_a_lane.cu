extern "C" __global__ void row_sums(const float* in, float* out, int rows, int columns) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
    if (row >= rows) return;  // the whole warp
    const float* from = in + row * columns;
    float sums[4] = {};
    int c = lane;
    for (; c + 96 < columns; c += 128)
        for (int i = 0; i < 4; ++i) sums[i] += __ldg(from + c + 32 * i);
    for (; c < columns; c += 32) sums[0] += from[c];
    float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (int step = 1; step < 32; step <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 31) out[row] = sum;
}
