// trace.h - every memory access of a launch, seen as the hardware would see it.
//
// A kernel that is to be traced is compiled with -fsanitize=thread and -fsanitize-coverage=trace-pc, but
// without their libraries: the functions that the compiler then calls, before each access and in each basic block, stand
// at the end of this file. What they see is used twice:
//
//   at once     is the address inside an array? aligned? written by nobody, or by another thread without a barrier?
//   at each     the accesses of the 32 lanes of a warp since the last barrier are replayed in lockstep: of all lanes,
//   barrier     those at the lowest position in the program go first, and those that make the same access go
//               together. That is one request; its addresses give sectors, wavefronts and bank conflicts.
//
// Lowest position first is how a warp comes together again after a branch: lanes that skipped it, or left a loop
// early, wait for those that did not. Grouping by "same instruction, same count" would be wrong: in a loop with a
// `continue`, the third time of one lane is not the third time of another.
#pragma once
#include <link.h>

#include "block.h"

enum AccessKind { LOAD, STORE, ATOMIC };
enum { IN_SHARED = -1, IN_NOTHING = -2 };  // else the number of an array
enum FindingKind { RACE, OUT_OF_BOUNDS, UNINITIALISED_READ, DIVERGENT_BARRIER, DEADLOCKED, MISALIGNED };

// ---- What is read by trace.py
struct TracedArray {
    uint64_t low, high;
    uint32_t itemsize;
};
struct Site {  // an access in the program: one instruction, one array
    uint64_t pc;
    int32_t array;
    uint8_t size, kind;
    uint64_t accesses, requests, units, ideal, bytes;  // units: sectors in global memory, wavefronts in shared memory
    uint64_t most;                                     // units of the worst request
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
    int64_t offset;                                     // bytes from the start of the array, or of shared memory
    uint64_t count;
};

template <class T> struct List {
    T* items;
    int64_t count, room;
    T* add() {
        if (count == room) {
            set_busy(true);
            room = room ? 2 * room : 64;
            items = (T*)realloc((void*)items, sizeof(T) * room);
            set_busy(false);
        }
        return &items[count++];
    }
};

// ---- Who touched an element last
struct Touch {
    uint32_t epoch, warp_epoch, pc;
    uint16_t thread, warp;
};
enum { SEVERAL = 0xffff };
struct Visit {
    uint32_t block, pc;  // block number + 1; 0: nobody
    uint32_t thread;
};
struct SharedCell {  // of one byte
    Touch write, read;
    bool written;
};
struct GlobalCell {  // of one element of an array
    Touch write, read;
    // Writers and readers among all blocks, those with the lowest two numbers: enough to find a conflict,
    // and the same whichever worker ran which block. `ordered`: readers that took an atomic first (see below).
    Visit writer[2], reader[2], ordered[2];
};

struct Event {
    uint64_t pc, address;  // address 0: a basic block was entered
    uint32_t path;         // which calls led here
    uint8_t size, kind;
    int16_t array;
};
struct Path {  // a chain of calls: the replay orders by the outermost call first
    uint32_t parent, depth;
    uint64_t call_pc;
};

enum { REQUESTS_KEPT = 8, ARRAYS_MAX = 64 };
enum { SHARED_BASE = 128 };  // offsets in shared memory are logged from here on: 0 means no access
struct Trace {  // one a worker
    int array_count;
    TracedArray arrays[ARRAYS_MAX];
    GlobalCell* cells[ARRAYS_MAX];
    SharedCell* shared;
    uint64_t shared_low, shared_high, dynamic_low, dynamic_high;  // of the block in hand
    uint64_t module_low, module_high;
    bool counting;                    // false: only stop at bad addresses
    List<Event> events[1024];         // by thread of the block
    uint32_t path[1024], depth[1024];
    List<Path> paths;
    List<Site> sites;
    List<int32_t> site_table;         // hash table of indices into `sites`, -1: free
    List<Request> requests;
    List<Finding> findings;
    uint32_t block, epoch, warp_epoch[32];
    uint8_t* published;               // by block: it ran a fence, then an atomic
    bool acquired;                    // this block ran an atomic: it may read what others published
    bool fenced;                      // this block ran __threadfence
};

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
    f->block = t->block;
    f->other_block = t->block;
    f->thread = f->other_thread = thread_number(this_block());
    f->count = 1;
    return f;
}

