import re

import numpy as np

from common.check import expect, launch, require

SIZES = ((1, 1), (300, 1), (384, 3), (1000, 3), (1283, 2))  # numbers, blocks


def check(source):
    random = np.random.default_rng()
    for n, blocks in SIZES:
        what = f"backwards of {n} in {blocks} block{'s' * (blocks > 1)}"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        kept, out = x.copy(), np.full(n, np.nan, np.float32)
        hints = {
            "out-of-bounds": "the last chunk may be shorter: what lies past the end is not to be copied or written",
            "uninitialised-read": "chunk c stands in s[now], and what was copied ahead in s[1 − now]",
            "race": "the number that a thread reads is one that another thread has copied. A barrier belongs"
            " between the copy and the read, and between the read and the moment when a copy into it begins for the"
            " chunk after next",
        }
        report = launch(source, "backwards", (blocks,), (128,), (x, out, n), what=what, hints=hints)
        chunks = np.zeros(-(-n // 128) * 128, np.float32)
        chunks[:n] = x
        want = chunks.reshape(-1, 128)[:, ::-1].ravel()[:n]
        hint = (
            "out holds NaN before the launch, and so does a copy that has not been waited for by the thread that began"
            " it. wait<N> leaves the last N *groups* under way, and a group is what stands before a commit: count them"
            " in the first round and in the last; and only after the wait a barrier can tell the others"
        )
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        hint = "chunk c stands in s[now], number t of it goes to place 127 − t; what was copied ahead is in s[1 − now]"
        expect(out, want, what=f"{what}: out", hint=hint)
        require(np.array_equal(x, kept), what=f"{what} changes its input", hint="in is to be read only")
    hint = "the copy for the next round may be under way while this round's chunk is written: which group is that?"
    waits = re.search(r"cp_async_wait\s*<\s*1\s*>", re.sub(r"//.*", "", source))
    require(bool(waits), what="every round waits for the copy that it has just begun", hint=hint, picture=report)
