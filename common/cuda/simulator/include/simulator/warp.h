// warp.h - what the 32 lanes of a warp do together: shuffles, votes, reductions.
//
// Each lane leaves a record on its own stack and waits. The last lane of the mask to arrive computes the
// result of all of them from the records, and all go on: sim_collective in runtime/fibers.cpp.
#pragma once

SIM_INLINE int sim_lane() {
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31);
}

SIM_HIDDEN inline void sim_nothing(unsigned, void**) {}
SIM_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { sim_collective(mask, 0, sim_nothing); }
SIM_INLINE unsigned __activemask() { return sim_active_lanes(); }

// ---- Shuffles: every lane offers `value` and takes the value of lane `source`.
template <class T> struct SimShuffle {
    T value, result;
    int source;
    SIM_HIDDEN static void combine(unsigned lanes, void** records) {
        for (int lane = 0; lane < 32; ++lane) {
            if (!(lanes >> lane & 1)) continue;
            SimShuffle* mine = (SimShuffle*)records[lane];
            // a source that takes no part is undefined in CUDA; here a lane then keeps its own value
            bool there = lanes >> (mine->source & 31) & 1;
            mine->result = there ? ((SimShuffle*)records[mine->source])->value : mine->value;
        }
    }
};
template <class T> SIM_INLINE T sim_shuffle(unsigned mask, T value, int source) {
    SimShuffle<T> record;
    record.value = value;
    record.source = source;
    sim_collective(mask, &record, SimShuffle<T>::combine);
    return record.result;
}
// `width` splits the warp into sections of 2, 4, 8, 16 or 32 lanes; no value crosses a section's border.
template <class T> SIM_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    int section = sim_lane() & ~(width - 1);
    return sim_shuffle(mask, value, section | (source & (width - 1)));
}
template <class T> SIM_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    int lane = sim_lane(), source = lane - (int)(delta & 31);  // (the hardware looks at five bits)
    return sim_shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T> SIM_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    int lane = sim_lane(), source = lane + (int)(delta & 31);
    return sim_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T> SIM_INLINE T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32) {
    int lane = sim_lane(), source = lane ^ (flip & 31);  // earlier sections may be read, later ones not
    return sim_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}

// ---- Votes: a bit from every lane.
struct SimVote {
    int predicate;
    unsigned ballot;
    SIM_HIDDEN static void combine(unsigned lanes, void** records) {
        unsigned ballot = 0;
        for (int lane = 0; lane < 32; ++lane)
            if (lanes >> lane & 1) ballot |= (unsigned)(((SimVote*)records[lane])->predicate != 0) << lane;
        for (int lane = 0; lane < 32; ++lane)
            if (lanes >> lane & 1) ((SimVote*)records[lane])->ballot = ballot;
    }
};
SIM_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
    SimVote record;
    record.predicate = predicate;
    sim_collective(mask, &record, SimVote::combine);
    return record.ballot;
}
SIM_INLINE int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
SIM_INLINE int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

// ---- Matches: which lanes hold the same value as I do?
template <class T> struct SimMatch {
    T value;
    unsigned equal;
    SIM_HIDDEN static void combine(unsigned lanes, void** records) {
        for (int lane = 0; lane < 32; ++lane) {
            if (!(lanes >> lane & 1)) continue;
            SimMatch* mine = (SimMatch*)records[lane];
            mine->equal = 0;
            for (int other = 0; other < 32; ++other)
                if (lanes >> other & 1) mine->equal |= (unsigned)(((SimMatch*)records[other])->value == mine->value) << other;
        }
    }
};
template <class T> SIM_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    SimMatch<T> record;
    record.value = value;
    sim_collective(mask, &record, SimMatch<T>::combine);
    return record.equal;
}

template <class T> SIM_INLINE unsigned __match_all_sync(unsigned mask, T value, int* predicate) {
    const unsigned equal = __match_any_sync(mask, value);
    *predicate = __all_sync(mask, equal == __ballot_sync(mask, 1));
    return *predicate ? equal : 0;
}

// ---- Reductions over a warp in one instruction (sm_80 and later)
enum SimReduction { SIM_ADD, SIM_MIN, SIM_MAX, SIM_AND, SIM_OR, SIM_XOR };
template <class T, SimReduction R> struct SimReduce {
    T value;
    SIM_HIDDEN static void combine(unsigned lanes, void** records) {
        bool first = true;
        T r = 0;
        for (int lane = 0; lane < 32; ++lane) {
            if (!(lanes >> lane & 1)) continue;
            T v = ((SimReduce*)records[lane])->value;
            r = first ? v : R == SIM_ADD ? r + v : R == SIM_MIN ? (v < r ? v : r) : R == SIM_MAX ? (r < v ? v : r)
              : R == SIM_AND ? (r & v) : R == SIM_OR ? (r | v) : (r ^ v);
            first = false;
        }
        for (int lane = 0; lane < 32; ++lane)
            if (lanes >> lane & 1) ((SimReduce*)records[lane])->value = r;
    }
};
#define SIM_WARP_REDUCE(T, name, R)                          \
    SIM_INLINE T name(unsigned mask, T value) {              \
        SimReduce<T, R> record;                              \
        record.value = value;                                \
        sim_collective(mask, &record, SimReduce<T, R>::combine); \
        return record.value;                                 \
    }
SIM_WARP_REDUCE(int, __reduce_add_sync, SIM_ADD)  SIM_WARP_REDUCE(unsigned, __reduce_add_sync, SIM_ADD)
SIM_WARP_REDUCE(int, __reduce_min_sync, SIM_MIN)  SIM_WARP_REDUCE(unsigned, __reduce_min_sync, SIM_MIN)
SIM_WARP_REDUCE(int, __reduce_max_sync, SIM_MAX)  SIM_WARP_REDUCE(unsigned, __reduce_max_sync, SIM_MAX)
SIM_WARP_REDUCE(unsigned, __reduce_and_sync, SIM_AND)
SIM_WARP_REDUCE(unsigned, __reduce_or_sync, SIM_OR)
SIM_WARP_REDUCE(unsigned, __reduce_xor_sync, SIM_XOR)
