// add_the_row: out[row][column] = in[row][column] + row. in and out are row-major matrices.
// They have `height` rows and `width` columns. The grid's x direction covers the columns,
// its y direction covers the rows.
extern "C" __global__ void add_the_row(const float* in, float* out, int height, int width) {
    // BEGIN SOLUTION
    // write: column and row of this thread, a guard for both, one element
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && column < width) {
        int i = row * width + column;
        out[i] = in[i] + row;
    }
    // END SOLUTION
}