// ---- The replay
static bool before(const Trace* t, const Event& a, const Event& b) {
    if (a.path == b.path) return a.pc < b.pc;
    const Path* paths = t->paths.items;
    uint64_t pc_a = a.pc, pc_b = b.pc;
    uint32_t p = a.path, q = b.path;
    while (paths[p].depth > paths[q].depth) pc_a = paths[p].call_pc, p = paths[p].parent;
    while (paths[q].depth > paths[p].depth) pc_b = paths[q].call_pc, q = paths[q].parent;
    while (p != q) {
        pc_a = paths[p].call_pc, p = paths[p].parent;
        pc_b = paths[q].call_pc, q = paths[q].parent;
    }
    return pc_a < pc_b;
}
static Site* site_of(Trace* t, const Event& e) {
    if (t->sites.count * 2 >= t->site_table.count) {  // grow the table, put everything in again
        int64_t size = t->site_table.count ? 2 * t->site_table.count : 256;
        t->site_table.items = (int32_t*)realloc(t->site_table.items, size * sizeof(int32_t));
        t->site_table.count = t->site_table.room = size;
        memset(t->site_table.items, 0xff, size * sizeof(int32_t));
        for (int64_t i = 0; i < t->sites.count; ++i) {
            const Site& s = t->sites.items[i];
            uint64_t h = (s.pc * 0x9e3779b97f4a7c15ull >> 20) + (uint32_t)s.array * 40503u + s.kind;
            while (t->site_table.items[h % size] >= 0) ++h;
            t->site_table.items[h % size] = (int32_t)i;
        }
    }
    uint64_t h = (e.pc * 0x9e3779b97f4a7c15ull >> 20) + (uint32_t)(int32_t)e.array * 40503u + e.kind;
    for (;; ++h) {
        int32_t& slot = t->site_table.items[h % t->site_table.count];
        if (slot < 0) {
            slot = (int32_t)t->sites.count;
            Site* s = t->sites.add();
            memset(s, 0, sizeof *s);
            s->pc = e.pc, s->array = e.array, s->size = e.size, s->kind = e.kind;
            return s;
        }
        Site* s = &t->sites.items[slot];
        if (s->pc == e.pc && s->array == e.array && s->size == e.size && s->kind == e.kind) return s;
    }
}
// How many different numbers there are; sorts them. Insertion sort: they are few, and mostly in order.
static int distinct(uint64_t* values, int count) {
    for (int i = 1; i < count; ++i) {
        uint64_t v = values[i];
        int j = i;
        for (; j > 0 && values[j - 1] > v; --j) values[j] = values[j - 1];
        values[j] = v;
    }
    int different = 0;
    for (int i = 0; i < count; ++i)
        if (i == 0 || values[i] != values[different - 1]) values[different++] = values[i];
    return different;
}
// Global memory is moved in sectors of 32 bytes: how many does a request touch, and how many would its bytes fill?
static void count_sectors(Site* s, uint32_t lanes, const uint64_t* address) {
    uint64_t sectors[64], starts[32];
    int n = 0, m = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest);
        uint64_t first = address[lane] / 32, last = (address[lane] + s->size - 1) / 32;
        sectors[n++] = first;
        if (last != first) sectors[n++] = last;
        starts[m++] = address[lane];
    }
    uint64_t units = distinct(sectors, n);
    s->units += units;
    s->ideal += (distinct(starts, m) * (uint64_t)s->size + 31) / 32;
    if (units > s->most) s->most = units;
}
// Shared memory has 32 banks of 4 bytes. A pass over the banks (a wavefront) serves one word of each; lanes that want
// the same word share it. 8-byte accesses go half a warp at a time, 16-byte accesses a quarter.
static void count_wavefronts(Site* s, uint32_t lanes, const uint64_t* address) {
    int words_each = s->size <= 4 ? 1 : s->size / 4, lanes_a_turn = 32 / words_each;
    uint64_t total = 0;
    for (int turn = 0; turn < words_each; ++turn) {
        uint64_t words[32];
        int n = 0;
        for (int lane = turn * lanes_a_turn; lane < (turn + 1) * lanes_a_turn; ++lane)
            for (int w = 0; w < words_each && lanes >> lane & 1; ++w) words[n++] = address[lane] / 4 + w;
        if (n == 0) continue;
        n = distinct(words, n);
        int in_bank[32] = {0}, most = 0;
        for (int i = 0; i < n; ++i) {
            int here = ++in_bank[words[i] % 32];
            if (here > most) most = here;
        }
        total += most;
        ++s->ideal;
    }
    s->units += total;
    if (total > s->most) s->most = total;
}
static void count_request(Trace* t, int warp, const Event& e, uint32_t lanes, const uint64_t* address) {
    Site* s = site_of(t, e);
    int active = __builtin_popcount(lanes);
    ++s->requests;
    s->accesses += active;
    s->bytes += (uint64_t)active * s->size;
    if (s->array == IN_SHARED) count_wavefronts(s, lanes, address);
    else count_sectors(s, lanes, address);
    if (s->requests > REQUESTS_KEPT) return;
    Request* r = t->requests.add();
    r->pc = e.pc, r->array = e.array, r->size = e.size, r->kind = e.kind;
    r->block = t->block, r->warp = warp, r->lanes = lanes;
    uint64_t base = e.array == IN_SHARED ? (uint64_t)SHARED_BASE : t->arrays[e.array].low;
    for (int lane = 0; lane < 32; ++lane) r->addresses[lane] = lanes >> lane & 1 ? address[lane] - base : 0;
}
static void replay(Block* b, int warp) {
    Trace* t = b->trace;
    const Event *next[32], *end[32];
    const int lanes = b->threads - 32 * warp < 32 ? b->threads - 32 * warp : 32;
    for (int lane = 0; lane < lanes; ++lane) {
        List<Event>& log = t->events[32 * warp + lane];
        next[lane] = log.items;
        end[lane] = log.items + log.count;
    }
    for (;;) {
        const Event* lowest = 0;
        for (int lane = 0; lane < lanes; ++lane)
            if (next[lane] != end[lane] && (!lowest || before(t, *next[lane], *lowest))) lowest = next[lane];
        if (!lowest) break;
        const Event e = *lowest;
        uint32_t together = 0;
        uint64_t address[32];
        for (int lane = 0; lane < lanes; ++lane) {
            if (next[lane] == end[lane]) continue;
            const Event& mine = *next[lane];
            if (mine.pc != e.pc || mine.path != e.path) continue;
            if (mine.address == 0 && e.address == 0) {
                ++next[lane];
            } else if (mine.array == e.array && mine.size == e.size && mine.kind == e.kind && mine.address && e.address) {
                together |= 1u << lane;
                address[lane] = mine.address;
                ++next[lane];
            }
        }
        if (e.address) count_request(t, warp, e, together, address);
    }
    for (int lane = 0; lane < lanes; ++lane) t->events[32 * warp + lane].count = 0;
}

