// winograd, rung 3 "fused_f4x4": F(4×4, 3×3), as rung 2 with tiles of 6×6 inputs for 4×4 outputs.
// requires: sm_80
//
//   36 multiplications for 16 outputs, where the definition has 144: 4 times fewer. Each of 12 warps has 3 of the 36 products.
//
// Moves   each element of x 2.25 times from the caches (36 inputs for 16 outputs; rung 2: 4 times), U with 2.25 times as many
//         bytes as F(2×2)'s, y once.
// Gains   another 1.8 times fewer multiply-adds than F(2×2).
// Costs   accuracy: the transforms multiply by up to 8 and divide by up to 24, so large numbers cancel and lose their last
//         digits. The transforms themselves grow to 36 numbers per tile in registers. Images of a few tiles are mostly
//         padding: 7×7 outputs are 4 tiles of 16, of which 15 outputs in 64 are thrown away.
#include "ptx.h"

#define ALPHA 6             // side of an input tile
#define OUT 4               // side of an output tile
#define K2 (ALPHA * ALPHA)
#define KPW (K2 / WARPS)    // products of a warp
#define THREADS (WARPS * 32)
#define STAGE (K2 * BC * (BP + BO))  // floats of one buffer
#define ROW (BP + 4)        // of the products at the end: not a multiple of the banks

