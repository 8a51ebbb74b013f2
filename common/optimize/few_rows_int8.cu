// few_rows_int8 - the linear layer at the end of a quantized network for few images: floats from int8 numbers.
// requires: sm_80
//
//   y[n, o] = (bias[o] + Σ weight[o, k] · x[n, k]) · multiplier[o]      x (N, K), weight (O, K), y (N, O) float
//
// A thread block takes 16 outputs, the rows of mma, for 8·TILES images, its columns. Its warps share a sum's products:
// each takes pieces of 64 of them, a lane 16 bytes of a row, of which mma's lanes need 4 at a time. Which comes when
// does not matter to a sum, as long as x and weight have the same order. The warps' sums are added up in shared memory.
//
// Moves   weight once for every 8·TILES images, x once for every 16 outputs.
// Gains   weights wait in shared memory for x, each lane's own: they have come when the kernel before ends.
// Costs   columns of no image: one image takes 8.
#include "grid.h"
#include "requantize.h"

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int PIECES = ceil_div(INPUTS, 64), PER = ceil_div(PIECES, WARPS);  // of a warp
constexpr int THREADS = 32 * WARPS;
static_assert(INPUTS % 16 == 0, "rows of whole pieces");

extern "C" __global__ void __launch_bounds__(THREADS)
    few_rows_int8(const signed char* x, const signed char* __restrict__ weight, const int* __restrict__ bias,
                  const float* __restrict__ multiplier, float* y, int N, int O) {
    extern __shared__ uint4 shared[];
    uint4* const rows = shared + threadIdx.x;          // [PER][2][THREADS]: of outputs g and g + 8
    uint4* const columns = rows + PER * 2 * THREADS;   // [PER][TILES][THREADS]: of images; in the end a lane's sums
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
    const int o0 = blockIdx.x * 16, n0 = blockIdx.y * (8 * TILES);

#pragma unroll
    for (int i = 0; i < 2 * PER; ++i) {
        const int o = o0 + i % 2 * 8 + g, k = (warp + i / 2 * WARPS) * 64 + t * 16;
        const bool there = o < O && k < INPUTS;
        cp_async_16(rows + i * THREADS, weight + (there ? o * INPUTS + k : 0), there);
    }
    cp_async_commit();
    wait_for_inputs();  // until here nothing depends on the kernel before
#pragma unroll
    for (int i = 0; i < PER * TILES; ++i) {
        const int n = n0 + i % TILES * 8 + g, k = (warp + i / TILES * WARPS) * 64 + t * 16;
        const bool there = n < N && k < INPUTS;
        cp_async_16(columns + i * THREADS, x + (there ? n * INPUTS + k : 0), there);
    }
    cp_async_commit();
    cp_async_wait<0>();
    int acc[TILES][4] = {};
#pragma unroll
    for (int i = 0; i < PER; ++i) {
        const uint4 a = rows[2 * i * THREADS], b = rows[(2 * i + 1) * THREADS];
#pragma unroll
        for (int j = 0; j < TILES; ++j) {
            const uint4 column = columns[(i * TILES + j) * THREADS];
            mma_s8(acc[j], {a.x, b.x, a.y, b.y}, {column.x, column.y});
            mma_s8(acc[j], {a.z, b.z, a.w, b.w}, {column.z, column.w});
        }
    }
#pragma unroll
    for (int j = 0; j < TILES; ++j)
        *(int4*)(columns + j * THREADS) = make_int4(acc[j][0], acc[j][1], acc[j][2], acc[j][3]);
    __syncthreads();
    const int* const sums = (const int*)(shared + PER * 2 * THREADS);  // [TILES][WARPS][32][4]
    for (int i = threadIdx.x; i < TILES * 128; i += THREADS) {  // a lane's: output g or g + 8, image 2t or 2t + 1
        const int e = i % 4, from = i / 4 % 32;
        const int o = o0 + from / 4 + e / 2 * 8, n = n0 + i / 128 * 8 + from % 4 * 2 + e % 2;
        if (o >= O || n >= N) continue;
        int sum = bias ? bias[o] : 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) sum += sums[(i / 128 * WARPS + w) * 128 + i % 128];
        y[n * O + o] = __fmul_rn(__int2float_rn(sum), multiplier[o]);
    }
}
