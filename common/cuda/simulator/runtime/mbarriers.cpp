// mbarriers.cpp - mbarriers and bulk copies (include/bulk.h of the kernels): who waits, what arrives, what it orders.
//
// A bulk copy is asked for by one thread and carried out when no thread of the block can go on without it; until then its
// target holds NaN. So a kernel that reads without waiting gets NaN, or what was there before, on every run.
//
// In a traced launch an mbarrier orders what a barrier of the block orders, but only between those who meet there. Each
// thread, and each mbarrier's copies as if they were a thread, has a clock that goes on when it arrives somewhere, and a
// row of what it knows of all the others' clocks. An arrival leaves the row with the mbarrier; a wait that succeeds takes
// what all arrivals of the phase have left. An access is known to be over if its thread's clock of then is known.

static const uint64_t MBARRIER_MARK = 0x6d62617272000000ull;  // and its number

static int find_mbarrier(Block* b, const void* place) {
    int i = 0;
    while (i < b->bar_count && b->bars[i].place != place) ++i;
    if (i == b->bar_count) fault(NO_MBARRIER, place);
    if (*b->bars[i].place != MBARRIER_MARK + i) fault(MBARRIER_OVERWRITTEN, place);
    return i;
}
static Clocks* clocks_of(Block* b) { return b->trace && b->trace->counting && b->trace->clocks.known ? &b->trace->clocks : 0; }
static void learn(Clocks* c, uint32_t* row, const uint32_t* from) {
    for (int i = 0; i < c->count; ++i)
        if (from[i] > row[i]) row[i] = from[i];
}
// What `who` has done so far is known to whoever reads this row.
static void leave(Clocks* c, uint32_t* row, int who) {
    learn(c, row, c->row(who));
    row[who] = ++c->now[who];
}
static void start_clocks(Block* b) {
    Trace* t = b->trace;
    if (!t || !t->counting || t->clocks.known) return;
    const bool busy = set_busy(true);
    Clocks& c = t->clocks;
    c.threads = b->threads, c.count = b->threads + MBARRIERS_MAX;
    c.now = (uint32_t*)calloc(c.count, sizeof(uint32_t));
    c.known = (uint32_t*)calloc((size_t)c.count * (c.count + 2 * MBARRIERS_MAX + 1), sizeof(uint32_t));
    set_busy(busy);
}
static void drop_clocks(Trace* t) {
    Clocks& c = t->clocks;
    free(c.now), free(c.known);
    for (int64_t i = 0; i < c.chunks.count; ++i) free(c.chunks.items[i]);
    free(c.chunks.items);
    memset((void*)&c, 0, sizeof c);
}
// Threads that have met know what the others did before.
static uint32_t* all_of(Clocks* c) { return c->row(c->count + 2 * MBARRIERS_MAX); }  // (of no mbarrier: a place to add up)
static void forget_all(Clocks* c) { memset(all_of(c), 0, sizeof(uint32_t) * c->count); }
static void meet(Clocks* c, int first, unsigned lanes, bool taking) {
    for (unsigned rest = lanes; rest; rest &= rest - 1) {
        const int who = first + __builtin_ctz(rest);
        if (taking) learn(c, c->row(who), all_of(c));
        else leave(c, all_of(c), who);
    }
}
static void meet_in_warp(Block* b, int warp, unsigned lanes) {
    Clocks* c = clocks_of(b);
    if (!c) return;
    forget_all(c);
    for (int taking = 0; taking < 2; ++taking) meet(c, warp * 32, lanes, taking);
}
static void meet_in_block(Block* b) {
    Clocks* c = clocks_of(b);
    if (!c) return;
    forget_all(c);
    for (int taking = 0; taking < 2; ++taking)
        for (int w = 0; w < b->warp_count; ++w) meet(c, w * 32, b->warps[w].at_barrier, taking);
}
// To the race checker, init is a store and every use an atomic: a thread must know of the init before it uses the mbarrier.
static uint64_t shared_offset(const Trace* t, uint64_t address) {
    const uint64_t statics = t->shared_high - t->shared_low, offset = address - t->shared_low;
    return offset < statics ? offset : statics + address - t->dynamic_low;
}
static void note_use(Block* b, const void* place, int kind, uint64_t pc) {
    Trace* t = b->trace;
    if (t && t->counting) check_shared(b, shared_offset(t, (uint64_t)place), 8, kind, true, pc, thread_number(b));
}

