// expect: loads one element
extern "C" __global__ void block_sums(const float* in, float* out, int n) {
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        int first = blockIdx.x * blockDim.x;
        for (int i = first; i < min(n, first + (int)blockDim.x); ++i) sum += in[i];
        out[blockIdx.x] = sum;
    }
}
