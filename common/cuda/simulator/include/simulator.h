// simulator.h - makes the text of a CUDA C++ kernel ordinary C++17.
//
// The simulator puts this header in front of every kernel it compiles, as NVRTC puts its own
// built-in declarations. No system header is included, so a kernel compiles in a fraction of a second.
//
//   this file               what a kernel sees without any #include: qualifiers, built-in variables, barriers
//   simulator/layout.h      structures that kernels and the runtime share
//   simulator/vectors.h     float4 and its relatives
//   simulator/arithmetic.h  math functions and intrinsics
//   simulator/atomics.h     atomicAdd and its relatives
//   simulator/warp.h        shuffles, votes and other operations that the lanes of a warp do together
//   simulator/entry.h       how the runtime gets at a kernel and the types of its parameters
//   cuda_fp16.h, cooperative_groups.h    only if the kernel includes them, as on a GPU
#pragma once

#define __CUDA_SIMULATOR__ 1
#define __CUDA_ARCH__ 800

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

// ---- Qualifiers. Host and device are one machine here, so most of them say nothing.
#ifdef SIM_TRACE
#define __global__ __attribute__((noinline))  // or its accesses would be those of the function that calls it
#else
#define __global__
#endif
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)  // read by signature.py, and passed to SIM_CLUSTER (simulator/entry.h)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#ifdef SIM_TRACE
#define __constant__ static __attribute__((used))  // stays memory, though nobody writes it
#else
#define __constant__ static
#endif
#define __restrict__ __restrict

// A block runs from its start to its end on one thread of the operating system, so memory that each such
// thread has for itself is memory that each block in flight has for itself: shared memory.
#define __shared__ static __thread
// `extern __shared__ float tile[];` is rewritten to this line before compilation.
#define SIM_DYNAMIC_SHARED(type, name) type* name = (type*)sim_here.dynamic_shared

// What the headers define. When a kernel is compiled for tracing, SIM_INLINE functions stay out of sight: they are
// neither instrumented nor inlined. SIM_MEMBER functions access memory in the kernel's name, so they are both.
#define SIM_MEMBER __attribute__((always_inline)) inline
#if !defined(SIM_TRACE)
#define SIM_INLINE static inline __attribute__((always_inline, unused))
#define SIM_HIDDEN
#elif defined(__clang__)
#define SIM_HIDDEN __attribute__((disable_sanitizer_instrumentation, no_sanitize("coverage", "array-bounds")))
#define SIM_INLINE static SIM_HIDDEN __attribute__((noinline, unused))
#else
#define SIM_HIDDEN __attribute__((no_sanitize("thread,bounds"), no_sanitize_coverage))
#define SIM_INLINE static SIM_HIDDEN __attribute__((noinline, unused))
#endif

// A barrier is known by the place that calls it, which must stay one place.
#if defined(__clang__)
#define SIM_BARRIER __attribute__((noinline, unused, noduplicate))
#else
#define SIM_BARRIER __attribute__((noinline, unused))
#endif

// ---- Built-in variables: where this CUDA thread stands. The runtime sets them before it lets a thread run.
#include "simulator/layout.h"
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return uint3{x, y, z}; }
};
#if defined(__APPLE__)
extern "C" __thread SimHere sim_here;
#else
extern "C" __attribute__((tls_model("initial-exec"))) __thread SimHere sim_here;
#endif
#define threadIdx ((const uint3&)sim_here.thread_index)
#define blockIdx ((const uint3&)sim_here.block_index)
#define blockDim ((const uint3&)sim_here.block_size)
#define gridDim ((const uint3&)sim_here.grid_size)
static const int warpSize = 32;

