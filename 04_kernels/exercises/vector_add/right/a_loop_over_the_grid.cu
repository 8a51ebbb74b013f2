extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x, fours = n >> 2;
    for (int i = t; i < fours; i += gridDim.x * blockDim.x) {
        float4 x = __ldg(reinterpret_cast<const float4*>(a) + i);
        const float4 y = reinterpret_cast<const float4*>(b)[i];
        x.x += y.x, x.y += y.y, x.z += y.z, x.w += y.w;
        reinterpret_cast<float4*>(out)[i] = x;
    }
    if (t == 0)
        for (int i = 4 * fours; i < n; ++i) out[i] = a[i] + b[i];
}
