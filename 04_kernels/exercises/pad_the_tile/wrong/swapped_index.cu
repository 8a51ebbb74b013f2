// expect: these are the numbers as they lie in
extern "C" __global__ void nhwc_to_nchw(const float* in, float* out, int pixels) {
    __shared__ float tile[8][36];
    int t = threadIdx.x, p = t / 8, c = t % 8, first = blockIdx.x * 32;
    if (first + p < pixels) tile[c][p] = in[(first + p) * 8 + c];
    __syncthreads();
    p = t % 32, c = t / 32;
    if (first + p < pixels) out[(first + p) * 8 + c] = tile[c][p];
}
