extern "C" __global__ void concat_channels(const float* a, const float* b, float* out, int N, int Ca, int Cb, int pixels) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, both = (Ca + Cb) * pixels;
    if (i >= N * both) return;
    int n = i / both, rest = i % both;
    out[i] = rest < Ca * pixels ? a[n * Ca * pixels + rest] : b[n * Cb * pixels + rest - Ca * pixels];
}
