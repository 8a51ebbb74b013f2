// expect: each asks for its four in one access
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = t; i < n; i += gridDim.x * blockDim.x) out[i] = a[i] + b[i];
}
