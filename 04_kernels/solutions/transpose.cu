// transpose: out[x][y] = in[y][x]. in is (height, width), out is (width, height), both row by
// row. The grid covers `in` with blocks of 32×32 threads, x along the width.
extern "C" __global__ void transpose(const float* in, float* out, int height, int width) {
    // BEGIN SOLUTION
    // write: the whole kernel, with a tile in shared memory
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;  // a column of out
    y = blockIdx.x * 32 + threadIdx.y;  // a row of out
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
    // END SOLUTION
}
