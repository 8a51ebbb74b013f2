// expect: blocks must be told apart
extern "C" __global__ void add_the_row(const float* in, float* out, int height, int width) {
    int column = threadIdx.x, row = threadIdx.y;
    int i = row * width + column;
    if (row < height && column < width) out[i] = in[i] + row;
}
