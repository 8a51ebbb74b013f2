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
// `continue`, the third time of one lane is not the third time of another. A lane that waits at a shuffle or another
// operation of its warp holds the replay up there: the lanes of the operation go on together, and lanes that have run
// ahead of it are counted when their turn comes.
#pragma once
#if !defined(__APPLE__)
#include <link.h>
#endif

#include "block.h"

enum AccessKind { LOAD, STORE, ATOMIC, WARP_OPERATION };
enum { IN_SHARED = -1, IN_NOTHING = -2 };  // else the number of an array
enum FindingKind { RACE, OUT_OF_BOUNDS, UNINITIALISED_READ, DIVERGENT_BARRIER, DEADLOCKED, MISALIGNED, NOT_STARTED, RETURNED,
                   BAD_INDEX, LOCAL_OVERRUN, BAD_COPY };

// ---- What is read by tracing.py
struct TracedArray {
    uint64_t low, high;
    uint32_t itemsize;
    int32_t memory;  // which of the pieces of memory it lies in
    int32_t constant;  // 2: constant memory, which has no sectors
};
struct TracedShared {  // an array of static shared memory: offsets
    uint64_t low, high;
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
    int32_t length;      // BAD_INDEX, BAD_COPY: elements, bytes of the array; offset is the index, or the bytes, then
    char type[64];       // BAD_INDEX: of the array
};

template <class T> struct List {
    T* items;
    int64_t count, room;
    T* add() {
        if (count == room) {
            const bool busy = set_busy(true);
            room = room ? 2 * room : 64;
            items = (T*)realloc((void*)items, sizeof(T) * room);
            set_busy(busy);
        }
        return &items[count++];
    }
};