// ---- What the runtime does for a kernel (runtime/fibers.cpp, launch.cpp)
extern "C" {
void sim_barrier();
void sim_barrier_at(long place, const void* caller);
void sim_note_fence();
void sim_note_atomic(const void* address, int size, const void* caller);
void sim_note_global(const void* address, int size, int kind);
int sim_barrier_reduce(int predicate, int operation);  // 0 counts, 1 ands, 2 ors
int sim_barrier_reduce_at(int predicate, int operation, long place);
void sim_cluster_barrier();
void sim_cluster_barrier_at(long place, const void* caller);
unsigned sim_cluster_rank();
unsigned sim_cluster_size();
void* sim_cluster_map(const void* p, unsigned rank);
void sim_mailbox_opened(unsigned* mark);
void sim_mailbox_closed(unsigned* mark);
void sim_grid_barrier();
void sim_grid_barrier_at(long place, const void* caller);
void sim_collective(unsigned mask, void* operand, void (*combine)(unsigned lanes, void** operands));
unsigned sim_active_lanes();
int sim_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
void sim_pause();
void sim_stop_assertion(const char* condition, const char* file, int line) __attribute__((noreturn));
void sim_stop_trap(int line) __attribute__((noreturn));
void* memcpy(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
void* sim_memcpy(void*, const void*, size_t, size_t to_room, size_t from_room) noexcept;
void* sim_memset(void*, int, size_t, size_t to_room) noexcept;
}
#define printf(...) sim_printf(__VA_ARGS__)
#ifdef SIM_TRACE  // seen by the trace, and stopped at the end of a local array
#define memcpy(to, from, ...) \
    sim_memcpy(to, from, __VA_ARGS__, __builtin_object_size(to, 0), __builtin_object_size(from, 0))
#define memset(to, value, ...) sim_memset(to, value, __VA_ARGS__, __builtin_object_size(to, 0))
#endif

#ifdef SIM_TRACE
#define SIM_NOTE_FENCE() sim_note_fence()
#define SIM_NOTE_ATOMIC(p) sim_note_atomic(p, sizeof *(p), __builtin_return_address(0))
#define SIM_NOTE_GLOBAL(p, kind) sim_note_global(p, sizeof *(p), kind)
#else
#define SIM_NOTE_FENCE() ((void)0)
#define SIM_NOTE_GLOBAL(p, kind) ((void)0)
#define SIM_NOTE_ATOMIC(p) ((void)0)
#endif

// ---- Barriers and fences
#ifdef SIM_TRACE
#define __syncthreads() sim_barrier_at(__COUNTER__, 0)  // numbered, so that two places cannot be merged into one
#define __syncthreads_count(predicate) sim_barrier_reduce_at(predicate, 0, __COUNTER__)
#define __syncthreads_and(predicate) sim_barrier_reduce_at(predicate, 1, __COUNTER__)
#define __syncthreads_or(predicate) sim_barrier_reduce_at(predicate, 2, __COUNTER__)
// the others are known by where they are called
SIM_HIDDEN static SIM_BARRIER void sim_cluster_sync() {
    const void* caller = __builtin_return_address(0);
    sim_cluster_barrier_at((long)caller, caller);
}
SIM_HIDDEN static SIM_BARRIER void sim_grid_sync() {
    const void* caller = __builtin_return_address(0);
    sim_grid_barrier_at((long)caller, caller);
}
#else
SIM_INLINE void sim_cluster_sync() { sim_cluster_barrier(); }
SIM_INLINE void sim_grid_sync() { sim_grid_barrier(); }
SIM_INLINE void __syncthreads() { sim_barrier(); }
SIM_INLINE int __syncthreads_count(int predicate) { return sim_barrier_reduce(predicate, 0); }
SIM_INLINE int __syncthreads_and(int predicate) { return sim_barrier_reduce(predicate, 1); }
SIM_INLINE int __syncthreads_or(int predicate) { return sim_barrier_reduce(predicate, 2); }
#endif
SIM_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SIM_INLINE void __threadfence() {
    SIM_NOTE_FENCE();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
SIM_INLINE void __threadfence_system() { __threadfence(); }
SIM_INLINE void __nanosleep(unsigned) { sim_pause(); }  // (the other threads of the block have their turn)
// Both stop the launch, which says the line. As on a GPU, an assertion that fails is printed as well.
#define __trap() sim_stop_trap(__LINE__)
#define assert(...) ((__VA_ARGS__) ? (void)0 : sim_stop_assertion(#__VA_ARGS__, __FILE__, __LINE__))

// ---- Accesses with a cache hint are accesses, of global memory alone: there is no such cache here. (kind: 0 load, 1 store)
template <class T> static SIM_MEMBER T __ldg(const T* p) { SIM_NOTE_GLOBAL(p, 0); return *p; }
template <class T> static SIM_MEMBER T __ldcs(const T* p) { SIM_NOTE_GLOBAL(p, 0); return *p; }
template <class T> static SIM_MEMBER T __ldcg(const T* p) { SIM_NOTE_GLOBAL(p, 0); return *p; }
template <class T> static SIM_MEMBER T __ldca(const T* p) { SIM_NOTE_GLOBAL(p, 0); return *p; }
template <class T> struct SimSame { typedef T type; };  // a parameter that takes no part in choosing T
template <class T> static SIM_MEMBER void __stcs(T* p, typename SimSame<T>::type value) { SIM_NOTE_GLOBAL(p, 1); *p = value; }
template <class T> static SIM_MEMBER void __stcg(T* p, typename SimSame<T>::type value) { SIM_NOTE_GLOBAL(p, 1); *p = value; }
template <class T> static SIM_MEMBER void __stwt(T* p, typename SimSame<T>::type value) { SIM_NOTE_GLOBAL(p, 1); *p = value; }

#include "simulator/vectors.h"
#include "simulator/arithmetic.h"
#include "simulator/atomics.h"
#include "simulator/warp.h"
#include "simulator/entry.h"
