// peaks.cu - the roofs of a card that CUDA C++ alone can reach: bandwidth of the DRAM and of the L2 cache, by copying and
// by reading, and fp32 arithmetic, by multiply-adds in registers (peaks.py launches them; cuBLAS measures tensor cores).
//
// Moves   copy: 8n bytes, n floats read and written, 0 FLOPs. copy_again: 8n bytes per pass. read_again: 4n bytes per
//         pass, and 4 bytes per thread. fma: 4 bytes per thread, 2·CHAINS·n_steps FLOPs per thread.
// Gains   copy, copy_again, read_again: 16 bytes per load, LOADS loads in flight in each thread before the first is
//         needed, so that there are always enough in flight to hide the latency. The kernels with many passes bypass L1
//         (ld.global.cg), so that arrays smaller than L2 are read from L2 in every pass but the first, and the launch
//         is paid once. fma: CHAINS sums that do not wait for each other, so a warp can begin one every cycle although
//         each takes four; the loop's own instructions are 3 in UNROLL·CHAINS.
// Costs   LOADS·4 registers (and LOADS addresses in copy_again), CHAINS registers. No kernel computes anything of use.

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

// Position of a vector in an array of `quads` vectors that all threads go through again and again: the next one of this
// thread lies `step` vectors further on, where step = threads % quads.
static __device__ __forceinline__ int next(int at, int step, int quads) {
    int further = at + step;  // below 2·quads, so no overflow for arrays below 16 GiB
    return further < quads ? further : further - quads;
}

// out[i] = in[i] for i in [0, 4·quads), `passes` times. Both start at a multiple of 16 bytes. Any one-dimensional launch.
extern "C" __global__ void copy_again(const float4* __restrict__ in, float4* __restrict__ out, int quads, int passes) {
    long long threads = (long long)gridDim.x * blockDim.x;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;  // range [0, threads)
    long long total = (long long)quads * passes;
    int at = (int)(i % quads), step = (int)(threads % quads);

    for (; i + (LOADS - 1) * threads < total; i += LOADS * threads) {
        float4 v[LOADS];
        int place[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            place[k] = at;
            v[k] = __ldcg(in + at);
            at = next(at, step, quads);
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) __stcg(out + place[k], v[k]);
    }
    for (; i < total; i += threads) {
        __stcg(out + at, __ldcg(in + at));
        at = next(at, step, quads);
    }
}

// out[thread] = the sum, modulo 2³², of the words that this thread reads; all threads read 4·quads words `passes` times.
extern "C" __global__ void read_again(const uint4* __restrict__ in, unsigned* __restrict__ out, int quads, int passes) {
    long long threads = (long long)gridDim.x * blockDim.x;
    long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;  // range [0, threads); out has as many elements
    long long total = (long long)quads * passes;
    int at = (int)(first % quads), step = (int)(threads % quads);
    unsigned sum = 0;

    long long i = first;
    for (; i + (LOADS - 1) * threads < total; i += LOADS * threads) {
        uint4 v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            v[k] = __ldcg(in + at);
            at = next(at, step, quads);
        }
#pragma unroll
        for (int k = 0; k < LOADS; ++k) sum += v[k].x + v[k].y + v[k].z + v[k].w;
    }
    for (; i < total; i += threads) {
        uint4 v = __ldcg(in + at);
        at = next(at, step, quads);
        sum += v.x + v.y + v.z + v.w;
    }
    out[first] = sum;
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
