// vector_add: out[i] = a[i] + b[i] for n floats. a, b and out start at multiples of 16 bytes;
// there are n / 4 threads or more, and never fewer than 32.
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    // BEGIN SOLUTION
    // write: the whole fours, one a thread, each array with a single access of 16 bytes
    // write: the numbers behind them, of which there are at most three
    if (t < n / 4) {
        // the numbers 4t … 4t + 3
        float4 x = ((const float4*)a)[t], y = ((const float4*)b)[t];
        ((float4*)out)[t] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    int i = n / 4 * 4 + t;
    if (i < n) out[i] = a[i] + b[i];
    // END SOLUTION
}
