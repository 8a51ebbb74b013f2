// trace_replay.cpp - a warp in lockstep: which lanes access memory together, and how that request is served.

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
        for (uint64_t sector = first; sector <= last; ++sector) sectors[n++] = sector;  // (more than two: of a bulk copy)
        starts[m++] = address[lane];
    }
    uint64_t units = distinct(sectors, n);
    s->units += units;
    s->ideal += (distinct(starts, m) * (uint64_t)s->size + 31) / 32;
    if (units > s->most) s->most = units;
}
// Shared memory has 32 banks of 4 bytes. A pass over the banks (a wavefront) serves one word of each; lanes that want
// the same word share it. 8-byte accesses go half a warp at a time, 16-byte accesses a quarter. But two such groups of a
// load go together if in both of them each lane wants the same as its neighbour (lane ^ 1), or each the same as the lane
// two further (lane ^ 2): half as many wavefronts for a broadcast. The profiler counts 64 patterns of 16-byte loads and
// all launches of bench/trace.py so, on an H200.
static bool is_shared_by(int step, uint32_t lanes, const uint64_t* address, int first, int count) {
    for (int lane = first; lane < first + count; ++lane)
        if (lanes >> lane & lanes >> (lane ^ step) & 1 && address[lane] != address[lane ^ step]) return false;
    return true;
}
static int fullest_bank(uint32_t lanes, const uint64_t* address, int first, int count, int words_each) {
    uint64_t words[64];
    int n = 0;
    for (int lane = first; lane < first + count; ++lane)
        for (int w = 0; w < words_each && lanes >> lane & 1; ++w) words[n++] = address[lane] / 4 + w;
    n = distinct(words, n);
    int in_bank[32] = {0}, most = 0;
    for (int i = 0; i < n; ++i) {
        int here = ++in_bank[words[i] % 32];
        if (here > most) most = here;
    }
    return most;
}
static void count_wavefronts(Site* s, uint32_t lanes, const uint64_t* address) {
    const int words_each = s->size <= 4 ? 1 : s->size / 4, lanes_a_turn = 32 / words_each;
    uint64_t total = 0;
    for (int first = 0; first < 32;) {
        int count = lanes_a_turn;
        if (words_each > 1 && s->kind == LOAD && first % (2 * count) == 0 &&
            (is_shared_by(1, lanes, address, first, 2 * count) || is_shared_by(2, lanes, address, first, 2 * count)))
            count *= 2;
        const int most = fullest_bank(lanes, address, first, count, words_each);
        total += most;
        s->ideal += most > 0;
        first += count;
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
// ---- Accesses that the compiled kernel makes several at a time
//
// The assembler makes one wide access of several that a thread makes to neighbouring addresses. Which lines have wide
// ones the machine code says (merged_code). Of such a line, the accesses of a thread since its last barrier that fill an
// aligned chunk of that width count as one, made when the first of them was. The second access to the same address
// belongs to a second chunk.
static const MergedCode* merged_at(const Trace* t, uint64_t pc) {
    const uint64_t offset = pc - t->module_low;
    int low = 0, high = t->merged_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (t->merged_code[middle].high < offset) low = middle + 1;
        else high = middle;
    }
    return low < t->merged_count && t->merged_code[low].low < offset ? &t->merged_code[low] : 0;
}
static int gather(Trace* t, const Event& e, uint32_t line, uint32_t width, int32_t number, uint64_t places) {
    const uint64_t chunk = e.address & ~(uint64_t)(width - 1);
    const uint32_t part = 1u << (e.address - chunk) / e.size;
    uint64_t h = chunk * 0x9e3779b97f4a7c15ull >> 20;
    for (h += line * 40503u + e.kind;; ++h) {
        Gathered& g = t->gathered.items[h % places];
        if (g.first < 0) g = Gathered{chunk, line, e.kind, e.size, 0, number};
        if (g.chunk != chunk || g.line != line || g.kind != e.kind || g.size != e.size || g.parts & part) continue;
        g.parts |= part;
        return (int)(h % places);
    }
}
static void merge_accesses(Trace* t, List<Event>& log, uint32_t width) {
    const int64_t events = log.count;
    const uint64_t places = 2 * events;
    while (t->gathered.count < 2 * events) t->gathered.add();
    while (t->gathered_of.count < events) t->gathered_of.add();
    for (int64_t i = 0; i < 2 * events; ++i) t->gathered.items[i].first = -1;
    for (int64_t i = 0; i < events; ++i) {
        const Event& e = log.items[i];
        t->gathered_of.items[i] = -1;
        if (!e.address || e.array != IN_SHARED || e.size >= width || (e.kind != LOAD && e.kind != STORE)) continue;
        const MergedCode* code = merged_at(t, e.pc);
        if (code && (e.kind == LOAD ? code->loads : code->stores) & width)
            t->gathered_of.items[i] = gather(t, e, code->line, width, (int32_t)i, places);
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < events; ++i) {
        Event e = log.items[i];
        const int32_t number = t->gathered_of.items[i];
        if (number >= 0) {
            const Gathered& g = t->gathered.items[number];
            if (g.parts == (1u << width / e.size) - 1) {
                if (g.first != i) continue;
                e.address = g.chunk, e.size = (uint8_t)width;
            }
        }
        log.items[kept++] = e;
    }
    log.count = kept;
}
// All lanes of a warp have come as far as they can: at a barrier, at a warp operation, at their end. When a warp operation
// is completed its lanes go on, and what is left of the replay waits until they, too, have come as far as they can.
static void replay(Block* b, int warp) {
    Trace* t = b->trace;
    const Event *next[32], *end[32];
    const int lanes = b->threads - 32 * warp < 32 ? b->threads - 32 * warp : 32;
    for (int lane = 0; lane < lanes; ++lane) {
        List<Event>& log = t->events[32 * warp + lane];
        for (uint32_t width = 16; t->merged_count && width >= 4; width /= 2) merge_accesses(t, log, width);
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
            if (completed) ++t->warp_epoch[warp], meet_in_warp(b, warp, needed);
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
