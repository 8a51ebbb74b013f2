// launch.cpp - runs the blocks of a grid on the CPU's cores, and turns a crash of a kernel into a report.
//
// sim_start hands a launch to a pool of workers, sim_wait waits for its end (in slices, so that Python can
// react to Ctrl-C), sim_cancel stops it. One launch runs at a time; module.py holds the lock.
//
// A kernel that touches memory it must not, divides an integer by zero or executes a trap raises a signal. The
// handler below runs on a stack of its own, notes which thread of which block did it, and jumps back
// to the worker, which drops the launch. The process lives on.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <time.h>
#include <ucontext.h>

#include "operand.h"
#include "trace.h"

struct Fault {  // mirrored in binding.py
    int kind;
    uint3 thread, block;
    uint64_t address;
    int at_barrier, at_collective, finished, at_mbarrier;  // of a deadlock: how many threads stand where
    int line;                                 // in the source, where the kernel itself said it
    uint64_t pc;                              // behind the instruction, or 0
    char text[256];                           // of an assertion
    uint64_t shared_low, shared_high;         // of a bad address: the static shared memory of the thread's block
};
struct Launch {  // filled in by module.py, mirrored in binding.py
    const SimKernel* kernel;
    void** arguments;
    uint3 grid, block, cluster;  // cluster: blocks in each direction
    uint64_t dynamic_shared;
    int fibers;        // 0: the kernel has no barriers, run each block as a plain loop over its threads
    int cooperative;   // 1: every block at once, each on a worker of its own
    int workers;       // for clusters a multiple of their blocks
    TraceRequest* trace;  // 0: not traced; else blocks are dealt round-robin to `workers`, so that traces repeat
    Fault fault;
};

// ---- State of the launch in hand
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_to_do = PTHREAD_COND_INITIALIZER, work_done = PTHREAD_COND_INITIALIZER;
static pthread_cond_t grid_released = PTHREAD_COND_INITIALIZER;
static Launch* current_launch;
static uint64_t launch_number, next_block, block_count;
static int wanted_workers, busy_workers, pool_size;
static int kept_workers;  // as many stay for the next launch; those of a cooperative launch beyond them leave
static int grid_arrived;
static bool block_has_left;  // a block ended: a barrier that others reach after that never completes
static uint64_t grid_epoch;
static volatile bool stopping;

// The blocks of a cluster run at the same time, each on a worker of a team. When all of a cluster are over the team takes
// the next one.
struct Team {
    Block* members[CLUSTER_MAX];
    int size, present, arrived;    // present: blocks that have not returned
    uint64_t epoch;                // counts the cluster's barriers
    uint64_t cluster;              // the one in hand
    int gathered;                  // workers that wait for the others between two clusters
    uint64_t gathering;
    pthread_cond_t moved_on;
};
enum { MAX_WORKERS = 2048 };
static Team teams[MAX_WORKERS / 2];
static int team_count;             // in the launch in hand
static int cluster_arrived;        // blocks that wait at their cluster's barrier
static void wake_everyone() {
    pthread_cond_broadcast(&grid_released);
    for (int i = 0; i < team_count; ++i) pthread_cond_broadcast(&teams[i].moved_on);
}
static Block* member(const Block* b, int rank) { return b->team && rank < b->team->size ? b->team->members[rank] : 0; }
static int cluster_size(const Launch* L) { return L->cluster.x * L->cluster.y * L->cluster.z; }

static bool cancelled(Launch*) { return stopping; }

enum { DYNAMIC_SHARED_MAX = 227 * 1024, SIGNAL_STACK_BYTES = 65536, WORKER_STACK_BYTES = 1 << 20 };
#if defined(__APPLE__)
enum { SAVE_SIGNAL_STATE = 1 };  // macOS must be told that the signal stack is free again
#else
enum { SAVE_SIGNAL_STATE = 0 };  // elsewhere a jump off the signal stack is all it takes, and no system call
#endif
struct Worker {
    int number;
    Block block;
    sigjmp_buf landing;      // where a fault takes the worker back to
    char* stack_top;
    char* dynamic_shared;    // ends against a page that must not be touched
    size_t dynamic_capacity, dynamic_bytes;
    volatile bool busy_inside;  // inside the C library: not a moment to jump away
    volatile bool interrupted;
    pthread_t thread;
    void* signal_stack;
};
static const uint3 NO_THREAD = {~0u, ~0u, ~0u};
static FAST_TLS __thread Worker* this_worker;
static bool set_busy(bool busy) {  // what it was before
    if (!this_worker) return false;
    const bool before = this_worker->busy_inside;
    this_worker->busy_inside = busy;
    return before;
}
static Worker* workers[MAX_WORKERS];

