// bulk.h - Hopper's bulk copies (the Tensor Memory Accelerator, TMA), the mbarriers that count what they bring, and
// setmaxnreg (sm_90). One thread asks for a copy of many bytes, and no thread moves them.
//
//   Mbarrier                     8 bytes in shared memory. Its phases are numbered 0, 1, 2, …; a phase is over when so many
//                                threads as `init` said have arrived, and as many bytes have come as were expected
//     bar.init(count)            by one thread; then mbarriers_ready() by that thread, and __syncthreads
//     bar.arrive(really)         one arrival: what this thread did before is seen by those who wait for the phase. Not if
//                                `really` is false: a predicate, where a branch would part the products on their way
//     bar.expect(bytes)          one arrival, and the phase also lasts until `bytes` more have come
//     bar.wait(parity)           until the phase of that parity (its number mod 2) is over. It may have been over for long,
//                                but not by two phases: parity 0 for the first wait, then 1, 0, …; parity 1 at the start is
//                                over at once, which is what a producer needs whose stages are all empty
//   bulk_copy(to, from, bytes, bar)          `bytes` from global to shared memory; bar's phase counts them. Addresses and
//                                            bytes are multiples of 16
//   bulk_copy_tile(to, map, column, row, bar)  a box of a matrix that `map` describes, from its element (row, column) on,
//                                            with zeros where the matrix ends; always as many bytes as the box has. Rows of
//                                            the box lie one behind the other; 128 bytes each, and swizzled as wgmma.h
//                                            reads them (`to` then is a multiple of 1,024 bytes). The column is a
//                                            multiple of 16 bytes, else the launch fails: illegal instruction
//   TensorMap                    a parameter of the kernel, `const __grid_constant__ TensorMap A`; made by cuda.TensorMap
//   registers_down<N>(), registers_up<N>()   all warps of a warpgroup: from now on each thread has N registers, a multiple
//                                            of 8; the kernel needs __launch_bounds__. Up waits until the block's other
//                                            warpgroups have given enough away
//
// A thread must wait for a copy before it reads what was copied; and a copy into memory that was read before may be asked
// for only when it is known, by another mbarrier or __syncthreads, that all have read it.
#pragma once

#ifdef __CUDA_SIMULATOR__  // a copy comes when nobody can go on without it; see runtime/mbarriers.cpp

extern "C" {
void sim_mbarrier_init(void* place, unsigned count);
void sim_mbarrier_arrive(void* place, unsigned bytes);
void sim_mbarrier_wait(void* place, unsigned parity);
void sim_mbarriers_ready();
void sim_bulk_copy(void* to, const void* from, unsigned bytes, void* place);
void sim_bulk_tile(void* to, const void* map, int column, int row, void* place);
}
struct TensorMap {
    unsigned long long words[16];
};
struct Mbarrier {
    unsigned long long state;
    SIM_MEMBER void init(unsigned count) { sim_mbarrier_init(this, count); }
    SIM_MEMBER void arrive(bool really = true) {
        if (really) sim_mbarrier_arrive(this, 0);
    }
    SIM_MEMBER void expect(unsigned bytes) { sim_mbarrier_arrive(this, bytes); }
    SIM_MEMBER void wait(unsigned parity) { sim_mbarrier_wait(this, parity); }
};
static SIM_MEMBER void mbarriers_ready() { sim_mbarriers_ready(); }
static SIM_MEMBER void bulk_copy(void* to, const void* from, unsigned bytes, Mbarrier& bar) { sim_bulk_copy(to, from, bytes, &bar); }
static SIM_MEMBER void bulk_copy_tile(void* to, const TensorMap& map, int column, int row, Mbarrier& bar) {
    sim_bulk_tile(to, &map, column, row, &bar);
}
template <int N> SIM_INLINE void registers_down() {}
template <int N> SIM_INLINE void registers_up() {}

#elif __CUDA_ARCH__ >= 900

struct __align__(64) TensorMap {  // CUtensorMap: made by cuTensorMapEncodeTiled
    unsigned long long words[16];
};
struct Mbarrier {
    unsigned long long state;
    __device__ __forceinline__ unsigned here() const { return (unsigned)__cvta_generic_to_shared(this); }
    __device__ __forceinline__ void init(unsigned count) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(here()), "r"(count) : "memory");
    }
    __device__ __forceinline__ void arrive(bool really = true) {
        asm volatile("{\n\t.reg .pred really;\n\tsetp.ne.u32 really, %1, 0;\n\t@really mbarrier.arrive.shared::cta.b64 _, [%0];\n\t}" ::
                     "r"(here()), "r"((unsigned)really) : "memory");
    }
    __device__ __forceinline__ void expect(unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(here()), "r"(bytes) : "memory");
    }
    __device__ __forceinline__ void wait(unsigned parity) {
        asm volatile("{\n\t.reg .pred over;\n\tagain: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n\t@!over bra again;\n\t}" ::
                     "r"(here()), "r"(parity) : "memory");
    }
};
__device__ __forceinline__ void mbarriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void bulk_copy(void* to, const void* from, unsigned bytes, Mbarrier& bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                 "r"((unsigned)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar.here()) : "memory");
}
__device__ __forceinline__ void bulk_copy_tile(void* to, const TensorMap& map, int column, int row, Mbarrier& bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                 "r"((unsigned)__cvta_generic_to_shared(to)), "l"(&map), "r"(column), "r"(row), "r"(bar.here()) : "memory");
}
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // compiled for sm_90a
template <int N> __device__ __forceinline__ void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> __device__ __forceinline__ void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
#else
template <int N> __device__ __forceinline__ void registers_down() {}
template <int N> __device__ __forceinline__ void registers_up() {}
#endif

#else  // older cards have none of it: so that a kernel compiles there, and can be traced

struct TensorMap {
    unsigned long long words[16];
};
struct Mbarrier {
    unsigned long long state;
    __device__ __forceinline__ void init(unsigned) { __trap(); }
    __device__ __forceinline__ void arrive(bool = true) { __trap(); }
    __device__ __forceinline__ void expect(unsigned) { __trap(); }
    __device__ __forceinline__ void wait(unsigned) { __trap(); }
};
__device__ __forceinline__ void mbarriers_ready() {}
__device__ __forceinline__ void bulk_copy(void*, const void*, unsigned, Mbarrier&) { __trap(); }
__device__ __forceinline__ void bulk_copy_tile(void*, const TensorMap&, int, int, Mbarrier&) { __trap(); }
template <int N> __device__ __forceinline__ void registers_down() {}
template <int N> __device__ __forceinline__ void registers_up() {}

#endif