// ---- Races
// Two threads conflict if no barrier of the block lies between them and, in one warp, no warp operation.
static bool unordered(const Trace* t, const Touch& touch, uint32_t thread) {
    if (touch.epoch != t->epoch || touch.thread == thread) return false;
    return touch.warp != thread / 32 || touch.warp_epoch == t->warp_epoch[thread / 32];
}
// `plain` is false for atomics, which conflict with plain writes alone.
static const Touch* conflict(const Trace* t, const Touch& write, const Touch& read, bool writes, uint32_t thread) {
    if (unordered(t, write, thread)) return &write;
    if (writes && unordered(t, read, thread)) return &read;
    return 0;
}
static void remember(Trace* t, Touch& touch, uint32_t thread, uint32_t pc, bool reading) {
    bool same_interval = touch.epoch == t->epoch && touch.thread != thread;
    if (reading && same_interval && touch.warp != thread / 32) touch.thread = touch.warp = SEVERAL;
    else if (reading && same_interval && touch.warp_epoch == t->warp_epoch[thread / 32]) touch.thread = SEVERAL;
    else touch.thread = thread, touch.warp = thread / 32;
    touch.epoch = t->epoch;
    touch.warp_epoch = t->warp_epoch[thread / 32];
    touch.pc = pc;
}
static void visit(Visit* slots, uint32_t block, uint32_t thread, uint32_t pc) {  // keeps the lowest two blocks
    const Visit v = {block + 1, pc, thread};
    if (slots[0].block == v.block || slots[1].block == v.block) return;
    if (!slots[0].block || v.block < slots[0].block) slots[1] = slots[0], slots[0] = v;
    else if (!slots[1].block || v.block < slots[1].block) slots[1] = v;
}
static void note_race(Trace* t, const Touch& with, uint64_t pc, int array, int kind, uint32_t size, int64_t offset) {
    Finding* f = find(t, RACE, pc, array, kind, size, offset);
    if (!f) return;
    f->other_thread = with.thread;
    f->other_pc = t->module_low + with.pc;
}

