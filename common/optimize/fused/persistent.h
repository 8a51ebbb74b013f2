// persistent.h - fused blocks one after the other in one kernel, which common/optimize/persistent.py writes.
//
//   Phase<S, BLOCK, TEAMS>    a fused block by a thread block of BLOCK threads. TEAMS teams of S::THREADS of them take
//                             a tile each, with the same weights; what is left over only comes to the barriers
#pragma once
#include "fused/block.h"

// A cluster's sums are put where they belong and waited for at its barrier: a mailbox would have to be closed.
struct Barrier {
    static constexpr int BYTES = 0;
    __device__ __forceinline__ void at(void*) {}
    __device__ __forceinline__ void send(float4* to, unsigned rank, float4 sum) { *cluster_map(to, rank) = sum; }
    __device__ __forceinline__ void wait(int, unsigned, bool) { cluster_sync(); }
};

template <class S, int ALL, int TEAMS> struct Teams {
    static constexpr int BLOCK = ALL;
    static constexpr bool CLEARS = false, WAITS = false;  // the kernel does, between two phases
    using Post = Barrier;
    __device__ __forceinline__ static int thread() {
        return BLOCK == S::THREADS ? threadIdx.x : threadIdx.x % S::THREADS;
    }
    __device__ __forceinline__ static int team() { return BLOCK == S::THREADS ? 0 : threadIdx.x / S::THREADS; }
    __device__ __forceinline__ static bool works(int team) { return BLOCK == S::THREADS || team < TEAMS; }
};

template <class S, int BLOCK, int TEAMS> using Phase = Fused<S, Teams<S, BLOCK, TEAMS>>;
