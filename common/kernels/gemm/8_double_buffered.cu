// gemm, rung 8 "double_buffered": while a slice of K is multiplied, the next STAGES - 1 are copied by cp.async.
// requires: sm_80
//
// A is (M, K), B is (K, N) or, with TRANSPOSE_B, (N, K); C is (M, N); all row-major. bias is (N) or null. Floats only:
// cp.async cannot convert what it copies.
//
// Moves   from global memory what rung 7 does, without registers on the way: A's elements one by one, since rows become
//         columns, B's in fours. With 8×16 elements per thread, 20 wavefronts per 128 multiply-adds, which take 32 clocks.
// Gains   the warps of a block no longer copy together, wait together and multiply together. One barrier per slice, and
//         the factors of the next k are loaded into registers while those of this k are multiplied.
// Costs   shared memory for STAGES slices; 8×16 sums and two sets of factors fill the registers: 8 warps per SM.
#include "ptx.h"
#include "vec.h"

#ifndef TRANSPOSE_B
#define TRANSPOSE_B 0
#endif
#ifndef VECTOR
#define VECTOR 4  // elements that an access to global memory takes; 1 where rows do not begin at multiples of 4
#endif
#define COPY (TRANSPOSE_B ? 1 : VECTOR)  // elements of B that are copied at once
#define THREADS (BM / TM * (BN / TN))
#define LANES_M (WM / TM)  // of a warp's lanes so many stand below each other
#define LANES_N (WN / TN)  // and so many side by side: LANES_M * LANES_N is 32

extern "C" __global__ void __launch_bounds__(THREADS)
gemm(const scalar_t* __restrict__ A, const scalar_t* __restrict__ B, const scalar_t* __restrict__ bias, scalar_t* __restrict__ C,
     int M, int N, int K, float low, float high) {
    const int tiles_n = (N - 1) / BN + 1;  // blocks side by side; blockIdx.x counts along them, row of blocks by row
    const int row0 = blockIdx.x / tiles_n * BM, col0 = blockIdx.x % tiles_n * BN;
    C += (size_t)row0 * N + col0;
    __shared__ __align__(16) float As[STAGES][BK][BM + 4], Bs[STAGES][BK][BN + 4];  // 4 more where columns are written: other banks
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / (BN / WN) * WM + lane / LANES_N * 4, col = warp % (BN / WN) * WN + lane % LANES_N * 4;

    // The first element that this thread copies of each tile; the others of its share lie THREADS elements apart.
    const int a_row = threadIdx.x / BK, a_k = threadIdx.x % BK;
    const int b_k = TRANSPOSE_B ? a_k : threadIdx.x * COPY / BN, b_col = TRANSPOSE_B ? a_row : threadIdx.x * COPY % BN;
    const int rows = M - row0 - a_row, cols = N - col0 - b_col;  // left from there on
    A += ((size_t)row0 + a_row) * K + a_k;
    B += TRANSPOSE_B ? ((size_t)col0 + b_col) * K + b_k : (size_t)b_k * N + col0 + b_col;

    int left = K;  // products that no copy has been begun of
    auto fetch = [&](int stage) {
        float *a = &As[stage][a_k][a_row], *b = &Bs[stage][b_k][b_col];
#pragma unroll
        for (int i = 0; i < BM; i += THREADS / BK) cp_async_4(a + i, A + (size_t)i * K, i < rows && a_k < left);
#pragma unroll
        for (int i = 0; TRANSPOSE_B && i < BN; i += THREADS / BK) cp_async_4(b + i, B + (size_t)i * K, i < cols && b_k < left);
#pragma unroll
        for (int k = 0; !TRANSPOSE_B && k < BK; k += THREADS * COPY / BN)
            if (COPY == 4) cp_async_16(b + k * (BN + 4), B + (size_t)k * N, b_k + k < left && cols > 0);
            else cp_async_4(b + k * (BN + 4), B + (size_t)k * N, b_k + k < left && cols > 0);
        A += BK;
        B += TRANSPOSE_B ? BK : (size_t)BK * N;
        left -= BK;
    };
    __align__(16) float a[2][TM], b[2][TN];  // the factors in use, and the next ones
    auto load_factors = [&](int to, int stage, int k) {
#pragma unroll
        for (int i = 0; i < TM; i += 4) *(float4*)&a[to][i] = *(const float4*)&As[stage][k][row + i * LANES_M];
#pragma unroll
        for (int j = 0; j < TN; j += 4) *(float4*)&b[to][j] = *(const float4*)&Bs[stage][k][col + j * LANES_N];
    };

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (left > 0) fetch(stage);
        cp_async_commit();  // a group a slice, empty ones too, so that counting groups is counting slices
    }
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    load_factors(0, 0, 0);

    float acc[TM][TN] = {};  // in groups of 4 rows and 4 columns, LANES_M and LANES_N groups apart
    int stage = 0;
    for (int slices = (K - 1) / BK + 1; slices > 0; --slices) {
        const int next = stage + 1 < STAGES ? stage + 1 : 0, before = stage > 0 ? stage - 1 : STAGES - 1;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k + 1 < BK) load_factors((k + 1) % 2, stage, k + 1);
            else if (slices > 1) {
                cp_async_wait<STAGES - 2>();  // this thread's part of the next slice has arrived,
                __syncthreads();              // and everybody's; and nobody reads the slice before any more
                load_factors(0, next, 0);
            }
            if (k == 0) {
                if (left > 0) fetch(before);
                cp_async_commit();
            }
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[k % 2][i] * b[k % 2][j];
        }
        stage = next;
    }

    for (int j = 0; j < TN; j += VECTOR) {
        const int col_j = col + j / 4 * 4 * LANES_N + j % 4;
        if (col_j >= N - col0) break;
        float add[VECTOR] = {};
        if (bias) load(add, bias + col0 + col_j);
        for (int i = 0; i < TM; ++i) {
            const int row_i = row + i / 4 * 4 * LANES_M + i % 4;
            if (row_i >= M - row0) break;
            float sum[VECTOR];
            for (int e = 0; e < VECTOR; ++e) {
                sum[e] = acc[i][j + e] + add[e];
                sum[e] = sum[e] < low ? low : sum[e] > high ? high : sum[e];
            }
            store(C + row_i * N + col_j, sum);
        }
    }
}