// ---- Barriers (block.h)
static void trace_barrier(Block* b) {
    Trace* t = b->trace;
    replay(b, b->fibers[b->current].warp);
    const Fiber* first = 0;
    for (int i = 0; i < b->threads; ++i) {
        const Fiber& f = b->fibers[i];
        if (!(b->warps[f.warp].at_barrier >> f.lane & 1)) continue;
        if (!first) first = &f;
        if (f.barrier == first->barrier) continue;
        Finding* found = find(t, DIVERGENT_BARRIER, f.barrier_pc, IN_NOTHING, LOAD, 0, 0);
        if (!found) break;
        found->thread = (uint32_t)i;
        found->other_thread = (uint32_t)(first - b->fibers);
        found->other_pc = first->barrier_pc;
        break;
    }
    ++t->epoch;
}
static void trace_warp_operation(Block* b, int warp) { ++b->trace->warp_epoch[warp]; }

// ---- One access
static void check_shared(Trace* t, uint64_t offset, uint32_t size, int kind, uint64_t pc, uint32_t thread) {
    const Touch* found = 0;
    Touch with;  // a copy: remember() writes over it
    bool uninitialised = false;
    const uint32_t short_pc = (uint32_t)(pc - t->module_low);
    for (uint32_t i = 0; i < size; ++i) {
        SharedCell& c = t->shared[offset + i];
        if (!found && (found = conflict(t, c.write, c.read, kind == STORE, thread))) with = *found;
        uninitialised |= kind != STORE && !c.written;
        if (kind == STORE) remember(t, c.write, thread, short_pc, false), c.written = true;
        else remember(t, c.read, thread, short_pc, true);
    }
    if (found) note_race(t, with, pc, IN_SHARED, kind, size, offset);
    if (uninitialised) find(t, UNINITIALISED_READ, pc, IN_SHARED, kind, size, offset);
}
static void check_global(Trace* t, int array, uint64_t offset, uint32_t size, int kind, uint64_t pc, uint32_t thread) {
    const Touch* found = 0;
    Touch with;  // a copy: remember() writes over it
    const uint32_t itemsize = t->arrays[array].itemsize, short_pc = (uint32_t)(pc - t->module_low);
    for (uint64_t i = offset / itemsize; i <= (offset + size - 1) / itemsize; ++i) {
        GlobalCell& c = t->cells[array][i];
        if (!found && (found = conflict(t, c.write, c.read, kind == STORE, thread))) with = *found;
        if (kind == STORE) {
            remember(t, c.write, thread, short_pc, false);
            visit(c.writer, t->block, thread, short_pc);
        } else {
            remember(t, c.read, thread, short_pc, true);
            visit(t->acquired ? c.ordered : c.reader, t->block, thread, short_pc);
        }
    }
    if (found) note_race(t, with, pc, array, kind, size, offset);
}
static void on_access(uint64_t address, uint32_t size, int kind, uint64_t pc) {
    Block* b = this_block();
    if (!b || !b->trace) return;
    Trace* t = b->trace;
    if (address - (uint64_t)b->stacks < stack_stride() * b->capacity) return;     // a local variable
    if (address - (uint64_t)&sim_here < sizeof sim_here) return;                  // threadIdx and its relatives

    int array = IN_NOTHING;
    uint64_t offset = 0;
    if (address - t->shared_low < t->shared_high - t->shared_low) array = IN_SHARED, offset = address - t->shared_low;
    else if (address - t->dynamic_low < t->dynamic_high - t->dynamic_low)
        array = IN_SHARED, offset = t->shared_high - t->shared_low + (address - t->dynamic_low);
    for (int i = 0; i < t->array_count && array == IN_NOTHING; ++i)
        if (address - t->arrays[i].low < t->arrays[i].high - t->arrays[i].low) array = i, offset = address - t->arrays[i].low;
    if (array == IN_NOTHING && address - t->module_low < t->module_high - t->module_low) return;  // a table of constants

    bool past_the_end = array >= 0 && address + size > t->arrays[array].high;
    if (array == IN_NOTHING || past_the_end) {
        int nearest = array;
        uint64_t distance = ~0ull;
        for (int i = 0; i < t->array_count && array == IN_NOTHING; ++i) {
            uint64_t d = address < t->arrays[i].low ? t->arrays[i].low - address : address - t->arrays[i].high + 1;
            if (d < distance) distance = d, nearest = i;
        }
        // beside shared memory: the dynamic part, which lies behind the static one in what is reported, or else the static
        const bool dynamic = t->dynamic_high > t->dynamic_low;
        const uint64_t low = dynamic ? t->dynamic_low : t->shared_low, high = dynamic ? t->dynamic_high : t->shared_high;
        uint64_t d = address < low ? low - address : address - high + 1;
        if (high > low && d < distance && array == IN_NOTHING) nearest = IN_SHARED;
        int64_t where = nearest == IN_SHARED ? (int64_t)((dynamic ? t->shared_high - t->shared_low : 0) + (address - low))
                      : nearest >= 0 ? (int64_t)(address - t->arrays[nearest].low) : (int64_t)address;
        find(t, OUT_OF_BOUNDS, pc, nearest, kind, size, where);
        end_this_thread(b);
    }
    if (address % (size < 16 ? size : 16)) {
        find(t, MISALIGNED, pc, array, kind, size, offset);
        end_this_thread(b);
    }
    if (!t->counting) return;
    const uint32_t thread = thread_number(b);
    if (array == IN_SHARED) check_shared(t, offset, size, kind, pc, thread);
    else check_global(t, array, offset, size, kind, pc, thread);
    Event* e = t->events[thread].add();
    *e = Event{pc, array == IN_SHARED ? SHARED_BASE + offset : address, t->path[thread], (uint8_t)size, (uint8_t)kind, (int16_t)array};
}

