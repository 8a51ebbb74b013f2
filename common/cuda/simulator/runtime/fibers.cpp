// fibers.cpp - the threads of a block: who runs next, barriers, warp operations, asynchronous copies.
//
// A block stays on one thread of the operating system (a worker) from start to end. Its CUDA threads are
// fibers: each has a stack, and they take turns. A thread runs until it meets a barrier or a warp operation;
// there it waits, and the next one that can run goes on. Threads of a warp are run one after the other, so
// code that relies on lanes moving in lockstep without __syncwarp fails here, as it may on a GPU. A thread that waits in
// a loop for another one of its block must give way in it (__nanosleep), or the other one never has its turn.

// ---- Choosing who runs next: a lane of the same warp if one is ready, else the next warp that has one. A thread
// that gives way (`go_round`) lets every other one have its turn first.
static bool choose_next(Block* b, bool go_round = false) {
    Fiber& f = b->fibers[b->current];
    if (b->lockstep && !b->warps[f.warp].ready) replay(b, f.warp);  // may complete a warp operation
    unsigned ready = b->warps[f.warp].ready;
    unsigned later = f.lane == 31 ? 0 : ready & (~0u << (f.lane + 1));
    if (later || (ready && !go_round)) {
        b->current = f.warp * 32 + __builtin_ctz(later ? later : ready);
        return true;
    }
    for (int i = 1; i <= b->warp_count; ++i) {
        int w = (f.warp + i) % b->warp_count;
        if (b->warps[w].ready) {
            b->current = w * 32 + __builtin_ctz(b->warps[w].ready);
            return true;
        }
    }
    return b->alive && deliver(b) && choose_next(b, go_round);
}
static void run_others(Block* b, Fiber* me, bool go_round = false) {
    if (cancelled(b->launch)) fault(CANCELLED, 0);
    if (!choose_next(b, go_round)) {
        if (b->alive) fault(DEADLOCK, 0);
        context_switch(&me->stack_pointer, b->worker_stack);
        return;
    }
    Fiber* next = &b->fibers[b->current];
    sim_here.thread_index = next->thread_index;
    if (next != me) context_switch(&me->stack_pointer, next->stack_pointer);
}

// ---- Barriers. Threads that have returned are not waited for, as on a GPU.
static void release_barrier(Block* b) {
    const Scope scope = b->barrier_scope;
    b->barrier_scope = OF_BLOCK;
    if (scope == OF_GRID) wait_for_other_blocks(b);
    if (scope == OF_CLUSTER && b->team) wait_for_cluster(b);
    if (b->trace) trace_barrier(b);
    for (int w = 0; w < b->warp_count; ++w) {
        b->warps[w].ready |= b->warps[w].at_barrier;
        b->warps[w].at_barrier = 0;
    }
    b->arrived = 0;
    for (int i = 0; i < 3; ++i) b->reduced[i] = b->reduce[i];
    b->reduce[0] = 0, b->reduce[1] = 1, b->reduce[2] = 0;
}
EXPORTED void sim_barrier() {
    Block* b = this_block();
    Fiber* me = &b->fibers[b->current];
    Warp& w = b->warps[me->warp];
    w.ready &= ~(1u << me->lane);
    w.at_barrier |= 1u << me->lane;
    if (++b->arrived == b->alive) release_barrier(b);
    else run_others(b, me);
}
static void note_barrier(long place, const void* caller) {
    Fiber& me = this_block()->fibers[this_block()->current];
    me.barrier = place;
    me.barrier_pc = (uint64_t)caller;
}
EXPORTED void sim_barrier_at(long place, const void* caller) {
    note_barrier(place, caller ? caller : __builtin_return_address(0));
    sim_barrier();
}
EXPORTED int sim_barrier_reduce(int predicate, int operation) {
    Block* b = this_block();
    b->reduce[0] += predicate != 0;
    b->reduce[1] &= predicate != 0;
    b->reduce[2] |= predicate != 0;
    sim_barrier();
    return b->reduced[operation];
}
EXPORTED int sim_barrier_reduce_at(int predicate, int operation, long place) {
    note_barrier(place, __builtin_return_address(0));
    return sim_barrier_reduce(predicate, operation);
}
EXPORTED void sim_cluster_barrier() {
    Scope& scope = this_block()->barrier_scope;
    if (scope == OF_BLOCK) scope = OF_CLUSTER;
    sim_barrier();
}
EXPORTED void sim_cluster_barrier_at(long place, const void* caller) {
    note_barrier(place, caller);
    sim_cluster_barrier();
}
EXPORTED void sim_grid_barrier() {
    this_block()->barrier_scope = OF_GRID;
    sim_barrier();
}
EXPORTED void sim_grid_barrier_at(long place, const void* caller) {
    note_barrier(place, caller);
    sim_grid_barrier();
}

