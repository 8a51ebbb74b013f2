// peaks.cu - the two roofs of a card that CUDA C++ alone can reach: memory bandwidth, by copying, and fp32 arithmetic, by
// multiply-adds in registers (peaks.py launches them; the tensor cores' roofs are cuBLAS's).
//
// Moves   copy: 8n bytes, n floats read and written, 0 FLOPs. fma: 4 bytes a thread, 2·CHAINS·n_steps FLOPs a thread.
// Gains   copy: 16 bytes a load, LOADS of them on their way in each thread before the first is needed, so that there are
//         always enough in flight to hide the memory's latency. fma: CHAINS sums that do not wait for each other, so a
//         warp can begin one every cycle although each takes four; the loop's own instructions are 3 in UNROLL·CHAINS.
// Costs   LOADS·4 registers, CHAINS registers. Neither kernel computes anything that is of use.

#ifndef LOADS
#define LOADS 4
#endif
#ifndef CHAINS
#define CHAINS 8
#endif
#ifndef UNROLL
#define UNROLL 32
#endif

// out[i] = in[i] for i in [0, n); both start at a multiple of 16 bytes. Any grid and block of one dimension.
extern "C" __global__ void copy(const float* __restrict__ in, float* __restrict__ out, long long n) {
    long long threads = (long long)gridDim.x * blockDim.x;
    long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;  // range [0, threads)
    long long quads = n / 4;
    const float4* in4 = (const float4*)in;
    float4* out4 = (float4*)out;

    long long i = first;
    for (; i + (LOADS - 1) * threads < quads; i += LOADS * threads) {
        float4 v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) v[k] = in4[i + k * threads];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) out4[i + k * threads] = v[k];
    }
    for (; i < quads; i += threads) out4[i] = in4[i];
    for (long long j = quads * 4 + first; j < n; j += threads) out[j] = in[j];  // the last n % 4
}

// out[thread] = the sum of CHAINS sums, each x → a·x + b, n_steps times (rounded up to whole UNROLLs), from its own start.
extern "C" __global__ void fma_chains(float* __restrict__ out, float a, float b, int n_steps) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, threads); out has as many elements
    float x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = (float)(thread % 32 + c);
    for (int step = 0; step < n_steps; step += UNROLL) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = fmaf(a, x[c], b);
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += x[c];
    out[thread] = sum;  // else the compiler would leave everything out
}
