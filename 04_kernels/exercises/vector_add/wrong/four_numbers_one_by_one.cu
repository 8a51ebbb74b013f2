// expect: each asks for its four in one access
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n / 4) {
        for (int k = 4 * t; k < 4 * t + 4; ++k) out[k] = a[k] + b[k];
    }
    int i = n / 4 * 4 + t;
    if (i < n) out[i] = a[i] + b[i];
}