// ---- Who touched which bytes. Memory is watched in grains (an array's element, 4 bytes of shared memory), in pages of
// them that exist where something was touched. An access to a part of a grain makes all grains of that memory smaller,
// so that neighbours which share a word are not taken for one.
struct Touch {
    uint32_t epoch, warp_epoch, pc;
    uint16_t thread, warp;
};
enum { SEVERAL = 0xffff };
struct Visit {
    uint32_t block, pc;  // block number + 1; 0: nobody
    uint16_t thread;
} __attribute__((packed, aligned(2)));
struct Touches {  // in the block in hand
    Touch write, read;
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
    Touch write, read;
    bool written;
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
struct Reached {  // shared memory of a block of the cluster
    Pages<Touches> touches;  // by this block, if it is another one's
    Seen cluster;
    bool used;               // with the last access to another block's
    uint32_t meetings, thread, size;
    uint64_t pc, offset;
    int kind;
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

struct Place {  // in the program
    uint64_t pc;
    uint32_t path;
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
    Reached reached[CLUSTER_MAX];     // by rank in the cluster
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
    uint64_t data_low, data_high;     // variables of the module
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
    f->block = f->other_block = f->owner = t->block;
    f->thread = f->other_thread = this_block() ? thread_number(this_block()) : 0;
    f->count = 1;
    return f;
}

// ---- The replay
static bool before(const Trace* t, const Event& a, const Event& b) {
    if (a.path == b.path) return a.pc < b.pc || (a.pc == b.pc && a.kind != WARP_OPERATION && b.kind == WARP_OPERATION);
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
    s->warps |= 1u << warp, s->lanes |= lanes;
    if (s->array == IN_SHARED) count_wavefronts(s, lanes, address);
    else count_sectors(s, lanes, address);
    if (s->requests > REQUESTS_KEPT) return;
    Request* r = t->requests.add();
    r->pc = e.pc, r->array = e.array, r->size = e.size, r->kind = e.kind;
    r->block = t->block, r->warp = warp, r->lanes = lanes;
    uint64_t base = e.array == IN_SHARED ? (uint64_t)SHARED_BASE : t->arrays[e.array].low;
    for (int lane = 0; lane < 32; ++lane) {
        const uint64_t where = e.array == IN_SHARED ? (uint32_t)address[lane] : address[lane];
        r->addresses[lane] = lanes >> lane & 1 ? where - base : 0;
    }
}
// All lanes of a warp have come as far as they can: at a barrier, at a warp operation, at their end. When a warp operation
// is completed its lanes go on, and what is left of the replay waits until they, too, have come as far as they can.
static void replay(Block* b, int warp) {
    Trace* t = b->trace;
    const Event *next[32], *end[32];
    const int lanes = b->threads - 32 * warp < 32 ? b->threads - 32 * warp : 32;
    for (int lane = 0; lane < lanes; ++lane) {
        List<Event>& log = t->events[32 * warp + lane];
        next[lane] = log.items;
        end[lane] = log.items + log.count;
    }
    uint32_t held = 0;  // lanes whose warp operation cannot be completed yet
    for (bool completed = false; !completed;) {
        const Event* lowest = 0;
        int first = 0;
        for (int lane = 0; lane < lanes; ++lane)
            if (next[lane] != end[lane] && !(held >> lane & 1) && (!lowest || before(t, *next[lane], *lowest)))
                lowest = next[lane], first = lane;
        if (!lowest) break;
        const Event e = *lowest;
        if (e.kind == WARP_OPERATION) {
            const Fiber& f = b->fibers[32 * warp + first];
            uint32_t here = 0;
            for (int lane = 0; lane < lanes; ++lane)
                if (next[lane] != end[lane] && next[lane]->kind == WARP_OPERATION) here |= 1u << lane;
            const uint32_t needed = f.mask & b->warps[warp].alive;
            completed = (needed & ~here) == 0 && try_to_complete(b, warp, f.mask, f.combine);
            for (int lane = 0; lane < lanes; ++lane)
                if (completed && needed >> lane & 1) ++next[lane];
            if (completed) ++t->warp_epoch[warp];
            else held |= 1u << first;
            continue;
        }
        uint32_t together = 0;
        uint64_t address[32];
        for (int lane = 0; lane < lanes; ++lane) {
            if (next[lane] == end[lane]) continue;
            const Event& mine = *next[lane];
            if (mine.pc != e.pc || mine.path != e.path || mine.kind == WARP_OPERATION) continue;
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
    for (int lane = 0; lane < lanes; ++lane) {
        List<Event>& log = t->events[32 * warp + lane];
        if (next[lane] == log.items) continue;
        t->last[32 * warp + lane] = Place{next[lane][-1].pc, next[lane][-1].path};
        log.count = end[lane] - next[lane];
        memmove(log.items, next[lane], log.count * sizeof(Event));
    }
}
// Remembers what a thread did, for the replay.
static void remember_event(Trace* t, uint32_t thread, const Event& e) {
    List<Event>& log = t->events[thread];
    if (log.count >= t->steps_max) fault(ENDLESS, (void*)t->steps_max, e.pc);
    if (log.count == log.room) {
        const uint64_t more = (log.room ? log.room : 64) * sizeof(Event);
        if (__atomic_add_fetch(&event_bytes, more, __ATOMIC_RELAXED) > t->bytes_max)
            fault(TRACE_FULL, (void*)t->bytes_max, e.pc);
    }
    *log.add() = e;
}
// A lane waits at a warp operation: right after the last basic block or access that it was seen in.
static void trace_warp_operation(Block* b) {
    Trace* t = b->trace;
    List<Event>& log = t->events[b->current];
    const Event* e = log.count ? &log.items[log.count - 1] : 0;
    const Place here = e ? Place{e->pc, e->path} : t->last[b->current];
    remember_event(t, (uint32_t)b->current, Event{here.pc, 0, here.path, 0, WARP_OPERATION, 0});
}

// ---- Races
// Two threads conflict if no barrier of the block lies between them and, in one warp, no warp operation.
static bool unordered(const Trace* t, const Touch& touch, uint32_t thread) {
    if (touch.epoch != t->epoch || touch.thread == thread) return false;
    return touch.warp != thread / 32 || touch.warp_epoch == t->warp_epoch[thread / 32];
}
// A pair of threads of different warps shows best what a race is: a barrier of the block must stand between them.
static int race_rank(const Touch& with, uint32_t thread) {
    return with.warp == thread / 32 ? 0 : with.thread == SEVERAL ? 1 : 2;
}
// A read, an atomic too, conflicts with writes alone (`writes` is false).
static const Touch* conflict(const Trace* t, const Touch& write, const Touch& read, bool writes, uint32_t thread) {
    const bool with_write = unordered(t, write, thread), with_read = writes && unordered(t, read, thread);
    if (with_write && with_read) return race_rank(read, thread) > race_rank(write, thread) ? &read : &write;
    return with_write ? &write : with_read ? &read : 0;
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
// Blocks of one `group` are one here: those of a cluster, where conflicts of the grid are looked for.
static bool same_group(const Visit& a, const Visit& b, uint32_t group) {
    return a.block && b.block && (a.block - 1) / group == (b.block - 1) / group;
}
static void visit(Visit* slots, uint32_t group, uint32_t block, uint32_t thread, uint32_t pc) {  // keeps the lowest two
    const Visit v = {block + 1, pc, (uint16_t)thread};
    if (same_group(slots[0], v, group) || same_group(slots[1], v, group)) return;
    if (!slots[0].block || v.block < slots[0].block) slots[1] = slots[0], slots[0] = v;
    else if (!slots[1].block || v.block < slots[1].block) slots[1] = v;
}
static void note_race(Trace* t, const Touch* with, uint64_t pc, int array, int kind, uint32_t size, int64_t offset,
                      uint32_t owner) {
    const uint32_t thread = thread_number(this_block());
    const int rank = race_rank(*with, thread);
    Finding* f = find(t, RACE, pc, array, kind, size, offset);
    for (int64_t i = 0; !f && i < t->findings.count; ++i) {
        Finding& known = t->findings.items[i];
        const bool same = known.kind == RACE && known.pc == pc && known.array == array && known.access == kind;
        if (same && known.rank < rank) f = &known;
    }
    if (!f) return;
    f->rank = rank;
    f->block = f->other_block = t->block;
    f->thread = thread;
    f->size = size, f->offset = offset;
    f->other_thread = with->thread;
    f->other_pc = t->module_low + with->pc;
    f->owner = owner;
}

// ---- Barriers (block.h)
static void trace_barrier(Block* b) {
    Trace* t = b->trace;
    for (int w = 0; w < b->warp_count && t->counting; ++w) replay(b, w);
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

// ---- One access
// `offset` and `size` must be whole grains; else the lowest bit that is not says how small the grains must be.
static uint32_t grain_for(uint32_t grain, uint64_t offset, uint32_t size) {
    const uint64_t odd = (offset | size) & (grain - 1);
    return odd ? (uint32_t)(odd & -odd) : grain;
}
static uint64_t shared_bytes(const Trace* t) { return t->shared_high - t->shared_low + t->dynamic_high - t->dynamic_low; }
static void note_visit(Trace* t, Seen& seen, uint64_t cell, uint32_t group, uint64_t bytes, uint32_t grain, int kind,
                       uint32_t thread, uint32_t pc) {
    Visits* v = seen.at(cell, t->acquired, bytes, grain);
    visit(kind == STORE ? v->writer : v->reader, group, t->block, thread, pc);
}
static void check_shared(Block* b, uint64_t offset, uint32_t size, int kind, uint64_t pc, uint32_t thread) {
    Trace* t = b->trace;
    bool uninitialised = false, raced = false;
    const uint32_t short_pc = (uint32_t)(pc - t->module_low);
    const uint32_t grain = grain_for(t->shared.grain, offset, size);
    if (grain != t->shared.grain) {
        t->shared.refine(shared_bytes(t), grain);
        t->reached[b->rank].cluster.refine(shared_bytes(t), grain);
    }
    for (uint64_t i = offset / grain; i < (offset + size) / grain; ++i) {
        SharedCell& c = *t->shared.at(i);
        const Touch* with = raced ? 0 : conflict(t, c.write, c.read, kind == STORE, thread);
        uninitialised |= kind != STORE && !c.written;
        if (with && !raced) note_race(t, with, pc, IN_SHARED, kind, size, offset, t->block), raced = true;
        if (b->team) note_visit(t, t->reached[b->rank].cluster, i, 1, shared_bytes(t), grain, kind, thread, short_pc);
        if (kind == STORE) remember(t, c.write, thread, short_pc, false), c.written = true;
        else remember(t, c.read, thread, short_pc, true);
    }
    if (uninitialised) find(t, UNINITIALISED_READ, pc, IN_SHARED, kind, size, offset);
}
// Another block's shared memory. Whether somebody wrote what is read here is seen at the cluster's barrier.
static void check_reached(Block* b, int rank, uint64_t offset, uint32_t size, int kind, uint64_t pc, uint32_t thread) {
    Trace* t = b->trace;
    Reached& r = t->reached[rank];
    if (!r.touches.pages) r.touches.make(shared_bytes(t), 4);
    const uint32_t grain = grain_for(r.touches.grain, offset, size), short_pc = (uint32_t)(pc - t->module_low);
    if (grain != r.touches.grain) r.touches.refine(shared_bytes(t), grain), r.cluster.refine(shared_bytes(t), grain);
    bool raced = false;
    for (uint64_t i = offset / grain; i < (offset + size) / grain; ++i) {
        Touches& c = *r.touches.at(i);
        const Touch* with = raced ? 0 : conflict(t, c.write, c.read, kind == STORE, thread);
        if (with) note_race(t, with, pc, IN_SHARED, kind, size, offset, t->block - b->rank + rank), raced = true;
        remember(t, kind == STORE ? c.write : c.read, thread, short_pc, kind != STORE);
        note_visit(t, r.cluster, i, 1, shared_bytes(t), grain, kind, thread, short_pc);
    }
}
// A block of the cluster is known to have started, and to be still there, if a barrier of the cluster lies between.
static void check_presence(Block* b, int rank, uint64_t offset, uint32_t size, int kind, uint64_t pc, uint32_t thread) {
    Trace* t = b->trace;
    Reached& r = t->reached[rank];
    if (b->meetings == 0) {
        if (Finding* f = find(t, NOT_STARTED, pc, IN_SHARED, kind, size, offset)) f->owner = t->block - b->rank + rank;
        return;
    }
    if (r.used && r.meetings == b->meetings) return;  // the first one after a barrier says it for all
    r.used = true, r.meetings = b->meetings, r.thread = thread, r.size = size, r.pc = pc, r.offset = offset, r.kind = kind;
}
static void check_global(Block* b, int array, uint64_t address, uint32_t size, int kind, uint64_t pc, uint32_t thread) {
    Trace* t = b->trace;
    const int number = t->arrays[array].memory;
    TracedMemory& memory = t->memories[number];
    Watched& w = t->watched[number];
    const uint64_t offset = address - memory.low;
    if (!memory.writable) {
        if (kind == LOAD) return;
        memory.writable = true;  // const was cast away
    }
    const uint64_t bytes = memory.high - memory.low;
    if (!w.touches.pages) w.touches.make(bytes, memory.grain);
    const uint32_t grain = grain_for(w.touches.grain, offset, size);
    if (grain != w.touches.grain) w.touches.refine(bytes, grain), w.grid.refine(bytes, grain), w.cluster.refine(bytes, grain);
    const uint32_t short_pc = (uint32_t)(pc - t->module_low);
    bool raced = false;
    for (uint64_t i = offset / grain; i < (offset + size) / grain; ++i) {
        Touches& c = *w.touches.at(i);
        const Touch* with = raced ? 0 : conflict(t, c.write, c.read, kind == STORE, thread);
        if (with) note_race(t, with, pc, array, kind, size, address - t->arrays[array].low, t->block), raced = true;
        remember(t, kind == STORE ? c.write : c.read, thread, short_pc, kind != STORE);
        note_visit(t, w.grid, i, t->cluster_size, bytes, grain, kind, thread, short_pc);
        if (b->team) note_visit(t, w.cluster, i, 1, bytes, grain, kind, thread, short_pc);
    }
}
// The array that an access is to: one that holds all of its bytes if there is one, and one that may be written for a write.
static int array_of(const Trace* t, uint64_t address, uint32_t size, int kind) {
    int found = IN_NOTHING, worth = 0;
    for (int i = 0; i < t->array_count; ++i) {
        const TracedArray& a = t->arrays[i];
        if (address - a.low >= a.high - a.low) continue;
        const int here = 1 + 2 * (address + size <= a.high) + (kind == LOAD || !a.constant);
        if (here > worth) found = i, worth = here;
        if (here == 4) break;
    }
    return found;
}
static Block* member(const Block* b, int rank);  // of its cluster, 0: there is none of that rank (launch.cpp)
// The block of the cluster whose shared memory an address lies in, and where there; −1 if it is none's
static int owner_of(const Block* b, uint64_t address, uint64_t* offset, uint64_t* end) {
    for (int rank = 0; Block* other = member(b, rank); ++rank) {
        const uint64_t statics = other->static_high - other->static_low;
        if (address - other->static_low < statics) {
            *offset = address - other->static_low, *end = other->static_high;
            return rank;
        }
        if (address - other->dynamic_low < other->dynamic_high - other->dynamic_low) {
            *offset = statics + address - other->dynamic_low, *end = other->dynamic_high;
            return rank;
        }
    }
    return -1;
}
static uint64_t distance_to(uint64_t address, uint64_t low, uint64_t high) {
    return low == high ? ~0ull : address < low ? low - address : address >= high ? address - high + 1 : 0;
}
[[noreturn]] static void out_of_bounds(Block* b, uint64_t address, uint32_t size, int kind, uint64_t pc) {
    Trace* t = b->trace;
    const uint64_t statics = t->shared_high - t->shared_low;
    uint64_t closest = ~0ull;
    int nearest = IN_NOTHING;
    int64_t where = (int64_t)address;
    for (int i = 0; i < t->array_count; ++i) {
        const uint64_t d = distance_to(address, t->arrays[i].low, t->arrays[i].high);
        if (d < closest) closest = d, nearest = i, where = (int64_t)(address - t->arrays[i].low);
    }
    const uint64_t to_static = distance_to(address, t->shared_low, t->shared_high);
    const uint64_t to_dynamic = distance_to(address, t->dynamic_low, t->dynamic_high);
    if (to_static < closest) closest = to_static, nearest = IN_SHARED, where = (int64_t)(address - t->shared_low);
    if (to_dynamic < closest) closest = to_dynamic, nearest = IN_SHARED, where = (int64_t)(statics + address - t->dynamic_low);
    uint32_t owner = t->block;
    for (int rank = 0; Block* other = member(b, rank); ++rank) {
        const uint64_t to_its_static = distance_to(address, other->static_low, other->static_high);
        const uint64_t to_its_dynamic = distance_to(address, other->dynamic_low, other->dynamic_high);
        const bool dynamic = to_its_dynamic < to_its_static;
        const uint64_t d = dynamic ? to_its_dynamic : to_its_static;
        if (d >= closest) continue;
        closest = d, nearest = IN_SHARED, owner = t->block - b->rank + rank;
        where = (int64_t)(dynamic ? statics + address - other->dynamic_low : address - other->static_low);
    }
    if (closest > 1ull << 40) nearest = IN_NOTHING, where = (int64_t)address;  // a null pointer, a wild one
    if (Finding* f = find(t, OUT_OF_BOUNDS, pc, nearest, kind, size, where)) f->owner = owner;
    end_this_thread(b);
}
// Does an access to static shared memory stay inside of one array? (`guards`: words of the compiler's own)
static bool in_shared_array(const Trace* t, uint64_t offset, uint32_t size) {
    for (int i = 0; i < t->shared_count; ++i)
        if (offset >= t->shared_arrays[i].low && offset + size <= t->shared_arrays[i].high) return true;
    return false;
}
static bool is_guard(const Trace* t, uint64_t offset) {
    for (int i = 0; i < t->guard_count; ++i)
        if (offset - t->guards[i] < 8) return true;
    return false;
}
// A local variable of this thread lies between what is called here and what called the kernel.
static void check_local(Block* b, uint64_t address, uint32_t size, int kind, uint64_t pc) {
    const uint64_t high = (uint64_t)b->fibers[b->current].frame, low = (uint64_t)__builtin_frame_address(0);
    if (address >= low && address + size <= high) return;
    find(b->trace, LOCAL_OVERRUN, pc, IN_NOTHING, kind, size, (int64_t)address);
    end_this_thread(b);
}
static void on_access(uint64_t address, uint32_t size, int kind, uint64_t pc) {
    Block* b = this_block();
    if (!b || !b->trace) return;
    Trace* t = b->trace;
    if (address - (uint64_t)b->stacks < stack_stride() * b->capacity) return check_local(b, address, size, kind, pc);
    if (address - (uint64_t)&sim_here < sizeof sim_here) return;                  // threadIdx and its relatives

    int array = IN_SHARED, rank = -1;  // rank: of the block of the cluster whose shared memory it is, if not this one's
    uint64_t offset, end;
    const uint64_t statics = t->shared_high - t->shared_low;
    bool inside = true;
    if (address - t->shared_low < statics) {
        offset = address - t->shared_low, inside = in_shared_array(t, offset, size);
        if (!inside && is_guard(t, offset)) return;
    } else if (address - t->dynamic_low < t->dynamic_high - t->dynamic_low) {
        offset = statics + (address - t->dynamic_low), inside = address + size <= t->dynamic_high;
    } else if (b->team && (rank = owner_of(b, address, &offset, &end)) >= 0) {
        inside = offset < statics ? in_shared_array(t, offset, size) : address + size <= end;
    } else {
        array = array_of(t, address, size, kind);
        const bool in_module = address - t->module_low < t->module_high - t->module_low;
        if (array == IN_NOTHING && in_module && address - t->data_low >= t->data_high - t->data_low) return;  // constants
        inside = array != IN_NOTHING && address + size <= t->arrays[array].high;
        offset = array == IN_NOTHING ? 0 : address - t->arrays[array].low;
    }
    if (!inside) out_of_bounds(b, address, size, kind, pc);
    if (address & (size - 1)) {
        find(t, MISALIGNED, pc, array, kind, size, offset);
        end_this_thread(b);
    }
    const uint32_t thread = thread_number(b);
    if (rank >= 0) check_presence(b, rank, offset, size, kind, pc, thread);
    if (!t->counting || (array >= 0 && t->arrays[array].constant == 2)) return;
    if (rank >= 0) check_reached(b, rank, offset, size, kind, pc, thread);
    else if (array == IN_SHARED) check_shared(b, offset, size, kind, pc, thread);
    else check_global(b, array, address, size, kind, pc, thread);
    // (the same word of two blocks of a cluster is two words)
    const uint64_t logged = array == IN_SHARED ? (uint64_t)(rank + 1) << 32 | (SHARED_BASE + offset) : address;
    remember_event(t, thread, Event{pc, logged, t->path[thread], (uint8_t)size, (uint8_t)kind, (int16_t)array});
}
// A copy of a structure: as many accesses as its size asks for, a float3 is three of 4 bytes.
static void on_range(uint64_t address, uint64_t size, int kind, uint64_t pc) {
    const uint64_t low_bits = address | size | 16, each = low_bits & -low_bits;
    for (uint64_t i = 0; i < size; i += each) on_access(address + i, (uint32_t)each, kind, pc);
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
EXPORTED void __tsan_read_range(void* p, uint64_t n) { on_range((uint64_t)p, n, LOAD, RETURN_PC); }
EXPORTED void __tsan_write_range(void* p, uint64_t n) { on_range((uint64_t)p, n, STORE, RETURN_PC); }
EXPORTED void* __tsan_memcpy(void* to, const void* from, uint64_t n) {
    on_range((uint64_t)from, n, LOAD, RETURN_PC);
    on_range((uint64_t)to, n, STORE, RETURN_PC);
    return memcpy(to, from, n);
}
EXPORTED void* __tsan_memset(void* to, int value, uint64_t n) {
    on_range((uint64_t)to, n, STORE, RETURN_PC);
    return memset(to, value, n);
}
// memcpy and memset of a kernel (include/simulator.h). `room`: bytes from there to the end of a local array, if known
static void check_copy(const void* local, uint64_t n, uint64_t room, int kind, uint64_t pc) {
    Block* b = this_block();
    if (!b || !b->trace || n <= room || (uint64_t)local - (uint64_t)b->stacks >= stack_stride() * b->capacity) return;
    if (Finding* f = find(b->trace, BAD_COPY, pc, IN_NOTHING, kind, 0, (int64_t)n)) f->length = (int32_t)room;
    end_this_thread(b);
}
EXPORTED void* sim_memcpy(void* to, const void* from, uint64_t n, uint64_t to_room, uint64_t from_room) {
    check_copy(to, n, to_room, STORE, RETURN_PC);
    check_copy(from, n, from_room, LOAD, RETURN_PC);
    on_range((uint64_t)from, n, LOAD, RETURN_PC);
    on_range((uint64_t)to, n, STORE, RETURN_PC);
    return memcpy(to, from, n);
}
EXPORTED void* sim_memset(void* to, int value, uint64_t n, uint64_t room) {
    check_copy(to, n, room, STORE, RETURN_PC);
    on_range((uint64_t)to, n, STORE, RETURN_PC);
    return memset(to, value, n);
}
// What g++ calls to fill a local array: with 0xFE if nobody set it, which becomes the pattern of compiler.py here.
EXPORTED void* sim_memset_local(void* to, int value, uint64_t n) {
    if ((value & 255) != 0xfe) return memset(to, value, n);
    for (uint64_t i = 0; i < n; ++i) ((uint8_t*)to)[i] = i % 2 ? 0x7f : 0xfa;
    return to;
}
// An index that is none of its array's: -fsanitize=bounds calls this before the access (renamed by compiler.py).
struct BoundsType {
    uint16_t kind, info;
    char name[];
};
struct BoundsData {
    const char* file;
    uint32_t line, column;
    const BoundsType *array, *index;
};
EXPORTED void sim_bad_index(const BoundsData* data, uint64_t index) {
    Block* b = this_block();
    if (!b || !b->trace) return;
    const uint16_t info = data->index->info;
    const int bits = 1 << (info >> 1);
    const int64_t value = info & 1 && bits < 64 ? (int64_t)(index << (64 - bits)) >> (64 - bits) : (int64_t)index;
    if (Finding* f = find(b->trace, BAD_INDEX, RETURN_PC, IN_NOTHING, LOAD, 0, value)) {
        const char* length = strchr(data->array->name, '[');
        f->length = length ? atoi(length + 1) : 0;
        snprintf(f->type, sizeof f->type, "%s", data->array->name);
        f->other_thread = data->column;
    }
    end_this_thread(b);
}
EXPORTED void __tsan_init() {}
EXPORTED void __tsan_vptr_update(void*, void*) {}
EXPORTED void __tsan_vptr_read(void*) {}
EXPORTED void __sanitizer_cov_trace_pc() {
    Block* b = this_block();
    if (!b || !b->trace || !b->trace->counting) return;
    uint32_t thread = thread_number(b);
    remember_event(b->trace, thread, Event{RETURN_PC, 0, b->trace->path[thread], 0, 0, 0});
}
EXPORTED void __tsan_func_entry(void* call_pc) {
    Block* b = this_block();
    if (!b || !b->trace) return;
    if ((char*)__builtin_frame_address(0) < (char*)stack_end(b, b->current)) fault(STACK_OVERFLOW, (void*)STACK_BYTES, RETURN_PC);
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
struct TraceRequest {  // filled in by tracing.py
    int array_count, memory_count, counting, worker_count, cluster_size;
    TracedArray arrays[ARRAYS_MAX];
    TracedMemory memories[ARRAYS_MAX];
    const uint8_t* wanted;       // by block: is it to be traced?
    uint8_t* published;          // by block
    int guard_count;
    const uint64_t* guards;      // offsets in static shared memory of words that are the compiler's own
    int shared_count;
    const TracedShared* shared_arrays;
    int64_t steps_max;
    uint64_t bytes_max;
    Trace* workers[256];
};
static Trace* trace_of_worker(TraceRequest* request, int worker) {
    if (!request->workers[worker]) {
        Trace* t = request->workers[worker] = (Trace*)calloc(1, sizeof(Trace));
        t->array_count = request->array_count;
        t->memory_count = request->memory_count;
        t->counting = request->counting;
        t->steps_max = request->steps_max, t->bytes_max = request->bytes_max;
        t->cluster_size = request->cluster_size;
        t->published = request->published;
        t->guard_count = request->guard_count, t->guards = request->guards;
        t->shared_count = request->shared_count, t->shared_arrays = request->shared_arrays;
        memcpy(t->arrays, request->arrays, sizeof t->arrays);
        memcpy(t->memories, request->memories, sizeof t->memories);
        *t->paths.add() = Path{0, 0, 0};
    }
    return request->workers[worker];
}
struct Region { uint64_t inside, low, high, shared_low, shared_high, data_low, data_high; };
#if defined(__APPLE__)
static void find_module(Region*) { abort(); }  // tracing.py refuses before
#else
static int find_region(struct dl_phdr_info* info, size_t, void* result) {
    Region* r = (Region*)result;
    uint64_t low = ~0ull, high = 0, shared = 0, data_low = ~0ull, data_high = 0, fixed = 0;  // fixed: up to there read-only
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_LOAD && info->dlpi_addr + segment.p_vaddr < low) low = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && info->dlpi_addr + segment.p_vaddr + segment.p_memsz > high)
            high = info->dlpi_addr + segment.p_vaddr + segment.p_memsz;
        if (segment.p_type == PT_TLS) shared = segment.p_memsz;
        const uint64_t start = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_GNU_RELRO) fixed = start + segment.p_memsz;
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W)) continue;
        if (start < data_low) data_low = start;
        if (start + segment.p_memsz > data_high) data_high = start + segment.p_memsz;
    }
    if (r->inside < low || r->inside >= high) return 0;
    r->low = info->dlpi_addr, r->high = high;
    r->shared_low = (uint64_t)info->dlpi_tls_data, r->shared_high = r->shared_low + shared;
    if (data_low < fixed && fixed <= data_high) data_low = fixed;
    r->data_low = data_low < data_high ? data_low : 0, r->data_high = data_low < data_high ? data_high : 0;
    return 1;
}
static void find_module(Region* r) { dl_iterate_phdr(find_region, r); }
#endif
// Before a traced block: where its shared memory lies, which is filled with NaN, and that nobody has touched anything.
static void begin_trace(Block* b, Trace* t, const SimKernel* kernel, uint32_t number, uint64_t dynamic_bytes) {
    kernel->shared_memory();
    Region r = {(uint64_t)kernel->run_thread, 0, 0, 0, 0, 0, 0};
    find_module(&r);
    t->data_low = r.data_low, t->data_high = r.data_high;
    t->module_low = r.low, t->module_high = r.high;
    t->shared_low = r.shared_low, t->shared_high = r.shared_high;
    t->dynamic_low = (uint64_t)sim_here.dynamic_shared, t->dynamic_high = t->dynamic_low + dynamic_bytes;
    for (Reached& r : t->reached) r.touches.drop(), r.cluster.drop(), r.used = false;
    t->shared.drop();
    t->shared.make(t->shared_high - t->shared_low + dynamic_bytes, t->shared.grain ? t->shared.grain : 4);
    for (int i = 0; i < t->memory_count; ++i)
        if (t->watched[i].touches.pages) t->watched[i].touches.clear();
    memset((void*)t->shared_low, 0xff, t->shared_high - t->shared_low);
    memset((void*)t->dynamic_low, 0xff, dynamic_bytes);
    memset(t->path, 0, sizeof t->path);
    memset(t->last, 0, sizeof t->last);
    for (int i = 0; i < b->threads; ++i) t->events[i].count = 0;
    memset(t->warp_epoch, 0, sizeof t->warp_epoch);
    t->block = number;
    ++t->epoch;
    t->fenced = t->acquired = false;
    b->trace = t;
    b->lockstep = t->counting;
}

// ---- What tracing.py asks for when the launch is over
EXPORTED const Site* sim_trace_sites(Trace* t, int64_t* count) { *count = t->sites.count; return t->sites.items; }
EXPORTED const Request* sim_trace_requests(Trace* t, int64_t* count) { *count = t->requests.count; return t->requests.items; }
EXPORTED const Finding* sim_trace_findings(Trace* t, int64_t* count) { *count = t->findings.count; return t->findings.items; }
EXPORTED uint64_t sim_trace_module(Trace* t) { return t->module_low; }
EXPORTED uint64_t sim_trace_static_bytes(Trace* t) { return t->shared_high - t->shared_low; }

// Conflicts between blocks: what all workers saw of each grain, put together. A block that ran an atomic may rely on what
// others did before a fence and an atomic of theirs ("last block done", locks): `ordered` are the accesses of blocks from
// their first atomic on, and `published` the blocks that ran a fence, then an atomic.
struct BetweenBlocks {
    uint32_t group;
    Visits plain, ordered;
    void add(const Visits* v, Visits& to) {
        for (int k = 0; v && k < 2; ++k) {
            if (v->writer[k].block) visit(to.writer, group, v->writer[k].block - 1, v->writer[k].thread, v->writer[k].pc);
            if (v->reader[k].block) visit(to.reader, group, v->reader[k].block - 1, v->reader[k].thread, v->reader[k].pc);
        }
    }
    // A pair of visits of different blocks, of which no publication orders one before the other.
    bool pair(const Visit* a, bool a_ordered, const Visit* b, bool b_ordered, const uint8_t* published, Visit* one,
              Visit* other) const {
        for (int i = 0; i < 2; ++i)
            for (int k = 0; k < 2; ++k) {
                if (!a[i].block || !b[k].block || same_group(a[i], b[k], group)) continue;
                if ((a_ordered && published[b[k].block - 1]) || (b_ordered && published[a[i].block - 1])) continue;
                *one = a[i].block < b[k].block ? b[k] : a[i], *other = a[i].block < b[k].block ? a[i] : b[k];
                return true;
            }
        return false;
    }
    bool conflict(const uint8_t* published, Visit* one, Visit* other, int* kind) const {
        *kind = STORE;
        if (pair(plain.writer, false, plain.writer, false, published, one, other)) return true;
        if (pair(plain.writer, false, ordered.writer, true, published, one, other)) return true;
        if (pair(ordered.writer, true, ordered.writer, true, published, one, other)) return true;
        for (int r = 0; r < 2; ++r)
            for (int w = 0; w < 2; ++w) {
                const Visit* readers = r ? ordered.reader : plain.reader;
                const Visit* writers = w ? ordered.writer : plain.writer;
                if (!pair(readers, r, writers, w, published, one, other)) continue;
                // the reader comes first in the report
                for (int k = 0; k < 2; ++k)
                    if (writers[k].block == one->block && writers[k].pc == one->pc) {
                        const Visit v = *one;
                        *one = *other, *other = v;
                        break;
                    }
                *kind = LOAD;
                return true;
            }
        return false;
    }
};
// One piece of memory, as some workers saw it.
struct Piece {
    Seen* seen[256];
    int count;
    uint64_t bytes;
    uint32_t grain;
    void settle(uint32_t finest = ~0u) {  // on one grain
        grain = finest;
        for (int w = 0; w < count; ++w)
            if (seen[w]->grain() < grain) grain = seen[w]->grain();
        for (int w = 0; w < count; ++w) seen[w]->refine(bytes, grain);
    }
    bool untouched(uint64_t cell) const {
        for (int w = 0; w < count; ++w)
            if (seen[w]->plain.look(cell) || seen[w]->ordered.look(cell)) return false;
        return true;
    }
    void drop() {
        for (int w = 0; w < count; ++w) seen[w]->drop();
    }
};
enum { PAIRS_MAX = 64 };
// `owner`: the block whose shared memory it is; `memory`: the number of a piece of global memory, or IN_SHARED
static void find_conflicts(const Piece& piece, uint32_t group, Trace* into, int memory, uint32_t owner) {
    const uint32_t grain = piece.grain;
    int pairs = 0;
    for (uint64_t i = 0; i < piece.bytes / grain; ++i) {
        if (piece.untouched(i)) {  // as the rest of its page
            i |= Pages<Visits>::CELLS - 1;
            continue;
        }
        BetweenBlocks all = {group, {}, {}};
        for (int w = 0; w < piece.count; ++w) {
            all.add(piece.seen[w]->plain.look(i), all.plain);
            all.add(piece.seen[w]->ordered.look(i), all.ordered);
        }
        Visit one, other;
        int kind;
        if (!all.conflict(into->published, &one, &other, &kind)) continue;
        const uint64_t pc = into->module_low + one.pc, other_pc = into->module_low + other.pc;
        const uint64_t address = memory == IN_SHARED ? 0 : into->memories[memory].low + i * grain;
        const int array = memory == IN_SHARED ? (int)IN_SHARED : array_of(into, address, grain, kind);
        Finding* f = 0;
        for (int64_t k = 0; k < into->findings.count && !f; ++k) {
            Finding& known = into->findings.items[k];
            const bool between = known.kind == RACE && known.other_block != known.block;
            if (between && known.pc == pc && known.other_pc == other_pc && known.array == array) f = &known;
        }
        if (!f && pairs == PAIRS_MAX) continue;
        if (!f) {
            ++pairs;
            f = into->findings.add();
            memset(f, 0, sizeof *f);
            f->kind = RACE, f->access = kind, f->array = array, f->size = grain;
            f->pc = pc, f->other_pc = other_pc;
            f->block = one.block - 1, f->thread = one.thread;
            f->other_block = other.block - 1, f->other_thread = other.thread;
            f->owner = owner;
            f->offset = (int64_t)(memory == IN_SHARED ? i * grain : address - into->arrays[array].low);
        }
        ++f->count;
    }
}
EXPORTED void sim_trace_between_blocks(TraceRequest* request) {
    for (int m = 0; m < request->memory_count; ++m) {
        Piece piece;
        Trace* into = 0;
        piece.count = 0;
        piece.bytes = request->memories[m].high - request->memories[m].low;
        for (int w = 0; w < request->worker_count; ++w) {
            Trace* t = request->workers[w];
            if (!t) continue;
            if (!into) into = t;
            piece.seen[piece.count++] = &t->watched[m].grid;
        }
        if (!into) return;
        piece.settle();
        if (piece.grain == ~0u) continue;
        find_conflicts(piece, request->cluster_size, into, m, 0);
        for (int w = 0; w < request->worker_count; ++w)
            if (Trace* t = request->workers[w]) t->watched[m].touches.drop(), t->watched[m].cluster.drop();
        piece.drop();
    }
}
// At the grid's barrier, when all blocks wait there: what comes after it conflicts with nothing before it.
static void trace_grid_barrier(TraceRequest* request) {
    if (request->counting) sim_trace_between_blocks(request);
}
// What blocks of a cluster have written in another one's shared memory is written; what they read there must be.
static void settle_written(Block* const* members, const Piece& piece, int owner) {
    Trace* mine = members[owner]->trace;
    if (mine->shared.grain != piece.grain) mine->shared.refine(piece.bytes, piece.grain);
    for (int reads = 0; reads < 2; ++reads)  // all writes first
        for (int m = 0; m < piece.count; ++m) {
            if (m == owner) continue;
            for (int ordered = 0; ordered < 2; ++ordered) {
                const Pages<Visits>* pages = ordered ? &piece.seen[m]->ordered : &piece.seen[m]->plain;
                for (uint64_t i = 0; i < piece.bytes / piece.grain; ++i) {
                    const Visits* v = pages->look(i);
                    if (!v) {
                        i |= Pages<Visits>::CELLS - 1;
                        continue;
                    }
                    if (!reads && v->writer[0].block) mine->shared.at(i)->written = true;
                    if (!reads || !v->reader[0].block || mine->shared.at(i)->written) continue;
                    Trace* t = members[m]->trace;
                    const uint64_t pc = t->module_low + v->reader[0].pc;
                    Finding* f = find(t, UNINITIALISED_READ, pc, IN_SHARED, LOAD, piece.grain, i * piece.grain);
                    if (f) f->thread = v->reader[0].thread, f->owner = mine->block;
                }
            }
        }
}
// At a cluster's barrier, when all its blocks wait there or have returned.
static void trace_cluster_barrier(Block* const* members, int size) {
    Trace* into = members[0]->trace;
    if (!into->counting) return;
    Piece piece;
    piece.count = size;
    piece.bytes = shared_bytes(into);
    for (int owner = 0; owner < size; ++owner) {
        for (int m = 0; m < size; ++m) piece.seen[m] = &members[m]->trace->reached[owner].cluster;
        piece.settle(members[owner]->trace->shared.grain);
        find_conflicts(piece, 1, into, IN_SHARED, members[owner]->trace->block);
        settle_written(members, piece, owner);
        piece.drop();
        for (int m = 0; m < size; ++m) members[m]->trace->reached[owner].touches.drop();
    }
    for (int memory = 0; memory < into->memory_count; ++memory) {
        for (int m = 0; m < size; ++m) piece.seen[m] = &members[m]->trace->watched[memory].cluster;
        piece.bytes = into->memories[memory].high - into->memories[memory].low;
        piece.settle();
        if (piece.grain == ~0u) continue;
        find_conflicts(piece, 1, into, memory, 0);
        piece.drop();
    }
}
// When all blocks of a cluster have returned: was each there for as long as others reached into its shared memory?
static void trace_cluster_end(Block* const* members, int size) {
    trace_cluster_barrier(members, size);
    for (int m = 0; m < size; ++m)
        for (int owner = 0; owner < size; ++owner) {
            Trace* t = members[m]->trace;
            const Reached& r = t->reached[owner];
            if (!r.used || r.meetings < members[owner]->meetings) continue;
            Finding* f = find(t, RETURNED, r.pc, IN_SHARED, r.kind, r.size, (int64_t)r.offset);
            if (f) f->thread = r.thread, f->owner = members[owner]->trace->block;
        }
}
EXPORTED void sim_trace_free(TraceRequest* request) {
    for (Trace*& t : request->workers) {
        if (!t) continue;
        for (auto& log : t->events) free(log.items);
        for (Watched& w : t->watched) w.touches.drop(), w.grid.drop(), w.cluster.drop();
        for (Reached& r : t->reached) r.touches.drop(), r.cluster.drop();
        t->shared.drop();
        free(t->paths.items), free(t->sites.items), free(t->site_table.items);
        free(t->requests.items), free(t->findings.items), free(t);
        t = 0;
    }
}
