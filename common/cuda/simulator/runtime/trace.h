// trace.h - every memory access of a launch, seen as the hardware would see it.
//
// A kernel that is to be traced is compiled with -fsanitize=thread and -fsanitize-coverage=trace-pc, but
// without their libraries: the functions that the compiler then calls, before each access and in each basic block, stand
// in trace_access.cpp. What they see is used twice:
//
//   at once     is the address inside an array? aligned? written by nobody, or by another thread without a barrier?
//   at each     the accesses of the 32 lanes of a warp since the last barrier are replayed in lockstep: of all lanes,
//   barrier     those at the lowest position in the program go first, and those that make the same access go
//               together. That is one request; its addresses give sectors, wavefronts and bank conflicts.
//
// Lowest position first is how a warp comes together again after a branch: lanes that skipped it, or left a loop
// early, wait for those that did not. Grouping by "same instruction, same count" would be wrong: in a loop with a
// `continue`, the third time of one lane is not the third time of another. A lane that waits at a shuffle or another
// operation of its warp holds the replay up there: the lanes of the operation go on together, and lanes that have run
// ahead of it are counted when their turn comes.
//
//   trace_replay.cpp    the replay, and how a request is served
//   trace_races.cpp     which accesses conflict, within a block
//   trace_access.cpp    one access: what it touches, whether it may; what the compiler calls
//   trace_blocks.cpp    a traced launch: its beginning, conflicts between blocks, its end
#pragma once
#include "regions.h"
#include "runtime.h"

enum AccessKind { LOAD, STORE, ATOMIC, WARP_OPERATION, ACCESS_KINDS };
enum { IN_SHARED = -1, IN_NOTHING = -2 };  // else the number of an array
enum FindingKind { RACE, OUT_OF_BOUNDS, UNINITIALISED_READ, DIVERGENT_BARRIER, DEADLOCKED, MISALIGNED, NOT_STARTED, RETURNED,
                   BAD_INDEX, LOCAL_OVERRUN, BAD_COPY, MISSED_BARRIER, NOT_GLOBAL, FINDING_KINDS };

// ---- What binding.py mirrors
struct TracedArray {
    uint64_t low, high;
    uint32_t itemsize;
    int32_t memory;  // which of the pieces of memory it lies in
    int32_t constant;  // 2: constant memory, which has no sectors
};
struct TracedShared {  // an array of static shared memory: offsets
    uint64_t low, high;
};
struct MergedCode {  // code whose accesses to shared memory the compiled kernel makes several at a time
    uint64_t low, high;     // addresses behind the calls, in the module
    uint32_t line;          // of the source
    uint8_t loads, stores;  // the widths in bytes, 4, 8 and 16, that occur there: a bit each, of that number
};
struct TracedMemory {  // arrays that overlap are one piece of memory
    uint64_t low, high;
    uint32_t grain;    // bytes that are watched as one: no array in it has smaller elements
    int32_t writable;  // false: all arrays in it are const, no race can be
};
struct Site {  // an access in the program: one instruction, one array
    uint64_t pc;
    int32_t array;
    uint8_t size, kind;
    uint64_t accesses, requests, units, ideal, bytes;  // units: sectors in global memory, wavefronts in shared memory
    uint64_t most;                                     // units of the worst request
    uint32_t warps, lanes;                             // which warps of a block made it, which lanes of them: a bit each
};
struct Request {  // the lanes of a warp that made one access together
    uint64_t pc;
    int32_t array;
    uint8_t size, kind;
    uint32_t block, warp, lanes;
    uint64_t addresses[32];  // offsets in the array, or in shared memory
};
struct Finding {
    uint64_t pc, other_pc;
    int32_t kind, array, access;
    uint32_t size;
    uint32_t block, thread, other_block, other_thread;  // other_thread 0xffff: several
    uint32_t owner;                                     // the block whose shared memory it is about
    int64_t offset;                                     // bytes from the start of the array, or of shared memory
    uint64_t count;
    int32_t rank;        // of a race: the pair with the highest is told
    int32_t length;      // BAD_INDEX, BAD_COPY: elements, bytes of the array; offset is the index, or the bytes, then.
                         // MISSED_BARRIER: the threads that came to it
    int32_t other_access;  // of a race within a block
    char type[64];       // BAD_INDEX: of the array
};

template <class T> T* List<T>::add() {
    if (count == room) {
        const bool busy = set_busy(true);
        room = room ? 2 * room : 64;
        items = (T*)realloc((void*)items, sizeof(T) * room);
        set_busy(busy);
    }
    return &items[count++];
}

