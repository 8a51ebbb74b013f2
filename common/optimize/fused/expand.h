// expand.h - hidden = clamp(x · weight + bias), zero outside of the image, which is what the depthwise pads with.
//
//   expand(at, slice, w, of)     slice: of the weights w, in shared memory; of: what the warp needs of them, loaded if
//                                ONCE. A warp makes 16·PLANES channels of its own, of all pixels or of those of one of
//                                WARPS_P warps, MT1 tiles of 16 pixels at a time
//
//     x tile, 16 pixels × K channels        weights, K × 16            hidden, 16 pixels × 16 channels
//     ldmatrix                          ×   in registers if HELD   =   halves: a warp by stmatrix; floats: a thread 4
#pragma once
#include "fused/load.h"

template <class S> struct ExpandWeights {  // of a warp, in registers if HELD, and the biases
    using G = Geometry<S>;
    typename G::A::Columns held[G::HELD ? G::K_STEPS : 1][G::PLANES];
    float bias[G::PLANES][2][4];

    template <class At> __device__ __forceinline__ void load(const At& at, const typename S::T* slice, int) {
        const int channel = at.warp_c * G::PLANES * 16;
        const typename S::T* const row = slice + G::W1 + (channel + at.row_of_b()) * G::X_ROW + at.channel_of_b();
#pragma unroll
        for (int j = 0; j < G::PLANES; ++j) {
            load_bias(bias[j], at, slice + G::B1 + channel + j * 16);
#pragma unroll
            for (int k = 0; G::HELD && k < G::K_STEPS; ++k) held[k][j].load(row + j * 16 * G::X_ROW + k * G::A::K);
        }
    }
};

template <class S, class Crew>
__device__ __forceinline__ void expand(const Workspace<S, Crew>& at, const typename S::T* slice,
                                       const Weights<typename S::Arithmetic>& w, ExpandWeights<S>& of) {
    using G = Geometry<S>;
    using A = typename G::A;
    using T = typename S::T;
    constexpr int PLANES = G::PLANES, K_STEPS = G::K_STEPS, MT1 = S::MT1;
    const float low = w.low[0], high = w.high[0];
    const T* const b_row = slice + G::W1 + (at.warp_c * PLANES * 16 + at.row_of_b()) * G::X_ROW + at.channel_of_b();
    if constexpr (!G::ONCE) of.load(at, slice, 0);
    const auto& bias = of.bias;
    // floats are stored by the thread that has summed them, 4 neighbours at a time; of halves a warp stores a tile
    T* const to = at.hidden + at.warp_c * PLANES * G::PLANE +
                  (G::FP16 ? at.lane / 16 * G::HALF_PLANE : at.t / 2 * G::HALF_PLANE + at.t % 2 * 4);
#pragma unroll 1
    for (int m0 = at.warp_p * MT1; m0 < G::M_IN; m0 += S::WARPS_P * MT1) {
        const T* a_row[MT1];
        int entry[MT1], first[MT1];  // of the pixel whose row this lane fetches; the first pixel of a tile of mma
#pragma unroll
        for (int i = 0; i < MT1; ++i) {
            // where there is none, the last one again, and not a branch
            first[i] = 16 * (G::M_IN % MT1 ? smaller(m0 + i, G::M_IN - 1) : m0 + i);
            const int pixel = first[i] + at.row_of_a();
            entry[i] = at.rows[pixel];
            if constexpr (S::EXPAND == STEM)
                a_row[i] = at.x_tile + (entry[i] >> G::PATCH_SHIFT & G::PATCH) * 4 +
                           at.lane / 16 * (G::FP16 || G::MEASURES ? G::E : G::PATCH_ODD);
            else a_row[i] = at.x_tile + pixel * G::X_ROW + at.channel_of_a();
        }
        float acc[MT1][PLANES][2][4];
        if constexpr (A::OWN_SUMS)
#pragma unroll
            for (int i = 0; i < MT1 * PLANES * 8; ++i)
                acc[i / 8 / PLANES][i / 8 % PLANES][i / 4 % 2][i % 4] = bias[i / 8 % PLANES][i / 4 % 2][i % 4];
        // of a stem's terms 27 are not 0: a single sum
        constexpr int CHUNK = S::EXPAND == STEM ? K_STEPS : smaller(A::TERMS / A::K, K_STEPS);
#pragma unroll
        for (int k0 = 0; k0 < K_STEPS; k0 += CHUNK) {
            float part[A::OWN_SUMS ? MT1 : 1][A::OWN_SUMS ? PLANES : 1][2][4] = {};
#pragma unroll
            for (int k = k0; k < smaller(k0 + CHUNK, K_STEPS); ++k) {
                const int c = S::EXPAND == STEM ? k * A::K / 16 * G::PATCH_ROW + k * A::K % 16 / 2 : k * A::K;
                typename A::Columns b[PLANES];
                typename A::Rows a[MT1];
#pragma unroll
                for (int i = 0; i < MT1; ++i) a[i].load(a_row[i] + c, G::MEASURES ? G::PATCH_LOW : 4);
#pragma unroll
                for (int j = 0; j < PLANES; ++j)
                    if constexpr (G::HELD) b[j] = of.held[k][j];
                    else b[j].load(b_row + j * 16 * G::X_ROW + k * A::K);
#pragma unroll
                for (int i = 0; i < MT1; ++i) {
                    a[i].split();
#pragma unroll
                    for (int j = 0; j < PLANES; ++j)
                        if constexpr (A::OWN_SUMS) b[j].multiply(part[i][j], a[i]);
                        else if (k == 0) b[j].multiply(acc[i][j], a[i], bias[j]);
                        else b[j].multiply(acc[i][j], a[i]);
                }
            }
            if constexpr (A::OWN_SUMS) add<A>(acc, part, w.scales.hidden);
        }
        if constexpr (G::FP16) {
#pragma unroll
            for (int i = 0; i < MT1 * PLANES; ++i)
                store_bounded(to + i % PLANES * G::PLANE + (entry[i / PLANES] & G::PLACE), acc[i / PLANES][i % PLANES],
                              low, high);
            __syncwarp();
#pragma unroll
            for (int i = 0; i < MT1 * PLANES; ++i)
                if (entry[i / PLANES] < 0)
                    store_16(to + i % PLANES * G::PLANE + (entry[i / PLANES] & G::PLACE), make_uint4(0, 0, 0, 0));
        } else
#pragma unroll
            for (int i = 0; i < MT1 * 2; ++i) {
                const int mine = at.rows[first[i / 2] + i % 2 * 8 + at.g];
#pragma unroll
                for (int j = 0; j < PLANES; ++j) {
                    const float(&d)[2][4] = acc[i / 2][j];
                    T* const place = to + j * G::PLANE + (mine & G::PLACE);
                    const auto bits = [&](float v) { return __float_as_uint(bounded(v, low, high)); };
                    store_16(place, make_uint4(bits(d[0][i % 2 * 2]), bits(d[0][i % 2 * 2 + 1]), bits(d[1][i % 2 * 2]),
                                               bits(d[1][i % 2 * 2 + 1])));
                    if (mine < 0) store_16(place, make_uint4(0, 0, 0, 0));
                }
            }
    }
    __syncwarp();
}
