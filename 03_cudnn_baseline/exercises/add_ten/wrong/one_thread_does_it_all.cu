// expect: one thread works while the others wait
extern "C" __global__ void add_ten(const float* in, float* out) {
    if (threadIdx.x == 0)
        for (int i = 0; i < blockDim.x; ++i) out[i] = in[i] + 10.0f;
}
