// expect: what out held before the launch does not count
extern "C" __global__ void add_ten(const float* in, float* out) {
    int i = threadIdx.x;
    out[i] += 10.0f;
}
