// runtime.h - one block in flight: its threads, its warps, its barriers; and what the files of the runtime call of each
// other. They are one translation unit, all.cpp.
#pragma once
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../include/simulator/layout.h"
#include "context_switch.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))
#if defined(__APPLE__)
#define FAST_TLS  // Mach-O has one kind of thread-local storage
#else
#define FAST_TLS __attribute__((tls_model("initial-exec")))
#endif
EXPORTED FAST_TLS __thread SimHere sim_here;
FAST_TLS __thread SimHere sim_here;  // (g++ takes the model of the definition)

typedef void (*Combine)(unsigned lanes, void** operands);

struct AsyncCopy {  // global to shared memory, under way
    void* to;
    const void* from;
    int bytes, inside, group;
};
struct BulkCopy {  // under way: rows of row_bytes each, of which those inside of the matrix are read and the others are zero
    char* to;
    const char* from;
    int64_t stride;
    uint32_t rows, row_bytes, first_row, end_row, inside_begin, inside_end;
    bool exchange;  // the pieces of 16 bytes, by bits 7 to 9 of the address
};
template <class T> struct List {
    T* items;
    int64_t count, room;
    T* add();
};
struct Mbarrier {  // mbarriers.cpp
    uint64_t* place;
    unsigned count, pending;  // arrivals of a phase, those that are missing in this one
    int64_t bytes;            // expected and not yet there
    unsigned phase;
    List<BulkCopy> copies;
    int initialised_by;  // a thread
    bool ready;          // made known to the copy unit since
};
enum { MBARRIERS_MAX = 64 };
struct Fiber {
    void* stack_pointer;
    uint3 thread_index;
    unsigned short warp, lane;
    unsigned mask;     // of the warp operation it waits at
    Combine combine;   // which operation that is
    void* operand;
    char* frame;           // all that is the kernel's own lies below, when traced
    long barrier;          // which __syncthreads it waits at, when traced
    uint64_t barrier_pc;
    int bar;               // which mbarrier it waits at
    AsyncCopy* copies;     // kept from launch to launch, as the stack is
    int copy_count, copy_room, copy_group;
};
struct Warp {  // a bit for each lane
    unsigned alive, ready, at_barrier, at_collective, at_mbarrier;
};
struct OpenMailbox {  // cluster.h
    unsigned* mark;
    unsigned value;  // of its mark, but for the lowest bit
};
struct Launch;
struct Trace;
struct Team;
enum { CLUSTER_MAX = 8 };  // blocks of a cluster that every card of sm_90 takes
enum Scope { OF_BLOCK, OF_CLUSTER, OF_GRID };
struct Block {
    Launch* launch;
    Team* team;            // the workers of its cluster's blocks; 0: it is alone
    int rank;              // in its cluster
    unsigned barriers_passed;  // of its cluster and of the grid
    char* anchor;          // a place in its static shared memory, the same in all blocks
    uint64_t static_low, static_high, dynamic_low, dynamic_high;  // its shared memory, if it has a team
    OpenMailbox* boxes;        // mailboxes that it has opened and not closed
    int box_count, box_room;
    Mbarrier bars[MBARRIERS_MAX];
    int bar_count;
    uint64_t in_flight;    // bytes of bulk copies that have been asked for and not come
    Trace* trace;          // 0: nobody watches
    bool lockstep;         // traced, and what its warps do is replayed in lockstep
    Fiber* fibers;
    Warp warps[32];
    int threads, warp_count, current, alive, arrived;
    Scope barrier_scope;   // of the barrier being waited at
    int reduce[3], reduced[3];
    void* worker_stack;    // where the worker waits for its fibers
    char* stacks;
    int capacity;          // fibers that `stacks` has room for
    bool guarded;          // there is a guard page below each
};

// From low to high, each thread has: a guard page that must not be touched, 64 KiB of stack that grows down
// towards it, and a page of which a different part is left out for each, so that the stacks' warm ends do not
// all fall on the same cache sets. Guards are entries in a table of the kernel's that is not endless: where
// they have run out, a mark at the stack's end must do, which only shows when the thread is over.
enum { STACK_BYTES = 65536, GUARDS_MAX = 16384 };
static const uint64_t STACK_END_MARK = 0x5afe5afe5afe5afeull;
static int guards_used;
static size_t page_bytes() {
    static size_t bytes;
    return bytes ? bytes : bytes = (size_t)sysconf(_SC_PAGESIZE);
}
static inline size_t stack_stride() { return STACK_BYTES + 2 * page_bytes(); }
static inline char* stack_guard(Block* b, int fiber) { return b->stacks + stack_stride() * fiber; }
static inline uint64_t* stack_end(Block* b, int fiber) { return (uint64_t*)(stack_guard(b, fiber) + page_bytes()); }
static inline char* stack_top(Block* b, int fiber) {
    return stack_guard(b, fiber) + stack_stride() - (size_t)fiber * 192 % 4096;
}

static inline Block* this_block() { return (Block*)sim_here.block; }
[[noreturn]] static void fault(int kind, const void* address, uint64_t pc = 0);  // launch.cpp
static void wait_for_other_blocks(Block*);                                // launch.cpp
static void wait_for_cluster(Block*);                                     // launch.cpp
static bool cancelled(Launch*);                                           // launch.cpp
static bool set_busy(bool);                                               // launch.cpp
static void replay(Block*, int warp);                                     // trace_replay.cpp, trace_races.cpp
static void trace_barrier(Block*);                                        // trace_replay.cpp, trace_races.cpp
static void trace_warp_operation(Block*);                                 // trace_replay.cpp, trace_races.cpp
static bool deliver(Block*);                                              // mbarriers.cpp
static void meet_in_warp(Block*, int warp, unsigned lanes);               // mbarriers.cpp
static void meet_in_block(Block*);                                        // mbarriers.cpp
static bool try_to_complete(Block*, int warp, unsigned mask, Combine);

enum FaultKind { NO_FAULT, BAD_ADDRESS, BAD_ARITHMETIC, TRAP, DEADLOCK, STACK_OVERFLOW, CANCELLED, NOT_COOPERATIVE,
                 NOT_IN_MASK, GRID_DEADLOCK, SHARED_OVERRUN, CLUSTER_DEADLOCK, NO_SUCH_RANK, NOT_SHARED,
                 BOX_OVERWRITTEN, BOX_OPEN, BOX_NOT_OPEN, ASSERTION, ABORTED, EXITED, WILD_ADDRESS, ENDLESS,
                 TRACE_FULL, MISALIGNED_ADDRESS, DIVIDED_BY_ZERO, QUOTIENT_OVERFLOW, NO_MBARRIER, MBARRIER_OVERWRITTEN,
                 MBARRIER_FULL, BAD_BULK_COPY, COPY_UNDER_WAY, MBARRIER_NOT_READY, FAULT_KINDS };
