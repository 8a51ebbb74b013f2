// spline: out[i] = c0 + c1 * x + c2 * x² + c3 * x³ with x = in[i] - s, where s is the segment
// of in[i], (int)in[i], from 0 to 7. table[4 * s + k] is the coefficient ck of segment s.
extern "C" __global__ void spline(const float* in, const float* table, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = in[i];
    for (int s = 0; s < 8; ++s)
        if ((int)x == s) {
            const float* c = table + 4 * s;
            out[i] = c[0] + (x - s) * (c[1] + (x - s) * (c[2] + (x - s) * c[3]));
        }
}
