// vector_add: out[i] = a[i] + b[i] for n floats. a, b and out start at multiples of 16 bytes; there are n / 4 threads or more,
// and never fewer than 32.
extern "C" __global__ void vector_add(const float* a, const float* b, float* out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    // your code: the whole fours, one a thread, each array with a single access of 16 bytes
    // your code: the numbers behind them, of which there are at most three
}
