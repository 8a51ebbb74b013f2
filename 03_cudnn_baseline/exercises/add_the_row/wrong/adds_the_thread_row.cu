// expect: the row is counted over the whole grid
extern "C" __global__ void add_the_row(const float* in, float* out, int height, int width) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int i = row * width + column;
    if (row < height && column < width) out[i] = in[i] + threadIdx.y;
}
