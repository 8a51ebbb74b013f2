// add: out[i] = a[i] + b[i] for i in [0, n). The arrays start at multiples of 16 bytes.
// grid: (n / 4 + 256) / 256
// block: 256
extern "C" __global__ void add(const float* a, const float* b, float* out, int n) {
    // BEGIN SOLUTION
    // write: one thread per vector of four numbers: two loads and a store of 16 bytes each
    // write: the n % 4 numbers at the end, of which there are at most three
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n / 4) {
        float4 x = ((const float4*)a)[t], y = ((const float4*)b)[t];
        ((float4*)out)[t] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    int i = n / 4 * 4 + t;
    if (t < n % 4) out[i] = a[i] + b[i];
    // END SOLUTION
}
