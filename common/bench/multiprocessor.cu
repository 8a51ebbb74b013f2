// multiprocessor.cu - what limits one multiprocessor: latency, issue slots, divergence, the number of blocks
// (multiprocessor.py launches the kernels and says what is recorded).
//
// Moves   multiply_add, arms: 4 bytes per thread, and 16 per warp for its two clocks. loads: 4·words bytes, once. chase: 4 bytes per
//         step, each from the address that the step before has loaded. strided: 128 bytes per warp and step, all of them from L1.
// Gains   multiply_add: CHAINS sums per thread that do not wait for each other. loads: LOADS loads of one vector each are in flight
//         in a thread before the first is needed. arms: a chosen number of paths per warp. mixes: instructions of several kinds.
// Costs   no kernel computes anything of use.

#ifndef CHAINS
#define CHAINS 1
#endif
#ifndef REGISTERS
#define REGISTERS 1
#endif
#ifndef LOADS
#define LOADS 1
#endif
#ifndef vector_t
#define vector_t uint4
#endif
#ifndef ARMS
#define ARMS 1
#endif
#define UNROLL 64
#define FACTOR -0.0001f

// The multiprocessor's clock, in cycles; it does not count on the simulator.
static __device__ __forceinline__ long long now() {
    long long cycles = 0;
#ifndef __CUDA_SIMULATOR__
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) : : "memory");
#endif
    return cycles;
}

// clocks[2·warp] and clocks[2·warp + 1], warp counted over the grid: the cycles at which its loop began and ended.
static __device__ __forceinline__ void note(long long* clocks, long long start, long long end) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread % 32 == 0) {
        clocks[thread / 32 * 2] = start;
        clocks[thread / 32 * 2 + 1] = end;
    }
}

// A multiply-add that reads one register, x → x·FACTOR + x with FACTOR in the instruction, or three, x → a·x + b.
static __device__ __forceinline__ float multiply_added(float x, float a, float b) {
    return REGISTERS == 1 ? fmaf(x, FACTOR, x) : fmaf(a, x, b);
}

// out[thread] = the sum of CHAINS chains of multiply_added, each n_steps long (a multiple of UNROLL), from its own start.
// Dynamic shared memory is not used: it limits how many blocks a multiprocessor holds.
extern "C" __global__ void multiply_add(float* __restrict__ out, long long* __restrict__ clocks, float a, float b, int n_steps) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, threads); out has as many elements
    float x[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = (float)(thread % 32 + c);
    __syncthreads();
    const long long start = now();
#pragma unroll 1
    for (int step = 0; step < n_steps; step += UNROLL) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = multiply_added(x[c], a, b);
        }
    }
    note(clocks, start, now());
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) sum += x[c];
    out[thread] = sum;
}

// One arm of `arms`: 4 chains, n_steps times, with a start of its own so that the compiler cannot merge two arms.
#define ARM(K)                                                        \
    if (K < ARMS && arm == K) {                                       \
        const float add = b + (float)K;                               \
        _Pragma("unroll 1") for (int s = 0; s < n_steps; s += 16) {   \
            _Pragma("unroll") for (int u = 0; u < 16; ++u) {          \
                p = fmaf(a, p, add);                                  \
                q = fmaf(a, q, add);                                  \
                r = fmaf(a, r, add);                                  \
                t = fmaf(a, t, add);                                  \
            }                                                         \
        }                                                             \
    }

// out[thread] = the sum of 4 chains as in multiply_add, with b + arm in the place of b; n_steps is a multiple of 16.
// arm: the thread's number modulo ARMS or, if by_warp, its warp's number modulo ARMS. ARMS is at most 8.
extern "C" __global__ void arms(float* __restrict__ out, long long* __restrict__ clocks, float a, float b, int n_steps,
                                int by_warp) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int arm = (by_warp ? thread / 32 : thread) % ARMS;
    float p = (float)(thread % 32), q = p + 1.0f, r = p + 2.0f, t = p + 3.0f;
    __syncthreads();
    const long long start = now();
    ARM(0) ARM(1) ARM(2) ARM(3) ARM(4) ARM(5) ARM(6) ARM(7)
    note(clocks, start, now());
    out[thread] = p + q + r + t;
}

static __device__ __forceinline__ unsigned words(unsigned v) { return v; }
static __device__ __forceinline__ unsigned words(uint2 v) { return v.x + v.y; }
static __device__ __forceinline__ unsigned words(uint4 v) { return v.x + v.y + v.z + v.w; }

