// items.h - what a single warp takes at a time, for alone.h and alone_pairs.h: 14 columns of outputs, STRIP rows.
//
//   AloneItems<S, PIECES>      its sizes, and where its x lies; PIECES: of 16 bytes, of a pixel of x
//   walk_items<G>(…)           one item after the other, while x of the next one comes
//   give_sums<G>, add_sums<G>  the sums of PARTS warps that share an item
#pragma once
#include "fused/numbers.h"
#include "grid.h"

struct AloneBounds {  // of expand, whose lower one is 0, depthwise, project
    float low[3], high[3];
};

constexpr int ALONE_COLUMNS = 14;  // outputs of a row

template <class S, int PIECES_OF_X> struct AloneItems {
    static constexpr int ST = S::STRIDE, C = S::C, O = S::O, WARPS = S::THREADS / 32;
    static constexpr int PARTS = S::PARTS, SLOTS = WARPS / PARTS;  // warps of an item; items of a block at a time
    static constexpr int OUT_H = (S::H - 1) / ST + 1, OUT_W = (S::W - 1) / ST + 1;
    static constexpr int SEGMENTS = ceil_div(OUT_W, ALONE_COLUMNS), STRIPS = ceil_div(OUT_H, S::STRIP);
    static constexpr int ITEMS = SEGMENTS * STRIPS;                     // of an image
    static constexpr int ROWS = (S::STRIP - 1) * ST + 3, PX = 16 * ST;  // hidden pixels of an item
    static constexpr int PLANES = S::HIDDEN / 16, NO = O / 8, BUFFERS = S::BUFFERS;
    static constexpr int STRIP = S::STRIP, SUMS = STRIP * NO * 32;  // SUMS: float4, of a warp
    static_assert(S::HIDDEN % 16 == 0 && O % 8 == 0, "channels");
    static_assert(WARPS % PARTS == 0 && PARTS <= PLANES, "parts");

    // Where pixel q of a row lies in shared memory: every 2·ST-th one side by side.
    __host__ __device__ static constexpr unsigned place(unsigned q) {
        return ST == 1 ? q % 2 * 8 + q / 2 : (q % 2 * 2 + q / 2 % 2) * 8 + q / 4;
    }

    // Pieces of eight pixels that are read at once are exchanged so that they lie in all banks.
    static constexpr int PIECES = PIECES_OF_X;
    static constexpr int EXCHANGED = PIECES % 8 == 0 ? 8 : PIECES % 4 == 0 ? 4 : PIECES % 2 == 0 ? 2 : 1;
    __host__ __device__ static constexpr unsigned exchanged(unsigned index, unsigned piece) {
        return piece ^ index / (8 / EXCHANGED) % EXCHANGED;
    }

    struct Item {
        int image, ox, oy;
        __device__ __forceinline__ explicit Item(int index) {
            image = (unsigned)index / ITEMS;
            const unsigned rest = index - image * ITEMS;
            oy = rest / SEGMENTS, ox = (rest - oy * SEGMENTS) * ALONE_COLUMNS, oy *= S::STRIP;
        }
        __device__ __forceinline__ int x0() const { return ox * ST - 1; }
        __device__ __forceinline__ int y0() const { return oy * ST - 1; }
    };

    // All warps of an item have come here: one, or PARTS of them and those of the block's other items.
    __device__ __forceinline__ static void meet() {
        if constexpr (PARTS == 1) __syncwarp();
        else __syncthreads();
    }
};

// The items of a slot, of N images: fetch(index, to) asks for an item's x, take(index, here, busy) computes the item
// whose x is here. Warps that are not busy have none, and only meet the others. mine: BUFFERS times X elements.
template <class G, class T, class Fetch, class Take>
__device__ __forceinline__ void walk_items(int N, int slot, T* mine, const Fetch& fetch, const Take& take) {
    const int all = N * G::ITEMS, step = gridDim.x * G::SLOTS;
    int index = blockIdx.x * G::SLOTS + slot;
    wait_for_inputs();
    if (index < all) fetch(index, mine);
    cp_async_commit();
    launch_dependents();
    cp_async_wait<1>();
    __syncthreads();  // the weights are there
    // those who wait for each other take as many turns
    for (int turn = 0, first = G::PARTS == 1 ? index : blockIdx.x * G::SLOTS; first < all; first += step) {
        T* const here = mine + (G::BUFFERS > 1 ? turn * G::X : 0);
        const bool busy = G::PARTS == 1 || index < all, more = index + step < all;
        cp_async_wait<0>();
        G::meet();
        if (G::BUFFERS > 1) {
            if (more) fetch(index + step, mine + (turn ^ 1) * G::X);
            cp_async_commit();
        }
        take(index, here, busy);
        if (G::BUFFERS == 1) {
            G::meet();  // nobody reads this item's memory any more
            if (more) fetch(index + step, mine);
            cp_async_commit();
        }
        index += step, turn ^= 1;
    }
}

// The sums of an item's outputs, of PARTS warps: each gives its own to all of them, and adds up some. shared: of this
// item and lane.
template <class G>
__device__ __forceinline__ void give_sums(float4* shared, int part, const float (&sums)[G::STRIP][G::NO][4]) {
#pragma unroll
    for (int i = 0; i < G::STRIP * G::NO; ++i) {
        const float(&d)[4] = sums[i / G::NO][i % G::NO];
        shared[part * G::SUMS + i * 32] = make_float4(d[0], d[1], d[2], d[3]);
    }
}
// store(i, d): the lane's part of 8 outputs, i % NO, of row i / NO.
template <class G, class Store>
__device__ __forceinline__ void add_sums(const float4* shared, int part, const Store& store) {
    for (int i = part; i < G::STRIP * G::NO; i += G::PARTS) {
        float d[4] = {};
#pragma unroll
        for (int p = 0; p < G::PARTS; ++p) {
            const float4 more = shared[p * G::SUMS + i * 32];
            d[0] += more.x, d[1] += more.y, d[2] += more.z, d[3] += more.w;
        }
        store(i, d);
    }
}
