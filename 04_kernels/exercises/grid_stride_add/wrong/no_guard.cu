// expect: the last round need not be full
extern "C" __global__ void grid_stride_add(const float* a, const float* b, float* out, int n) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    int i = thread;
    do {
        out[i] = a[i] + b[i];
        i += threads;
    } while (i < n);
}