// ---- What the compiler calls
#define RETURN_PC ((uint64_t)__builtin_return_address(0))
#define TRACED_SIZE(n)                                                                                       \
    EXPORTED void __tsan_read##n(void* p) { on_access((uint64_t)p, n, LOAD, RETURN_PC); }                    \
    EXPORTED void __tsan_write##n(void* p) { on_access((uint64_t)p, n, STORE, RETURN_PC); }                  \
    EXPORTED void __tsan_unaligned_read##n(void* p) { on_access((uint64_t)p, n, LOAD, RETURN_PC); }          \
    EXPORTED void __tsan_unaligned_write##n(void* p) { on_access((uint64_t)p, n, STORE, RETURN_PC); }        \
    EXPORTED void __tsan_read_write##n(void* p) {                                                            \
        on_access((uint64_t)p, n, LOAD, RETURN_PC);                                                          \
        on_access((uint64_t)p, n, STORE, RETURN_PC);                                                         \
    }
TRACED_SIZE(1) TRACED_SIZE(2) TRACED_SIZE(4) TRACED_SIZE(8) TRACED_SIZE(16)
EXPORTED void __tsan_read_range(void* p, uint64_t n) { on_access((uint64_t)p, (uint32_t)n, LOAD, RETURN_PC); }
EXPORTED void __tsan_write_range(void* p, uint64_t n) { on_access((uint64_t)p, (uint32_t)n, STORE, RETURN_PC); }
EXPORTED void* __tsan_memcpy(void* to, const void* from, uint64_t n) {
    on_access((uint64_t)from, (uint32_t)n, LOAD, RETURN_PC);
    on_access((uint64_t)to, (uint32_t)n, STORE, RETURN_PC);
    return memcpy(to, from, n);
}
EXPORTED void* __tsan_memset(void* to, int value, uint64_t n) {
    on_access((uint64_t)to, (uint32_t)n, STORE, RETURN_PC);
    return memset(to, value, n);
}
EXPORTED void __tsan_init() {}
EXPORTED void __tsan_vptr_update(void*, void*) {}
EXPORTED void __tsan_vptr_read(void*) {}
EXPORTED void __sanitizer_cov_trace_pc() {
    Block* b = this_block();
    if (!b || !b->trace || !b->trace->counting) return;
    uint32_t thread = thread_number(b);
    *b->trace->events[thread].add() = Event{RETURN_PC, 0, b->trace->path[thread], 0, 0, 0};
}
EXPORTED void __tsan_func_entry(void* call_pc) {
    Block* b = this_block();
    if (!b || !b->trace) return;
    Trace* t = b->trace;
    uint32_t thread = thread_number(b), parent = t->path[thread];
    for (int64_t i = parent + 1; i < t->paths.count; ++i)
        if (t->paths.items[i].parent == parent && t->paths.items[i].call_pc == (uint64_t)call_pc) {
            t->path[thread] = (uint32_t)i;
            return;
        }
    uint32_t depth = t->paths.items[parent].depth + 1;
    t->path[thread] = (uint32_t)t->paths.count;
    *t->paths.add() = Path{parent, depth, (uint64_t)call_pc};
}
EXPORTED void __tsan_func_exit() {
    Block* b = this_block();
    if (!b || !b->trace) return;
    uint32_t& path = b->trace->path[thread_number(b)];
    path = b->trace->paths.items[path].parent;
}
// ---- What include/simulator.h calls when a kernel is compiled for tracing
EXPORTED void sim_note_atomic(const void* p, int size, const void* pc) {
    Block* b = this_block();
    if (!b || !b->trace) return;
    on_access((uint64_t)p, size, ATOMIC, (uint64_t)pc);
    // A block that ran a fence and then an atomic has published what it wrote; one that ran an atomic may read it.
    Trace* t = b->trace;
    if (t->fenced) t->published[t->block] = 1;
    t->acquired = true;
}
EXPORTED void sim_note_fence() {
    Block* b = this_block();
    if (b && b->trace) b->trace->fenced = true;
}

