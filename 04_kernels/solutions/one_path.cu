// spline: out[i] = c0 + c1 * x + c2 * x² + c3 * x³ with x = in[i] - s, where s is the segment
// of in[i], (int)in[i], from 0 to 7. table[4 * s + k] is the coefficient ck of segment s.
extern "C" __global__ void spline(const float* in, const float* table, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int s = (int)in[i];
    const float x = in[i] - s;
    const float* c = table + 4 * s;
    out[i] = c[0] + x * (c[1] + x * (c[2] + x * c[3]));
}