// ---- Who touched which bytes. Memory is watched in grains (an array's element, 4 bytes of shared memory), in pages of
// them that exist where something was touched. An access to a part of a grain makes all grains of that memory smaller,
// so that neighbours which share a word are not taken for one.
struct Touch {
    uint32_t epoch, warp_epoch, pc, clock;
    uint16_t thread;
    uint8_t warp;
    bool plain;  // of reads: not volatile
};
enum { SEVERAL = 0xffff, SEVERAL_WARPS = 0xff, ENGINE = 1024 };  // from ENGINE on: the copies of an mbarrier
struct Visit {
    uint32_t block, pc;  // block number + 1; 0: nobody
    uint16_t thread;
} __attribute__((packed, aligned(2)));
struct Touches {  // in the block in hand
    Touch write, read, atomic;
};
// Writers and readers among all blocks, those with the lowest two numbers: enough to find a conflict,
// and the same whichever worker ran which block.
struct Visits {
    Visit writer[2], reader[2];
};
template <class T> struct Pages {
    enum { CELLS = 256 };
    T** pages;
    uint64_t count;
    uint32_t grain;
    void make(uint64_t bytes, uint32_t of) {
        const bool busy = set_busy(true);
        grain = of;
        count = bytes / grain / CELLS + 1;
        pages = (T**)calloc(count, sizeof(T*));
        set_busy(busy);
    }
    const T* look(uint64_t cell) const { return pages && pages[cell / CELLS] ? &pages[cell / CELLS][cell % CELLS] : 0; }
    T* at(uint64_t cell) {
        T*& page = pages[cell / CELLS];
        if (!page) {
            const bool busy = set_busy(true);
            page = (T*)calloc(CELLS, sizeof(T));
            set_busy(busy);
        }
        return &page[cell % CELLS];
    }
    void clear() {
        for (uint64_t i = 0; i < count; ++i)
            if (pages[i]) free(pages[i]), pages[i] = 0;
    }
    void drop() {
        if (pages) clear();
        free(pages), pages = 0, count = 0;
    }
    void refine(uint64_t bytes, uint32_t to) {
        const bool busy = set_busy(true);
        Pages old = *this;
        make(bytes, to);
        for (uint64_t i = 0; i < old.count; ++i)
            for (uint64_t j = 0; old.pages[i] && j < CELLS; ++j)
                for (uint32_t k = 0; k < old.grain / to; ++k) {
                    uint64_t cell = (i * CELLS + j) * (old.grain / to) + k;
                    if (cell / CELLS < count) *at(cell) = old.pages[i][j];
                }
        old.drop();
        set_busy(busy);
    }
};
struct SharedCell {
    Touches touches;
    bool written;
    uint32_t readers_epoch;
    uint32_t* readers;  // where threads meet at mbarriers: the clock of each that has read it, 0: it has not
};
struct Seen {  // by one worker; ordered: of blocks that had run an atomic before (see below)
    Pages<Visits> plain, ordered;
    uint32_t grain() const { return plain.pages ? plain.grain : ordered.pages ? ordered.grain : ~0u; }
    Visits* at(uint64_t cell, bool acquired, uint64_t bytes, uint32_t grain) {
        Pages<Visits>& pages = acquired ? ordered : plain;
        if (!pages.pages) pages.make(bytes, grain);
        return pages.at(cell);
    }
    void refine(uint64_t bytes, uint32_t to) {
        if (plain.pages && plain.grain != to) plain.refine(bytes, to);
        if (ordered.pages && ordered.grain != to) ordered.refine(bytes, to);
    }
    void drop() { plain.drop(), ordered.drop(); }
};
struct Watched {  // one piece of global memory
    Pages<Touches> touches;
    Seen grid, cluster;  // since the last barrier of the grid, of the cluster
};
struct RemoteShared {  // shared memory of a block of the cluster
    Pages<Touches> touches;  // by this block, if it is another one's
    Seen cluster;
    bool used;               // with the last access to another block's
    uint32_t barriers_passed, thread, size;
    uint64_t pc, offset;
    int kind;
};

struct Event {
    uint64_t pc, address;  // address 0: a basic block was entered
    uint32_t path;         // which calls led here
    uint8_t size, kind;
    int16_t array;
};
struct Gathered {  // accesses of a thread that may be parts of one wide access
    uint64_t chunk;   // its address
    uint32_t line;
    uint16_t kind, size;  // of each access
    uint32_t parts;       // which of them there were: a bit each
    int32_t first;        // the number of the first event
};
struct Path {  // a chain of calls: the replay orders by the outermost call first
    uint32_t parent, depth;
    uint64_t call_pc;
};

struct Place {  // in the program
    uint64_t pc;
    uint32_t path;
};

