import numpy as np

from common.check import expect, launch, require

# images, pixels, channels
SIZES = ((1, 1, 1), (2, 49, 7), (3, 5, 33), (1, 49, 64), (2, 50, 100))


def fewest_sectors(rows, channels):
    """Of requests for 32 neighbouring channels each, of every row of `channels` numbers."""
    starts = [(row * channels + c, min(32, channels - c)) for row in range(rows) for c in range(0, channels, 32)]
    return sum((4 * (first + count) - 1) // 32 - 4 * first // 32 + 1 for first, count in starts)


def check(source):
    random = np.random.default_rng()
    reports = []
    for images, pixels, channels in SIZES:
        what = f"channels_last_mean of {images} images of {pixels} pixels × {channels} channels"
        x = random.standard_normal((images, pixels, channels)).astype(np.float32) + 0.5
        out = np.full((images, channels), np.nan, np.float32)
        hints = {
            "race": "what other warps wrote to s may be read after a __syncthreads; and one warp writes to out",
            "out-of-bounds": "the last block of an image has lanes without a channel, and a share may have no pixel",
            "uninitialised-read": "every warp must write its sums to s, also one without a pixel",
            "deadlock": "lanes without a channel must come to the same __syncthreads as the others",
            "divergent-barrier": "lanes without a channel must come to the same __syncthreads as the others",
        }
        grid, args = (-(-channels // 32), images), (x, out, pixels, channels)
        report = launch(source, "channels_last_mean", grid, (32, 8), args, what=what, hints=hints)
        hint = "out holds NaN before the launch: is every channel of every image written, those of the last block too?"
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        hint = (
            "x[n][p][c] is at (n · pixels + p) · channels + c; is every pixel in one warp's share, and every warp's sum"
            " in the mean?"
        )
        want = x.mean(axis=1, dtype=np.float64).astype(np.float32)
        expect(out, want, what=f"{what}: out", hint=hint, rtol=1e-5, atol=1e-6)
        reports.append((what, images, pixels, channels, report))

    for what, images, pixels, channels, report in reports:  # right first, then fast
        got, fewest = report.global_loads.sectors, fewest_sectors(images * pixels, channels)
        hint = "in one request the 32 lanes should read 32 channels of the same pixel"
        require(got <= fewest, what=f"{what} loads {got} sectors, {fewest} would do", hint=hint, picture=report)
        got, fewest = report.global_stores.sectors, fewest_sectors(images, channels)
        hint = "one warp writes 32 neighbouring channels, once"
        require(got <= fewest, what=f"{what} stores {got} sectors, {fewest} would do", hint=hint, picture=report)
        for name, counts in (("stores to", report.shared_stores), ("loads from", report.shared_loads)):
            said = f"{what}: {name} s take {counts.wavefronts} wavefronts, {counts.ideal} would do"
            hint = "lanes of a warp should touch neighbouring words of s: the channel is the index that runs fastest"
            require(counts.conflicts == 0, what=said, hint=hint, picture=report)
