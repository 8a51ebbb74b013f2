// pointwise: y[p][o] = sum over c of weight[o][c] · x[p][c], channels last: x is (P, C),
// weight (O, C), y (P, O). O · C is at most 4096. The grid has a few blocks of 256 threads,
// however many pixels there are: each block reads the weights once and then walks over its
// part of y. Target: every block loads each sector of weight once, and its loads from shared
// memory meet no bank conflicts where O is a multiple of 32.
extern "C" __global__ void pointwise(const float* x, const float* weight, float* y, int P,
                                     int C, int O) {
    // BEGIN SOLUTION
    // write: the whole body
    __shared__ float ws[4096];  // [c][o]: neighbouring outputs lie in neighbouring banks
    for (int i = threadIdx.x; i < O * C; i += blockDim.x) ws[i % C * O + i / C] = weight[i];
    __syncthreads();
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < P * O; i += threads) {
        int p = i / O, o = i % O;
        float sum = 0.0f;
        for (int c = 0; c < C; ++c) sum += ws[c * O + o] * x[p * C + c];
        y[i] = sum;
    }
    // END SOLUTION
}
