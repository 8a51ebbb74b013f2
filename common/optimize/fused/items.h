// items.h - what a single warp takes at a time, for alone.h and alone_pairs.h: 14 columns of outputs, STRIP rows.
#pragma once
#include "fused/numbers.h"

struct AloneBounds {  // of expand, whose lower one is 0, depthwise, project
    float low[3], high[3];
};

constexpr int ALONE_COLUMNS = 14;  // outputs of a row

template <class S> struct AloneItems {
    static constexpr int ST = S::STRIDE, C = S::C, O = S::O, WARPS = S::THREADS / 32;
    static constexpr int PARTS = S::PARTS, SLOTS = WARPS / PARTS;  // warps of an item; items of a block at a time
    static constexpr int OUT_H = (S::H - 1) / ST + 1, OUT_W = (S::W - 1) / ST + 1;
    static constexpr int SEGMENTS = ceil_div(OUT_W, ALONE_COLUMNS), STRIPS = ceil_div(OUT_H, S::STRIP);
    static constexpr int ITEMS = SEGMENTS * STRIPS;                     // of an image
    static constexpr int ROWS = (S::STRIP - 1) * ST + 3, PX = 16 * ST;  // hidden pixels of an item
    static constexpr int PLANES = S::HIDDEN / 16, NO = O / 8;
    static_assert(S::HIDDEN % 16 == 0 && O % 8 == 0, "channels");
    static_assert(WARPS % PARTS == 0 && PARTS <= PLANES, "parts");

    // Where pixel q of a row lies in shared memory: every 2·ST-th one side by side.
    __host__ __device__ static constexpr unsigned place(unsigned q) {
        return ST == 1 ? q % 2 * 8 + q / 2 : (q % 2 * 2 + q / 2 % 2) * 8 + q / 4;
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
