// expect: each thread needs an index of its own
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = blockIdx.x;
    out[i] = in[i] + 10.0f;
}