// ---- A traced launch
struct TraceRequest {  // filled in by trace.py
    int array_count, counting;
    TracedArray arrays[ARRAYS_MAX];
    const uint8_t* wanted;       // by block: is it to be traced?
    uint8_t* published;          // by block
    Trace* workers[256];
};
static Trace* trace_of_worker(TraceRequest* request, int worker) {
    if (!request->workers[worker]) {
        Trace* t = request->workers[worker] = (Trace*)calloc(1, sizeof(Trace));
        t->array_count = request->array_count;
        t->counting = request->counting;
        t->published = request->published;
        memcpy(t->arrays, request->arrays, sizeof t->arrays);
        for (int i = 0; i < t->array_count && t->counting; ++i) {
            const TracedArray& a = t->arrays[i];
            t->cells[i] = (GlobalCell*)calloc((a.high - a.low) / a.itemsize + 1, sizeof(GlobalCell));
        }
        *t->paths.add() = Path{0, 0, 0};
    }
    return request->workers[worker];
}
struct Region { uint64_t inside, low, high, shared_low, shared_high; };
static int find_region(struct dl_phdr_info* info, size_t, void* result) {
    Region* r = (Region*)result;
    uint64_t low = ~0ull, high = 0, shared = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_LOAD && info->dlpi_addr + segment.p_vaddr < low) low = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && info->dlpi_addr + segment.p_vaddr + segment.p_memsz > high)
            high = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
        if (segment.p_type == PT_TLS) shared = segment.p_memsz;
    }
    if (r->inside < low || r->inside >= high) return 0;
    r->low = info->dlpi_addr, r->high = high;
    r->shared_low = (uint64_t)info->dlpi_tls_data, r->shared_high = r->shared_low + shared;
    return 1;
}
// Before a traced block: where its shared memory lies, which is filled with NaN, and that nobody has touched anything.
static void begin_trace(Block* b, Trace* t, const SimKernel* kernel, uint32_t number, uint64_t dynamic_bytes) {
    kernel->shared_memory();
    Region r = {(uint64_t)kernel->run_thread, 0, 0, 0, 0};
    dl_iterate_phdr(find_region, &r);
    t->module_low = r.low, t->module_high = r.high;
    t->shared_low = r.shared_low, t->shared_high = r.shared_high;
    t->dynamic_low = (uint64_t)sim_here.dynamic_shared, t->dynamic_high = t->dynamic_low + dynamic_bytes;
    size_t shared = t->shared_high - t->shared_low + dynamic_bytes;
    free(t->shared);
    t->shared = (SharedCell*)calloc(shared + 1, sizeof(SharedCell));
    memset((void*)t->shared_low, 0xff, t->shared_high - t->shared_low);
    memset((void*)t->dynamic_low, 0xff, dynamic_bytes);
    memset(t->path, 0, sizeof t->path);
    memset(t->warp_epoch, 0, sizeof t->warp_epoch);
    t->block = number;
    ++t->epoch;
    t->fenced = t->acquired = false;
    b->trace = t;
}

