// hardswish: out = x · min(max(x + 3, 0), 6) / 6, a thread an element, whatever the layout.
// x and out may be the same memory, as the network lets an activation write where it reads: no __restrict__.
extern "C" __global__ void hardswish(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * fminf(fmaxf(x[i] + 3.0f, 0.0f), 6.0f) / 6.0f;
}
