// expect: one thread works while the others wait
extern "C" __global__ void scale_any_length(const float* in, float* out, float factor, int n) {
    if (threadIdx.x == 0)
        for (int i = blockIdx.x * blockDim.x; i < min(n, (int)((blockIdx.x + 1) * blockDim.x)); ++i)
            out[i] = factor * in[i];
}
