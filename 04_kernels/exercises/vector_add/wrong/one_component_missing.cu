// expect: all four of a float4 are written
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n / 4) {
        float4 x = ((const float4*)a)[t], y = ((const float4*)b)[t];  // the numbers 4t … 4t + 3
        out[4 * t] = x.x + y.x, out[4 * t + 1] = x.y + y.y, out[4 * t + 2] = x.z + y.z;
    }
    int i = n / 4 * 4 + t;
    if (i < n) out[i] = a[i] + b[i];
}
