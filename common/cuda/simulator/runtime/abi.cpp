// abi.cpp - the sizes, offsets and numbers that binding.py compares with its own when it loads this library.
#include <stddef.h>

struct AbiEntry {
    const char* name;
    uint64_t offset, size;  // of a structure 0 and its bytes; of an enumeration its length, of an enumerator its number, and 0
};
#define STRUCTURE(T) {#T, 0, sizeof(T)}
#define FIELD(T, name) {#T "." #name, offsetof(T, name), sizeof(((T*)0)->name)}
#define KINDS(T, count) {#T, count, 0}
#define KIND(T, name) {#T "." #name, name, 0}
static const AbiEntry abi[] = {
    STRUCTURE(uint3), FIELD(uint3, x), FIELD(uint3, y), FIELD(uint3, z),
    STRUCTURE(SimParameter), FIELD(SimParameter, type), FIELD(SimParameter, size), FIELD(SimParameter, pointer),
    FIELD(SimParameter, constant),
    STRUCTURE(SimKernel), FIELD(SimKernel, parameter_count), FIELD(SimKernel, parameters),
    FIELD(SimKernel, run_thread), FIELD(SimKernel, run_block), FIELD(SimKernel, shared_memory),
    STRUCTURE(Fault), FIELD(Fault, kind), FIELD(Fault, thread), FIELD(Fault, block), FIELD(Fault, address),
    FIELD(Fault, at_barrier), FIELD(Fault, at_collective), FIELD(Fault, finished), FIELD(Fault, at_mbarrier), FIELD(Fault, line),
    FIELD(Fault, pc), FIELD(Fault, text), FIELD(Fault, shared_low), FIELD(Fault, shared_high),
    STRUCTURE(Launch), FIELD(Launch, kernel), FIELD(Launch, arguments), FIELD(Launch, grid), FIELD(Launch, block),
    FIELD(Launch, cluster), FIELD(Launch, dynamic_shared), FIELD(Launch, fibers), FIELD(Launch, cooperative),
    FIELD(Launch, workers), FIELD(Launch, trace), FIELD(Launch, fault),
    STRUCTURE(TracedArray), FIELD(TracedArray, low), FIELD(TracedArray, high), FIELD(TracedArray, itemsize),
    FIELD(TracedArray, memory), FIELD(TracedArray, constant),
    STRUCTURE(TracedShared), FIELD(TracedShared, low), FIELD(TracedShared, high),
    STRUCTURE(MergedCode), FIELD(MergedCode, low), FIELD(MergedCode, high), FIELD(MergedCode, line),
    FIELD(MergedCode, loads), FIELD(MergedCode, stores),
    STRUCTURE(TracedMemory), FIELD(TracedMemory, low), FIELD(TracedMemory, high), FIELD(TracedMemory, grain),
    FIELD(TracedMemory, writable),
    STRUCTURE(TraceRequest), FIELD(TraceRequest, array_count), FIELD(TraceRequest, memory_count),
    FIELD(TraceRequest, counting), FIELD(TraceRequest, worker_count), FIELD(TraceRequest, cluster_size),
    FIELD(TraceRequest, alone), FIELD(TraceRequest, arrays), FIELD(TraceRequest, memories), FIELD(TraceRequest, wanted),
    FIELD(TraceRequest, published), FIELD(TraceRequest, guard_count), FIELD(TraceRequest, guards),
    FIELD(TraceRequest, shared_count), FIELD(TraceRequest, shared_arrays), FIELD(TraceRequest, merged_count),
    FIELD(TraceRequest, merged_code), FIELD(TraceRequest, steps_max),
    FIELD(TraceRequest, bytes_max), FIELD(TraceRequest, workers),
    STRUCTURE(Site), FIELD(Site, pc), FIELD(Site, array), FIELD(Site, size), FIELD(Site, kind),
    FIELD(Site, accesses), FIELD(Site, requests), FIELD(Site, units), FIELD(Site, ideal), FIELD(Site, bytes),
    FIELD(Site, most), FIELD(Site, warps), FIELD(Site, lanes),
    STRUCTURE(Request), FIELD(Request, pc), FIELD(Request, array), FIELD(Request, size), FIELD(Request, kind),
    FIELD(Request, block), FIELD(Request, warp), FIELD(Request, lanes), FIELD(Request, addresses),
    STRUCTURE(Finding), FIELD(Finding, pc), FIELD(Finding, other_pc), FIELD(Finding, kind), FIELD(Finding, array),
    FIELD(Finding, access), FIELD(Finding, size), FIELD(Finding, block), FIELD(Finding, thread),
    FIELD(Finding, other_block), FIELD(Finding, other_thread), FIELD(Finding, owner), FIELD(Finding, offset),
    FIELD(Finding, count), FIELD(Finding, rank), FIELD(Finding, length),
    FIELD(Finding, other_access), FIELD(Finding, type),
    KINDS(FaultKind, FAULT_KINDS), KIND(FaultKind, NO_FAULT), KIND(FaultKind, BAD_ADDRESS), KIND(FaultKind, BAD_ARITHMETIC), KIND(FaultKind, TRAP),
    KIND(FaultKind, DEADLOCK), KIND(FaultKind, STACK_OVERFLOW), KIND(FaultKind, CANCELLED),
    KIND(FaultKind, NOT_COOPERATIVE), KIND(FaultKind, NOT_IN_MASK), KIND(FaultKind, GRID_DEADLOCK),
    KIND(FaultKind, SHARED_OVERRUN), KIND(FaultKind, CLUSTER_DEADLOCK), KIND(FaultKind, NO_SUCH_RANK),
    KIND(FaultKind, NOT_SHARED), KIND(FaultKind, BOX_OVERWRITTEN), KIND(FaultKind, BOX_OPEN),
    KIND(FaultKind, BOX_NOT_OPEN), KIND(FaultKind, ASSERTION), KIND(FaultKind, ABORTED), KIND(FaultKind, EXITED),
    KIND(FaultKind, WILD_ADDRESS), KIND(FaultKind, ENDLESS), KIND(FaultKind, TRACE_FULL),
    KIND(FaultKind, MISALIGNED_ADDRESS), KIND(FaultKind, DIVIDED_BY_ZERO), KIND(FaultKind, QUOTIENT_OVERFLOW),
    KIND(FaultKind, NO_MBARRIER), KIND(FaultKind, MBARRIER_OVERWRITTEN), KIND(FaultKind, MBARRIER_FULL),
    KIND(FaultKind, BAD_BULK_COPY), KIND(FaultKind, COPY_UNDER_WAY),
    KIND(FaultKind, MBARRIER_NOT_READY),
    KINDS(AccessKind, ACCESS_KINDS), KIND(AccessKind, LOAD), KIND(AccessKind, STORE), KIND(AccessKind, ATOMIC), KIND(AccessKind, WARP_OPERATION),
    KINDS(FindingKind, FINDING_KINDS), KIND(FindingKind, RACE), KIND(FindingKind, OUT_OF_BOUNDS), KIND(FindingKind, UNINITIALISED_READ),
    KIND(FindingKind, DIVERGENT_BARRIER), KIND(FindingKind, DEADLOCKED), KIND(FindingKind, MISALIGNED),
    KIND(FindingKind, NOT_STARTED), KIND(FindingKind, RETURNED), KIND(FindingKind, BAD_INDEX),
    KIND(FindingKind, LOCAL_OVERRUN), KIND(FindingKind, BAD_COPY), KIND(FindingKind, MISSED_BARRIER),
    KIND(FindingKind, NOT_GLOBAL),
};
#undef STRUCTURE
#undef FIELD
#undef KINDS
#undef KIND
EXPORTED const AbiEntry* sim_abi(int* count) {
    *count = (int)(sizeof abi / sizeof *abi);
    return abi;
}
