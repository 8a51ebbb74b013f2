// winograd, rung 1 "naive": F(2×2, 3×3), one thread per tile of 2×2 outputs of one output channel.
//
//   y = clamp(Aᵀ [ sum over c of (G g Gᵀ) ⊙ (Bᵀ d B) ] A + bias + residual, low, high), d a 4×4 tile of the input
//   x (N, C, H, W), U (16, C_padded, O_padded) from winograd_weight, y (N, O, oH, oW); NCHW. 3×3, stride 1.
//   P = N·tiles_h·tiles_w tiles, two pixels apart.
//
// Moves   at least x + U + residual + y. The threads ask for 16 inputs and 16 numbers of U per 16 multiply-adds.
// Gains   16 multiplications where the definition has 36 (2×2 outputs, 9 taps each): 2.25 times fewer.
//         Also fewer loads, 8 per output and input channel where a naive convolution has 18, and fewer instructions, 46 where
//         it has 74 on sm_90. So this rung may be faster than conv2d's naive one, though it computes more.
// Costs   32 additions for Bᵀ d B before the 16 multiplications, in every thread, and all O threads of a tile do the
//         same 32: more operations than were saved. The transform saves operations only if threads share it.
#include <cuda_fp16.h>

#define ALPHA 4  // side of an input tile
#define OUT 2    // side of an output tile

__device__ __forceinline__ void input_1d(float& a, float& b, float& c, float& d) {  // Bᵀ (a, b, c, d)
    float b_plus_c = b + c, c_minus_b = c - b;
    a -= c, d = b - d, b = b_plus_c, c = c_minus_b;
}

extern "C" __global__ void winograd(const scalar_t* __restrict__ x, const float* __restrict__ U, const scalar_t* __restrict__ bias,
                                    const scalar_t* __restrict__ residual, scalar_t* __restrict__ y,
                                    int C, int H, int W, int O, int oH, int oW, int pad_top, int pad_left,
                                    int tiles_h, int tiles_w, int P, int C_padded, int O_padded, float low, float high) {
    int p = blockIdx.x % ((P + 127) / 128) * 128 + threadIdx.x;  // range [0, P), rounded up to whole blocks
    int o = blockIdx.x / ((P + 127) / 128);                      // range [0, O)
    if (p >= P) return;
    int n = p / (tiles_h * tiles_w), oh = p / tiles_w % tiles_h * OUT, ow = p % tiles_w * OUT;

    float m[ALPHA][ALPHA] = {};
    for (int c = 0; c < C; ++c) {
        float d[ALPHA][ALPHA];
        for (int r = 0; r < ALPHA; ++r)
            for (int s = 0; s < ALPHA; ++s) {
                int ih = oh - pad_top + r, iw = ow - pad_left + s;
                d[r][s] = ih >= 0 && ih < H && iw >= 0 && iw < W ? (float)x[((n * C + c) * H + ih) * W + iw] : 0.0f;
            }
        for (int r = 0; r < ALPHA; ++r) input_1d(d[r][0], d[r][1], d[r][2], d[r][3]);
        for (int s = 0; s < ALPHA; ++s) input_1d(d[0][s], d[1][s], d[2][s], d[3][s]);
        for (int r = 0; r < ALPHA; ++r)
            for (int s = 0; s < ALPHA; ++s) m[r][s] += U[((r * ALPHA + s) * C_padded + c) * O_padded + o] * d[r][s];
    }

    for (int r = 0; r < ALPHA; ++r) {  // m A
        float first = m[r][0] + m[r][1] + m[r][2];
        m[r][1] = m[r][1] - m[r][2] - m[r][3], m[r][0] = first;
    }
    for (int s = 0; s < OUT; ++s) {  // Aᵀ (m A)
        float first = m[0][s] + m[1][s] + m[2][s];
        m[1][s] = m[1][s] - m[2][s] - m[3][s], m[0][s] = first;
    }
    for (int r = 0; r < OUT && oh + r < oH; ++r)
        for (int s = 0; s < OUT && ow + s < oW; ++s) {
            int i = ((n * O + o) * oH + oh + r) * oW + ow + s;
            float v = m[r][s] + (bias ? (float)bias[o] : 0.0f) + (residual ? (float)residual[i] : 0.0f);
            y[i] = (scalar_t)(v < low ? low : v > high ? high : v);
        }
}
