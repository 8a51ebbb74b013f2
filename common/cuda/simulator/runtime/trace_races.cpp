// trace_races.cpp - accesses of a block that no barrier orders, and reads of shared memory that nobody wrote.

// Two threads conflict if no barrier of the block lies between them and, in one warp, no warp operation.
static bool unordered(const Trace* t, const Touch& touch, uint32_t thread) {
    const bool copied = touch.thread >= ENGINE && touch.thread != SEVERAL;  // which no barrier of the block waits for
    if ((touch.epoch != t->epoch && !copied) || touch.thread == thread) return false;
    if (thread < ENGINE && touch.warp == thread / 32 && touch.warp_epoch != t->warp_epoch[thread / 32]) return false;
    const Clocks& c = t->clocks;
    if (!c.known) return true;
    if (touch.thread == SEVERAL) return false;  // check_readers
    return c.known[(size_t)c.count * c.entity(thread) + c.entity(touch.thread)] <= touch.clock;
}
// A pair of threads of different warps shows best what a race is: a barrier of the block must stand between them.
static int race_rank(const Touch& with, uint32_t thread) {
    return with.warp == thread / 32 ? 0 : with.thread == SEVERAL ? 1 : 2;
}
// What an earlier access conflicts with: a write with everything, an atomic with what is none, and plain reads with writes
// and atomics. A volatile read, as of a flag that is polled, does not conflict with an atomic.
static const Touch* conflict(const Trace* t, const Touches& c, int kind, bool plain, uint32_t thread) {
    const Touch* found = 0;
    const auto consider = [&](const Touch& touch) {
        if (unordered(t, touch, thread) && (!found || race_rank(touch, thread) > race_rank(*found, thread))) found = &touch;
    };
    consider(c.write);
    if (kind == STORE || (kind == ATOMIC && c.read.plain)) consider(c.read);
    if (kind == STORE || (kind == LOAD && plain)) consider(c.atomic);
    return found;
}
static void remember(Trace* t, Touches& c, int kind, bool plain, uint32_t thread, uint32_t pc) {
    Touch& touch = kind == STORE ? c.write : kind == LOAD ? c.read : c.atomic;
    const bool this_interval = touch.epoch == t->epoch, another = this_interval && touch.thread != thread;
    if (kind == LOAD && !plain && this_interval && touch.plain) return;  // the plain read conflicts with more
    if (kind != STORE && another && touch.warp != thread / 32) touch.thread = SEVERAL, touch.warp = SEVERAL_WARPS;
    else if (kind != STORE && another && touch.warp_epoch == t->warp_epoch[thread / 32]) touch.thread = SEVERAL;
    else touch.thread = thread, touch.warp = thread >= ENGINE ? SEVERAL_WARPS - 1 : thread / 32;
    touch.plain = plain;
    touch.epoch = t->epoch;
    touch.warp_epoch = thread >= ENGINE ? 0 : t->warp_epoch[thread / 32];
    touch.pc = pc;
    touch.clock = t->clocks.known ? t->clocks.now[t->clocks.entity(thread)] : 0;
}
// Where threads meet at mbarriers: each one that has read a cell since it was written.
static void remember_reader(Trace* t, SharedCell& cell, uint32_t thread) {
    Clocks& c = t->clocks;
    if (cell.readers_epoch != t->epoch) {
        if (!cell.readers) cell.readers = c.readers();
        memset(cell.readers, 0, sizeof(uint32_t) * c.count);
        cell.readers_epoch = t->epoch;
    }
    cell.readers[c.entity(thread)] = c.now[c.entity(thread)] + 1;
}
static const Touch* conflicting_reader(Trace* t, SharedCell& cell, uint32_t thread) {
    const Clocks& c = t->clocks;
    Touch& read = cell.touches.read;
    if (cell.readers_epoch != t->epoch || read.epoch != t->epoch) return 0;
    const uint32_t* known = c.known + (size_t)c.count * c.entity(thread);
    for (int i = 0; i < c.threads; ++i)
        if (cell.readers[i] && (uint32_t)i != thread && known[i] < cell.readers[i]) {
            read.thread = (uint16_t)i, read.warp = (uint8_t)(i / 32);
            return &read;
        }
    return 0;
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
static void note_race(Trace* t, const Touches& c, const Touch* with, uint64_t pc, int array, int kind, uint32_t size,
                      int64_t offset, uint32_t owner, uint32_t by = 0) {
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
    f->other_access = with == &c.read ? LOAD : with == &c.write ? STORE : ATOMIC;
    f->owner = owner;
    f->length = by >= ENGINE;  // by a copy that the thread asked for
}

// ---- Barriers (fibers.cpp)
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
    if (first && b->alive < b->threads) {  // allowed since Volta: threads that have returned are not waited for
        if (Finding* missed = find(t, MISSED_BARRIER, first->barrier_pc, IN_NOTHING, LOAD, 0, 0)) {
            missed->length = b->alive;
            for (int w = b->warp_count; w--;)
                for (int lane = 32; lane--;)
                    if (w * 32 + lane < b->threads && !(b->warps[w].alive >> lane & 1)) missed->thread = w * 32 + lane;
        }
    }
    meet_in_block(b);
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
static void check_shared(Block* b, uint64_t offset, uint32_t size, int kind, bool plain, uint64_t pc, uint32_t thread) {
    Trace* t = b->trace;
    bool uninitialised = false, raced = false;
    const uint32_t short_pc = (uint32_t)(pc - t->module_low);
    const uint32_t grain = grain_for(t->shared.grain, offset, size);
    if (grain != t->shared.grain) {
        t->shared.refine(shared_bytes(t), grain);
        t->remote[b->rank].cluster.refine(shared_bytes(t), grain);
    }
    for (uint64_t i = offset / grain; i < (offset + size) / grain; ++i) {
        SharedCell& c = *t->shared.at(i);
        const Touch* with = raced ? 0 : conflict(t, c.touches, kind, plain, thread);
        if (t->clocks.known && kind == LOAD) remember_reader(t, c, thread);
        else if (t->clocks.known && !with && !raced) with = conflicting_reader(t, c, thread);
        uninitialised |= kind != STORE && !c.written;
        if (with && !raced) note_race(t, c.touches, with, pc, IN_SHARED, kind, size, offset, t->block, thread), raced = true;
        if (b->team) note_visit(t, t->remote[b->rank].cluster, i, 1, shared_bytes(t), grain, kind, thread, short_pc);
        remember(t, c.touches, kind, plain, thread, short_pc);
        if (kind == STORE) c.written = true, c.readers_epoch = 0;
    }
    if (uninitialised) find(t, UNINITIALISED_READ, pc, IN_SHARED, kind, size, offset);
}
// Another block's shared memory. Whether somebody wrote what is read here is seen at the cluster's barrier.
static void check_remote(Block* b, int rank, uint64_t offset, uint32_t size, int kind, bool plain, uint64_t pc,
                         uint32_t thread) {
    Trace* t = b->trace;
    RemoteShared& r = t->remote[rank];
    if (!r.touches.pages) r.touches.make(shared_bytes(t), 4);
    const uint32_t grain = grain_for(r.touches.grain, offset, size), short_pc = (uint32_t)(pc - t->module_low);
    if (grain != r.touches.grain) r.touches.refine(shared_bytes(t), grain), r.cluster.refine(shared_bytes(t), grain);
    bool raced = false;
    for (uint64_t i = offset / grain; i < (offset + size) / grain; ++i) {
        Touches& c = *r.touches.at(i);
        const Touch* with = raced ? 0 : conflict(t, c, kind, plain, thread);
        if (with) note_race(t, c, with, pc, IN_SHARED, kind, size, offset, t->block - b->rank + rank), raced = true;
        remember(t, c, kind, plain, thread, short_pc);
        note_visit(t, r.cluster, i, 1, shared_bytes(t), grain, kind, thread, short_pc);
    }
}
// A block of the cluster is known to have started, and to be still there, if a barrier of the cluster lies between.
static void check_presence(Block* b, int rank, uint64_t offset, uint32_t size, int kind, uint64_t pc, uint32_t thread) {
    Trace* t = b->trace;
    RemoteShared& r = t->remote[rank];
    if (b->barriers_passed == 0) {
        if (Finding* f = find(t, NOT_STARTED, pc, IN_SHARED, kind, size, offset)) f->owner = t->block - b->rank + rank;
        return;
    }
    if (r.used && r.barriers_passed == b->barriers_passed) return;  // the first one after a barrier says it for all
    r.used = true, r.barriers_passed = b->barriers_passed, r.thread = thread, r.size = size, r.pc = pc, r.offset = offset, r.kind = kind;
}
static void check_global(Block* b, int array, uint64_t address, uint32_t size, int kind, bool plain, uint64_t pc,
                         uint32_t thread) {
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
        const Touch* with = raced ? 0 : conflict(t, c, kind, plain, thread);
        if (with) note_race(t, c, with, pc, array, kind, size, address - t->arrays[array].low, t->block), raced = true;
        remember(t, c, kind, plain, thread, short_pc);
        note_visit(t, w.grid, i, t->cluster_size, bytes, grain, kind, thread, short_pc);
        if (b->team) note_visit(t, w.cluster, i, 1, bytes, grain, kind, thread, short_pc);
    }
}
