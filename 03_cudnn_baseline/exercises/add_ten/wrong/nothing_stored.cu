// expect: does every thread write its element
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = threadIdx.x;
    float y = in[i] + 10.0f;
}
