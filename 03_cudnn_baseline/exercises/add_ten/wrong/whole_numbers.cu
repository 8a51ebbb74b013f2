// expect: in[i] is a float: as an int it loses
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = threadIdx.x;
    out[i] = (int)in[i] + 10;
}
