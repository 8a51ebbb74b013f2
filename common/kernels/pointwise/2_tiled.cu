// pointwise, rung 2 "tiled": a matrix product, weights × pixels. A block keeps tiles of both in shared memory, a thread
// TM×TN sums in registers.
//
//   NCHW: an image is a matrix x (C, pixels), and y = weight (O, C) · x is (O, pixels). The images are put side by side, so
//   y has P = N·pixels columns, and tiles may span two images. A block computes BM outputs × BN pixels.
//
// Moves   P·O·C·(1/BM + 1/BN) elements to shared memory; the naive rung asks for 2·P·O·C, which is 64 times as many with
//         tiles of 64×64. From shared memory a thread reads TM + TN numbers for TM·TN multiply-adds, 12 for 32.
// Gains   a multiply-add no longer waits for a global load of its own. Loads and stores run along the pixels of a channel:
//         32 lanes, 4 sectors, whatever the image size, if there are enough pixels.
// Costs   two barriers per BK channels, and no load is in flight while a slice is multiplied. A row of a 7×7 image has 49
//         elements, so rows do not begin at multiples of 16 bytes: every load takes one element.
#include <cuda_fp16.h>

constexpr int THREADS = BM / TM * (BN / TN);
static_assert(THREADS % BN == 0 && THREADS % BK == 0, "a thread copies from one pixel, and one channel of the weights");

extern "C" __global__ void __launch_bounds__(THREADS)
pointwise(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight, const scalar_t* __restrict__ bias,
          const scalar_t* __restrict__ residual, scalar_t* __restrict__ y, int N, int C, int O, int pixels, float low, float high) {
    __shared__ __align__(16) float Ws[BK][BM + 4], Xs[BK][BN];  // Ws is transposed, so that a thread's TM lie side by side
    const int P = N * pixels;
    const int tile_o = blockIdx.z * gridDim.y + blockIdx.y;
    if (tile_o > (O - 1) / BM) return;
    const int o0 = tile_o * BM, p0 = blockIdx.x * BN;
    const int row = threadIdx.x / (BN / TN) * TM, col = threadIdx.x % (BN / TN);  // its columns are BN / TN apart

    const int copied = p0 + threadIdx.x % BN;  // the pixel that this thread copies channels of
    const scalar_t* from = x + (copied < P ? copied / pixels * C * pixels + copied % pixels : 0);

    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < C; k0 += BK) {
        for (int k = threadIdx.x / BN; k < BK; k += THREADS / BN)
            Xs[k][threadIdx.x % BN] = k0 + k < C ? (float)from[(k0 + k) * pixels] : 0.0f;
        for (int r = threadIdx.x / BK, k = threadIdx.x % BK; r < BM; r += THREADS / BK)
            Ws[k][r] = o0 + r < O && k0 + k < C ? (float)weight[(o0 + r) * C + k0 + k] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float w[TM], v[TN];
#pragma unroll
            for (int m = 0; m < TM; ++m) w[m] = Ws[k][row + m];
#pragma unroll
            for (int n = 0; n < TN; ++n) v[n] = Xs[k][col + n * (BN / TN)];
#pragma unroll
            for (int m = 0; m < TM; ++m)
#pragma unroll
                for (int n = 0; n < TN; ++n) acc[m][n] += w[m] * v[n];
        }
        __syncthreads();
    }

#pragma unroll
    for (int n = 0; n < TN; ++n) {
        const int p = p0 + col + n * (BN / TN);
        const int first = p < P ? p / pixels * O * pixels + p % pixels : 0;
#pragma unroll
        for (int m = 0; m < TM; ++m) {
            const int o = o0 + row + m, i = first + o * pixels;
            if (p < P && o < O) {
                float out = acc[m][n];
                if (bias) out += (float)bias[o];
                if (residual) out += (float)residual[i];
                out = out < low ? low : out;
                y[i] = (scalar_t)(out > high ? high : out);
            }
        }
    }
}
