// expect: what it holds before the launch does not count
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n / 4) {
        float4 x = ((const float4*)a)[t], y = ((const float4*)b)[t];  // the numbers 4t … 4t + 3
        ((float4*)out)[t] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    int i = n / 4 * 4 + t;
    if (i < n) out[i] += a[i] + b[i];
}
