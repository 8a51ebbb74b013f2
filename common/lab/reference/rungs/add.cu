// add: out[i] = a[i] + b[i] for i in [0, n).
// grid: (n + 255) / 256
// block: 256
extern "C" __global__ void add(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
