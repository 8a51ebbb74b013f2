// expect: does every thread write its element
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = threadIdx.x;
    if (i < 32) out[i] = in[i] + 10.0f;
}