// ---- Operations of a warp: the last lane of the mask to arrive does the work for all.
// Does so if every lane that `mask` names, and that has not returned, waits at this same operation.
static bool try_to_complete(Block* b, int warp, unsigned mask, Combine combine) {
    Warp& w = b->warps[warp];
    unsigned needed = mask & w.alive;
    if ((w.at_collective & needed) != needed) return false;
    void* operands[32];
    for (unsigned rest = needed; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest);
        Fiber& f = b->fibers[warp * 32 + lane];
        if (f.mask != mask || f.combine != combine) return false;
        operands[lane] = f.operand;
    }
    combine(needed, operands);
    w.at_collective &= ~needed;
    w.ready |= needed;
    return true;
}
EXPORTED void sim_collective(unsigned mask, void* operand, Combine combine) {
    Block* b = this_block();
    Fiber* me = &b->fibers[b->current];
    Warp& w = b->warps[me->warp];
    unsigned my_bit = 1u << me->lane;
    if (!(mask & my_bit)) fault(NOT_IN_MASK, 0);
    me->mask = mask;
    me->combine = combine;
    me->operand = operand;
    w.ready &= ~my_bit;
    w.at_collective |= my_bit;
    if (b->lockstep) trace_warp_operation(b);  // the replay completes it
    if (b->lockstep || !try_to_complete(b, me->warp, mask, combine)) run_others(b, me);
}
// ---- Asynchronous copies (cp.async). Each is carried out when its thread waits for its group; until then its target
// holds NaN, so that a wait that was forgotten shows.
EXPORTED void sim_async_copy(void* to, const void* from, int bytes, int inside) {
    Fiber* me = &this_block()->fibers[this_block()->current];
    if (me->copy_count == me->copy_room) {
        const bool busy = set_busy(true);
        me->copy_room = me->copy_room ? 2 * me->copy_room : 16;
        me->copies = (AsyncCopy*)realloc((void*)me->copies, sizeof(AsyncCopy) * me->copy_room);
        set_busy(busy);
    }
    memset(to, 0xff, bytes);
    me->copies[me->copy_count++] = AsyncCopy{to, from, bytes, inside, me->copy_group};
}
EXPORTED void sim_async_commit() { ++this_block()->fibers[this_block()->current].copy_group; }
EXPORTED void sim_async_wait(int groups) {
    Fiber* me = &this_block()->fibers[this_block()->current];
    int left = 0;
    for (int i = 0; i < me->copy_count; ++i) {
        const AsyncCopy& c = me->copies[i];
        if (c.group >= me->copy_group - groups) me->copies[left++] = c;
        else if (c.inside) memcpy(c.to, c.from, c.bytes);
        else memset(c.to, 0, c.bytes);
    }
    me->copy_count = left;
}

