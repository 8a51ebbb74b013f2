// requires: sm_80
// tile_product: D = A · Bᵀ on tensor cores. A (M, K) and B (N, K) are halves, D (M, N) floats,
// all row-major. M is a multiple of 16, N of 8, K of 64. A and B begin at multiples
// of 16 bytes.
// A block is one warp and computes 16×8 of D: the rows from 16 · blockIdx.y on, the columns
// from 8 · blockIdx.x on.
#include "ptx.h"

extern "C" __global__ void tile_product(const __half* A, const __half* B, float* D, int M,
                                        int N, int K) {
    __shared__ __align__(128) __half tile[24 * 64];  // 16 rows of A, then 8 rows of B
    const int lane = threadIdx.x, row0 = blockIdx.y * 16, col0 = blockIdx.x * 8;
    float d[4] = {};
    for (int k0 = 0; k0 < K; k0 += 64) {
        for (int i = lane; i < 16 * 8; i += 32) {
            const int row = i / 8, piece = i % 8;
            __half* to = &tile[row * 64 + (piece ^ row % 8) * 8];
            *(uint4*)to = *(const uint4*)&A[(row0 + row) * K + k0 + piece * 8];
        }
        // BEGIN SOLUTION
        // write: the slice of B, 8 rows of 64 columns
        for (int i = lane; i < 8 * 8; i += 32) {
            const int row = i / 8, piece = i % 8;
            __half* to = &tile[(16 + row) * 64 + (piece ^ row) * 8];
            *(uint4*)to = *(const uint4*)&B[(col0 + row) * K + k0 + piece * 8];
        }
        // END SOLUTION
        __syncwarp();
        // BEGIN SOLUTION
        // write: the slice's four mma, with their ldmatrix
        for (int piece = 0; piece < 8; piece += 4) {  // 32 columns: b of two mma
            unsigned a[4], b[4];
            ldmatrix_x4(b, &tile[(16 + lane % 8) * 64 + ((piece + lane / 8) ^ lane % 8) * 8]);
            for (int i = 0; i < 4; i += 2) {
                const int at = (piece + i + lane / 16) ^ lane % 8;
                ldmatrix_x4(a, &tile[lane % 16 * 64 + at * 8]);
                mma_f16(d, a, {b[i], b[i + 1]});
            }
        }
        // END SOLUTION
        __syncwarp();
    }
    // BEGIN SOLUTION
    // write: D
    for (int i = 0; i < 4; ++i)
        D[(row0 + lane / 4 + i / 2 * 8) * N + col0 + lane % 4 * 2 + i % 2] = d[i];
    // END SOLUTION
}
