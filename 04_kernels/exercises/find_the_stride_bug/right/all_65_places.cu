extern "C" __global__ void depthwise(const float* x, const float* weight, float* y, int H, int W, int oH, int oW, int s) {
    __shared__ float rows[3][65];
    int first = blockIdx.x * 32, oh = blockIdx.y, c = blockIdx.z, t = threadIdx.x;
    for (int at = t; at < 3 * 65; at += 32) {
        int h = s * oh + at / 65 - 1, w = s * first + at % 65 - 1;
        rows[at / 65][at % 65] = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W ? x[(c * H + h) * W + w] : 0.0f;
    }
    __syncthreads();
    if (first + t >= oW) return;
    float sum = 0.0f;
    for (int tap = 0; tap < 9; ++tap) sum += weight[c * 9 + tap] * rows[tap / 3][s * t + tap % 3];
    y[(c * oH + oh) * oW + first + t] = sum;
}
