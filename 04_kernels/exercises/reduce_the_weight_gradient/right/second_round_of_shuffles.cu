__device__ float of_warp(float v) {
    for (int step = 1; step < 32; step *= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
extern "C" __global__ void weight_gradient(const float* grad, const float* x, float* out, int N, int C, int H, int W) {
    __shared__ float sums[32];
    const int c = blockIdx.x / 9, dh = blockIdx.x / 3 % 3 - 1, dw = blockIdx.x % 3 - 1, t = threadIdx.x;
    double sum = 0.0;
    for (int i = t; i < N * H * W; i += blockDim.x) {
        const int w = i % W, h = i / W % H, n = i / W / H, at = ((n * C + c) * H + h) * W + w;
        if (h + dh >= 0 && h + dh < H && w + dw >= 0 && w + dw < W) sum += (double)grad[at] * x[at + dh * W + dw];
    }
    const float mine = of_warp((float)sum);
    if (t % 32 == 31) sums[t / 32] = mine;
    __syncthreads();
    if (t >= 32) return;
    const float all = of_warp(t < blockDim.x / 32 ? sums[t] : 0.0f);
    if (t == 0) out[blockIdx.x] = all;
}