// ---- Device printf: collected here, printed by Python when the launch is over
enum { PRINTED_MAX = 1 << 20 };  // as a GPU's buffer: what comes after is lost
static char printed[PRINTED_MAX];
static int printed_length;
static bool printed_overflow;
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;
static FAST_TLS __thread bool printing;
EXPORTED int sim_printf(const char* format, ...) {
    set_busy(true);
    pthread_mutex_lock(&print_lock);
    printing = true;
    va_list values;
    va_start(values, format);
    int room = PRINTED_MAX - printed_length;
    int length = vsnprintf(printed + printed_length, room, format, values);
    va_end(values);
    if (length >= room) printed_overflow = true, printed[printed_length] = 0;
    else if (length > 0) printed_length += length;
    printing = false;
    pthread_mutex_unlock(&print_lock);
    set_busy(false);
    return length;
}
// ---- Faults
static int describe_mbarriers(Block*, char* text, size_t room);  // mbarriers.cpp
static void check_copies(Block*);                                // mbarriers.cpp
static void note_fault(int kind, const void* address, uint64_t pc = 0, int line = 0, const char* text = "") {
    set_busy(true);
    pthread_mutex_lock(&lock);
    if (!stopping && current_launch && current_launch->fault.kind == NO_FAULT) {
        Fault& f = current_launch->fault;
        f.kind = kind;
        f.thread = sim_here.thread_index;
        f.block = sim_here.block_index;
        f.address = (uint64_t)(uintptr_t)address;
        f.pc = pc;
        f.line = line;
        snprintf(f.text, sizeof f.text, "%s", text);
        if (kind == DEADLOCK) {
            Block* b = this_block();
            for (int i = b->threads; b->trace && i-- > 0;)
                if (b->warps[b->fibers[i].warp].at_barrier >> b->fibers[i].lane & 1) f.pc = b->fibers[i].barrier_pc;
            for (int w = 0; w < b->warp_count; ++w) {
                f.at_barrier += __builtin_popcount(b->warps[w].at_barrier);
                f.at_collective += __builtin_popcount(b->warps[w].at_collective);
            }
            f.finished = b->threads - b->alive;
            f.at_mbarrier = describe_mbarriers(b, f.text, sizeof f.text);
            for (int i = b->threads; b->trace && !f.at_barrier && i-- > 0;)
                if (b->warps[b->fibers[i].warp].at_mbarrier >> b->fibers[i].lane & 1) f.pc = b->fibers[i].barrier_pc;
        }
    }
    stopping = true;
    wake_everyone();
    pthread_mutex_unlock(&lock);
    set_busy(false);
}
[[noreturn]] static void fault(int kind, const void* address, uint64_t pc) {
    if (kind != CANCELLED) note_fault(kind, address, pc);
    siglongjmp(this_worker->landing, 1);
}
// ---- What a kernel calls to stop itself (include/simulator.h), and what would stop the process: the linker gives a
// kernel these for abort, exit and _exit.
EXPORTED int sim_printf(const char* format, ...);
static const char* base_name(const char* file) { return strrchr(file, '/') ? strrchr(file, '/') + 1 : file; }
EXPORTED [[noreturn]] void sim_stop_assertion(const char* condition, const char* file, int line) {
    const uint3 b = sim_here.block_index, t = sim_here.thread_index;
    file = base_name(file);
    sim_printf("%s:%d: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n", file, line, b.x, b.y, b.z, t.x, t.y,
               t.z, condition);
    const bool own = !strcmp(file, "kernel.cu");
    char text[256];
    snprintf(text, sizeof text, own ? "%s" : "%s (%s, line %d)", condition, file, line);
    note_fault(ASSERTION, 0, own ? 0 : (uint64_t)__builtin_return_address(0), own ? line : 0, text);
    siglongjmp(this_worker->landing, 1);
}
EXPORTED [[noreturn]] void sim_stop_trap(int line) {
    note_fault(TRAP, 0, 0, line);
    siglongjmp(this_worker->landing, 1);
}
static bool in_kernel() { return this_worker && sim_here.block; }
EXPORTED [[noreturn]] void __wrap_abort() {
    if (!in_kernel()) abort();
    fault(ABORTED, 0, (uint64_t)__builtin_return_address(0));
}
#define ENDS_THE_PROCESS(name)                               \
    EXPORTED [[noreturn]] void __wrap_##name(int status) {   \
        if (!in_kernel()) name(status);                      \
        fault(EXITED, 0, (uint64_t)__builtin_return_address(0)); \
    }
