// cooperative_groups.h - barriers as objects: a block, a tile of a warp, a cluster of blocks, the whole grid.
//
// Covers thread_block, thread_block_tile<1..32>, cluster_group and grid_group. A grid
// barrier needs every block on the machine at once: RawKernel(..., enable_cooperative_groups=True).
#pragma once

namespace cooperative_groups {

struct thread_block {
#ifdef SIM_TRACE  // a barrier is known by its place in the kernel
    SIM_HIDDEN static SIM_BARRIER void sync() {
        const void* caller = __builtin_return_address(0);
        sim_barrier_at((long)caller, caller);
    }
#else
    static void sync() { __syncthreads(); }
#endif
    static unsigned thread_rank() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
    static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned size() { return num_threads(); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 dim_threads() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
};
SIM_INLINE thread_block this_thread_block() { return thread_block(); }

struct cluster_group {
    static void sync() { sim_cluster_sync(); }
    static unsigned block_rank() { return sim_cluster_rank(); }
    static unsigned num_blocks() { return sim_cluster_size(); }
    static unsigned thread_rank() { return block_rank() * thread_block::num_threads() + thread_block::thread_rank(); }
    static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
    static unsigned size() { return num_threads(); }
    template <class V> static V* map_shared_rank(V* p, unsigned rank) { return (V*)sim_cluster_map((const void*)p, rank); }
};
SIM_INLINE cluster_group this_cluster() { return cluster_group(); }

struct grid_group {
    static void sync() { sim_grid_sync(); }
    static unsigned long long block_rank() {
        return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * thread_block::num_threads() + thread_block::thread_rank(); }
    static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
    static unsigned long long size() { return num_threads(); }
    static bool is_valid() { return true; }
};
SIM_INLINE grid_group this_grid() { return grid_group(); }

template <unsigned Lanes> struct thread_block_tile {
    static_assert(Lanes && Lanes <= 32 && (Lanes & (Lanes - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
    static unsigned thread_rank() { return sim_lane() & (Lanes - 1); }
    static constexpr unsigned num_threads() { return Lanes; }
    static constexpr unsigned size() { return Lanes; }
    static unsigned meta_group_rank() { return thread_block::thread_rank() / Lanes; }
    static unsigned meta_group_size() { return (thread_block::num_threads() + Lanes - 1) / Lanes; }
    static unsigned first_lane() { return sim_lane() & ~(Lanes - 1); }
    static unsigned mask() { return (Lanes == 32 ? 0xffffffffu : (1u << (Lanes & 31)) - 1) << first_lane(); }
    static void sync() { __syncwarp(mask()); }
    template <class V> V shfl(V value, int source) const { return __shfl_sync(mask(), value, source, Lanes); }
    template <class V> V shfl_up(V value, unsigned delta) const { return __shfl_up_sync(mask(), value, delta, Lanes); }
    template <class V> V shfl_down(V value, unsigned delta) const { return __shfl_down_sync(mask(), value, delta, Lanes); }
    template <class V> V shfl_xor(V value, int flip) const { return __shfl_xor_sync(mask(), value, flip, Lanes); }
    int any(int predicate) const { return __any_sync(mask(), predicate); }
    int all(int predicate) const { return __all_sync(mask(), predicate); }
    template <class V> unsigned match_any(V value) const { return __match_any_sync(mask(), value) >> first_lane(); }
    unsigned ballot(int predicate) const { return __ballot_sync(mask(), predicate) >> first_lane(); }
};
template <unsigned Lanes, class Parent> SIM_INLINE thread_block_tile<Lanes> tiled_partition(const Parent&) {
    return thread_block_tile<Lanes>();
}

template <class Group> SIM_MEMBER void sync(const Group& group) { group.sync(); }

}  // namespace cooperative_groups