// ---- Phases
static void complete_phase(Block* b, int number) {
    Mbarrier& bar = b->bars[number];
    if (bar.pending || bar.bytes) return;
    ++bar.phase;
    bar.pending = bar.count;
    if (Clocks* c = clocks_of(b)) memcpy(c->completed(number), c->released(number), sizeof(uint32_t) * c->count);
    for (int w = 0; w < b->warp_count; ++w)
        for (unsigned rest = b->warps[w].at_mbarrier; rest; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);
            if (b->fibers[w * 32 + lane].bar != number) continue;
            b->warps[w].at_mbarrier &= ~(1u << lane);
            b->warps[w].ready |= 1u << lane;
        }
}
EXPORTED void sim_mbarrier_init(uint64_t* place, unsigned count) {
    Block* b = this_block();
    int i = 0;
    while (i < b->bar_count && b->bars[i].place != place) ++i;
    if (i == MBARRIERS_MAX || (uint64_t)place % 8 || !count) fault(NO_MBARRIER, place);
    start_clocks(b);
    note_use(b, place, STORE, (uint64_t)__builtin_return_address(0));
    if (i == b->bar_count) ++b->bar_count;
    b->bars[i] = Mbarrier{place, count, count, 0, 0, b->bars[i].copies, b->current, false};
    *place = MBARRIER_MARK + i;
}
// The copy unit sees the mbarriers that this thread has initialised.
EXPORTED void sim_mbarriers_ready() {
    Block* b = this_block();
    for (int i = 0; i < b->bar_count; ++i)
        if (b->bars[i].initialised_by == b->current) b->bars[i].ready = true;
}
EXPORTED void sim_mbarrier_arrive(uint64_t* place, unsigned bytes) {
    Block* b = this_block();
    const int i = find_mbarrier(b, place);
    note_use(b, place, ATOMIC, (uint64_t)__builtin_return_address(0));
    if (!b->bars[i].pending) fault(MBARRIER_FULL, place, (uint64_t)__builtin_return_address(0));
    if (Clocks* c = clocks_of(b)) leave(c, c->released(i), b->current);
    --b->bars[i].pending;
    b->bars[i].bytes += bytes;
    complete_phase(b, i);
}
EXPORTED void sim_mbarrier_wait(uint64_t* place, unsigned parity) {
    Block* b = this_block();
    Fiber* me = &b->fibers[b->current];
    const int i = find_mbarrier(b, place);
    const int self = b->current;
    note_use(b, place, ATOMIC, (uint64_t)__builtin_return_address(0));
    while (b->bars[i].phase % 2 == parity % 2) {
        me->bar = i;
        me->barrier_pc = (uint64_t)__builtin_return_address(0);
        b->warps[me->warp].ready &= ~(1u << me->lane);
        b->warps[me->warp].at_mbarrier |= 1u << me->lane;
        run_others(b, me);
    }
    if (Clocks* c = clocks_of(b)) learn(c, c->row(self), c->completed(i));
}