ENDS_THE_PROCESS(exit)
ENDS_THE_PROCESS(_exit)
ENDS_THE_PROCESS(_Exit)
ENDS_THE_PROCESS(quick_exit)
// SIGTRAP: what __builtin_trap raises on aarch64
static const int caught_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGURG};
enum { CAUGHT = sizeof caught_signals / sizeof *caught_signals };
static struct sigaction handlers_before[CAUGHT];

// Where a signal came: behind the instruction, and the stack pointer; 0 if this system is not known.
static void where_it_came(void* context, uint64_t* pc, uint64_t* sp) {
    *pc = *sp = 0;
#if defined(__linux__) && defined(__x86_64__)
    const ucontext_t* c = (const ucontext_t*)context;
    *pc = (uint64_t)c->uc_mcontext.gregs[REG_RIP] + 1, *sp = (uint64_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined(__linux__) && defined(__aarch64__)
    const ucontext_t* c = (const ucontext_t*)context;
    *pc = c->uc_mcontext.pc + 1, *sp = c->uc_mcontext.sp;
#endif
}
static bool in_stack_guard(Worker* me, char* address, uint64_t sp) {
    if (current_launch && current_launch->fibers) {
        char* guard = stack_guard(&me->block, me->block.current);
        if (sp && sp < (uint64_t)guard + page_bytes() && (uint64_t)address - sp + 65536 < 65536 + 256) return true;
        return me->block.guarded && address >= guard && address < guard + page_bytes();
    }
    // the thread library's guard page lies about where the stack ends
    const intptr_t below_top = me->stack_top - address, slack = 65536;
    return below_top > WORKER_STACK_BYTES - slack && below_top < WORKER_STACK_BYTES + slack;
}
static void on_signal(int number, siginfo_t* info, void* context) {
    Worker* me = this_worker;
    if (number == SIGURG) {  // sim_cancel asks this worker to drop its block
        if (me && sim_here.block && stopping && !me->busy_inside) {
            me->interrupted = true;
            siglongjmp(me->landing, 1);
        }
        return;
    }
    if (!me || !sim_here.block) {  // not a kernel's doing: whoever handled it before handles it
        for (int i = 0; i < CAUGHT; ++i)
            if (caught_signals[i] == number) sigaction(number, &handlers_before[i], 0);
        return;  // the instruction is executed again
    }
    if (printing) {  // printf was given a bad pointer
        printing = false;
        pthread_mutex_unlock(&print_lock);
    }
    uint64_t pc, sp;
    where_it_came(context, &pc, &sp);
    if (number == SIGFPE) {
        const Operand divisor = operand_of(context);
        fault(!divisor.divides ? BAD_ARITHMETIC : divisor.value ? QUOTIENT_OVERFLOW : DIVIDED_BY_ZERO, 0, pc);
    }
    if (number == SIGILL || number == SIGTRAP) fault(TRAP, 0, pc);
    if (number == SIGABRT) fault(ABORTED, 0, pc);
    char* address = (char*)info->si_addr;
    if (in_stack_guard(me, address, sp))
        fault(STACK_OVERFLOW, (void*)(current_launch->fibers ? STACK_BYTES : WORKER_STACK_BYTES), pc);
    // (x86 tells no address where it is misaligned, or one that no memory can have)
    if (!address && info->si_code != SEGV_MAPERR && info->si_code != SEGV_ACCERR) {
        const Operand operand = operand_of(context);
        if (operand.in_memory && !is_canonical(operand.value)) fault(WILD_ADDRESS, (void*)operand.value, pc);
        if (operand.in_memory && operand.value % 16) fault(MISALIGNED_ADDRESS, (void*)operand.value, pc);
        fault(WILD_ADDRESS, 0, pc);
    }
    char* shared_end = me->dynamic_shared + me->dynamic_capacity;
    if (address >= shared_end && address < shared_end + page_bytes())
        fault(SHARED_OVERRUN, (void*)(address - (char*)sim_here.dynamic_shared), pc);
    for (int i = 0; me->block.team && i < me->block.team->size; ++i) {  // another block's of the cluster
        const Block* b = me->block.team->members[i];
        const uint64_t end = b->dynamic_low + (b->dynamic_high - b->dynamic_low + 127) / 128 * 128;
        if ((uint64_t)address - end < page_bytes()) fault(SHARED_OVERRUN, (void*)((uint64_t)address - b->dynamic_low), pc);
    }
    fault(BAD_ADDRESS, address, pc);
}
static void catch_signals() {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < CAUGHT; ++i) sigaction(caught_signals[i], &action, &handlers_before[i]);
}
static void release_signals() {
    for (int i = 0; i < CAUGHT; ++i) sigaction(caught_signals[i], &handlers_before[i], 0);
}

