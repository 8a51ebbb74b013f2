// expect: each asks for its four in one access
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n / 4) {
        for (int k = 2 * t; k < 2 * t + 2; ++k) {
            float2 x = ((const float2*)a)[k], y = ((const float2*)b)[k];
            ((float2*)out)[k] = make_float2(x.x + y.x, x.y + y.y);
        }
    }
    int i = n / 4 * 4 + t;
    if (i < n) out[i] = a[i] + b[i];
}
