// expect: each element is -9 off
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = threadIdx.x;
    out[i] = in[i] + 1.0f;
}
