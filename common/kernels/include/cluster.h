// cluster.h - a cluster: up to 8 blocks that run at the same time and reach into each other's shared memory (sm_90).
//
//   extern "C" __global__ void __cluster_dims__(8, 1, 1) f(...)    blocks 0-7 are a cluster, 8-15 the next one, …; the
//                            launch is an ordinary one, its grid a multiple of the cluster in each dimension
//   cluster_rank()           which of its cluster's blocks this one is, x first; cluster_size() is how many there are
//   cluster_sync()           a barrier of all threads of all its blocks; what they wrote before it is seen after it
//   cluster_started()        a barrier that orders no memory: until all its blocks are there. It waits for no copy
//   cluster_map(p, rank)     p points into this block's shared memory; the same place in that of block `rank`
//
// Another block's shared memory is there once it has started, and until it returns: cluster_started, or a cluster_sync,
// before the first access, a cluster_sync after the last. On older cards, and in a kernel without __cluster_dims__, a cluster is one block.
#pragma once

#ifdef __CUDA_SIMULATOR__

SIM_INLINE unsigned cluster_rank() { return sim_cluster_rank(); }
SIM_INLINE unsigned cluster_size() { return sim_cluster_size(); }
SIM_MEMBER void cluster_sync() { sim_cluster_sync(); }
SIM_MEMBER void cluster_started() { sim_cluster_sync(); }
template <class T> SIM_INLINE T* cluster_map(T* p, unsigned rank) { return (T*)sim_cluster_map((const void*)p, rank); }

#elif __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ unsigned cluster_size() {
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void cluster_started() {
    asm volatile("barrier.cluster.arrive.relaxed;\n\tbarrier.cluster.wait;" ::: "memory");
}
template <class T> __device__ __forceinline__ T* cluster_map(T* p, unsigned rank) {
    T* there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
    return there;
}

#else

#undef __cluster_dims__
#define __cluster_dims__(...)
__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ unsigned cluster_size() { return 1; }
__device__ __forceinline__ void cluster_sync() { __syncthreads(); }
__device__ __forceinline__ void cluster_started() {}
template <class T> __device__ __forceinline__ T* cluster_map(T* p, unsigned) { return p; }

#endif
