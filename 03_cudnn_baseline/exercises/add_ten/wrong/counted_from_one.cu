// expect: the first thread has the index 0
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = threadIdx.x + 1;
    out[i] = in[i] + 10.0f;
}