// ---- What trace.py asks for when the launch is over
EXPORTED const Site* sim_trace_sites(Trace* t, int64_t* count) { *count = t->sites.count; return t->sites.items; }
EXPORTED const Request* sim_trace_requests(Trace* t, int64_t* count) { *count = t->requests.count; return t->requests.items; }
EXPORTED const Finding* sim_trace_findings(Trace* t, int64_t* count) { *count = t->findings.count; return t->findings.items; }
EXPORTED uint64_t sim_trace_module(Trace* t) { return t->module_low; }

// Conflicts between blocks: what all workers saw of each element, put together.
static bool conflict_between_blocks(const TraceRequest* request, const Visit* writer, const Visit* reader, const Visit* ordered,
                                    Visit* one, Visit* other, int* kind) {
    if (writer[1].block) {
        *one = writer[1], *other = writer[0], *kind = STORE;
        return true;
    }
    if (!writer[0].block) return false;
    for (int i = 0; i < 2; ++i)
        if (reader[i].block && reader[i].block != writer[0].block) {
            *one = reader[i], *other = writer[0], *kind = LOAD;
            return true;
        }
    for (int i = 0; i < 2; ++i)
        if (ordered[i].block && ordered[i].block != writer[0].block && !request->published[writer[0].block - 1]) {
            *one = ordered[i], *other = writer[0], *kind = LOAD;
            return true;
        }
    return false;
}
EXPORTED void sim_trace_between_blocks(TraceRequest* request, int workers) {
    Trace* into = 0;
    for (int w = 0; w < workers && !into; ++w) into = request->workers[w];
    for (int a = 0; into && a < request->array_count; ++a) {
        const TracedArray& array = request->arrays[a];
        Finding* found[64] = {0};
        int kinds = 0;
        for (uint64_t i = 0; i < (array.high - array.low + array.itemsize - 1) / array.itemsize; ++i) {
            Visit writer[2] = {}, reader[2] = {}, ordered[2] = {};
            for (int w = 0; w < workers; ++w) {
                if (!request->workers[w]) continue;
                const GlobalCell& c = request->workers[w]->cells[a][i];
                for (int k = 0; k < 2; ++k) {
                    if (c.writer[k].block) visit(writer, c.writer[k].block - 1, c.writer[k].thread, c.writer[k].pc);
                    if (c.reader[k].block) visit(reader, c.reader[k].block - 1, c.reader[k].thread, c.reader[k].pc);
                    if (c.ordered[k].block) visit(ordered, c.ordered[k].block - 1, c.ordered[k].thread, c.ordered[k].pc);
                }
            }
            Visit one, other;
            int kind;
            if (!conflict_between_blocks(request, writer, reader, ordered, &one, &other, &kind)) continue;
            Finding* known = 0;
            for (int k = 0; k < kinds && !known; ++k)
                if (found[k]->pc == into->module_low + one.pc && found[k]->other_pc == into->module_low + other.pc) known = found[k];
            if (known) {
                ++known->count;
            } else if (kinds < 64) {
                Finding* f = found[kinds++] = (Finding*)calloc(1, sizeof(Finding));
                f->kind = RACE, f->array = a, f->access = kind, f->size = array.itemsize;
                f->pc = into->module_low + one.pc, f->other_pc = into->module_low + other.pc;
                f->block = one.block - 1, f->thread = one.thread;
                f->other_block = other.block - 1, f->other_thread = other.thread;
                f->offset = (int64_t)(i * array.itemsize);
                f->count = 1;
            }
        }
        for (int k = 0; k < kinds; ++k) {
            *into->findings.add() = *found[k];
            free(found[k]);
        }
    }
}
EXPORTED void sim_trace_free(TraceRequest* request) {
    for (Trace*& t : request->workers) {
        if (!t) continue;
        for (auto& log : t->events) free(log.items);
        for (GlobalCell* cells : t->cells) free(cells);
        free(t->shared), free(t->paths.items), free(t->sites.items), free(t->site_table.items);
        free(t->requests.items), free(t->findings.items), free(t);
        t = 0;
    }
}
