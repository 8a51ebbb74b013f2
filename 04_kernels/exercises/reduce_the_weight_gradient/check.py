import numpy as np

from common.check import expect, launch, require

# images, channels, height, width, and the threads of a block
CASES = ((1, 1, 1, 1, 32), (2, 2, 5, 7, 64), (1, 1, 9, 41, 96), (1, 1, 17, 29, 512))


def gradient(grad, x):
    """In float64, and for each tap the sum of the products' magnitudes, by which rounding is judged."""
    height, width = grad.shape[2:]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    products = [grad * padded[:, :, kh : kh + height, kw : kw + width] for kh, kw in np.ndindex(3, 3)]
    return np.stack([p.sum((0, 2, 3)) for p in products], 1), np.abs(products).sum((1, 3, 4)).max()


def sectors(n, c, height, width, threads):
    """What neighbours that read neighbours touch, were each read of 32 numbers a line of its own: 5 sectors, for grad
    and for x, of each request; a request whose numbers lie in several rows or images touches more of x."""
    requests = -(-n * height * width // threads) * (threads // 32)
    return 9 * c * requests * (2 * 5 + 2 * (32 // width + 1) + 32 // (height * width) + 1)


def check(source):
    random = np.random.default_rng()
    reports = []
    for n, c, height, width, threads in CASES:
        what = f"weight_gradient of {n} × {c} × {height} × {width} with {threads} threads a block"
        grad, x = (random.standard_normal((n, c, height, width)).astype(np.float32) + 0.5 for _ in range(2))
        kept, out = (grad.copy(), x.copy()), np.full((c, 9), np.nan, np.float32)
        hints = {
            "race": "one thread writes the element of out, and a barrier lies between a warp's write to sums and the"
            " read of another",
            "uninitialised-read": "a block has as many sums as warps, blockDim.x / 32: with 64 threads two, and sums[2]"
            " is not there",
            "out-of-bounds": "the pixel that a tap reads may lie outside the image; nor need N·H·W be full blocks",
            "deadlock": "shuffles and barriers are for all threads of the block, also for those without a pixel: they"
            " bring 0",
            "divergent-barrier": "shuffles and barriers are for all threads of the block, also for those without a"
            " pixel: they bring 0",
        }
        args = (grad, x, out, n, c, height, width)
        report = launch(source, "weight_gradient", (9 * c,), (threads,), args, what=what, hints=hints)
        hint = "out holds NaN before the launch: the sum must be written there, not added to what is there"
        require(not np.isnan(out).any(), what=f"{what} leaves NaN in out", hint=hint)
        want, size = gradient(grad, x)
        hint = (
            "does every product count once: those of all images, those beyond a multiple of the block's threads, for"
            " every number of warps? Do all threads come to the shuffles, with 0 if they have no product? Does tap"
            " (kh, kw) read row h + kh - 1 and column w + kw - 1, or 0 if they are not in the image?"
        )
        expect(out, want.astype(np.float32), what=f"{what}: out", hint=hint, atol=1e-6 * float(size))
        unchanged = np.array_equal(grad, kept[0]) and np.array_equal(x, kept[1])
        require(unchanged, what=f"{what} changes its input", hint="grad and x are to be read only")
        reports.append((what, (n, c, height, width, threads), report))

    for what, case, report in reports:  # right first, then as it was asked for
        atomics = sum(line.counts.accesses for line in report.lines if line.kind == "atomic")
        hint = "atomics leave the order of the additions to chance, and the last bits with it: shuffles and sums do"
        require(atomics == 0, what=f"{what} makes {atomics} atomic additions", hint=hint, picture=report)
        got, enough = report.global_loads.sectors, sectors(*case)
        hint = "neighbouring threads should read neighbouring pixels: thread t takes t, t + blockDim.x, …"
        require(got <= enough, what=f"{what} loads {got} sectors, {enough} are enough", hint=hint, picture=report)
