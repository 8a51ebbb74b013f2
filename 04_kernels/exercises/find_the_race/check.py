import numpy as np

from common.check import expect, launch, require

SIZES = (1, 33, 256, 257, 700)


def check(source):
    random = np.random.default_rng()
    for n in SIZES:
        what = f"block_scan of {n} numbers"
        x = random.standard_normal(n).astype(np.float32) + 0.5
        out = np.full(n, np.nan, np.float32)
        hints = {
            "race": "a barrier must lie between a write to s and another thread's read of it, and between a read and"
            " another thread's next write. The message names both lines: which place lies between them?",
            "divergent-barrier": "which of the places do only some of the threads come to?",
            "deadlock": "which of the places do only some of the threads come to?",
        }
        launch(source, "block_scan", (-(-n // 256),), (256,), (x, out, n), what=what, hints=hints)
        hint = "out holds NaN before the launch: are the numbers of the last block written too?"
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        sums = [np.cumsum(x[first : first + 256], dtype=np.float64) for first in range(0, n, 256)]
        hint = "each sum takes in its own number and all before it in the block, in 8 steps of 1, 2, 4, … 128"
        expect(out, np.concatenate(sums).astype(np.float32), what=f"{what}: out", hint=hint, rtol=1e-5)