// ---- Bulk copies
static char* swizzled(char* p, bool exchange) { return (char*)((uint64_t)p ^ (exchange ? ((uint64_t)p >> 7 & 7) << 4 : 0)); }
static void carry_out(const BulkCopy& c) {
    for (uint32_t r = 0; r < c.rows; ++r)
        for (uint32_t at = 0; at < c.row_bytes; at += 16) {
            char* to = swizzled(c.to + (uint64_t)r * c.row_bytes + at, c.exchange);
            const int64_t left = r >= c.first_row && r < c.end_row ? (int64_t)c.inside_end - at : 0;
            const int64_t before = (int64_t)c.inside_begin - at;
            for (int64_t e = 0; e < 16; ++e) to[e] = e >= before && e < left ? c.from[(int64_t)r * c.stride + at + e] : 0;
        }
}
// All copies that were asked for arrive. False: there are none.
static bool deliver(Block* b) {
    bool any = false;
    b->in_flight = 0;
    for (int i = 0; i < b->bar_count; ++i) {
        Mbarrier& bar = b->bars[i];
        if (!bar.copies.count) continue;
        any = true;
        for (int64_t k = 0; k < bar.copies.count; ++k) {
            carry_out(bar.copies.items[k]);
            bar.bytes -= (int64_t)bar.copies.items[k].rows * bar.copies.items[k].row_bytes;
        }
        bar.copies.count = 0;
        if (Clocks* c = clocks_of(b)) leave(c, c->released(i), c->threads + i);
        complete_phase(b, i);
    }
    return any;
}
static void trace_copy(Block* b, int number, const BulkCopy& c, uint64_t pc);  // below
static void begin_copy(BulkCopy copy, uint64_t* place, uint64_t pc) {
    Block* b = this_block();
    const int i = find_mbarrier(b, place);
    if ((uint64_t)copy.to % (copy.exchange ? 128 : 16) || (uint64_t)copy.from % 16 || copy.row_bytes % 16 || copy.stride % 16)
        fault(BAD_BULK_COPY, copy.to, pc);
    if (!b->bars[i].ready) fault(MBARRIER_NOT_READY, place, pc);
    if (b->trace) trace_copy(b, i, copy, pc);
    for (uint32_t r = 0; r < copy.rows; ++r) memset(copy.to + (uint64_t)r * copy.row_bytes, 0xff, copy.row_bytes);
    *b->bars[i].copies.add() = copy;
    b->in_flight += (uint64_t)copy.rows * copy.row_bytes;
    if (b->trace && b->in_flight > b->trace->most_in_flight) b->trace->most_in_flight = b->in_flight;
}
EXPORTED void sim_bulk_copy(void* to, const void* from, unsigned bytes, uint64_t* place) {
    begin_copy(BulkCopy{(char*)to, (const char*)from, 0, 1, bytes, 0, 1, 0, bytes, false}, place,
               (uint64_t)__builtin_return_address(0));
}
struct SimTensorMap {  // kernels/include/bulk.h, common/cuda/tensor_map.py
    const char* base;
    uint64_t columns, rows, stride;  // stride: bytes from row to row
    uint32_t box_columns, box_rows, itemsize, exchange;
};
EXPORTED void sim_bulk_tile(void* to, const SimTensorMap* map, int column, int row, uint64_t* place) {
    const int64_t item = map->itemsize, columns = map->columns, rows = map->rows;
    const auto inside = [](int64_t x, int64_t most) { return (uint32_t)(x < 0 ? 0 : x > most ? most : x); };
    begin_copy(BulkCopy{(char*)to, map->base + (int64_t)row * (int64_t)map->stride + column * item, (int64_t)map->stride,
                        map->box_rows, (uint32_t)(map->box_columns * item), inside(-(int64_t)row, map->box_rows),
                        inside(rows - row, map->box_rows), (uint32_t)(inside(-(int64_t)column, map->box_columns) * item),
                        (uint32_t)(inside(columns - column, map->box_columns) * item), map->exchange != 0},
               place, (uint64_t)__builtin_return_address(0));
}
// As one request of the thread that asks for it: row by row, 128 bytes at most at a time.
static void trace_copy(Block* b, int number, const BulkCopy& c, uint64_t pc) {
    Trace* t = b->trace;
    const uint32_t me = thread_number(b);
    Clocks* clocks = clocks_of(b);
    const int engine = b->threads + number;
    if (clocks) leave(clocks, clocks->row(engine), (int)me);
    for (uint32_t r = 0; r < c.rows; ++r)
        for (uint32_t at = 0; at < c.row_bytes; at += 128) {
            const uint32_t size = c.row_bytes - at < 128 ? c.row_bytes - at : 128;
            const uint32_t end = c.inside_end < at + size ? c.inside_end : at + size;
            const uint32_t begin = c.inside_begin > at ? c.inside_begin : at;
            if (r >= c.first_row && r < c.end_row && begin < end) {
                const uint64_t from = (uint64_t)(c.from + (int64_t)r * c.stride + begin);
                const int array = array_of(t, from, end - begin, LOAD);
                if (array == IN_NOTHING || from + (end - begin) > t->arrays[array].high)
                    out_of_bounds(b, from, end - begin, LOAD, pc);
                if (t->counting) {
                    check_global(b, array, from, end - begin, LOAD, true, pc, me);
                    remember_event(t, me, Event{pc, from, t->path[me], (uint8_t)(end - begin), LOAD, (int16_t)array});
                }
            }
            const uint64_t to = (uint64_t)c.to + (uint64_t)r * c.row_bytes + at, statics = t->shared_high - t->shared_low;
            const uint64_t offset = shared_offset(t, to);
            if (to - t->shared_low >= statics && to + size - t->dynamic_low > t->dynamic_high - t->dynamic_low)
                out_of_bounds(b, to, size, STORE, pc);
            if (!t->counting) continue;
            if (clocks) check_shared(b, offset, size, STORE, true, pc, (uint32_t)(ENGINE + number));
            remember_event(t, me, Event{pc, SHARED_BASE + offset, t->path[me], (uint8_t)size, STORE, (int16_t)IN_SHARED});
        }
}
// ---- The end of a block, and what a deadlock lacks
static void check_copies(Block* b) {
    for (int i = 0; i < b->bar_count; ++i)
        if (b->bars[i].copies.count) {
            b->bars[i].copies.count = 0;
            sim_here.thread_index = uint3{~0u, ~0u, ~0u};
            note_fault(COPY_UNDER_WAY, b->bars[i].place);
        }
}
EXPORTED uint64_t sim_trace_in_flight(Trace* t) { return t->most_in_flight; }
static int describe_mbarriers(Block* b, char* text, size_t room) {
    int waiting = 0;
    size_t n = 0;
    const auto add = [&](const char* format, auto... values) {
        if (n < room) n += (size_t)snprintf(text + n, room - n, format, values...);
    };
    for (int i = 0; i < b->bar_count; ++i) {
        int here = 0;
        for (int k = 0; k < b->threads; ++k)
            here += b->warps[b->fibers[k].warp].at_mbarrier >> b->fibers[k].lane & 1 && b->fibers[k].bar == i;
        if (!here) continue;
        const Mbarrier& m = b->bars[i];
        add("%s%d thread%s at mbarrier %d for the end of phase %u", waiting ? "; " : "", here, here == 1 ? " waits" : "s wait", i + 1, m.phase);
        if (m.pending) add(", which lacks %u of %u arrivals", m.pending, m.count);
        if (m.bytes > 0) add("%s %lld bytes that are expected", m.pending ? " and" : ", which lacks", (long long)m.bytes);
        if (m.bytes < 0)
            add("%s %lld bytes that nobody expected", m.pending ? " and has" : ", which has", -(long long)m.bytes);
        waiting += here;
    }
    return waiting;
}
