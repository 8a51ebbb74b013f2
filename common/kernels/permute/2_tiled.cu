// permute, rung 2 "tiled": a block turns a tile of TILE×TILE elements in shared memory. For orders whose last dimension
// steps over x and whose last but one does not: s2 = 1, s3 > 1, as from NHWC to NCHW or from NCHW to NHWC.
//
// Moves   x in, out out, once each, whole sectors in both: lanes read along d2, in x's order, and write along d3, in out's.
// Gains   of floats two sectors asked for where rung 1 asks for nine, of halves where it asks for seventeen; the divisions
//         once a tile.
// Costs   a barrier, TILE rows of shared memory a block, each a word longer than TILE elements, so that a column's
//         lie in different banks; and tiles that reach over the edge: of 3 channels 29 of 32 rows are idle.
#include <cuda_fp16.h>

extern "C" __global__ void permute(const scalar_t* __restrict__ x, scalar_t* __restrict__ out, int d0, int d1, int d2, int d3,
                                   int s0, int s1, int s2, int s3) {
    __shared__ scalar_t tile[TILE][TILE + 4 / sizeof(scalar_t)];
    unsigned across = (d3 + TILE - 1) / TILE, down = (d2 + TILE - 1) / TILE;
    unsigned first3 = blockIdx.x % across * TILE, first2 = blockIdx.x / across % down * TILE;
    unsigned plane = blockIdx.x / across / down, i1 = plane % d1, i0 = plane / d1;  // range [0, d0·d1)
    unsigned lane = threadIdx.x % TILE, row = threadIdx.x / TILE, rows = blockDim.x / TILE;

    x += i0 * s0 + i1 * s1;
    for (unsigned k = row; k < TILE; k += rows)
        if (first2 + lane < d2 && first3 + k < d3) tile[k][lane] = x[(first2 + lane) * s2 + (first3 + k) * s3];
    __syncthreads();
    out += plane * d2 * d3;
    for (unsigned k = row; k < TILE; k += rows)
        if (first2 + k < d2 && first3 + lane < d3) out[(first2 + k) * d3 + first3 + lane] = tile[lane][k];
}