EXPORTED void sim_pause() {
    if (stopping) fault(CANCELLED, 0);
    if (current_launch->fibers && give_way(this_block())) return;
    struct timespec moment = {0, 1000};
    nanosleep(&moment, 0);
}

// ---- The cluster's barrier. Blocks that have returned are not waited for, as on a GPU.
static void release_cluster(Team* team) {
    if (team->members[0]->trace) trace_cluster_barrier(team->members, team->size);
    cluster_arrived -= team->arrived;
    team->arrived = 0;
    ++team->epoch;
    pthread_cond_broadcast(&team->moved_on);
}
// Every block waits, some for their cluster, some for the grid.
static bool nobody_moves() { return grid_arrived && cluster_arrived && grid_arrived + cluster_arrived == (int)block_count; }
static void wait_for_cluster(Block* b) {
    Team* team = b->team;
    set_busy(true);
    pthread_mutex_lock(&lock);
    const uint64_t epoch = team->epoch;
    ++cluster_arrived;
    if (++team->arrived == team->present) release_cluster(team);
    const bool stuck = nobody_moves();
    while (team->epoch == epoch && !stopping && !stuck) pthread_cond_wait(&team->moved_on, &lock);
    pthread_mutex_unlock(&lock);
    set_busy(false);
    if (stuck) fault(CLUSTER_DEADLOCK, 0);
    if (stopping) fault(CANCELLED, 0);
    ++b->barriers_passed;
}
// Its shared memory goes with it: who still reads it finds NaN.
static void leave_cluster(Block* b) {
    pthread_mutex_lock(&lock);
#if !defined(__APPLE__)
    memset((void*)b->static_low, 0xff, b->static_high - b->static_low);
#endif
    memset((void*)b->dynamic_low, 0xff, b->dynamic_high - b->dynamic_low);
    if (--b->team->present && b->team->arrived == b->team->present) release_cluster(b->team);
    pthread_mutex_unlock(&lock);
}
EXPORTED unsigned sim_cluster_rank() { return this_block()->team ? this_block()->rank : 0; }
EXPORTED unsigned sim_cluster_size() { return this_block()->team ? this_block()->team->size : 1; }
// The same place in the shared memory of block `rank` of the cluster.
EXPORTED void* sim_cluster_map(const void* p, unsigned rank) {
    const Block* b = this_block();
    if (rank >= sim_cluster_size()) fault(NO_SUCH_RANK, (void*)(uintptr_t)rank);
    if (!b->team) return (void*)p;
    const Block* other = b->team->members[rank];
    if ((uint64_t)p - b->dynamic_low <= b->dynamic_high - b->dynamic_low)
        return (char*)other->dynamic_low + ((uint64_t)p - b->dynamic_low);
    if ((uint64_t)p - b->static_low > b->static_high - b->static_low) fault(NOT_SHARED, p);
    return other->anchor + ((char*)p - b->anchor);
}

