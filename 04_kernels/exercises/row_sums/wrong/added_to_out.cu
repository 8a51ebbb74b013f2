// expect: what it holds before the launch does not count
extern "C" __global__ void row_sums(const float* in, float* out, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    if (row < rows)
        for (int c = lane; c < columns; c += 32) sum += in[row * columns + c];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (row < rows && lane == 0) out[row] += sum;
}
