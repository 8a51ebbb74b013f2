// cluster.h - a cluster: up to 8 blocks that run at the same time and reach into each other's shared memory (sm_90).
//
//   extern "C" __global__ void __cluster_dims__(8, 1, 1) f(...)    blocks 0-7 are a cluster, 8-15 the next one, …; the
//                            launch is an ordinary one, its grid a multiple of the cluster in each dimension
//   cluster_rank()           which of its cluster's blocks this one is, x first; cluster_size() is how many there are
//   cluster_sync()           a barrier of all threads of all its blocks; what they wrote before it is seen after it
//   cluster_started()        a barrier that orders no memory: until all its blocks are there. It waits for no copy
//   cluster_map(p, rank)     p points into this block's shared memory; the same place in that of block `rank`
//   Mailbox                  in shared memory: counts bytes that blocks of the cluster, this one too, have sent here
//     box.open()             by one thread, before cluster_started or cluster_sync
//     box.send(p, rank, v)   v, a float4 or a uint2, is on its way to the place of p in block `rank`, whose box, the same as this one, counts it.
//                            It takes as long to this block itself: what stays here, better stays in registers
//     box.expect(bytes)      by one thread, once for each wait: so many bytes will have come
//     box.wait(turn, mine)   until they are there; turn: 0 for the first wait, then 1, 0, … All threads of the cluster's
//                            blocks come here, equally often, also those without mail (mine): on the simulator it is a
//                            cluster_sync, and an assertion that just those bytes have come
//     box.close()            by one thread, when nobody looks at it any more, before its memory is anything else's or it is
//                            opened there again: an H200 was seen to put an open box back over what had been copied there
//
// Another block's shared memory is there once it has started, and until it returns: cluster_started, or a cluster_sync,
// before the first access, a cluster_sync, or the wait of who was sent something, after the last. A cluster_sync makes
// a fence of the whole card, which waits for all that was ever written; a mailbox waits for its bytes alone.
// On older cards, and in a kernel without __cluster_dims__, a cluster is one block; on sm_90 a mailbox is for two or more.
#pragma once

#ifdef __CUDA_SIMULATOR__

SIM_INLINE unsigned cluster_rank() { return sim_cluster_rank(); }
SIM_INLINE unsigned cluster_size() { return sim_cluster_size(); }
SIM_MEMBER void cluster_sync() { sim_cluster_sync(); }
SIM_MEMBER void cluster_started() { sim_cluster_sync(); }
template <class T> SIM_INLINE T* cluster_map(T* p, unsigned rank) { return (T*)sim_cluster_map((const void*)p, rank); }
struct Mailbox {
    int missing;        // bytes that are expected, less those that have come
    unsigned expected;  // a mark that nothing else has, and whether they were expected an odd number of times
    SIM_MEMBER void open() { missing = 0, expected = 0x626f7800u, sim_mailbox_opened(&expected); }
    SIM_MEMBER void close() { sim_mailbox_closed(&expected), expected = 0; }
    template <class T> SIM_MEMBER void send(T* p, unsigned rank, T v) {
        *cluster_map(p, rank) = v;
        atomicSub(cluster_map(&missing, rank), (int)sizeof v);
    }
    SIM_MEMBER void expect(unsigned bytes) { atomicAdd(&missing, (int)bytes), expected ^= 1; }
    SIM_MEMBER void wait(unsigned turn, bool mine = true) {
        sim_cluster_sync();
        if (!mine) return;
        assert(missing == 0);  // or a GPU waits for ever, or goes on too early
        assert(expected % 2 != turn);
    }
};

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
struct Mailbox {  // an mbarrier
    unsigned long long counter;
    __device__ __forceinline__ static unsigned here(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
    __device__ __forceinline__ static unsigned there(unsigned p, unsigned rank) {
        asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(p) : "r"(rank));
        return p;
    }
    __device__ __forceinline__ void open() {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(here(&counter)) : "memory");
    }
    __device__ __forceinline__ void close() { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(here(&counter)) : "memory"); }
    __device__ __forceinline__ void send(float4* p, unsigned rank, float4 v) {
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::
                     "r"(there(here(p), rank)), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(there(here(&counter), rank)) : "memory");
    }
    __device__ __forceinline__ void send(uint2* p, unsigned rank, uint2 v) {
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::
                     "r"(there(here(p), rank)), "r"(v.x), "r"(v.y), "r"(there(here(&counter), rank)) : "memory");
    }
    __device__ __forceinline__ void expect(unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(here(&counter)), "r"(bytes) : "memory");
    }
    __device__ __forceinline__ void wait(unsigned turn, bool mine = true) {
        if (!mine) return;
        asm volatile("{\n\t.reg .pred there;\n\tagain: "
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 there, [%0], %1;\n\t"
                     "@!there bra again;\n\t}" ::
                     "r"(here(&counter)), "r"(turn) : "memory");
    }
};

#else

#undef __cluster_dims__
#define __cluster_dims__(...)
__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ unsigned cluster_size() { return 1; }
__device__ __forceinline__ void cluster_sync() { __syncthreads(); }
__device__ __forceinline__ void cluster_started() {}
template <class T> __device__ __forceinline__ T* cluster_map(T* p, unsigned) { return p; }
struct Mailbox {
    unsigned long long counter;
    __device__ __forceinline__ void open() {}
    __device__ __forceinline__ void close() {}
    template <class T> __device__ __forceinline__ void send(T* p, unsigned, T v) { *p = v; }
    __device__ __forceinline__ void expect(unsigned) {}
    __device__ __forceinline__ void wait(unsigned, bool = true) { __syncthreads(); }
};

#endif