// ---- Mailboxes: memory that is still a box when the block ends must look like one. On a GPU it may become one again.
static int find_box(Block* b, unsigned* mark) {
    int i = 0;
    while (i < b->box_count && b->boxes[i].mark != mark) ++i;
    return i;
}
EXPORTED void sim_mailbox_opened(unsigned* mark) {
    Block* b = this_block();
    if (find_box(b, mark) < b->box_count) fault(BOX_OPEN, mark);
    if (b->box_count == b->box_room) {
        b->box_room = b->box_room ? 2 * b->box_room : 8;
        b->boxes = (OpenMailbox*)realloc(b->boxes, b->box_room * sizeof *b->boxes);
    }
    b->boxes[b->box_count++] = OpenMailbox{mark, *mark & ~1u};
}
EXPORTED void sim_mailbox_closed(unsigned* mark) {
    Block* b = this_block();
    const int i = find_box(b, mark);
    if (i == b->box_count) fault(BOX_NOT_OPEN, mark);
    if ((*mark & ~1u) != b->boxes[i].value) fault(BOX_OVERWRITTEN, mark);
    b->boxes[i] = b->boxes[--b->box_count];
}
static void check_boxes(Block* b) {
    for (int i = 0; i < b->box_count; ++i)
        if ((*b->boxes[i].mark & ~1u) != b->boxes[i].value) {
            sim_here.thread_index = NO_THREAD;
            note_fault(BOX_OVERWRITTEN, b->boxes[i].mark);
            return;
        }
}

// ---- The grid's barrier, for cooperative launches
static void wait_for_other_blocks(Block* b) {
    if (!b->launch->cooperative) fault(NOT_COOPERATIVE, 0);
    set_busy(true);
    pthread_mutex_lock(&lock);
    uint64_t epoch = grid_epoch;
    bool stuck = block_has_left;
    if (++grid_arrived == (int)block_count) {
        grid_arrived = 0;
        ++grid_epoch;
        for (int i = 0; b->launch->trace && i < team_count; ++i)
            if (teams[i].members[0]->trace) trace_cluster_barrier(teams[i].members, teams[i].size);
        if (b->launch->trace) trace_grid_barrier(b->launch->trace);
        pthread_cond_broadcast(&grid_released);
    }
    const bool nobody = nobody_moves();
    while (grid_epoch == epoch && !stopping && !stuck && !nobody) pthread_cond_wait(&grid_released, &lock);
    pthread_mutex_unlock(&lock);
    set_busy(false);
    if (stuck) fault(GRID_DEADLOCK, 0);
    if (nobody) fault(CLUSTER_DEADLOCK, 0);
    if (stopping) fault(CANCELLED, 0);
    ++b->barriers_passed;
}
static void leave_grid() {
    pthread_mutex_lock(&lock);
    block_has_left = true;
    bool stuck = grid_arrived > 0;
    pthread_mutex_unlock(&lock);
    if (stuck) note_fault(GRID_DEADLOCK, 0);
}

// ---- A worker
static void run_kernel_thread(Block* b) { b->launch->kernel->run_thread(b->launch->arguments); }

