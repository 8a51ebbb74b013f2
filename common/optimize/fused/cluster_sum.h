// cluster_sum.h - the sums of a tile that a cluster of SPLIT blocks shares, added up: each block has made those of its
// part of the hidden channels.
//
//   Mail                                  sums are sent through a mailbox, which waits for nothing but their bytes
//   add_cluster(sums, at, w, y, spot, busy)    each block adds up PART quarters: 4 neighbouring channels of a pixel
//
//     block 0's registers ──┬──► sums[0][PART] ─┐
//     block 1's registers ──┼──► sums[1][PART] ─┼─► + ──► y, of this block's quarters
//     …                     └──► …             ─┘      in the shared memory of the block that adds up
#pragma once
#include "cluster.h"
#include "fused/project.h"

struct Mail {
    static constexpr int BYTES = 16;
    Mailbox* box;
    unsigned turn = 0;

    __device__ __forceinline__ void at(void* place) { box = (Mailbox*)place; }
    __device__ __forceinline__ void open(int thread) {
        if (thread == 0) box->open();
    }
    __device__ __forceinline__ void send(float4* to, unsigned rank, float4 sum) { box->send(to, rank, sum); }
    // Until so many bytes have come, and what this block's threads put there themselves.
    __device__ __forceinline__ void wait(int thread, unsigned bytes, bool busy) {
        __syncthreads();
        if (busy && thread == 0) box->expect(bytes);
        box->wait(turn, busy);
        turn ^= busy;
    }
};

template <class S, class Crew>
__device__ __forceinline__ void add_cluster(const Sums<S>& acc, Workspace<S, Crew>& at,
                                            const Weights<typename S::Arithmetic>& w, typename S::T* y_tile,
                                            const Spot<S>& spot, bool busy) {
    using G = Geometry<S>;
    constexpr int PART = G::PART;
#pragma unroll
    for (int i = 0; busy && i < 2 * G::MT3 * G::PAIRS3; ++i) {
        const unsigned row = i / G::PAIRS3, j = i % G::PAIRS3;
        const unsigned quarter = (at.pixel_of(row) * G::O_PADDED + at.channel_of(j)) / 4, owner = quarter / PART;
        const float(&d)[2][4] = acc[row / 2][j];
        const unsigned e = row % 2 * 2;
        const float4 sum = make_float4(d[0][e], d[0][e + 1], d[1][e], d[1][e + 1]);
        float4* const to = at.sums + (at.rank * PART + quarter - owner * PART);
        if (at.pixel_of(row) < G::PIXELS_OUT && at.channel_of(j) < G::O_PADDED) {
            if (owner == at.rank) *to = sum;  // a mailbox brings a block's own letters as slowly as those to others
            else at.post.send(to, at.rank_of_first + owner, sum);
        }
    }
    const int mine = busy ? larger(0, smaller(PART, G::QUARTERS - at.rank * PART)) : 0;
    at.post.wait(at.thread, (S::SPLIT - 1) * mine * 16, busy);
    for (int i = at.thread; i < mine; i += S::THREADS) {
        float v[4] = {};
#pragma unroll
        for (int r = 0; r < S::SPLIT; ++r) {
            const float4 part = at.sums[r * PART + i];
            v[0] += part.x, v[1] += part.y, v[2] += part.z, v[3] += part.w;
        }
        const unsigned quarter = at.rank * PART + i;
        const unsigned o = quarter % (G::O_PADDED / 4) * 4, pixel = quarter / (G::O_PADDED / 4);
        if (spot.is_out(pixel) && o < S::O) write(v, y_tile + (G::place_out(pixel) + o), w);
    }
}
