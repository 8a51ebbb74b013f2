// winograd_weight, rung 1 "naive": U = G g Gᵀ for every 3×3 filter g, one thread a filter. Done once for a network.
//
//   weight (O, C, 3, 3) -> U (A·A, C_padded, O_padded) with A = M + 2, for Winograd's F(M×M, 3×3), M = 2 or 4: the filters'
//   element k side by side for all output channels, as the products want them. Zeros where c ≥ C or o ≥ O, so that those
//   products need no tails. Always float: G's sixths are no numbers that halves hold.
//
// Moves   9·O·C elements in, A²·C_padded·O_padded floats out: 1.8 (M = 2) or 4 (M = 4) times as many as the filters have.
// Gains   its work is spent once, and not in each of the N·oH·oW/M² tiles.
// Costs   that memory, and its reading: at batch 1 the late layers of a network are mostly weights.
#include <cuda_fp16.h>

__device__ __forceinline__ void transform(float (&u)[M + 2], float g0, float g1, float g2) {  // G g
#if M == 2
    u[0] = g0;
    u[1] = 0.5f * (g0 + g1 + g2);
    u[2] = 0.5f * (g0 - g1 + g2);
    u[3] = g2;
#else
    u[0] = g0 / 4;
    u[1] = -(g0 + g1 + g2) / 6;
    u[2] = -(g0 - g1 + g2) / 6;
    u[3] = g0 / 24 + g1 / 12 + g2 / 6;
    u[4] = g0 / 24 - g1 / 12 + g2 / 6;
    u[5] = g2;
#endif
}

extern "C" __global__ void winograd_weight(const scalar_t* __restrict__ weight, float* __restrict__ U, int O, int C, int O_padded,
                                           int C_padded) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, C_padded·O_padded), rounded up to whole blocks
    if (i >= C_padded * O_padded) return;
    int o = i % O_padded, c = i / O_padded;
    float g[3][3];
    for (int r = 0; r < 3; ++r)
        for (int s = 0; s < 3; ++s) g[r][s] = o < O && c < C ? (float)weight[((o * C + c) * 3 + r) * 3 + s] : 0.0f;

    float columns[3][M + 2], row[M + 2];
    for (int s = 0; s < 3; ++s) transform(columns[s], g[0][s], g[1][s], g[2][s]);
    for (int r = 0; r < M + 2; ++r) {
        transform(row, columns[0][r], columns[1][r], columns[2][r]);
        for (int s = 0; s < M + 2; ++s) U[(size_t)(r * (M + 2) + s) * C_padded * O_padded + i] = row[s];
    }
}
