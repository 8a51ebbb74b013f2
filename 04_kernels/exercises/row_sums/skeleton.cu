// row_sums: out[r] = in[r][0] + … + in[r][columns − 1]. in is (rows, columns), row by row; out is (rows). A warp a row.
extern "C" __global__ void row_sums(const float* in, float* out, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    // your code: the lanes share the numbers of the row so that each request touches as few sectors as possible
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);  // lane 0: the warp's sum
    // your code: the sum goes to out
}
