// trace_access.cpp - one access: what it touches, whether it may; and the functions that the compiler calls before it.

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
static const uint64_t ARRAY_REACH = 1ull << 40, SHARED_REACH = 1ull << 30;  // bytes: further away it is none of them
[[noreturn]] static void out_of_bounds(Block* b, uint64_t address, uint32_t size, int kind, uint64_t pc) {
    Trace* t = b->trace;
    const uint64_t statics = t->shared_high - t->shared_low;
    uint64_t closest = ARRAY_REACH;
    int nearest = IN_NOTHING;
    int64_t where = (int64_t)address;
    for (int i = 0; i < t->array_count; ++i) {
        const uint64_t d = distance_to(address, t->arrays[i].low, t->arrays[i].high);
        if (d < closest) closest = d, nearest = i, where = (int64_t)(address - t->arrays[i].low);
    }
    // an index of shared memory is hardly ever wrong by gigabytes, one of an array may be
    if (closest > SHARED_REACH) closest = SHARED_REACH;
    const uint64_t to_static = t->shared_count ? distance_to(address, t->shared_low, t->shared_high) : ~0ull;
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
static void check_access(Block* b, uint64_t address, uint32_t size, int kind, uint64_t pc, bool plain) {
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
    if (rank >= 0) check_remote(b, rank, offset, size, kind, plain, pc, thread);
    else if (array == IN_SHARED) check_shared(b, offset, size, kind, plain, pc, thread);
    else check_global(b, array, address, size, kind, plain, pc, thread);
    // (the same word of two blocks of a cluster is two words)
    const uint64_t logged = array == IN_SHARED ? (uint64_t)(rank + 1) << 32 | (SHARED_BASE + offset) : address;
    remember_event(t, thread, Event{pc, logged, t->path[thread], (uint8_t)size, (uint8_t)kind, (int16_t)array});
}
// plain: not volatile. (apart from the check: most blocks of a launch are often not traced)
static inline void on_access(uint64_t address, uint32_t size, int kind, uint64_t pc, bool plain = true) {
    Block* b = this_block();
    if (b && b->trace) check_access(b, address, size, kind, pc, plain);
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
    EXPORTED void __tsan_volatile_read##n(void* p) { on_access((uint64_t)p, n, LOAD, RETURN_PC, false); }    \
    EXPORTED void __tsan_volatile_write##n(void* p) { on_access((uint64_t)p, n, STORE, RETURN_PC); }         \
    EXPORTED void __tsan_unaligned_volatile_read##n(void* p) {                                               \
        on_access((uint64_t)p, n, LOAD, RETURN_PC, false);                                                   \
    }                                                                                                        \
    EXPORTED void __tsan_unaligned_volatile_write##n(void* p) { on_access((uint64_t)p, n, STORE, RETURN_PC); } \
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
// Before an access with a cache hint, whose instruction takes addresses of global memory alone.
EXPORTED void sim_note_global(const void* p, int size, int kind) {
    Block* b = this_block();
    if (!b || !b->trace) return;
    const Trace* t = b->trace;
    const uint64_t address = (uint64_t)p, statics = t->shared_high - t->shared_low;
    uint64_t offset = address, end;
    int array = IN_SHARED, rank = -1;
    if (address - t->shared_low < statics) offset = address - t->shared_low;
    else if (address - t->dynamic_low < t->dynamic_high - t->dynamic_low) offset = statics + (address - t->dynamic_low);
    else if (b->team && (rank = owner_of(b, address, &offset, &end)) >= 0) array = IN_SHARED;
    else if (address - (uint64_t)b->stacks < stack_stride() * b->capacity) array = IN_NOTHING;
    else return;
    Finding* f = find(b->trace, NOT_GLOBAL, RETURN_PC, array, kind, (uint32_t)size, (int64_t)offset);
    if (f && rank >= 0) f->owner = t->block - b->rank + rank;
    end_this_thread(b);
}
EXPORTED void sim_note_fence() {
    Block* b = this_block();
    if (b && b->trace) b->trace->fenced = true;
}