// Who knows what, where threads meet at mbarriers: see mbarriers.cpp.
struct Clocks {
    int threads, count;  // count: the threads, and each mbarrier's copies
    uint32_t *now, *known;
    List<void*> chunks;  // of memory for SharedCell::readers
    uint64_t chunk_left;
    int entity(uint32_t thread) const { return thread >= ENGINE ? threads + (int)(thread - ENGINE) : (int)thread; }
    uint32_t* row(int who) { return known + (size_t)count * who; }
    uint32_t* released(int bar) { return row(count + 2 * bar); }       // by arrivals and copies
    uint32_t* completed(int bar) { return row(count + 2 * bar + 1); }  // the same when the last phase was complete
    uint32_t* readers() {
        const uint64_t bytes = sizeof(uint32_t) * count, each = 1 << 20;
        const bool busy = set_busy(true);
        if (chunk_left < bytes) *chunks.add() = calloc(1, each), chunk_left = each;
        set_busy(busy);
        chunk_left -= bytes;
        return (uint32_t*)((char*)chunks.items[chunks.count - 1] + chunk_left);
    }
};

enum { REQUESTS_KEPT = 8, ARRAYS_MAX = 64 };
static uint64_t event_bytes;  // what all threads in flight did since their last barriers takes so much memory
enum { SHARED_BASE = 128 };  // offsets in shared memory are logged from here on: 0 means no access
struct Trace {  // one a worker
    int array_count, memory_count;
    TracedArray arrays[ARRAYS_MAX];
    TracedMemory memories[ARRAYS_MAX];
    Watched watched[ARRAYS_MAX];
    Pages<SharedCell> shared;
    RemoteShared remote[CLUSTER_MAX];     // by rank in the cluster
    uint32_t cluster_size;
    uint64_t shared_low, shared_high, dynamic_low, dynamic_high;  // of the block in hand
    uint64_t module_low, module_high;
    bool counting;                    // false: only stop at bad addresses
    int64_t steps_max;                // of a thread between two barriers: what comes after is taken for an endless loop
    uint64_t bytes_max;               // of event_bytes
    List<Event> events[1024];         // by thread of the block
    uint32_t path[1024];
    Place last[1024];                 // where the replay left each thread
    List<Path> paths;
    List<Site> sites;
    List<int32_t> site_table;         // hash table of indices into `sites`, -1: free
    List<Request> requests;
    List<Finding> findings;
    uint32_t block, epoch, warp_epoch[32];
    uint8_t* published;               // by block: it ran a fence, then an atomic
    int guard_count, shared_count;
    const uint64_t* guards;
    const TracedShared* shared_arrays;
    int merged_count;
    const MergedCode* merged_code;    // sorted
    List<Gathered> gathered;          // scratch of merge_accesses
    List<int32_t> gathered_of;
    uint64_t data_low, data_high;     // variables of the module
    bool acquired;                    // this block ran an atomic: it may read what others published
    bool fenced;                      // this block ran __threadfence
    Clocks clocks;
    uint64_t most_in_flight;          // of all blocks
};

static void drop_clocks(Trace*);  // mbarriers.cpp

// ---- Findings
static uint32_t thread_number(Block* b) { return (uint32_t)b->current; }
static Finding* find(Trace* t, int kind, uint64_t pc, int array, int access, uint32_t size, int64_t offset) {
    for (int64_t i = 0; i < t->findings.count; ++i) {
        Finding& f = t->findings.items[i];
        if (f.kind == kind && f.pc == pc && f.array == array && f.access == access) {
            ++f.count;
            return 0;
        }
    }
    Finding* f = t->findings.add();
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->pc = pc;
    f->array = array;
    f->access = access;
    f->size = size;
    f->offset = offset;
    f->block = f->other_block = f->owner = t->block;
    f->thread = f->other_thread = this_block() ? thread_number(this_block()) : 0;
    f->count = 1;
    return f;
}

// ---- A traced launch
struct TraceRequest {  // filled in by watch.py
    int array_count, memory_count, counting, worker_count, cluster_size;
    int alone;                   // do only the wanted blocks run? (clusters run in any case)
    TracedArray arrays[ARRAYS_MAX];
    TracedMemory memories[ARRAYS_MAX];
    const uint8_t* wanted;       // by block: is it to be traced?
    uint8_t* published;          // by block
    int guard_count;
    const uint64_t* guards;      // offsets in static shared memory of words that are the compiler's own
    int shared_count;
    const TracedShared* shared_arrays;
    int merged_count;
    const MergedCode* merged_code;  // sorted; none: every access is counted as it is written
    int64_t steps_max;
    uint64_t bytes_max;
    Trace* workers[256];
};
