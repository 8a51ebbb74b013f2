// row_sums: out[r] = in[r][0] + … + in[r][columns − 1]. in is (rows, columns), row by row; out
// is (rows). One warp per row.
extern "C" __global__ void row_sums(const float* in, float* out, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    // BEGIN SOLUTION
    // write: the lanes share the numbers of the row so that each request touches as few
    // write: sectors as possible
    if (row < rows)
        // neighbours read neighbours
        for (int c = lane; c < columns; c += 32) sum += in[row * columns + c];
    // END SOLUTION
    // lane 0: the warp's sum
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    // BEGIN SOLUTION
    // write: the sum goes to out
    if (row < rows && lane == 0) out[row] = sum;
    // END SOLUTION
}