// A thread that waits for what another one does lets the others go on (__nanosleep).
static bool give_way(Block* b) {
    Fiber* me = &b->fibers[b->current];
    run_others(b, me, true);
    return b->alive > 1;
}
EXPORTED unsigned sim_active_lanes() {
    Block* b = this_block();
    return b->warps[b->fibers[b->current].warp].alive;
}

// ---- A thread from its first line to its last, and a block of them.
static void run_kernel_thread(Block* b);  // launch.cpp
[[noreturn]] static void end_this_thread(Block* b) {
    Fiber* me = &b->fibers[b->current];
    Warp& w = b->warps[me->warp];
    w.alive &= ~(1u << me->lane);
    w.ready &= ~(1u << me->lane);
    --b->alive;
    if (b->alive && b->arrived == b->alive) release_barrier(b);
    for (unsigned rest = b->lockstep ? 0 : w.at_collective; rest; rest &= rest - 1) {  // some may have waited for this lane
        Fiber& f = b->fibers[me->warp * 32 + __builtin_ctz(rest)];
        if (w.at_collective >> f.lane & 1) try_to_complete(b, me->warp, f.mask, f.combine);
    }
    run_others(b, me);
    abort();  // a finished thread is never chosen again
}
static void fiber_main() {
    Block* b = this_block();
    b->fibers[b->current].frame = (char*)__builtin_frame_address(0);
    run_kernel_thread(b);
    if (!b->guarded && *stack_end(b, b->current) != STACK_END_MARK) fault(STACK_OVERFLOW, (void*)STACK_BYTES);
    end_this_thread(b);
}
static void free_stacks(Block* b) {
    if (b->stacks) munmap(b->stacks, stack_stride() * b->capacity);
    __atomic_sub_fetch(&guards_used, b->capacity, __ATOMIC_RELAXED);
    for (int i = 0; i < b->capacity; ++i) free(b->fibers[i].copies);
    free(b->fibers);
    b->stacks = 0;
    b->capacity = 0;
}
static void run_as_fibers(Block* b) {
    if (b->capacity < b->threads) {
        set_busy(true);
        free_stacks(b);
        b->stacks = (char*)mmap(0, stack_stride() * b->threads, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        b->fibers = (Fiber*)calloc(b->threads, sizeof(Fiber));
        if (b->stacks == MAP_FAILED || !b->fibers) abort();  // an address space of terabytes is full
        b->capacity = b->threads;
        b->guarded = __atomic_add_fetch(&guards_used, b->threads, __ATOMIC_RELAXED) <= GUARDS_MAX;
        for (int i = 0; i < b->threads; ++i) {
            if (b->guarded) mprotect(stack_guard(b, i), page_bytes(), PROT_NONE);
            else *stack_end(b, i) = STACK_END_MARK;
        }
        set_busy(false);
    }
    b->warp_count = (b->threads + 31) / 32;
    b->alive = b->threads;
    b->arrived = 0;
    b->barrier_scope = OF_BLOCK;
    b->reduce[0] = 0, b->reduce[1] = 1, b->reduce[2] = 0;
    for (int w = 0; w < b->warp_count; ++w) {
        int lanes = b->threads - 32 * w;
        unsigned all = lanes >= 32 ? ~0u : (1u << lanes) - 1;
        b->warps[w] = Warp{all, all, 0, 0, 0};
    }
    int i = 0;
    const uint3 size = sim_here.block_size;
    for (unsigned z = 0; z < size.z; ++z)
        for (unsigned y = 0; y < size.y; ++y)
            for (unsigned x = 0; x < size.x; ++x, ++i) {
                Fiber& f = b->fibers[i];
                f.thread_index = uint3{x, y, z};
                f.warp = i / 32;
                f.lane = i % 32;
                f.copy_count = f.copy_group = 0;
                f.stack_pointer = fresh_stack(stack_top(b, i), fiber_main);
            }
    b->current = 0;
    sim_here.thread_index = b->fibers[0].thread_index;
    context_switch(&b->worker_stack, b->fibers[0].stack_pointer);
}
