// expect: a float4 starts at a multiple of 16 bytes
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n / 4) {
        float4 x = ((const float4*)a)[t], y = ((const float4*)b)[t];  // the numbers 4t … 4t + 3
        ((float4*)out)[t] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    if (t == 0 && n % 4 && n > 4) {
        float4 x = *(const float4*)(a + n - 4), y = *(const float4*)(b + n - 4);
        *(float4*)(out + n - 4) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    if (n < 4 && t < n) out[t] = a[t] + b[t];
}
