import numpy as np

from common.check import expect, launch, require

# channels, pixels, threads in a block
LAUNCHES = ((3, 49, 64), (1, 1, 1), (2, 49, 7), (3, 49, 49), (5, 17, 6), (2, 1000, 256), (2, 301, 100), (2, 500, 255))


def check(source):
    random = np.random.default_rng()
    reports = []
    for channels, pixels, threads in LAUNCHES:
        what = f"channel_means of {channels} × {pixels} numbers with blocks of {threads}"
        x = random.standard_normal((channels, pixels)).astype(np.float32) + 0.5
        out = np.full(channels, np.nan, np.float32)
        nobody = "s holds as many sums as the block has threads; what is behind them nobody has written"
        hints = {
            "uninitialised-read": nobody,
            "out-of-bounds": nobody,
            "race": "within one step, what one thread writes no other may read or write; between two steps lies a"
            " __syncthreads",
        }
        report = launch(source, "channel_means", (channels,), (threads,), (x, out, pixels), what=what, hints=hints)
        hint = "out holds NaN before the launch: does one thread write the mean, whatever the block?"
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        if threads & (threads - 1):
            hint = "with 7 threads, which sums are added to which in the first step, and in the second? Which never?"
        else:
            hint = "with this block it was right before: the sum of all pixels, each once, over their number"
        want = x.mean(axis=1, dtype=np.float64).astype(np.float32)
        expect(out, want, what=f"{what}: out", hint=hint, rtol=1e-5, atol=1e-6)
        reports.append((what, channels, threads, report))

    for what, channels, threads, report in reports:  # right first, then fast
        got = report.shared_loads.requests / channels
        hint = "half of the threads add at the same time; a single one that adds up all sums is what the tree is for"
        require(got <= 24 + threads / 4, what=f"{what} loads {got:.0f} times from s", hint=hint, picture=report)
