// grid.h - a barrier of the whole grid, and kernels that begin before the one in front of them has ended.
//
//   grid_barrier(counter)    waits for all threads of all blocks; what they wrote before it is seen after it. The launch
//                            must be cooperative: RawKernel(..., enable_cooperative_groups=True). counter: one unsigned in
//                            global memory, 0 before its first use and never reset, also if the next grid is another one.
//   grid_barrier_cluster(counter)    the same; one block of each cluster arrives for all of them
//   wait_for_inputs()        returns when the previous kernel has ended. Until then, read nothing that earlier kernels write,
//                            and write nothing that they use. In a launch with programmatic=True every thread calls it.
//   launch_dependents()      allows the next kernel to start, once all blocks have called this or returned. It has no effect
//                            on a next kernel that is launched without programmatic=True.
//
//   LAUNCHES_FIRST           if defined before this file is included, wait_for_inputs() lets the next kernel begin before
//                            it waits itself, and launch_dependents() does nothing
//   PROGRAMMATIC             whether there are such launches: from sm_90 on; elsewhere both functions do nothing
#pragma once
#include "cluster.h"

#ifdef __CUDA_SIMULATOR__

SIM_MEMBER void grid_barrier(unsigned*) { sim_grid_sync(); }
SIM_MEMBER void grid_barrier_cluster(unsigned*) { sim_grid_sync(); }
SIM_INLINE void launch_dependents() {}
SIM_INLINE void wait_for_inputs() {}
constexpr bool PROGRAMMATIC = true;

#else

// Together `parties` add 2^31, so that the top bit turns when the last one arrives, and the rest is 0 again.
__device__ __forceinline__ void grid_arrive_and_wait(unsigned* counter, unsigned parties) {
    const bool first = blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0;
    const unsigned mine = first ? 0x80000000u - (parties - 1) : 1u;
    unsigned before, now;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(__cvta_generic_to_global(counter)), "r"(mine) : "memory");
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(__cvta_generic_to_global(counter)) : "memory");
    } while (((now ^ before) & 0x80000000u) == 0);
}
__device__ __forceinline__ bool grid_first_thread() { return threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0; }
__device__ __forceinline__ void grid_barrier(unsigned* counter) {
    __syncthreads();
    if (grid_first_thread()) grid_arrive_and_wait(counter, gridDim.x * gridDim.y * gridDim.z);
    __syncthreads();
}
__device__ __forceinline__ void grid_barrier_cluster(unsigned* counter) {
    cluster_sync();
    if (cluster_rank() == 0 && grid_first_thread()) grid_arrive_and_wait(counter, gridDim.x * gridDim.y * gridDim.z / cluster_size());
    cluster_sync();
}

__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900 && !defined(LAUNCHES_FIRST)
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
#ifdef LAUNCHES_FIRST
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 900
constexpr bool PROGRAMMATIC = true;
#else
constexpr bool PROGRAMMATIC = false;
#endif

#endif
