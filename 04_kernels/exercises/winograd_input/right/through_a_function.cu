__device__ void transform(float& a, float& b, float& c, float& d) {
    const float first = a - c, second = b + c, third = c - b, fourth = b - d;
    a = first, b = second, c = third, d = fourth;
}
extern "C" __global__ void winograd_input(const float* x, float* V, int H, int W, int tiles_h, int tiles_w) {
    const int tiles = tiles_h * tiles_w;
    for (int t = blockIdx.x * blockDim.x + threadIdx.x; t < tiles; t += gridDim.x * blockDim.x) {
        const int top = 2 * (t / tiles_w) - 1, left = 2 * (t % tiles_w) - 1;
        float d[16];
        for (int i = 0; i < 16; ++i) {
            const int h = top + (i >> 2), w = left + (i & 3);
            d[i] = (unsigned)h < (unsigned)H && (unsigned)w < (unsigned)W ? __ldg(x + h * W + w) : 0.0f;
        }
        for (int r = 0; r < 4; ++r) transform(d[4 * r], d[4 * r + 1], d[4 * r + 2], d[4 * r + 3]);
        for (int s = 0; s < 4; ++s) transform(d[s], d[4 + s], d[8 + s], d[12 + s]);
        for (int i = 0; i < 16; ++i) V[i * tiles + t] = d[i];
    }
}
