// hard_swish: out[i] = x[i] · clamp(x[i] / 6 + 1/2, 0, 1), i in [0, n). A NaN stays a NaN. out
// may be x: then each number is replaced where it lies.
// grid: (n + 255) / 256
// block: 256
extern "C" __global__ void hard_swish(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    // write: the kernel's body
    if (i < n) {
        float v = x[i];
        float gate = fminf(fmaxf(v * (1.0f / 6.0f) + 0.5f, 0.0f), 1.0f);
        out[i] = v * gate;  // v, not x[i]: that may be overwritten
    }
    // END SOLUTION
}
