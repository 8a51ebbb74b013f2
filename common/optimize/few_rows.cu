// few_rows - the linear layer at the end of a network for few images, on tensor cores, of int8 numbers or of halves.
// requires: sm_80
//
//   y[n, o] = (bias[o] + Σ weight[o, k] · x[n, k]) · multiplier[o]      x (N, K), weight (O, K) int8, y (N, O) float
//   y[n, o] = bias[o] + Σ weight[o, k] · x[n, k]                        number_t __half: all of them are, sums float
//
// A thread block takes 16 outputs, the rows of mma, for 8·TILES images, its columns. Its warps share a sum's products:
// each takes pieces of 64 bytes of a row, a lane 16 of them, of which mma's lanes need 4 at a time. Which comes when
// does not matter to a sum, as long as x and weight have the same order. The warps' sums are added up in shared memory.
//
// Moves   weight once for every 8·TILES images, x once for every 16 outputs.
// Gains   weights wait in shared memory for x, each lane's own: they have come when the kernel before ends.
// Costs   columns of no image: one image takes 8.
#include "grid.h"
#include "requantize.h"

#ifndef number_t  // -Dnumber_t=__half -Dbias_t=__half -Dresult_t=__half
#define number_t signed char
#define bias_t int
#define result_t float
#endif

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int UNIT = 16 / sizeof(number_t);  // numbers in 16 bytes
constexpr int PIECES = ceil_div(INPUTS, 4 * UNIT), PER = ceil_div(PIECES, WARPS);  // of a warp
constexpr int THREADS = 32 * WARPS;
static_assert(INPUTS % UNIT == 0, "rows of whole units");

template <class T> struct Products;
template <> struct Products<signed char> {
    using Sum = int;
    using Sums = int4;
    __device__ static void add(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma_s8(d, a, b); }
    __device__ static float finish(int sum, const float* multiplier) {
        return __fmul_rn(__int2float_rn(sum), *multiplier);
    }
};
template <> struct Products<__half> {
    using Sum = float;
    using Sums = float4;
    __device__ static void add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma_f16(d, a, b); }
    __device__ static float finish(float sum, const float*) { return sum; }
};
using P = Products<number_t>;

// In the end a thread finishes ROUNDS sums. The i-th of all is one of four of lane i / 4 % 32: of output g or g + 8, of
// image 2t or 2t + 1.
constexpr int ROUNDS = ceil_div(TILES * 128, THREADS);
__device__ __forceinline__ int output_of(int i) { return i / 4 % 32 / 4 + i % 4 / 2 * 8; }

extern "C" __global__ void __launch_bounds__(THREADS)
    few_rows(const number_t* x, const number_t* __restrict__ weight, const bias_t* __restrict__ bias,
             const float* __restrict__ multiplier, result_t* y, int N, int O) {
    extern __shared__ uint4 shared[];
    uint4* const rows = shared + threadIdx.x;          // [PER][2][THREADS]: of outputs g and g + 8
    uint4* const columns = rows + PER * 2 * THREADS;   // [PER][TILES][THREADS]: of images; in the end a lane's sums
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const int o0 = blockIdx.x * 16, n0 = blockIdx.y * (8 * TILES);

#pragma unroll
    for (int i = 0; i < 2 * PER; ++i) {
        const int o = o0 + i % 2 * 8 + g, k = ((warp + i / 2 * WARPS) * 4 + t) * UNIT;
        const bool there = o < O && k < INPUTS;
        cp_async_16(rows + i * THREADS, weight + (there ? o * INPUTS + k : 0), there);
    }
    cp_async_commit();
    P::Sum biases[ROUNDS];
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int o = o0 + output_of(threadIdx.x + round * THREADS);
        biases[round] = bias && o < O ? (P::Sum)bias[o] : 0;
    }
    wait_for_inputs();  // until here nothing depends on the kernel before
#pragma unroll
    for (int i = 0; i < PER * TILES; ++i) {
        const int n = n0 + i % TILES * 8 + g, k = ((warp + i / TILES * WARPS) * 4 + t) * UNIT;
        const bool there = n < N && k < INPUTS;
        cp_async_16(columns + i * THREADS, x + (there ? n * INPUTS + k : 0), there);
    }
    cp_async_commit();
    cp_async_wait<0>();
    P::Sum acc[TILES][4] = {};
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        const uint4 a = rows[2 * i * THREADS], b = rows[(2 * i + 1) * THREADS];
#pragma unroll
        for (int j = 0; j < TILES; ++j) {
            const uint4 column = columns[(i * TILES + j) * THREADS];
            P::add(acc[j], {a.x, b.x, a.y, b.y}, {column.x, column.y});
            P::add(acc[j], {a.z, b.z, a.w, b.w}, {column.z, column.w});
        }
    }
#pragma unroll
    for (int j = 0; j < TILES; ++j)
        *(P::Sums*)(columns + j * THREADS) = {acc[j][0], acc[j][1], acc[j][2], acc[j][3]};
    __syncthreads();
    const P::Sum* const sums = (const P::Sum*)(shared + PER * 2 * THREADS);  // [TILES][WARPS][32][4]
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int i = threadIdx.x + round * THREADS;
        const int o = o0 + output_of(i), n = n0 + i / 128 * 8 + i / 4 % 4 * 2 + i % 2;
        if (i >= TILES * 128 || o >= O || n >= N) continue;
        P::Sum sum = biases[round];
#pragma unroll
        for (int w = 0; w < WARPS; ++w) sum += sums[(i / 128 * WARPS + w) * 128 + i % 128];
        y[n * O + o] = (result_t)P::finish(sum, multiplier + o);
    }
}
