// hard_swish: out[i] = x[i] · clamp(x[i] / 6 + 1/2, 0, 1) for i = 0 … n − 1, as MobileNetV3
// has it. A NaN stays a NaN. The grid has at least n threads, in blocks of any size. out may
// be x: then each number is replaced where it lies.
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
