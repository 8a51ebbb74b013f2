// expect: one thread works while the others wait
extern "C" __global__ void add_the_row(const float* in, float* out, int height, int width) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < height && column == 0)
        for (int c = 0; c < width; ++c) out[row * width + c] = in[row * width + c] + row;
}