// out[thread] = the sum, modulo 2³², of the words that this thread loads; all threads together load n vectors once.
extern "C" __global__ void loads(const vector_t* __restrict__ in, unsigned* __restrict__ out, int n) {
    const int threads = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = 0;
    int i = first;
#pragma unroll 1
    for (; i + (LOADS - 1) * threads < n; i += LOADS * threads) {  // LOADS·threads + n is below 2³¹
        vector_t v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; ++k) v[k] = __ldcg(in + i + k * threads);
#pragma unroll
        for (int k = 0; k < LOADS; ++k) sum += words(v[k]);
    }
    for (; i < n; i += threads) sum += words(__ldcg(in + i));
    out[first] = sum;
}

// end[0] = the place after n_steps steps from place 0, where in[p] is the place after p; clocks as above. One thread.
extern "C" __global__ void chase(const unsigned* in, unsigned* end, long long* clocks, int n_steps) {
    unsigned place = 0;
    const long long start = now();
    for (int k = 0; k < n_steps; ++k) place = in[place];
    end[0] = place;
    note(clocks, start, now());
}

// The same in shared memory, among 1,024 places; in has as many. One thread.
extern "C" __global__ void chase_shared(const unsigned* in, unsigned* end, long long* clocks, int n_steps) {
    __shared__ unsigned links[1024];
    for (int k = 0; k < 1024; ++k) links[k] = in[k];
    unsigned place = 0;
    const long long start = now();
    for (int k = 0; k < n_steps; ++k) place = links[place];
    end[0] = place;
    note(clocks, start, now());
}

// Each warp loads n_steps times what its lanes loaded before: lane l the word l·stride, in which l·stride stands, so that every
// load waits for the one before it. After a first turn all words lie in the L1 cache. end[thread]: the lane's last word.
extern "C" __global__ void strided(const unsigned* in, unsigned* end, long long* clocks, int stride, int n_steps) {
    unsigned place = threadIdx.x % 32 * stride;
    place = in[place];
    __syncthreads();
    const long long start = now();
    for (int k = 0; k < n_steps; ++k) place = in[place];
    note(clocks, start, now());
    end[threadIdx.x] = place;
}

// ---- Mixes of instructions: MIX(i) is a mix's i-th copy, on registers of its own, made of these (multiprocessor.py)
#ifdef MIX
#include "ptx.h"

#define COPIES 8
#define FMA(i) f[i] = fmaf(a, f[i], b);
#define PACK(i) v[i] = pack_unsigned(p, q, r, v[i]);  // two conversions
#define PERMUTE(i) v[i] = __byte_perm(v[i], p, s);
#define SHUFFLE(i) v[i] = __shfl_sync(0xffffffffu, v[i], (threadIdx.x + 4) % 32);
#define MMA(i) mma_bytes<true>(d[i], ones, {ones[0], ones[1]});
#define MMA_HALF(i) mma_bytes_k16<true>(d[i], {ones[0], ones[1]}, ones[2]);

// out[thread·3·COPIES …]: f, v and the sums of d after n_rounds rounds, a multiple of 4, of COPIES mixes. p, q, r, s: of the operations above.
// one: four bytes of 1, so that a product adds its depth, 32 or 16, to each of its sums.
extern "C" __global__ void mixes(unsigned* __restrict__ out, long long* __restrict__ clocks, float a, float b, unsigned p,
                                 unsigned q, unsigned r, unsigned s, unsigned one, int n_rounds) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float f[COPIES];
    unsigned v[COPIES];
    int d[COPIES][4];
    const unsigned ones[4] = {one, one, one, one};
    for (int i = 0; i < COPIES; ++i) {
        f[i] = (float)(thread % 32 + i), v[i] = 0x01020304u * (unsigned)(thread % 32 + 1) + (unsigned)i;
        for (int e = 0; e < 4; ++e) d[i][e] = i + e;
    }
    __syncthreads();
    const long long start = now();
#pragma unroll 1
    for (int round = 0; round < n_rounds; round += 4) {
#pragma unroll
        for (int u = 0; u < 4; ++u) { MIX(0) MIX(1) MIX(2) MIX(3) MIX(4) MIX(5) MIX(6) MIX(7) }
    }
    note(clocks, start, now());
    for (int i = 0; i < COPIES; ++i) {
        out[(thread * COPIES + i) * 3] = __float_as_uint(f[i]), out[(thread * COPIES + i) * 3 + 1] = v[i];
        out[(thread * COPIES + i) * 3 + 2] = (unsigned)(d[i][0] + d[i][1] + d[i][2] + d[i][3]);
    }
}
#endif
