// workspace.h - who a thread of a fused block is, and where its block's shared memory lies.
//
//   Workspace<S, Crew>    Crew: OneTile<S> of block.h, or Teams<…> of persistent.h
//
//   Crew::BLOCK           threads of the thread block, which fetch weights together
//   Crew::thread(), team()    of those that take a tile, S::THREADS of them: which one, and of which tile
//   Crew::works(team)     whether there is such a team, or only what is left over, which comes to the barriers alone
//   Crew::CLEARS, WAITS   whether a block clears its shared memory itself; whether it waits for the kernel before
//   Crew::Post            how the blocks of a cluster send their sums (cluster_sum.h)
#pragma once
#include "fused/geometry.h"

template <class S, class Crew> struct Workspace {
    using G = Geometry<S>;
    using T = typename S::T;
    static constexpr int WORK = G::TILES_BYTES + G::SUMS_BYTES + (S::SPLIT > 1 ? Crew::Post::BYTES : 0);  // of a team

    T *x_tile, *hidden, *dw, *spare, *stages;
    int* rows;
    unsigned* maxima;  // [WARPS], of image.h
    float4* sums;  // [SPLIT][PART]: of this block's part of the outputs, from each block of the cluster
    typename Crew::Post post;
    int lane, g, t, warp, warp_c, warp_p, rank, thread, team, rank_of_first;

    // work: WORK bytes for each team; weights: G::WEIGHTS bytes. In a cluster of more than SPLIT blocks those from rank
    // first_of_split on share a tile.
    __device__ __forceinline__ Workspace(void* work, void* weights, unsigned rank_in_split, unsigned first_of_split) {
        thread = Crew::thread(), team = Crew::team();
        x_tile = (T*)((char*)work + team * WORK);
        rows = (int*)(x_tile + G::X_SIZE);
        maxima = (unsigned*)(x_tile + G::X_SIZE - G::MAXIMA);
        hidden = x_tile + G::X_SIZE + G::ROWS_SIZE;
        dw = hidden + G::H_SIZE;
        spare = dw + G::D_SIZE + (G::SPARE ? thread * 8 : 0);
        sums = (float4*)((char*)x_tile + G::TILES_BYTES);
        post.at(sums + S::SPLIT * G::PART);
        stages = (T*)weights;
        lane = thread % 32, g = lane / 4, t = lane % 4, warp = thread / 32;
        rank = rank_in_split, rank_of_first = first_of_split;
        warp_c = warp % G::WARPS_C, warp_p = warp / G::WARPS_C;
    }

    // Fragments of mma: the row of 16 and the channel at which this lane's address for ldmatrix begins. Of the two
    // tiles of 8 columns of b, of_tiles has made four neighbours a thread's sums d[0][0], d[0][1], d[1][0], d[1][1].
    __device__ __forceinline__ int row_of_a() const { return lane % 16; }
    __device__ __forceinline__ int channel_of_a() const { return lane / 16 * (G::A::K / 2); }
    __device__ __forceinline__ int row_of_b() const { return lane % 8 + lane / 16 * 8; }
    __device__ __forceinline__ int channel_of_b() const { return lane / 8 % 2 * (G::A::K / 2); }

    // Sums of project: the pixels of a thread, range [0, 2·MT3), and their channels, PAIRS3 times 4 neighbours.
    __device__ __forceinline__ unsigned pixel_of(int i) const {
        return (warp / S::WARPS_N3 + i / 2 * G::M3) * 16 + i % 2 * 8 + g;
    }
    __device__ __forceinline__ unsigned channel_of(int j) const {
        return (warp % S::WARPS_N3 + j * S::WARPS_N3) * 16 + 4 * t;
    }
};
