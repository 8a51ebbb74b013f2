// expect: one thread works while the others wait
extern "C" __global__ void guard_the_end(const float* in, float* out, int n) {
    if (threadIdx.x == 0)
        for (int i = 0; i < n; ++i) out[i] = in[i] + 10.0f;
}
