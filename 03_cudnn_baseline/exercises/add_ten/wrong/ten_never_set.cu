// expect: `ten` has no value yet (line 4)
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = threadIdx.x;
    float ten;
    out[i] = in[i] + ten;
}
