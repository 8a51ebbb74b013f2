// trace_blocks.cpp - a traced launch: its beginning, what blocks do to each other, its end.

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
        t->merged_count = request->merged_count, t->merged_code = request->merged_code;
        t->shared_count = request->shared_count, t->shared_arrays = request->shared_arrays;
        memcpy(t->arrays, request->arrays, sizeof t->arrays);
        memcpy(t->memories, request->memories, sizeof t->memories);
        *t->paths.add() = Path{0, 0, 0};
    }
    return request->workers[worker];
}
// Before a traced block: where its shared memory lies, which is filled with NaN, and that nobody has touched anything.
static void begin_trace(Block* b, Trace* t, const SimKernel* kernel, uint32_t number, uint64_t dynamic_bytes) {
    kernel->shared_memory();
    const Region r = region_of((uint64_t)kernel->run_thread);
    t->data_low = r.data_low, t->data_high = r.data_high;
    t->module_low = r.low, t->module_high = r.high;
    t->shared_low = r.shared_low, t->shared_high = r.shared_high;
    t->dynamic_low = (uint64_t)sim_here.dynamic_shared, t->dynamic_high = t->dynamic_low + dynamic_bytes;
    for (RemoteShared& r : t->remote) r.touches.drop(), r.cluster.drop(), r.used = false;
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
    drop_clocks(t);
    b->trace = t;
    b->lockstep = t->counting;
}

// ---- What recording.py asks for when the launch is over
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
        for (int m = 0; m < size; ++m) piece.seen[m] = &members[m]->trace->remote[owner].cluster;
        piece.settle(members[owner]->trace->shared.grain);
        find_conflicts(piece, 1, into, IN_SHARED, members[owner]->trace->block);
        settle_written(members, piece, owner);
        piece.drop();
        for (int m = 0; m < size; ++m) members[m]->trace->remote[owner].touches.drop();
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
            const RemoteShared& r = t->remote[owner];
            if (!r.used || r.barriers_passed < members[owner]->barriers_passed) continue;
            Finding* f = find(t, RETURNED, r.pc, IN_SHARED, r.kind, r.size, (int64_t)r.offset);
            if (f) f->thread = r.thread, f->owner = members[owner]->trace->block;
        }
}
EXPORTED void sim_trace_free(TraceRequest* request) {
    for (Trace*& t : request->workers) {
        if (!t) continue;
        for (auto& log : t->events) free(log.items);
        for (Watched& w : t->watched) w.touches.drop(), w.grid.drop(), w.cluster.drop();
        for (RemoteShared& r : t->remote) r.touches.drop(), r.cluster.drop();
        t->shared.drop();
        drop_clocks(t);
        free(t->paths.items), free(t->sites.items), free(t->site_table.items);
        free(t->requests.items), free(t->findings.items);
        free(t->gathered.items), free(t->gathered_of.items), free(t);
        t = 0;
    }
}