static void set_dynamic_shared(Worker* me, size_t bytes) {
    const size_t page = page_bytes();
    if (!me->dynamic_shared) {
        me->dynamic_capacity = (DYNAMIC_SHARED_MAX + page - 1) / page * page;
        char* start = (char*)mmap(0, me->dynamic_capacity + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(start + me->dynamic_capacity, page, PROT_NONE);
        me->dynamic_shared = start;
    }
    me->dynamic_bytes = bytes;
    const size_t room = (bytes + 127) / 128 * 128;  // it starts at a multiple of 128, so a few bytes are left behind it
    char* start = me->dynamic_shared + me->dynamic_capacity - room;
    memset(start + bytes, 0xff, room - bytes);
    sim_here.dynamic_shared = start;
}
// Those few bytes must be as they were when a block is over.
static void check_dynamic_shared(Worker* me) {
    unsigned char* start = (unsigned char*)sim_here.dynamic_shared;
    unsigned char* end = (unsigned char*)me->dynamic_shared + me->dynamic_capacity;
    for (unsigned char* p = start + me->dynamic_bytes; p < end; ++p)
        if (*p != 0xff) {
            sim_here.thread_index = NO_THREAD;
            note_fault(SHARED_OVERRUN, (void*)(p - start));
            return;
        }
}
// A plain loop may keep the thread's index in a register, so a fault in it cannot tell whose it was.
// Running the block once more, a thread at a time, can.
static void find_the_thread(Worker* me, Launch* L) {
    Fault& f = L->fault;
    me->interrupted = false;
    if (sigsetjmp(me->landing, SAVE_SIGNAL_STATE) == 0) {
        for (unsigned z = 0; z < L->block.z; ++z)
            for (unsigned y = 0; y < L->block.y; ++y)
                for (unsigned x = 0; x < L->block.x; ++x) {
                    sim_here.thread_index = uint3{x, y, z};
                    L->kernel->run_thread(L->arguments);
                }
    } else if (!me->interrupted) {
        f.thread = sim_here.thread_index;
    }
}
static uint3 place(uint64_t number, uint3 size) {
    return uint3{(unsigned)(number % size.x), (unsigned)(number / size.x % size.y), (unsigned)(number / size.x / size.y)};
}
// Blocks are numbered cluster by cluster.
static void prepare_block(Worker* me, Launch* L, uint64_t number) {
    const uint3 c = L->cluster;
    const uint3 cluster = place(number / cluster_size(L), uint3{L->grid.x / c.x, L->grid.y / c.y, L->grid.z / c.z});
    const uint3 inside = place(number % cluster_size(L), c);
    sim_here.block_index = uint3{cluster.x * c.x + inside.x, cluster.y * c.y + inside.y, cluster.z * c.z + inside.z};
    me->block.barriers_passed = 0;
    me->block.box_count = 0;
    for (int i = 0; i < me->block.bar_count; ++i) me->block.bars[i].copies.count = 0;
    me->block.bar_count = 0;
    me->block.in_flight = 0;
    me->block.trace = 0;
    me->block.lockstep = false;
    if (L->trace && L->trace->wanted[number])
        begin_trace(&me->block, trace_of_worker(L->trace, me->number), L->kernel, number, L->dynamic_shared);
}
static void run_block(Worker* me, Launch* L) {
    if (sigsetjmp(me->landing, SAVE_SIGNAL_STATE) == 0) {
        sim_here.block = &me->block;
        if (L->fibers) run_as_fibers(&me->block);
        else L->kernel->run_block(L->arguments);
        sim_here.block = 0;
        check_dynamic_shared(me);
        check_boxes(&me->block);
        check_copies(&me->block);
        if (me->block.team) leave_cluster(&me->block);
        if (L->cooperative) leave_grid();
    } else {
        const uint3 here = sim_here.block_index, there = L->fault.block;
        bool mine = here.x == there.x && here.y == there.y && here.z == there.z;
        if (!L->fibers && mine && L->fault.kind != NO_FAULT) find_the_thread(me, L);
        if (mine && L->fault.kind == BAD_ADDRESS) {
            L->kernel->shared_memory();
            const Region r = region_of((uint64_t)L->kernel->run_thread);
            L->fault.shared_low = r.shared_low, L->fault.shared_high = r.shared_high;
        }
    }
    sim_here.block = 0;
}
// Waits until all workers of a team have come here. The last one ends the cluster that they were at and takes the next
// one, if `take`. False: the launch is over.
static bool gather(Team* team, Launch* L, bool take) {
    pthread_mutex_lock(&lock);
    const uint64_t gathering = team->gathering;
    if (++team->gathered == team->size) {
        if (take && !stopping) {
            const int number = (int)(team - teams);
            if (team->epoch && team->members[0]->trace) trace_cluster_end(team->members, team->size);
            if (L->trace || L->cooperative) team->cluster = team->epoch ? team->cluster + team_count : number;
            else team->cluster = next_block++;
            team->present = team->size;
            team->arrived = 0;
            ++team->epoch;
        }
        team->gathered = 0;
        ++team->gathering;
        pthread_cond_broadcast(&team->moved_on);
    }
    while (team->gathering == gathering && !stopping) pthread_cond_wait(&team->moved_on, &lock);
    const bool goes_on = !stopping && team->cluster < block_count / team->size;
    pthread_mutex_unlock(&lock);
    return goes_on;
}
static void run_clusters(Worker* me, Launch* L, Team* team, int rank) {
    Block* b = &me->block;
    b->team = team;
    b->rank = rank;
    b->anchor = (char*)L->kernel->shared_memory();
    const Region r = region_of((uint64_t)L->kernel->run_thread);
    b->static_low = r.shared_low, b->static_high = r.shared_high;
    b->dynamic_low = (uint64_t)sim_here.dynamic_shared, b->dynamic_high = b->dynamic_low + L->dynamic_shared;
    team->members[rank] = b;
    while (gather(team, L, true)) {
        prepare_block(me, L, team->cluster * team->size + rank);
        if (gather(team, L, false)) run_block(me, L);  // not before all have prepared theirs
    }
}
static void run_blocks(Worker* me, Launch* L, int worker_number) {
    me->block.launch = L;
    me->block.threads = L->block.x * L->block.y * L->block.z;
    sim_here.block_size = L->block;
    sim_here.grid_size = L->grid;
    set_dynamic_shared(me, L->dynamic_shared);
    me->block.team = 0;
    if (team_count) {
        run_clusters(me, L, &teams[worker_number / cluster_size(L)], worker_number % cluster_size(L));
        return;
    }
    if (L->cooperative) {
        prepare_block(me, L, worker_number);
        run_block(me, L);
    }
    for (uint64_t turn = worker_number; !L->cooperative; turn += L->workers) {
        uint64_t number = L->trace ? turn : __atomic_fetch_add(&next_block, 1, __ATOMIC_RELAXED);
        if (number >= block_count || stopping) break;
        if (L->trace && L->trace->alone && !L->trace->wanted[number]) continue;
        prepare_block(me, L, number);
        run_block(me, L);
    }
}
// A cooperative launch has a worker for each block; those that no other launch needs end with it.
static void dismiss(Worker* me) {
    free_stacks(&me->block);
    if (me->dynamic_shared) munmap(me->dynamic_shared, me->dynamic_capacity + page_bytes());
    stack_t none;
    memset(&none, 0, sizeof none);
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, 0);
    free(me->signal_stack);
    free(me);
}
static void* worker_main(void* number_as_pointer) {
    int number = (int)(intptr_t)number_as_pointer;
    Worker* me = workers[number];
    this_worker = me;
    me->number = number;
    stack_t signal_stack;
    memset(&signal_stack, 0, sizeof signal_stack);
    signal_stack.ss_size = SIGNAL_STACK_BYTES;
    signal_stack.ss_sp = me->signal_stack = malloc(SIGNAL_STACK_BYTES);
    sigaltstack(&signal_stack, 0);
    me->stack_top = (char*)&signal_stack;

    uint64_t seen = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (launch_number == seen || number >= wanted_workers) {
            seen = launch_number;
            pthread_cond_wait(&work_to_do, &lock);
        }
        seen = launch_number;
        Launch* L = current_launch;
        pthread_mutex_unlock(&lock);
        run_blocks(me, L, number);
        pthread_mutex_lock(&lock);
        const bool leaves = number >= kept_workers;
        if (leaves) {
            workers[number] = 0;
            pthread_mutex_unlock(&lock);
            this_worker = 0;
            dismiss(me);
            pthread_mutex_lock(&lock);
        }
        if (--busy_workers == 0) pthread_cond_broadcast(&work_done);
        if (leaves) break;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
// Starts a worker. It is to hear of its own faults and of sim_cancel, and of no other signal: a handler of
// the interpreter's would run on the small stack of a CUDA thread.
static int start_worker(int number) {
    Worker* me = (Worker*)calloc(1, sizeof(Worker));
    if (!me) return ENOMEM;
    workers[number] = me;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t others, before;
    sigfillset(&others);
    for (int i = 0; i < CAUGHT; ++i) sigdelset(&others, caught_signals[i]);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    int error = pthread_create(&me->thread, &attributes, worker_main, (void*)(intptr_t)number);
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pthread_attr_destroy(&attributes);
    if (error) free(me), workers[number] = 0;
    return error;
}

// ---- Called from module.py and binding.py
EXPORTED int sim_start(Launch* L) {
    pthread_mutex_lock(&lock);
    block_count = (uint64_t)L->grid.x * L->grid.y * L->grid.z;
    int wanted = L->cooperative ? (int)block_count : L->workers;
    if (!L->cooperative && (uint64_t)wanted > block_count) wanted = (int)block_count;
    if (kept_workers < L->workers) kept_workers = L->workers;
    if (wanted > MAX_WORKERS) {
        pthread_mutex_unlock(&lock);
        return E2BIG;
    }
    while (pool_size < wanted) {
        if (int error = start_worker(pool_size)) {
            pthread_mutex_unlock(&lock);
            return error;
        }
        ++pool_size;
    }
    next_block = 0;
    event_bytes = 0;
    stopping = false;
    printed_length = 0;
    printed_overflow = false;
    grid_arrived = cluster_arrived = 0;
    block_has_left = false;
    // (without fibers no block meets another, and clusters do not matter)
    team_count = L->fibers && cluster_size(L) > 1 ? wanted / cluster_size(L) : 0;
    for (int i = 0; i < team_count; ++i) {
        Team& t = teams[i];
        t.size = cluster_size(L);
        t.arrived = t.gathered = 0;
        t.epoch = t.gathering = 0;
    }
    current_launch = L;
    wanted_workers = busy_workers = wanted;
    ++launch_number;
    catch_signals();
    pthread_cond_broadcast(&work_to_do);
    pthread_mutex_unlock(&lock);
    return 0;
}
// 1 when the launch is over, 0 when `milliseconds` have passed first
EXPORTED int sim_wait(int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)milliseconds * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&lock);
    int timed_out = 0;
    while (busy_workers && !timed_out) timed_out = pthread_cond_timedwait(&work_done, &lock, &until);
    bool over = busy_workers == 0;
    if (over && current_launch) {
        if (pool_size > kept_workers) pool_size = kept_workers;
        current_launch = 0;
        release_signals();
    }
    if (!over && stopping) {  // after a fault or sim_cancel; those that are in an endless loop must be fetched
        wake_everyone();
        for (int i = 0; i < wanted_workers; ++i)
            if (workers[i]) pthread_kill(workers[i]->thread, SIGURG);
    }
    pthread_mutex_unlock(&lock);
    return over;
}
EXPORTED void sim_cancel() {
    stopping = true;
    while (!sim_wait(20)) {}
}
EXPORTED const char* sim_printed(int* overflow) {
    *overflow = printed_overflow;
    printed[printed_length] = 0;
    return printed;
}

// What a loaded library holds: where it was loaded, and its variables from `low` to `high`, which the blocks share and
// which keep their values from launch to launch (__device__).
EXPORTED void sim_module_data(const void* inside, uint64_t* base, uint64_t* low, uint64_t* high) {
    const Region r = region_of((uint64_t)inside);
    *base = r.low, *low = r.data_low, *high = r.data_high;
}

// A child of fork() has none of its parent's workers: it starts a pool of its own.
static void forget_workers() {
    pthread_mutex_init(&lock, 0);
    pthread_cond_init(&work_to_do, 0);
    pthread_cond_init(&work_done, 0);
    pthread_cond_init(&grid_released, 0);
    for (Team& t : teams) pthread_cond_init(&t.moved_on, 0);
    pthread_mutex_init(&print_lock, 0);
    if (current_launch) release_signals();
    pool_size = busy_workers = wanted_workers = 0;
    current_launch = 0;
}
__attribute__((constructor)) static void initialise() {
    for (Team& t : teams) pthread_cond_init(&t.moved_on, 0);
    pthread_atfork(0, 0, forget_workers);
}
