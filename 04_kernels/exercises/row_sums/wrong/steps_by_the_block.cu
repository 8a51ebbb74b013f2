// expect: a warp has 32 lanes, however large its block
// row_sums: out[r] = in[r][0] + … + in[r][columns − 1]. in is (rows, columns), row by row; out
// is (rows). A warp a row.
extern "C" __global__ void row_sums(const float* in, float* out, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    if (row < rows)
        // neighbours read neighbours
        for (int c = lane; c < columns; c += blockDim.x) sum += in[row * columns + c];
    // lane 0: the warp's sum
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (row < rows && lane == 0) out[row] = sum;
}
