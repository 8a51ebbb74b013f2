// expect: this index is a valid one
extern "C" __global__ void guard_the_end(const float* in, float* out, int n) {
    int i = threadIdx.x;
    if (i < n - 1) out[i] = in[i] + 10.0f;
}