__device__ __forceinline__ void input_1d(float& a, float& b, float& c, float& d, float& e, float& f) {  // Bᵀ (a, …, f)
    float even = e - 4 * c, odd = d - 4 * b, far = e - c, twice = 2 * (d - b);
    a = 4 * a - 5 * c + e;
    f = 4 * b - 5 * d + f;
    b = even + odd, c = even - odd, d = far + twice, e = far - twice;
}
__device__ __forceinline__ void output_1d(float (&y)[OUT], float a, float b, float c, float d, float e, float f) {  // Aᵀ (a, …, f)
    float near = b + c, nearer = b - c, far = d + e, farther = d - e;
    y[0] = a + near + far;
    y[1] = nearer + 2 * farther;
    y[2] = near + 4 * far;
    y[3] = nearer + 8 * farther + f;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    winograd(const scalar_t* __restrict__ x, const float* __restrict__ U, const scalar_t* __restrict__ bias,
             const scalar_t* __restrict__ residual, scalar_t* __restrict__ y,
             int C, int H, int W, int O, int oH, int oW, int pad_top, int pad_left,
             int tiles_h, int tiles_w, int P, int C_padded, int O_padded, float low, float high) {
    extern __shared__ float smem[];  // two buffers of V[K2][BC][BP] and U[K2][BC][BO]; at the end M[K2][BO / 2][ROW]
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    int o_blocks = (O + BO - 1) / BO;  // blocks of the same tiles run side by side: their input is in the L2
    int o0 = blockIdx.x % o_blocks * BO, p0 = blockIdx.x / o_blocks * BP;

    // the tile that this thread transforms: channel tid / BP of each BC, tile p0 + tid % BP
    int c_in = tid / BP, p_in = tid % BP, p = p0 + p_in;
    int n = p / (tiles_h * tiles_w), ih0 = p / tiles_w % tiles_h * OUT - pad_top, iw0 = p % tiles_w * OUT - pad_left;
    bool has_tile = c_in < BC && p < P;
    float d[ALPHA][ALPHA];

    auto load_tile = [&](int c0) {
        const scalar_t* in = x + ((n * C + c0 + c_in) * H + ih0) * W + iw0;
        bool inside = has_tile && c0 + c_in < C;
#pragma unroll
        for (int r = 0; r < ALPHA; ++r)
#pragma unroll
            for (int s = 0; s < ALPHA; ++s) {
                bool in_image = inside && ih0 + r >= 0 && ih0 + r < H && iw0 + s >= 0 && iw0 + s < W;
                d[r][s] = in_image ? (float)in[r * W + s] : 0.0f;
            }
    };
    auto store_tile = [&](float* Vs) {
        if (c_in >= BC) return;
#pragma unroll
        for (int r = 0; r < ALPHA; ++r) input_1d(d[r][0], d[r][1], d[r][2], d[r][3], d[r][4], d[r][5]);
#pragma unroll
        for (int s = 0; s < ALPHA; ++s) input_1d(d[0][s], d[1][s], d[2][s], d[3][s], d[4][s], d[5][s]);
#pragma unroll
        for (int k = 0; k < K2; ++k) Vs[(k * BC + c_in) * BP + p_in] = d[k / ALPHA][k % ALPHA];
    };
    auto load_filters = [&](float* Us, int c0) {  // U is padded: no tails
        for (int i = 4 * tid; i < K2 * BC * BO; i += 4 * THREADS) {
            int o = i % BO, c = i / BO % BC, k = i / (BO * BC);
            cp_async_16(Us + i, U + ((size_t)k * C_padded + c0 + c) * O_padded + o0 + o);
        }
        cp_async_commit();
    };

    // a thread's sums: outputs o_out + 0..3 and BO / 2 further, tiles p_out + 0..3
    int o_out = lane / (BP / TP) * 4, p_out = lane % (BP / TP) * 4;
    float acc[KPW][TO][TP] = {};

    load_filters(smem + K2 * BC * BP, 0);
    load_tile(0);
    store_tile(smem);
    cp_async_wait<0>();
    __syncthreads();
    for (int c0 = 0, buffer = 0; c0 < C; c0 += BC, buffer ^= 1) {
        float *Vs = smem + buffer * STAGE, *Us = Vs + K2 * BC * BP, *next = smem + (buffer ^ 1) * STAGE;
        if (c0 + BC < C) {  // the next channels are on their way while these are multiplied
            load_filters(next + K2 * BC * BP, c0 + BC);
            load_tile(c0 + BC);
        }
#pragma unroll
        for (int kk = 0; kk < KPW; ++kk)
#pragma unroll
            for (int c = 0; c < BC; ++c) {
                float u[TO], v[TP];
                const float* u_row = Us + ((warp * KPW + kk) * BC + c) * BO + o_out;
                const float* v_row = Vs + ((warp * KPW + kk) * BC + c) * BP + p_out;
#pragma unroll
                for (int i = 0; i < TO; i += 4) *(float4*)(u + i) = *(const float4*)(u_row + i / 4 * (BO / 2));
#pragma unroll
                for (int j = 0; j < TP; j += 4) *(float4*)(v + j) = *(const float4*)(v_row + j / 4 * (BP / 2));
#pragma unroll
                for (int i = 0; i < TO; ++i)
#pragma unroll
                    for (int j = 0; j < TP; ++j) acc[kk][i][j] += u[i] * v[j];
            }
        if (c0 + BC < C) store_tile(next);
        cp_async_wait<0>();
        __syncthreads();
    }

    // M[k] of all k meet in shared memory, half of the output channels at a time
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int kk = 0; kk < KPW; ++kk)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < TP; j += 4)
                    *(float4*)(smem + ((warp * KPW + kk) * (BO / 2) + o_out + i) * ROW + p_out + j / 4 * (BP / 2)) =
                        make_float4(acc[kk][half * 4 + i][j], acc[kk][half * 4 + i][j + 1], acc[kk][half * 4 + i][j + 2],
                                    acc[kk][half * 4 + i][j + 3]);
        __syncthreads();
        for (int item = tid; item < BO / 2 * BP; item += THREADS) {
            int o = o0 + half * (BO / 2) + item / BP, q = p0 + item % BP;  // output channel and tile
            if (o < O && q < P) {
                float m[ALPHA][ALPHA], t[OUT][ALPHA], out[OUT][OUT];
#pragma unroll
                for (int k = 0; k < K2; ++k) m[k / ALPHA][k % ALPHA] = smem[(k * (BO / 2) + item / BP) * ROW + item % BP];
#pragma unroll
                for (int s = 0; s < ALPHA; ++s) {
                    float column[OUT];
                    output_1d(column, m[0][s], m[1][s], m[2][s], m[3][s], m[4][s], m[5][s]);
#pragma unroll
                    for (int r = 0; r < OUT; ++r) t[r][s] = column[r];
                }
#pragma unroll
                for (int r = 0; r < OUT; ++r) output_1d(out[r], t[r][0], t[r][1], t[r][2], t[r][3], t[r][4], t[r][5]);
                int image = q / (tiles_h * tiles_w), oh = q / tiles_w % tiles_h * OUT, ow = q % tiles_w * OUT;
                float shift = bias ? (float)bias[o] : 0.0f;
#pragma unroll
                for (int r = 0; r < OUT; ++r)
#pragma unroll
                    for (int s = 0; s < OUT; ++s)
                        if (oh + r < oH && ow + s < oW) {
                            int i = ((image * O + o) * oH + oh + r) * oW + ow + s;
                            float sum = out[r][s] + shift + (residual ? (float)residual[i] : 0.0f);
                            y[i] = (scalar_t)(sum < low ? low : sum > high ? high : sum);
                        }
            }
        }
        __syncthreads();
    }
}
