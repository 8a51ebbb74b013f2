import numpy as np

from common.check import expect, launch, require

# channels, pixels, threads in a block
WHOLE_WARPS = ((3, 49, 64), (2, 7, 32), (3, 101, 96), (1, 2000, 1024))
PARTIAL_WARPS = ((2, 49, 49), (1, 1, 1), (2, 7, 33), (2, 49, 20), (2, 1000, 225))


def fewest_sectors(channels, pixels, threads):
    """Of the loads when each request takes the next numbers of a channel, a warp's at a time."""
    requests = [
        (channel * pixels + start + warp, min(32, threads - warp, pixels - start - warp))
        for channel in range(channels)
        for start in range(0, pixels, threads)
        for warp in range(0, min(threads, pixels - start), 32)
    ]
    return sum((4 * (first + count) - 1) // 32 - 4 * first // 32 + 1 for first, count in requests)


def check(source):
    random = np.random.default_rng()
    reports = []
    for channels, pixels, threads in WHOLE_WARPS + PARTIAL_WARPS:
        what = f"warp_mean of {channels} × {pixels} numbers with blocks of {threads}"
        x = random.standard_normal((channels, pixels)).astype(np.float32) + 0.5
        out = np.full(channels, np.nan, np.float32)
        hints = {
            "race": "one lane of each warp writes to s, and nobody reads there before a __syncthreads",
            "uninitialised-read": "s holds as many sums as the block has warps: no more of them may be read",
            "deadlock": "every lane that the mask names must come to the shuffle, also one that adds nothing; and every"
            " thread of the block to the same __syncthreads",
            "out-of-bounds": "the threads may be more than the pixels, and the pixels no multiple of the threads",
        }
        report = launch(source, "warp_mean", (channels,), (threads,), (x, out, pixels), what=what, hints=hints)
        hint = "out holds NaN before the launch: does one thread write the mean, also if the block is a single warp?"
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        if threads % 32:
            hint = (
                f"the last warp has only {threads % 32} of 32 lanes: what a shuffle brings from one that is not there"
                " does not belong to the sum"
            )
        else:
            hint = "all warps are whole here: is every pixel in the sum once, and every warp's sum in the block's?"
        want = x.mean(axis=1, dtype=np.float64).astype(np.float32)
        expect(out, want, what=f"{what}: out", hint=hint, rtol=1e-5, atol=1e-6)
        reports.append((what, channels, pixels, threads, report))

    for what, channels, pixels, threads, report in reports:  # right first, then fast
        got, fewest = report.global_loads.sectors, fewest_sectors(channels, pixels, threads)
        hint = "neighbouring threads should read neighbouring pixels: thread t takes t, t + threads, …"
        require(got <= fewest, what=f"{what} loads {got} sectors, {fewest} would do", hint=hint, picture=report)
        got, warps = report.shared_stores.accesses, channels * -(-threads // 32)
        hint = "within a warp the sums go from register to register; s is for one number a warp"
        require(got <= 2 * warps, what=f"{what} stores {got} numbers to s", hint=hint, picture=report)
