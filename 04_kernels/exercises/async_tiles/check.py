import ctypes

import numpy as np

from common.check import launch, require
from common.check.kernels import asked, compare, shapes, sprinkled
from common.check.trials import numpy_random
from common.cuda.simulator.module import SimulatedModule
from common.kernels.ladder import header_options

SIZES = ((1, 1), (300, 1), (384, 3), (300, 3), (513, 5), (1000, 3), (1283, 2))  # numbers, blocks

# Copies and waits, watched: how many numbers are copied asynchronously, and of each copy, how many outputs were written
# when it began and when it was waited for.
BEFORE = """#include "ptx.h"
extern "C" { __attribute__((visibility("default"))) int course_alone, course_copied; }
static float* course_out;
static int course_n, course_begun[1024], course_done[1024], course_groups[1024];
static int course_at[1024][64], course_group[1024][64];
static __device__ int course_written() {
    int count = 0;
    for (int i = 0; i < course_n; ++i) count += course_out[i] == course_out[i];
    return count;
}
template <int N> static __device__ void course_copy() {
    const int t = threadIdx.x, k = course_begun[t]++;
    course_copied += N;
    if (k < 64) course_at[t][k] = course_written(), course_group[t][k] = course_groups[t];
}
template <int N> static __device__ void course_wait() {
    const int t = threadIdx.x;
    cp_async_wait<N>();
    for (int& k = course_done[t]; k < course_begun[t] && k < 64 && course_group[t][k] < course_groups[t] - N; ++k)
        course_alone += course_written() == course_at[t][k];
}
#define cp_async_4(...) (course_copy<1>(), cp_async_4(__VA_ARGS__))
#define cp_async_8(...) (course_copy<2>(), cp_async_8(__VA_ARGS__))
#define cp_async_16(...) (course_copy<4>(), cp_async_16(__VA_ARGS__))
#define cp_async_commit() (++course_groups[threadIdx.x], cp_async_commit())
#define cp_async_wait course_wait
#line 1
"""
AFTER = """
extern "C" __global__ void course_watched(const float* in, float* out, int n) {
    course_out = out, course_n = n;
    backwards(in, out, n);
}
"""


def backwards(x, chunk=128):
    chunks = np.zeros(-(-x.size // chunk) * chunk, np.float32)
    chunks[: x.size] = x
    return chunks.reshape(-1, chunk)[:, ::-1].ravel()[: x.size]


def watched(source, chunks):
    """(numbers copied asynchronously, copies waited for while nothing is written) of a block with this many chunks."""
    module = SimulatedModule(BEFORE + source + AFTER, header_options(), ())
    x, out = np.ones(128 * chunks, np.float32), np.full(128 * chunks, np.nan, np.float32)
    module.get_function("course_watched")((1,), (128,), (x, out, x.size))
    counters = [ctypes.c_int.in_dll(module.library, name) for name in ("course_copied", "course_alone")]
    copied, alone = (counter.value for counter in counters)
    for counter in counters:  # the library stays loaded
        counter.value = 0
    return copied, alone


def check(source):
    random = numpy_random()
    for n, blocks in shapes(source, random, SIZES, (5000, (3,))):
        blocks = min(blocks, -(-n // 128))
        what = f"backwards of {n} in {blocks} block{'s' * (blocks > 1)}"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        if n == 1283:
            x, what = sprinkled(random, x, huge=True), f"{what}, NaN and infinities among them"
        out = np.full(n, np.nan, np.float32)
        hints = {
            "out-of-bounds": "the last chunk may be shorter: what lies past the end is not to be copied or written",
            "uninitialised-read": "chunk c stands in s[now], and what was copied ahead in s[1 − now]",
            "race": "the number that a thread reads is one that another thread has copied. A barrier belongs"
            " between the copy and the read, and between the read and the moment when a copy into it begins for the"
            " chunk after next",
            "unwritten": "thread t writes number t of each of its block's chunks, if the chunk is so long",
        }
        launch(source, "backwards", (blocks,), (128,), (x, out, n), what=what, hints=hints, outputs=(out,))
        want = backwards(x)
        hint = (
            "chunk c is in s[now], and what is copied ahead in s[1 − now]. A place holds NaN until the thread that"
            " began its copy has waited for it, and a barrier behind the wait has told the others. wait<N> leaves the"
            " last N *groups* under way, and a group is what stands before a commit: count them in the first round"
            " and in the last"
        )
        early = 0 if np.isnan(x).any() else int(np.isnan(out).sum())
        require(not early, what=f"{what}: {early} numbers are read from s before their copy has arrived", hint=hint)
        hint = "chunk c stands in s[now], number t of it goes to place 127 − t; what was copied ahead is in s[1 − now]"
        known = [(x, "the numbers of a chunk are to be reversed: place t gets number 127 − t")]
        compare(out, want, what=f"{what}: out", hint=hint, mistakes=known)

    chunks = 6
    copied, alone = watched(source, chunks)
    hint = "a load into a register and a store to s make the thread wait for the load; cp_async_4 does not"
    said = f"{copied} of {chunks * 128} numbers are copied with cp_async"
    asked(copied >= chunks * 128, what=said, hint=hint)
    hint = "the copy for the next round may be under way while this round's chunk is written: which group is that?"
    said = f"every round waits for the copy that it has just begun: {alone} of {chunks * 128} copies are waited for"
    said += " while nothing is written"
    asked(alone <= 128, what=said, hint=hint)
