constexpr int PITCH = 32 + 4;
extern "C" __global__ void nhwc_to_nchw(const float* in, float* out, int pixels) {
    __shared__ float tile[8 * PITCH];
    const int t = threadIdx.x, first = blockIdx.x * 32, here = min(32, pixels - first);
    if (t < 8 * here) tile[t % 8 * PITCH + t / 8] = __ldg(in + first * 8 + t);
    __syncthreads();
    if (t % 32 < here) out[t / 32 * pixels + first + t % 32] = tile[t / 32 * PITCH + t % 32];
}
